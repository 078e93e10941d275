package model

import "slices"

// gptFamilies descend from GPT: LayerNorm, biases, two-matrix MLPs of four times the width.
var gptFamilies = []*family{
	{types: []string{"gpt2", "megatron_gpt2"}, classes: []string{"GPT2"}, tied: true, defaults: sizes(768, 12, 12, 0, 3072, 50257), build: standard(gpt(recipe{positions: positionRows(1024, 0)}))},
	{types: []string{"gpt_bigcode"}, classes: []string{"GPTBigCode"}, tied: true, defaults: sizes(768, 12, 12, 0, 3072, 50257), build: standard(gpt(recipe{positions: positionRows(1024, 0), kv: func(b *builder) int {
		if b.flag(true, "multi_query") {
			return 1
		}
		return b.heads
	}}))},
	{types: []string{"gptj", "codegen"}, classes: []string{"GPTJ", "CodeGen"}, defaults: sizes(4096, 28, 16, 0, 16384, 50400),
		build: standard(recipe{norm: layerNorm, norms: 1, parallel: yes, mlp: always, plainMLP: true, headBias: always, inter: fourTimes, window: noWindow})},
	{types: []string{"gpt_neox", "gpt_neox_japanese"}, classes: []string{"GPTNeoX"}, defaults: sizes(6144, 44, 64, 0, 24576, 50432), build: standard(recipe{norm: layerNorm, qkv: byField("attention_bias", true),
		o: byField("attention_bias", true), mlp: always, plainMLP: true, window: noWindow, parallel: func(b *builder) bool { return b.flag(true, "use_parallel_residual") }})},
	{types: []string{"gpt_neo"}, classes: []string{"GPTNeo"}, tied: true, defaults: sizes(2048, 24, 16, 0, 8192, 50257), build: standard(recipe{norm: layerNorm, o: always, mlp: always, plainMLP: true,
		inter: fourTimes, positions: positionRows(2048, 0), window: func(b *builder, i int) (int, bool) {
			if i%2 == 1 {
				return b.optInt(256, "window_size"), false
			}
			return 0, false
		}})},
	{types: []string{"starcoder2"}, classes: []string{"Starcoder2"}, tied: true, defaults: sizes(3072, 30, 24, 2, 12288, 49152), build: standard(recipe{norm: layerNorm, qkv: byField("use_bias", true),
		o: byField("use_bias", true), mlp: byField("use_bias", true), plainMLP: true})},
	{types: []string{"phi", "phi_msft", "mixformer_sequential"}, classes: []string{"Phi", "MixFormerSequential"}, defaults: sizes(2048, 24, 32, 0, 8192, 51200), build: standard(recipe{norm: layerNorm, norms: 1, parallel: yes,
		qkv: always, o: always, mlp: always, plainMLP: true, headBias: always, inter: fourTimes, qk: headNorm, qkWhen: "qk_layernorm", qkForm: layerNorm})},
	{types: []string{"falcon", "refinedweb", "refinedwebmodel"}, classes: []string{"Falcon", "RW"}, tied: true, defaults: sizes(4544, 32, 71, 0, 18176, 65024), build: falcon},
	{types: []string{"bloom"}, classes: []string{"Bloom"}, tied: true, defaults: sizes(1024, 24, 16, 0, 4096, 250880), build: standard(gpt(recipe{outer: func(b *builder) {
		b.s.outer = append(b.s.outer, Tensor{Module: "word_embeddings_layernorm", Part: PartEmbedding, Out: 2 * b.hidden, Split: Replicated})
	}}))},
	{types: []string{"opt"}, classes: []string{"OPT"}, tied: true, defaults: sizes(768, 12, 12, 0, 3072, 50272), build: opt},
	{types: []string{"mpt"}, classes: []string{"MPT", "Mpt"}, tied: true, defaults: sizes(2048, 24, 16, 0, 8192, 50368), build: mpt},
	{types: []string{"persimmon", "fuyu"}, classes: []string{"Persimmon", "Fuyu"}, defaults: sizes(4096, 36, 64, 0, 16384, 262144), build: standard(recipe{norm: layerNorm, qkv: always, o: always, mlp: always, plainMLP: true,
		qk: headNorm, qkForm: layerNorm})},
	{types: []string{"jais"}, classes: []string{"JAIS"}, tied: true, defaults: sizes(768, 12, 12, 0, 3072, 50257), build: standard(recipe{norm: layerNorm, qkv: always, o: always, mlp: always, inter: fourTimes})},
	{types: []string{"codeshell", "kclgpt"}, classes: []string{"CodeShell"}, tied: false, defaults: sizes(4096, 42, 32, 8, 16384, 70144), build: standard(gpt(recipe{}))},
	{types: []string{"megatron_bert_gpt", "megatron", "gpt3"}, classes: []string{"MegatronGPT", "GPT3"}, tied: true, defaults: sizes(12288, 96, 96, 0, 49152, 51200), build: standard(gpt(recipe{positions: positionRows(2048, 0)}))},
}

// gpt fills a recipe with what GPT-2 has: LayerNorm, biases everywhere, a plain MLP.
func gpt(r recipe) recipe {
	r.norm, r.qkv, r.o, r.mlp, r.plainMLP, r.fused = layerNorm, always, always, always, true, "c_attn"
	r.inter, r.window = fourTimes, noWindow
	return r
}

// fourTimes is the MLP width of the GPT line where no field gives one.
func fourTimes(b *builder) int { return b.optInt(4*b.hidden, nameInter...) }

// positionRows is the number of learned positions, plus an offset.
func positionRows(def, offset int) func(*builder) int {
	return func(b *builder) int { return b.optInt(def, "n_positions", "max_position_embeddings", "n_ctx") + offset }
}

// falcon keeps as many KV heads as new_decoder_architecture says, else one for multi_query; it runs attention and MLP
// side by side behind one or two norms.
func falcon(b *builder) {
	isNew := b.flag(false, "new_decoder_architecture")
	par := b.flag(true, "parallel_attn")
	norms := 2
	switch {
	case isNew:
		norms = b.optInt(2, "num_ln_in_parallel_attn")
	case par:
		norms = 1
	}
	with := byField("bias", false)
	standard(recipe{norm: layerNorm, norms: norms, qkv: with, o: with, mlp: with, plainMLP: true, fused: "query_key_value", inter: fourTimes, window: noWindow,
		parallel: func(*builder) bool { return par || isNew }, kv: func(b *builder) int {
			switch {
			case isNew:
				return b.optInt(b.heads, "num_kv_heads", "n_head_kv")
			case b.flag(true, "multi_query"):
				return 1
			}
			return b.heads
		}})(b)
}

// opt learns two positions more than it names; small ones project between embedding and hidden width.
func opt(b *builder) {
	with := byField("enable_bias", true)
	standard(recipe{norm: layerNorm, qkv: with, o: with, mlp: with, plainMLP: true, inter: fourTimes, positions: positionRows(2048, 2), window: noWindow, outer: func(b *builder) {
		if !b.flag(true, "do_layer_norm_before") {
			b.s.outer = slices.DeleteFunc(b.s.outer, func(t Tensor) bool { return t.Part == PartNorm }) // no final norm
		}
		w := b.optInt(b.hidden, "word_embed_proj_dim")
		if w == b.hidden {
			return
		}
		for i := range b.s.outer {
			if t := &b.s.outer[i]; t.Module == embedModule || t.Module == "lm_head" {
				t.In = w
			}
		}
		b.s.outer = append(b.s.outer, Tensor{Module: "project_in", Part: PartEmbedding, Out: b.hidden, In: w}, Tensor{Module: "project_out", Part: PartHead, Out: w, In: b.hidden})
	}})(b)
}

// mpt keeps its attention fields in attn_config and may go without biases, norms' ones included.
func mpt(b *builder) {
	norm, with := layerNormNoB, never
	if !b.flag(true, "no_bias") {
		norm, with = layerNorm, always
	}
	r := recipe{norm: norm, qkv: with, o: with, mlp: with, plainMLP: true, fused: "Wqkv", window: noWindow}
	r.inter = func(b *builder) int { return b.optInt(4, "expansion_ratio") * b.hidden }
	kv, alibi, qkLN := 0, true, false
	b.within("attn_config", func() {
		kv = b.optInt(0, "kv_n_heads")
		if b.word("attn_type") == "multiquery_attention" {
			kv = 1
		}
		alibi = b.flag(true, "alibi")
		qkLN = b.flag(false, "qk_ln")
	})
	if kv > 0 {
		r.kv = func(*builder) int { return kv }
	}
	if qkLN {
		r.qk, r.qkForm = fullNorm, norm
	}
	if !alibi && b.flag(true, "learned_pos_emb") {
		r.positions = func(b *builder) int { return b.optInt(2048, "max_seq_len") }
	}
	standard(r)(b)
}
