package model

import "strings"

var attentionBias = byField("attention_bias", false)

// llamaFamilies are dense networks of rotary positions and a gated MLP.
var llamaFamilies = []*family{
	{types: []string{"llama", "yi", "aquila", "aquila2", "xverse", "deepseek_llm", "smollm", "teleflm", "aquila3", "openlm", "mistral_nemo", "codellama", "vicuna", "skywork", "decilm", "cwm", "mobilellm", "llava_llama"},
		classes: []string{"Llama", "LLaMA", "Yi", "Aquila", "Xverse", "LlavaLlama", "Skywork", "LlavaNext", "Llava"}, defaults: sizes(4096, 32, 32, 0, 11008, 32000),
		build: standard(recipe{qkv: attentionBias, o: attentionBias, mlp: byField("mlp_bias", false)})},
	{types: []string{"mllama"}, classes: []string{"Mllama"}, defaults: sizes(4096, 40, 32, 8, 14336, 128256), build: mllama},
	{types: []string{"internlm3"}, classes: []string{"InternLM3"}, defaults: sizes(4096, 32, 32, 0, 11008, 128512),
		build: standard(recipe{qkv: byField("qkv_bias", false), o: byField("bias", false), mlp: byField("bias", false)})},
	{types: []string{"mistral", "ministral", "ministral3", "mistral3", "pixtral", "devstral", "voxtral", "llava_mistral"}, classes: []string{"Mistral", "Ministral", "Ministral3", "Mistral3", "Pixtral"},
		defaults: sizes(4096, 32, 32, 8, 14336, 32000), build: standard(recipe{})},
	{types: []string{"orion"}, classes: []string{"Orion"}, defaults: sizes(4096, 32, 32, 0, 15360, 84608), build: standard(recipe{norm: layerNorm, qkv: attentionBias, o: attentionBias})},
	{types: []string{"baichuan", "baichuan2", "baichuan_m1"}, classes: []string{"Baichuan", "BaiChuan"}, defaults: sizes(4096, 32, 32, 0, 11008, 125696), build: standard(recipe{fused: "W_pack"})},
	{types: []string{"internlm"}, classes: []string{"InternLM"}, defaults: sizes(4096, 32, 32, 0, 11008, 103168), build: standard(recipe{qkv: byField("bias", true), o: byField("bias", true)})},
	{types: []string{"internlm2", "internvl_chat", "internvl"}, classes: []string{"InternLM2", "InternVLChat", "InternVL"}, defaults: sizes(4096, 32, 32, 0, 11008, 103168), build: standard(recipe{qkv: byField("bias", false), o: byField("bias", false), fused: "wqkv"})},
	{types: []string{"qwen"}, classes: []string{"QWen"}, defaults: sizes(4096, 32, 32, 0, 22016, 151936),
		build: standard(recipe{qkv: always, fused: "c_attn", inter: func(b *builder) int { return b.size(nameInter...) / 2 }})}, // the field is twice the width
	{types: []string{"qwen2", "qwen2_vl", "qwen2_5_vl", "qwen2_audio", "qwen2_5_omni", "qwen1_5", "qwen2_5", "llava_qwen2", "ovis2", "llava_qwen"}, classes: []string{"Qwen2", "Qwen2VL", "Qwen2_5_VL", "Qwen2_5_Omni", "Qwen2Audio", "LlavaQwen2", "Dream"},
		defaults: sizes(4096, 32, 32, 32, 22016, 151936), build: standard(recipe{qkv: byField("attention_bias", true)})},
	{types: []string{"mimo"}, classes: []string{"MiMo"}, defaults: sizes(4096, 32, 32, 32, 22016, 151936), build: standard(recipe{qkv: byField("attention_bias", true), mtp: mtpStandard(3)})},
	{types: []string{"qwen3", "qwen3_vl", "qwen3_embedding", "qwen3_omni"}, classes: []string{"Qwen3", "Qwen3VL"}, defaults: withHead(sizes(4096, 32, 32, 32, 22016, 151936), 128),
		build: standard(recipe{qkv: attentionBias, o: attentionBias, qk: headNorm})},
	{types: []string{"seed_oss"}, classes: []string{"SeedOss"}, defaults: withHead(sizes(4096, 64, 80, 8, 27648, 155136), 128),
		build: standard(recipe{qkv: byField("attention_bias", true), o: byField("attention_out_bias", false), mlp: byField("mlp_bias", false)})},
	{types: []string{"phi3", "phi3_v", "phi3small", "phi4_multimodal", "phi4mm", "phi4"}, classes: []string{"Phi3", "Phi3V", "Phi4MM", "Phi4Multimodal", "Phi4"}, defaults: sizes(3072, 32, 32, 0, 8192, 32064),
		build: standard(recipe{fused: "qkv_proj", qkv: attentionBias, o: attentionBias})},
	{types: []string{"olmo", "hf_olmo"}, classes: []string{"Olmo", "OLMo"}, defaults: sizes(4096, 32, 32, 0, 11008, 50304), build: standard(recipe{norm: bareNorm, qkv: attentionBias, o: attentionBias})},
	{types: []string{"olmo2", "olmo3"}, classes: []string{"Olmo2", "Olmo3"}, defaults: sizes(4096, 32, 32, 0, 11008, 50304), build: standard(recipe{qkv: attentionBias, o: attentionBias, qk: fullNorm})},
	{types: []string{"stablelm", "stablelm_epoch", "stablelm_alpha"}, classes: []string{"StableLm", "StableLMEpoch", "StableLMAlpha"}, defaults: sizes(2560, 32, 32, 32, 6912, 50304), build: stablelm},
	{types: []string{"cohere"}, classes: []string{"Cohere"}, tied: true, defaults: sizes(8192, 40, 64, 0, 22528, 256000), build: standard(cohere)},
	{types: []string{"cohere2", "aya_vision", "cohere2_vision"}, classes: []string{"Cohere2", "AyaVision", "Cohere2Vision"}, tied: true, defaults: sizes(8192, 40, 64, 0, 22528, 256000), build: standard(cohereWindow())},
	{types: []string{"glm"}, classes: []string{"Glm"}, defaults: withHead(sizes(4096, 40, 32, 2, 13696, 151552), 128), build: standard(recipe{qkv: byField("attention_bias", true)})},
	{types: []string{"glm4", "glm4v", "glm_4_0414"}, classes: []string{"Glm4", "Glm4v"}, defaults: withHead(sizes(4096, 40, 32, 2, 13696, 151552), 128), build: standard(recipe{qkv: attentionBias, norms: 4})},
	{types: []string{"chatglm"}, classes: []string{"ChatGLM"}, defaults: sizes(4096, 28, 32, 0, 13696, 65024), build: chatGLM},
	{types: []string{"exaone"}, classes: []string{"Exaone"}, defaults: sizes(4096, 32, 32, 0, 14336, 102400), build: standard(recipe{})},
	{types: []string{"exaone4"}, classes: []string{"Exaone4"}, defaults: sizes(4096, 32, 32, 32, 16384, 102400), build: standard(recipe{qk: headNorm, window: letterPattern})},
	{types: []string{"granite"}, classes: []string{"Granite"}, defaults: sizes(4096, 32, 32, 0, 11008, 32000), build: standard(recipe{qkv: attentionBias, o: attentionBias, mlp: byField("mlp_bias", false)})},
	{types: []string{"ernie4_5"}, classes: []string{"Ernie4_5", "Ernie4_5_"}, tied: true, defaults: withHead(sizes(1024, 18, 16, 2, 3072, 103424), 128),
		build: standard(recipe{qkv: byField("use_bias", false), o: byField("use_bias", false), mlp: byField("use_bias", false)})},
	{types: []string{"hunyuan_v1_dense", "hunyuan_dense"}, classes: []string{"HunYuanDenseV1", "HunYuanDense"}, defaults: sizes(4096, 32, 32, 0, 11008, 290943),
		build: standard(recipe{qkv: attentionBias, o: attentionBias, qk: headNorm})},
	{types: []string{"smollm3"}, classes: []string{"SmolLM3"}, tied: true, defaults: sizes(2048, 36, 16, 4, 11008, 128256), build: standard(recipe{qkv: attentionBias, o: attentionBias})},
	{types: []string{"helium"}, classes: []string{"Helium"}, defaults: sizes(2560, 24, 20, 20, 7040, 48000), build: standard(recipe{})},
	{types: []string{"minicpm", "minicpm4", "minicpmv", "minicpmo"}, classes: []string{"MiniCPM"}, tied: true, defaults: sizes(4096, 32, 32, 0, 11008, 32000), build: standard(recipe{moe: func(b *builder, i int) *moe {
		if b.count(0, nameExperts...) == 0 {
			return nil
		}
		m := b.experts(b.inter)
		return &m
	}})},
	{types: []string{"nemotron"}, classes: []string{"Nemotron"}, defaults: sizes(6144, 32, 48, 0, 24576, 256000), build: standard(recipe{norm: layerNorm, plainMLP: true, qkv: attentionBias, o: attentionBias, mlp: byField("mlp_bias", false)})},
	{types: []string{"arcee"}, classes: []string{"Arcee"}, defaults: sizes(2560, 32, 32, 0, 18432, 32000), build: standard(recipe{plainMLP: true, qkv: attentionBias, o: attentionBias, mlp: byField("mlp_bias", false)})},
	{types: []string{"bitnet"}, classes: []string{"BitNet"}, tied: true, defaults: sizes(2560, 30, 20, 5, 6912, 128256), build: standard(recipe{extra: func(b *builder, k *Kind, _ int) {
		k.norm("self_attn.attn_sub_norm", b.hidden)
		k.norm("mlp.ffn_sub_norm", b.inter)
	}})},
	{types: []string{"pangu_embedded", "panguembedded"}, classes: []string{"PanguEmbedded"}, defaults: sizes(4096, 34, 32, 8, 12800, 153376), build: standard(recipe{qkv: byField("bias", true), o: byField("bias", true)})},
	{types: []string{"apertus"}, classes: []string{"Apertus"}, defaults: sizes(4096, 32, 32, 0, 14336, 131072), build: standard(recipe{plainMLP: true, qk: headNorm, qkv: attentionBias, o: attentionBias})},
	{types: []string{"solar"}, classes: []string{"Solar"}, defaults: sizes(4096, 48, 32, 8, 14336, 32000), build: standard(recipe{})},
	{types: []string{"telechat2", "telechat"}, classes: []string{"TeleChat2", "TeleChat"}, defaults: sizes(4096, 30, 32, 0, 12288, 160256), build: standard(recipe{mlp: always, o: always})},
}

func withHead(m map[string]int, dim int) map[string]int {
	m[nameHeadDim[0]] = dim
	return m
}

// stablelm has a second norm only where attention and MLP follow each other.
func stablelm(b *builder) {
	r := recipe{norm: layerNorm, qkv: byField("use_qkv_bias", false), qk: eachNorm, qkWhen: "qk_layernorm", qkForm: layerNormNoB}
	if b.flag(false, "use_parallel_residual") {
		r.norms, r.parallel = 1, yes
	}
	standard(r)(b)
}

func yes(*builder) bool { return true }

// cohere runs attention and MLP side by side behind one LayerNorm without bias.
var cohere = recipe{norm: layerNormNoB, norms: 1, parallel: yes, qkv: attentionBias, o: attentionBias, qk: eachNorm, qkWhen: "use_qk_norm", qkForm: layerNormNoB}

func cohereWindow() recipe {
	r := cohere
	r.qk, r.qkWhen = noQKNorm, ""
	r.window = everyNth(4, 4096)
	return r
}

// chatGLM is ChatGLM 2, 3 and GLM-4's first form; the first generation has the layers of the GPT line.
func chatGLM(b *builder) {
	if b.has("inner_hidden_size") {
		first := *b.fam
		first.tied = true
		b.fam = &first
		standard(recipe{norm: layerNorm, fused: "query_key_value", qkv: always, o: always, mlp: always, plainMLP: true, window: noWindow,
			inter: func(b *builder) int { return b.size("inner_hidden_size") }})(b)
		return
	}
	linear := byField("add_bias_linear", false)
	standard(recipe{fused: "query_key_value", qkv: byField("add_qkv_bias", false), o: linear, mlp: linear, kv: func(b *builder) int {
		if b.flag(false, "multi_query_attention") {
			return b.optInt(1, "multi_query_group_num")
		}
		return b.kvHeads
	}})(b)
}

// letterPattern reads sliding_window_pattern as a number (each nth layer is full) or letters ("LLLG": G is full).
func letterPattern(b *builder, i int) (int, bool) {
	if p := b.word("sliding_window_pattern"); p != "" {
		if strings.ContainsAny(p[i%len(p):i%len(p)+1], "Gg") {
			return 0, false
		}
		return b.bound(0, nameWindow...), false
	}
	if !b.has("sliding_window_pattern") {
		return windowAll(b, i)
	}
	return everyNth(4, 4096)(b, i)
}

// mllama puts cross-attention to image tokens in some layers: they hold gates and query and key norms, and no text.
func mllama(b *builder) {
	cross := map[int]bool{}
	for _, i := range b.ints("cross_attention_layers") {
		cross[i] = true
	}
	standard(recipe{extra: func(b *builder, k *Kind, i int) {
		if cross[i] {
			k.Mixer.NoCache = true
			k.norm("cross_attn.q_norm", b.headDim)
			k.norm("cross_attn.k_norm", b.headDim)
			k.vector("cross_attn_gates", PartAttention, 2, Replicated, 0)
		}
	}, outer: func(b *builder) {
		// Eight rows for special image tokens, not in the head.
		b.s.outer = append(b.s.outer, Tensor{Module: "embed_tokens.extra", Part: PartEmbedding, Out: 8, In: b.hidden, Split: Replicated})
	}})(b)
}

// mtpStandard adds multi-token-prediction layers: the last layer's kind, a projection of twice the width, and norms.
func mtpStandard(norms int) func(*builder, Kind) {
	return func(b *builder, last Kind) {
		if n := b.count(0, "num_nextn_predict_layers", "mtp_num_hidden_layers"); n > 0 {
			b.mtpLayers(n, last, b.joinTensors(norms)...)
		}
	}
}
