package model

import (
	"fmt"
)

// normForm is what a normalisation layer holds.
type normForm uint8

const (
	rmsNorm      normForm = iota // a weight
	layerNorm                    // a weight and a bias
	layerNormNoB                 // a LayerNorm with a weight alone
	bareNorm                     // no parameters
)

// params of a norm of a width.
func (f normForm) params(width int) int {
	switch f {
	case layerNorm:
		return 2 * width
	case bareNorm:
		return 0
	}
	return width
}

// bias says whether a projection has one.
type bias struct {
	field string // read this field first; empty = none
	def   bool
}

var (
	never  = bias{}
	always = bias{def: true}
)

func byField(name string, def bool) bias { return bias{name, def} }

func (b *builder) bias(r bias) bool {
	if r.field == "" {
		return r.def
	}
	return b.flag(r.def, r.field)
}

// qkNorm is the normalisation of queries and keys.
type qkNorm uint8

const (
	noQKNorm qkNorm = iota
	headNorm        // one weight of head size, shared by the heads
	fullNorm        // over all heads together
	eachNorm        // a weight for each head apart
)

// vector adds a vector of weights.
func (k *Kind) vector(module string, part Part, n int, split Split, units int) {
	if n > 0 {
		k.Tensors = append(k.Tensors, Tensor{Module: module, Part: part, Out: n, Split: split, Units: units})
	}
}

func (k *Kind) norm(module string, n int) { k.vector(module, PartNorm, n, Replicated, 0) }

// matrix adds a linear module.
func (k *Kind) matrix(module, op string, part Part, out, in int, split Split, units int, row bool) {
	if out > 0 && in > 0 {
		k.Tensors = append(k.Tensors, Tensor{Module: module, Op: op, Part: part, Out: out, In: in, Split: split, Units: units, Row: row, Linear: true})
	}
}

// column adds a linear module whose outputs are dealt out in units, with its bias.
func (k *Kind) column(module, op string, part Part, out, in int, units int, withBias bool) {
	k.matrix(module, op, part, out, in, TensorSplit, units, false)
	if withBias {
		k.vector(module+".bias", part, out, TensorSplit, units)
	}
}

// row adds a linear module whose inputs are dealt out in units, with its bias, which every rank holds.
func (k *Kind) row(module, op string, part Part, out, in int, units int, withBias bool) {
	k.matrix(module, op, part, out, in, TensorSplit, units, true)
	if withBias {
		k.vector(module+".bias", part, out, Replicated, 0)
	}
}

// copied adds a linear module that every rank holds whole.
func (k *Kind) copied(module, op string, part Part, out, in int, withBias bool) {
	k.matrix(module, op, part, out, in, Replicated, 0, false)
	if withBias {
		k.vector(module+".bias", part, out, Replicated, 0)
	}
}

// plain adds a matrix that quantisers leave alone.
func (k *Kind) plain(module, op string, part Part, out, in int) {
	if out > 0 && in > 0 {
		k.Tensors = append(k.Tensors, Tensor{Module: module, Op: op, Part: part, Out: out, In: in, Split: Replicated})
	}
}

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
		SharedKV: a.sharedKV, NoCache: a.noCache, OutGate: a.gate}
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

// mlp adds a dense MLP; ops of the same layer must not share a module.
func (b *builder) mlp(k *Kind, module string, inter int, gated, withBias bool) {
	k.FFN.Kind, k.FFN.Inter, k.FFN.Gated = Dense, inter, gated
	b.mlpTensors(k, module, PartMLP, "mlp", inter, b.hidden, gated, withBias, TensorSplit)
}

func (b *builder) mlpTensors(k *Kind, module string, part Part, op string, inter, in int, gated, withBias bool, split Split) {
	up, down := op+"_up", op+"_down"
	add := func(name string) {
		k.matrix(module+"."+name, up, part, inter, in, split, inter, false)
		if withBias {
			k.vector(module+"."+name+".bias", part, inter, split, inter)
		}
	}
	if gated {
		add("gate_proj")
	}
	add("up_proj")
	k.matrix(module+".down_proj", down, part, in, inter, split, inter, true)
	if withBias {
		k.vector(module+".down_proj.bias", part, in, Replicated, 0)
	}
}

// moe describes a layer of experts.
type moe struct {
	module      string // "mlp"
	experts     int
	topK        int
	inter       int
	gated       bool
	expertBias  bool
	routerBias  bool // a bias or correction for each expert
	routerRows  int  // rows of the router, if not the number of experts
	shared      int  // width of the shared experts together
	sharedGate  bool
	sharedName  string
	latent      int
	latentNorm  bool
	zero        int
	groups, top int
}

func (b *builder) moe(k *Kind, m moe) {
	f := &k.FFN
	f.Kind, f.Experts, f.TopK, f.ExpertInter, f.SharedInter, f.Latent, f.ZeroExperts, f.Gated = Experts, m.experts, m.topK, m.inter, m.shared, m.latent, m.zero, m.gated
	f.Groups, f.TopGroups = m.groups, m.top
	h, in := b.hidden, b.hidden
	if m.latent > 0 {
		in = m.latent
		k.copied(m.module+".fc1_latent_proj", "latent_in", PartMLP, in, h, false)
		k.copied(m.module+".fc2_latent_proj", "latent_out", PartMLP, h, in, false)
		if m.latentNorm {
			k.norm(m.module+".latent_norm", in)
		}
	}
	rows := m.experts + m.zero
	if m.routerRows > 0 {
		rows = m.routerRows
	}
	k.plain(m.module+".gate", "router", PartRouter, rows, h)
	if m.routerBias {
		k.vector(m.module+".gate.bias", PartRouter, rows, Replicated, 0)
	}
	expert := func(name string, out, in int, row bool) {
		k.Tensors = append(k.Tensors, Tensor{Module: m.module + ".experts.0." + name, Part: PartExperts, Out: out, In: in, Count: m.experts,
			Split: ExpertSplit, Units: m.inter, Row: row, Linear: true})
		if m.expertBias {
			t := Tensor{Module: m.module + ".experts.0." + name + ".bias", Part: PartExperts, Out: out, Count: m.experts, Split: ExpertSplit, Units: m.inter}
			if row {
				t.Units = 1
			}
			k.Tensors = append(k.Tensors, t)
		}
	}
	if m.gated {
		expert("gate_proj", m.inter, in, false)
	}
	expert("up_proj", m.inter, in, false)
	expert("down_proj", in, m.inter, true)
	if m.shared > 0 {
		name := m.sharedName
		if name == "" {
			name = "shared_experts"
		}
		b.mlpTensors(k, m.module+"."+name, PartShared, "shared", m.shared, h, m.gated, false, SharedSplit)
		if m.sharedGate {
			k.plain(m.module+"."+name+"_gate", "", PartRouter, 1, h)
		}
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

// common reads the sizes that every transformer has.
func (b *builder) common() {
	b.hidden = b.size(nameHidden...)
	b.heads = b.size(nameHeads...)
	if d, ok := b.fam.defaults[nameKVHeads[0]]; ok && !b.has(nameKVHeads...) && !b.has(nameHeads...) {
		b.kvHeads = d
	} else {
		b.kvHeads = b.optInt(b.heads, nameKVHeads...)
	}
	b.headDim = b.optInt(b.fam.defaults[nameHeadDim[0]], nameHeadDim...)
	if b.headDim == 0 {
		b.headDim = b.hidden / max(b.heads, 1)
		if b.headDim < 1 || b.hidden%b.heads != 0 {
			b.failf(b.find(nameHeads...), "hidden size %d is not a multiple of %d heads and there is no head_dim", b.hidden, b.heads)
			b.headDim = 1
		}
	}
	if b.kvHeads > b.heads {
		b.failf(b.find(nameKVHeads...), "%d KV heads for %d query heads, want at most as many", b.kvHeads, b.heads)
		b.kvHeads = b.heads
	}
	b.s.Hidden = b.hidden
	b.s.Vocab = b.size(nameVocab...)
	b.s.MaxContext = b.optInt(0, nameContext...)
	b.s.Tied = b.tied()
}

// tied reads tie_word_embeddings from the text part, then the whole file, then the class default.
func (b *builder) tied() bool {
	for _, o := range []*object{b.cfg, b.top} {
		if n := o.get("tie_word_embeddings"); n != nil {
			if v, ok := n.boolean(); ok {
				return v
			}
		}
	}
	return b.fam.tied
}

func (b *builder) layerCount() int {
	n := b.size(nameLayers...)
	if n > maxLayers {
		b.failf(b.find(nameLayers...), "%d layers, want at most %d", n, maxLayers)
		return 1
	}
	return n
}

// outerTensors adds embedding, positions, final norm and head.
func (b *builder) outerTensors(norm normForm, positions int, headBias bool) {
	h, v := b.hidden, b.s.Vocab
	var k Kind
	k.Tensors = append(k.Tensors, Tensor{Module: "embed_tokens", Part: PartEmbedding, Out: v, In: h, Split: VocabSplit, Units: v})
	if positions > 0 {
		k.Tensors = append(k.Tensors, Tensor{Module: "position_embedding", Part: PartEmbedding, Out: positions, In: h, Split: Replicated})
	}
	k.norm("norm", norm.params(h))
	if !b.s.Tied {
		k.Tensors = append(k.Tensors, Tensor{Module: "lm_head", Part: PartHead, Out: v, In: h, Split: VocabSplit, Units: v, Linear: true})
	}
	if headBias {
		k.vector("lm_head.bias", PartHead, v, VocabSplit, v)
	}
	b.s.outer = append(b.s.outer, k.Tensors...)
}

// add appends a layer.
func (b *builder) add(k Kind) {
	b.s.Kinds = append(b.s.Kinds, k)
}

// mtpLayers adds multi-token-prediction layers of a kind, each with extra weights of its own.
func (b *builder) mtpLayers(n int, k Kind, extra ...Tensor) {
	b.s.MTPLayers += n
	for range n {
		b.s.mtp = append(b.s.mtp, k.Tensors...)
		b.s.mtp = append(b.s.mtp, extra...)
	}
}

// seal decides how each tensor is stored and merges equal layers.
func (b *builder) seal(q quantisation) {
	s := b.s
	plain := storeBF16
	switch s.DType {
	case "fp16":
		plain = storeFP16
	case "fp32":
		plain = storeFP32
	}
	set := func(prefix string, ts []Tensor) {
		for i := range ts {
			ts[i].Storage = q.storageOf(prefix+ts[i].Module, &ts[i], plain)
		}
	}
	set("", s.outer)
	s.mtp = append([]Tensor(nil), s.mtp...)
	set(fmt.Sprintf("layers.%d.", len(s.Kinds)), s.mtp)
	all := s.Kinds
	s.Kinds = nil
	seen := map[string]int{}
	for i := range all {
		k := &all[i]
		k.Tensors = append([]Tensor(nil), k.Tensors...)
		set(fmt.Sprintf("layers.%d.", i), k.Tensors)
		key := fmt.Sprintf("%+v", *k)
		at, ok := seen[key]
		if !ok {
			at = len(s.Kinds)
			seen[key] = at
			s.Kinds = append(s.Kinds, *k)
		}
		s.layers = append(s.layers, uint16(at))
	}
	s.prefix = make([][]uint32, len(s.Kinds))
	for k := range s.prefix {
		p := make([]uint32, len(s.layers)+1)
		for i, l := range s.layers {
			p[i+1] = p[i]
			if int(l) == k {
				p[i+1]++
			}
		}
		s.prefix[k] = p
	}
	for i := range s.Kinds {
		s.Kinds[i].prepare()
	}
	s.Quant = q.words()
	s.KVDType = q.kv
}
