package model

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
			b.headDim = 1
			if len(b.errs) == 0 { // else a size is wrong already
				b.failf(b.find(nameHeads...), "hidden size %d is not a multiple of %d heads and there is no head_dim", b.hidden, b.heads)
			}
		}
	}
	if b.kvHeads > b.heads {
		b.failf(b.find(nameKVHeads...), "%d KV heads for %d query heads, want at most as many", b.kvHeads, b.heads)
		b.kvHeads = b.heads
	}
	b.s.Hidden = b.hidden
	b.s.Vocab = b.size(nameVocab...)
	b.s.MaxContext = b.bound(0, nameContext...)
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

// embedModule is the token embedding.
const embedModule = "embed_tokens"

// outerTensors adds embedding, positions, final norm and head.
func (b *builder) outerTensors(norm normForm, positions int, headBias bool) {
	h, v := b.hidden, b.s.Vocab
	var k Kind
	k.Tensors = append(k.Tensors, Tensor{Module: embedModule, Part: PartEmbedding, Out: v, In: h, Split: VocabSplit, Units: v})
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

// maxMTP caps multi-token-prediction layers; real networks have 1 to 7.
const maxMTP = 100

// mtpLayers adds multi-token-prediction layers of a kind, each with extra weights of its own.
func (b *builder) mtpLayers(n int, k Kind, extra ...Tensor) {
	n = min(n, maxMTP)
	b.s.MTPLayers += n
	for range n {
		b.s.mtp = append(b.s.mtp, k.Tensors...)
		b.s.mtp = append(b.s.mtp, extra...)
	}
}
