package model

// qkNorm is the normalisation of queries and keys.
type qkNorm uint8

const (
	noQKNorm qkNorm = iota
	headNorm        // one weight of head size, shared by the heads
	fullNorm        // over all heads together
	eachNorm        // a weight for each head apart
)

// gqa describes softmax attention for one layer.
type gqa struct {
	module    string // "self_attn"
	fused     string // name of a fused projection in the checkpoint, "" = q_proj, k_proj, v_proj
	heads, kv int
	dim, vdim int // vdim 0 = dim
	window    int
	chunked   bool
	qkv, o    bool // biases
	qk        qkNorm
	norm      normForm // of the query and key norm
	gate      bool     // queries carry an output gate of the same width
	sharedKV  bool
	noCache   bool // no key and value of its own
	sinks     bool // a learned sink for each head
}

func (b *builder) attention(k *Kind, a gqa) {
	if a.vdim == 0 {
		a.vdim = a.dim
	}
	k.Mixer = Mixer{Kind: Attention, Heads: a.heads, KVHeads: a.kv, HeadDim: a.dim, VHeadDim: a.vdim, Window: a.window, Chunked: a.chunked,
		SharedKV: a.sharedKV, NoCache: a.noCache, OutGate: a.gate, QKNorm: a.qk != noQKNorm, QKSum: a.qk == fullNorm}
	name := func(s string) string {
		if a.fused != "" {
			return a.module + "." + a.fused
		}
		return a.module + "." + s
	}
	q := a.heads * a.dim
	if a.gate {
		q *= 2
	}
	h := b.hidden
	k.column(name("q_proj"), "qkv_proj", PartAttention, q, h, a.heads, a.qkv)
	kv := func(module string, width int) {
		k.matrix(module, "qkv_proj", PartAttention, a.kv*width, h, KVSplit, a.kv, false)
		if a.qkv {
			k.vector(module+".bias", PartAttention, a.kv*width, KVSplit, a.kv)
		}
	}
	if !a.noCache {
		kv(name("k_proj"), a.dim)
		if !a.sharedKV {
			kv(name("v_proj"), a.vdim)
		}
	}
	k.row(a.module+".o_proj", "o_proj", PartAttention, h, a.heads*a.vdim, a.heads, a.o)
	switch a.qk {
	case headNorm:
		k.norm(a.module+".q_norm", a.norm.params(a.dim))
		if !a.noCache {
			k.norm(a.module+".k_norm", a.norm.params(a.dim))
		}
	case fullNorm, eachNorm:
		k.vector(a.module+".q_norm", PartNorm, a.norm.params(a.heads*a.dim), TensorSplit, a.heads)
		k.vector(a.module+".k_norm", PartNorm, a.norm.params(a.kv*a.dim), KVSplit, a.kv)
	}
	if a.sinks {
		k.vector(a.module+".sinks", PartAttention, a.heads, TensorSplit, a.heads)
	}
}

// mla describes multi-head latent attention.
type mla struct {
	module               string
	heads, qLora, kvLora int
	nope, rope, v        int
	bias                 bool // on the down-projections and the output
	gate                 bool // an output gate of the width of the values
	index                *indexer
}

// indexer is the part of sparse attention that picks the tokens to read.
type indexer struct {
	heads, dim, topK int
	own              bool // holds weights and a key cache; otherwise it reuses an earlier layer's choice
}

func (b *builder) mla(k *Kind, a mla) {
	h, m := b.hidden, a.module
	k.Mixer = Mixer{Kind: MLA, Heads: a.heads, KVHeads: a.heads, HeadDim: a.nope + a.rope, VHeadDim: a.v, QLora: a.qLora, KVLora: a.kvLora, Rope: a.rope, Nope: a.nope, OutGate: a.gate}
	q := a.heads * (a.nope + a.rope)
	if a.qLora > 0 {
		k.copied(m+".q_a_proj", "qkv_a_proj", PartAttention, a.qLora, h, a.bias)
		k.norm(m+".q_a_layernorm", a.qLora)
		k.column(m+".q_b_proj", "q_b_proj", PartAttention, q, a.qLora, a.heads, false)
	} else {
		k.column(m+".q_proj", "q_proj", PartAttention, q, h, a.heads, false)
	}
	k.copied(m+".kv_a_proj_with_mqa", "qkv_a_proj", PartAttention, a.kvLora+a.rope, h, a.bias)
	k.norm(m+".kv_a_layernorm", a.kvLora)
	k.column(m+".kv_b_proj", opAbsorb, PartAttention, a.heads*(a.nope+a.v), a.kvLora, a.heads, false)
	if a.gate {
		k.column(m+".g_proj", "gate_proj", PartAttention, a.heads*a.v, h, a.heads, false)
	}
	k.row(m+".o_proj", "o_proj", PartAttention, h, a.heads*a.v, a.heads, a.bias)
	if x := a.index; x != nil {
		k.Mixer.IndexHeads, k.Mixer.IndexDim, k.Mixer.IndexTopK, k.Mixer.IndexOwn = x.heads, x.dim, x.topK, x.own
		if x.own {
			k.Mixer.IndexKey = IndexFP8
			in := a.qLora
			if in == 0 {
				in = h
			}
			k.copied(m+".indexer.wq_b", "indexer_q", PartAttention, x.heads*x.dim, in, false)
			k.copied(m+".indexer.wk", "indexer_k", PartAttention, x.dim, h, false)
			k.norm(m+".indexer.k_norm", 2*x.dim)
			k.plain(m+".indexer.weights_proj", "indexer_w", PartAttention, x.heads, h)
		}
	}
}
