package model

import (
	"strconv"
	"strings"
)

// family is a line of architectures that one builder reads.
type family struct {
	types    []string       // values of model_type; the first names the family
	classes  []string       // stems of class names: "Llama" is the stem of LlamaForCausalLM
	defaults map[string]int // what the configuration class of transformers takes for an absent field
	tied     bool           // its default of tie_word_embeddings
	build    func(*builder)
}

// familyByType finds a family by model_type. Wrappers add suffixes to the type of their text part ("qwen3_vl_text").
func familyByType(mt string) *family {
	if mt == "" {
		return nil
	}
	mt = strings.ToLower(strings.ReplaceAll(mt, "-", "_"))
	for _, try := range []string{mt, strings.TrimSuffix(mt, "_text"), strings.TrimSuffix(mt, "_text_model"), strings.TrimSuffix(mt, "_language")} {
		if f := byType[try]; f != nil {
			return f
		}
	}
	return nil
}

// familyByClass finds a family by class name, with or without ForCausalLM and its like.
func familyByClass(class string) *family {
	stem := classStem(class)
	if stem == "" {
		return nil
	}
	return byClass[strings.ToLower(stem)]
}

func classStem(class string) string {
	for _, suffix := range []string{"ForCausalLM", "ForConditionalGeneration", "LMHeadModel", "ForVisionText2Text", "Model"} {
		if s, ok := strings.CutSuffix(class, suffix); ok {
			return s
		}
	}
	return class
}

var (
	byType  = map[string]*family{}
	byClass = map[string]*family{}
)

// families lists every known family; a model_type or class stem belongs to one.
var families = [][]*family{llamaFamilies, gptFamilies, moeFamilies, latentFamilies, hybridFamilies, gemmaFamilies, compressedFamilies, gatedFamilies}

func init() {
	for _, list := range families {
		for _, f := range list {
			for _, t := range f.types {
				byType[strings.ToLower(strings.ReplaceAll(t, "-", "_"))] = f
			}
			for _, c := range f.classes {
				byClass[strings.ToLower(c)] = f
			}
		}
	}
}

// assumedDense reads an unknown architecture with Llama's layer shapes.
var assumedDense = &family{types: []string{"dense"}, build: standard(recipe{qkv: byField("attention_bias", false), o: byField("attention_bias", false), mlp: byField("mlp_bias", false)})}

// sizes makes a table of class defaults: hidden, layers, heads, KV heads (0 = as many as heads), MLP width, vocabulary.
func sizes(hidden, layers, heads, kv, inter, vocab int) map[string]int {
	m := map[string]int{nameHidden[0]: hidden, nameLayers[0]: layers, nameHeads[0]: heads, nameInter[0]: inter, nameVocab[0]: vocab}
	if kv > 0 {
		m[nameKVHeads[0]] = kv
	}
	return m
}

// recipe describes a family of equal or alternating layers: norm, attention, norm, MLP or experts.
type recipe struct {
	norm      normForm
	norms     int // per layer; 0 = 2
	qkv, o    bias
	mlp       bias
	plainMLP  bool // one input matrix
	qk        qkNorm
	qkWhen    string // queries and keys are normalised when this field says so
	qkForm    normForm
	fused     string
	sinks     bool
	window    func(b *builder, i int) (window int, chunked bool) // nil = windowAll
	positions func(b *builder) int                               // rows of learned positions
	parallel  func(b *builder) bool
	headBias  bias
	inter     func(b *builder) int
	moe       func(b *builder, i int) *moe // nil, or nil result = dense
	gate      bool
	extra     func(b *builder, k *Kind, i int)
	outer     func(b *builder)
	mtp       func(b *builder, last Kind)
	kv        func(b *builder) int
}

// standard builds a network from a recipe.
func standard(r recipe) func(*builder) {
	return func(b *builder) {
		b.common()
		if r.kv != nil {
			b.kvHeads = r.kv(b)
		}
		inter := 0
		switch {
		case r.inter != nil:
			inter = r.inter(b)
		case r.moe == nil || b.has(nameInter...):
			inter = b.size(nameInter...)
		}
		b.inter = inter
		norms := r.norms
		if norms == 0 {
			norms = 2
		}
		b.s.LayerNorm = r.norm != rmsNorm
		qk := r.qk
		if r.qkWhen != "" && !b.flag(false, r.qkWhen) {
			qk = noQKNorm
		}
		gated := !r.plainMLP
		layers := b.layerCount()
		if len(b.errs) > 0 {
			return
		}
		for i := range layers {
			var k Kind
			win, chunked := windowOf(b, r, i)
			b.attention(&k, gqa{module: "self_attn", fused: r.fused, heads: b.heads, kv: b.kvHeads, dim: b.headDim, window: win, chunked: chunked,
				qkv: b.bias(r.qkv), o: b.bias(r.o), qk: qk, norm: r.qkForm, gate: r.gate, sinks: r.sinks})
			k.Parallel = r.parallel != nil && r.parallel(b)
			for range norms {
				k.norm("input_layernorm", r.norm.params(b.hidden))
			}
			var m *moe
			if r.moe != nil {
				m = r.moe(b, i)
			}
			if m != nil {
				b.moe(&k, *m)
			} else {
				if inter == 0 {
					b.failf(b.cfgNode(), "layer %d is dense and intermediate_size is missing", i)
					return
				}
				b.mlp(&k, "mlp", inter, gated, b.bias(r.mlp))
			}
			if r.extra != nil {
				r.extra(b, &k, i)
			}
			b.add(k)
		}
		positions := 0
		if r.positions != nil {
			positions = r.positions(b)
			b.s.learned = positions > 0
		}
		b.outerTensors(r.norm, positions, b.bias(r.headBias) && !b.s.Tied)
		if r.outer != nil {
			r.outer(b)
		}
		if r.mtp != nil {
			r.mtp(b, b.s.Kinds[len(b.s.Kinds)-1])
		}
	}
}

func windowOf(b *builder, r recipe, i int) (int, bool) {
	if types := b.words("layer_types", "attention_types"); i < len(types) {
		switch types[i] {
		case "sliding_attention", "local_attention", "sliding", "local":
			return b.bound(0, nameWindow...), false
		case "chunked_attention":
			return b.optInt(0, "attention_chunk_size"), true
		}
		return 0, false
	}
	if r.window != nil {
		return r.window(b, i)
	}
	return windowAll(b, i)
}

// windowAll gives every layer the sliding window, unless use_sliding_window is false; from max_window_layers on where
// use_sliding_window asks for it (Qwen2).
func windowAll(b *builder, i int) (int, bool) {
	w := b.bound(0, nameWindow...)
	if n := b.find("use_sliding_window"); n != nil {
		if on, _ := n.boolean(); !on || i < b.count(0, "max_window_layers") {
			return 0, false
		}
	}
	return w, false
}

// noWindow ignores the window.
func noWindow(*builder, int) (int, bool) { return 0, false }

// everyNth gives all layers the window but each nth; def is the class default of the window, 0 = none.
func everyNth(n, def int) func(*builder, int) (int, bool) {
	return func(b *builder, i int) (int, bool) {
		if (i+1)%b.optInt(n, "sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers") == 0 {
			return 0, false
		}
		return b.bound(def, nameWindow...), false
	}
}

// alternate gives even layers the window.
func alternate(def int) func(*builder, int) (int, bool) {
	return func(b *builder, i int) (int, bool) {
		if i%2 == 1 {
			return 0, false
		}
		return b.bound(def, nameWindow...), false
	}
}

// isMoE tells whether layer i routes to experts, by whichever of the usual fields the file has.
func (b *builder) isMoE(i int) bool {
	if t := b.words("mlp_layer_types"); i < len(t) {
		return t[i] != "dense"
	}
	if b.has("moe_layers") {
		for _, l := range b.ints("moe_layers") {
			if l == i {
				return true
			}
		}
		return false
	}
	if s := b.word("moe_layers_enum"); s != "" {
		for _, f := range strings.Split(s, ",") {
			if strings.TrimSpace(f) == strconv.Itoa(i) {
				return true
			}
		}
		return false
	}
	if l := b.find("moe_layer_freq").list(); l != nil {
		f := b.ints("moe_layer_freq")
		return i < len(f) && f[i] == 1
	}
	if b.find("moe_layer_start_index").list() == nil && b.has("moe_layer_start_index") {
		start, end := b.count(0, "moe_layer_start_index"), b.count(1<<20, "moe_layer_end_index")
		return i >= start && i <= end && (i+1)%b.optInt(1, "moe_layer_interval") == 0
	}
	if i < b.count(0, "first_k_dense_replace", "num_dense_layers", "first_num_dense_layers", "n_dense_layers") {
		return false
	}
	for _, l := range b.ints("mlp_only_layers") {
		if l == i {
			return false
		}
	}
	if step := b.optInt(0, "interleave_moe_layer_step", "decoder_sparse_step", "moe_every_n_layers", "moe_layer_interval"); step > 0 {
		return (i+1)%step == 0
	}
	if p := b.optInt(0, "expert_layer_period"); p > 0 {
		return i%p == b.count(0, "expert_layer_offset")
	}
	if f := b.optInt(1, "moe_layer_freq"); f > 1 {
		return i%f == 0
	}
	return true
}

// experts reads the fields of a layer of experts; inter is the width when no field of its own names it.
func (b *builder) experts(inter int) moe {
	m := moe{module: "mlp", gated: true}
	m.experts = b.size(nameExperts...)
	m.topK = b.size(nameTopK...)
	m.inter = b.optInt(inter, nameExpInter...)
	if m.inter == 0 {
		m.inter = b.size(nameExpInter...)
	}
	m.shared = b.count(0, nameShared...) * m.inter
	m.groups, m.top = b.optInt(0, "n_group"), b.optInt(0, "topk_group")
	if m.groups <= 1 || m.top >= m.groups {
		m.groups, m.top = 0, 0
	}
	// DeepSeek-V3's routing: a correction for each expert, whatever the field is called by.
	m.routerBias = b.word("topk_method") == "noaux_tc" || !b.has("topk_method") && b.word("scoring_func") == "sigmoid"
	if m.topK > m.experts {
		b.failf(b.find(nameTopK...), "%d experts a token of %d, want at most as many", m.topK, m.experts)
		m.topK = m.experts
	}
	return m
}
