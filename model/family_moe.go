package model

// moeFamilies are networks with routed experts and softmax attention.
var moeFamilies = []*family{
	{types: []string{"mixtral"}, classes: []string{"Mixtral"}, defaults: withMoE(sizes(4096, 32, 32, 8, 14336, 32000), 8, 2, 0), build: standard(recipe{moe: allMoE("block_sparse_moe")})},
	{types: []string{"qwen2_moe", "qwen1_5_moe"}, classes: []string{"Qwen2Moe"}, defaults: withMoE(sizes(2048, 24, 16, 16, 5632, 151936), 60, 4, 1408), build: standard(recipe{qkv: byField("qkv_bias", true), moe: qwenMoE})},
	{types: []string{"qwen3_moe", "qwen3_vl_moe", "qwen3_omni_moe", "qwen3_omni_moe_thinker"}, classes: []string{"Qwen3Moe", "Qwen3VLMoe", "Qwen3OmniMoe"}, defaults: withMoE(sizes(2048, 24, 32, 4, 6144, 151936), 128, 8, 768),
		build: standard(recipe{qkv: attentionBias, o: attentionBias, qk: headNorm, moe: qwenMoE})},
	{types: []string{"minimax_m2"}, classes: []string{"MiniMaxM2"}, defaults: withMoE(sizes(3072, 62, 48, 8, 1536, 200064), 256, 8, 0), build: minimaxM2},
	{types: []string{"minimax_m3"}, classes: []string{"MiniMaxM3"}, defaults: withMoE(sizes(6144, 60, 64, 4, 3072, 200064), 128, 4, 0), build: minimaxM3},
	{types: []string{"phimoe"}, classes: []string{"PhiMoE", "Phimoe"}, defaults: withMoE(sizes(4096, 32, 32, 8, 6400, 32064), 16, 2, 0),
		build: standard(recipe{norm: layerNorm, qkv: attentionBias, o: attentionBias, headBias: byField("lm_head_bias", false), moe: allMoE("block_sparse_moe")})},
	{types: []string{"olmoe"}, classes: []string{"Olmoe"}, defaults: withMoE(sizes(2048, 16, 16, 16, 1024, 50304), 64, 8, 0), build: standard(recipe{qkv: attentionBias, o: attentionBias, qk: fullNorm, moe: allMoE("mlp")})},
	{types: []string{"flex_olmo"}, classes: []string{"FlexOlmo"}, defaults: withMoE(sizes(4096, 32, 32, 0, 11008, 100352), 7, 5, 0), build: standard(recipe{qk: fullNorm, moe: allMoE("mlp")})},
	{types: []string{"dbrx"}, classes: []string{"Dbrx", "DBRX"}, defaults: sizes(2048, 24, 16, 1, 0, 32000), build: dbrx},
	{types: []string{"deepseek", "deepseek_moe"}, classes: []string{"Deepseek"}, defaults: sizes(4096, 30, 32, 0, 11008, 102400), build: standard(recipe{qkv: attentionBias, o: attentionBias, moe: someMoE})},
	{types: []string{"gpt_oss"}, classes: []string{"GptOss"}, defaults: withHead(withMoE(sizes(2880, 36, 64, 8, 2880, 201088), 128, 4, 0), 64),
		build: standard(recipe{qkv: byField("attention_bias", true), o: byField("attention_bias", true), sinks: true, window: alternate(128), moe: func(b *builder, i int) *moe {
			m := b.experts(b.inter)
			m.expertBias, m.routerBias = true, true
			return &m
		}})},
	{types: []string{"llama4"}, classes: []string{"Llama4"}, defaults: withHead(withMoE(sizes(5120, 48, 40, 8, 8192, 202048), 16, 1, 0), 128), build: llama4},
	{types: []string{"glm4_moe", "glm4v_moe", "glm4_5", "glm4_moe_lite"}, classes: []string{"Glm4Moe", "Glm4vMoe"}, defaults: withMoE(sizes(4096, 46, 96, 8, 10944, 151552), 128, 8, 1408), build: glm4moe},
	{types: []string{"dots1"}, classes: []string{"Dots1"}, defaults: withMoE(sizes(4608, 62, 32, 32, 10944, 152064), 128, 6, 1408), build: standard(recipe{qkv: attentionBias, o: attentionBias, qk: headNorm, moe: biasedMoE})},
	{types: []string{"ernie4_5_moe", "ernie4_5_vl", "ernie4_5_vl_moe"}, classes: []string{"Ernie4_5_Moe", "Ernie4_5_VLMoe", "Ernie4_5_MoE"}, tied: true, defaults: withMoE(sizes(2560, 28, 20, 4, 12288, 103424), 64, 6, 1536), build: ernieMoE},
	{types: []string{"hunyuan_v1_moe", "hunyuan", "hunyuan_moe"}, classes: []string{"HunYuanMoEV1", "HunYuan", "HunYuanMoE"}, tied: true, defaults: withMoE(sizes(4096, 32, 32, 0, 11008, 290943), 16, 1, 0), build: hunyuan},
	{types: []string{"granitemoe"}, classes: []string{"GraniteMoe"}, defaults: withMoE(sizes(4096, 32, 32, 0, 11008, 32000), 8, 2, 0), build: standard(recipe{qkv: attentionBias, o: attentionBias, moe: allMoE("block_sparse_moe")})},
	{types: []string{"granitemoeshared"}, classes: []string{"GraniteMoeShared"}, defaults: withMoE(sizes(4096, 32, 32, 0, 11008, 32000), 8, 2, 0), build: standard(recipe{qkv: attentionBias, o: attentionBias, moe: func(b *builder, i int) *moe {
		m := b.experts(b.inter)
		m.shared = b.count(0, "shared_intermediate_size")
		return &m
	}})},
	{types: []string{"arctic"}, classes: []string{"Arctic"}, defaults: withMoE(sizes(4096, 32, 32, 0, 14336, 32000), 8, 1, 0), build: standard(recipe{extra: arcticResidual, moe: func(b *builder, i int) *moe {
		if f := b.optInt(2, "moe_layer_frequency"); (i+1)%f != 0 {
			return nil
		}
		m := b.experts(b.inter)
		m.module = "block_sparse_moe"
		return &m
	}})},
	{types: []string{"grok_1", "grok", "grok1", "xai"}, classes: []string{"Grok1", "Grok"}, tied: true, defaults: withMoE(sizes(6144, 64, 48, 8, 32768, 131072), 8, 2, 0), build: standard(recipe{norms: 4, moe: allMoE("block_sparse_moe"), extra: grokResidual})},
	{types: []string{"bailing_moe", "bailing_moe_v2", "bailing_moe_linear", "ling", "bailing_shared_moe"}, classes: []string{"BailingMoe", "BailingMoeV2", "BailingMoeV2_5"}, defaults: sizes(1024, 24, 16, 0, 2048, 30592), build: bailing},
	{types: []string{"step3p5", "step3p7", "step3_5", "step3p6"}, classes: []string{"Step3p5", "Step3p7Flash", "Step3p5Flash", "Step3p7"}, defaults: withMoE(sizes(4096, 45, 64, 8, 11264, 128896), 288, 8, 1280), build: stepFlash},
	{types: []string{"step3", "step3_vl"}, classes: []string{"Step3Text", "Step3VL"}, defaults: withMoE(sizes(7168, 61, 64, 1, 18432, 128815), 48, 3, 5120), build: step3},
	{types: []string{"mimo_v2_flash", "mimo_v2"}, classes: []string{"MiMoV2Flash", "MiMoV2"}, defaults: withMoE(sizes(4096, 48, 64, 4, 16384, 152576), 256, 8, 2048), build: mimoV2},
	{types: []string{"exaone_moe"}, classes: []string{"ExaoneMoe"}, defaults: withMoE(sizes(4096, 32, 32, 8, 16384, 102400), 64, 8, 2048), build: standard(recipe{qk: headNorm, window: letterPattern, moe: biasedMoE})},
	{types: []string{"solar_open"}, classes: []string{"SolarOpen"}, defaults: withMoE(sizes(4096, 48, 64, 8, 10240, 196608), 128, 8, 1280), build: standard(recipe{qkv: attentionBias, qk: headNorm, qkWhen: "use_qk_norm", moe: biasedMoE})},
}

func withMoE(m map[string]int, experts, topK, inter int) map[string]int {
	m[nameExperts[0]], m[nameTopK[0]] = experts, topK
	if inter > 0 {
		m[nameExpInter[0]] = inter
	}
	return m
}

// allMoE routes in every layer.
func allMoE(module string) func(*builder, int) *moe {
	return func(b *builder, i int) *moe {
		if !b.isMoE(i) {
			return nil
		}
		m := b.experts(b.inter)
		m.module = module
		return &m
	}
}

// someMoE follows the fields that name dense layers.
func someMoE(b *builder, i int) *moe {
	if !b.has(nameExperts...) || !b.isMoE(i) {
		return nil
	}
	m := b.experts(0)
	return &m
}

// biasedMoE is someMoE with a correction for each expert.
func biasedMoE(b *builder, i int) *moe {
	m := someMoE(b, i)
	if m != nil {
		m.routerBias = true
	}
	return m
}

// qwenMoE has one shared expert behind a gate, if any.
func qwenMoE(b *builder, i int) *moe {
	if !b.isMoE(i) || b.find("num_experts") != nil && b.count(0, "num_experts") == 0 {
		return nil
	}
	m := b.experts(0)
	m.shared, m.sharedName = b.count(0, "shared_expert_intermediate_size"), "shared_expert"
	m.sharedGate = m.shared > 0
	return &m
}

// minimaxM2 normalises queries and keys over all heads and corrects the routing with a bias.
func minimaxM2(b *builder) {
	qk := headNorm
	if b.word("qk_norm_type") != "per_head" {
		qk = fullNorm
	}
	standard(recipe{qk: qk, qkWhen: "use_qk_norm", moe: func(b *builder, i int) *moe {
		m := b.experts(b.inter)
		m.module, m.routerBias = "block_sparse_moe", b.flag(true, "use_routing_bias")
		m.shared = b.count(0, "shared_intermediate_size")
		return &m
	}})(b)
}

// minimaxM3 adds dense first layers, a shared expert, and block-sparse attention that picks blocks by an index key.
func minimaxM3(b *builder) {
	index := indexer{}
	var freq []int
	b.within("sparse_attention_config", func() {
		if !b.flag(true, "use_sparse_attention") {
			return
		}
		index = indexer{heads: b.optInt(4, "sparse_num_index_heads"), dim: b.optInt(128, "sparse_index_dim"), topK: b.optInt(16, "sparse_topk_blocks") * b.optInt(128, "sparse_block_size")}
		freq = b.ints("sparse_attention_freq")
	})
	standard(recipe{qk: headNorm, qkWhen: "use_qk_norm", inter: func(b *builder) int { return b.optInt(b.optInt(1, nameInter...), "dense_intermediate_size") },
		moe: func(b *builder, i int) *moe {
			if !b.isMoE(i) {
				return nil
			}
			m := b.experts(b.optInt(0, nameInter...))
			m.module, m.routerBias = "block_sparse_moe", b.flag(true, "use_routing_bias")
			if w := b.count(0, "shared_intermediate_size"); w > 0 {
				m.shared = w * max(1, b.count(1, nameShared...))
			}
			return &m
		}, extra: func(b *builder, k *Kind, i int) {
			if index.heads == 0 || i < len(freq) && freq[i] == 0 {
				return
			}
			m := &k.Mixer
			m.IndexHeads, m.IndexDim, m.IndexTopK, m.IndexKey, m.IndexOwn = index.heads, index.dim, index.topK, IndexCached, true
			k.copied("self_attn.index_q_proj", "indexer_q", PartAttention, index.heads*index.dim, b.hidden, false)
			k.copied("self_attn.index_k_proj", "indexer_k", PartAttention, index.dim, b.hidden, false)
		}})(b)
}

// dbrx keeps its fields in attn_config and ffn_config.
func dbrx(b *builder) {
	kv := 0
	b.within("attn_config", func() { kv = b.optInt(1, "kv_n_heads") })
	m := moe{module: "ffn", gated: true}
	b.within("ffn_config", func() {
		m.experts, m.topK, m.inter = b.optInt(4, "moe_num_experts"), b.optInt(1, "moe_top_k"), b.optInt(3584, "ffn_hidden_size")
	})
	standard(recipe{norm: layerNormNoB, fused: "Wqkv", kv: func(b *builder) int {
		if kv > 0 {
			return kv
		}
		return b.kvHeads
	}, inter: func(*builder) int { return m.inter }, moe: func(*builder, int) *moe { n := m; return &n }})(b)
}

// llama4 alternates dense and expert layers, has an implicit shared expert of the experts' width, and chunks attention
// in layers with rotary positions.
func llama4(b *builder) {
	rope := b.ints("no_rope_layers") // 1 where positions are rotary
	interval := b.optInt(4, "no_rope_layer_interval")
	standard(recipe{qkv: attentionBias, o: attentionBias, inter: func(b *builder) int { return b.optInt(16384, "intermediate_size_mlp") },
		window: func(b *builder, i int) (int, bool) {
			rotary := (i+1)%interval != 0
			if i < len(rope) {
				rotary = rope[i] != 0
			}
			if rotary {
				return b.optInt(8192, "attention_chunk_size"), true
			}
			return 0, false
		}, moe: func(b *builder, i int) *moe {
			if !b.isMoE(i) {
				return nil
			}
			m := b.experts(b.optInt(8192, nameInter...))
			m.module, m.shared, m.sharedName = "feed_forward", m.inter, "shared_expert"
			return &m
		}})(b)
}

// glm4moe keeps biases on queries, keys and values only, and a multi-token-prediction layer.
func glm4moe(b *builder) {
	if b.has("kv_lora_rank") {
		deepseek(b)
		return
	}
	standard(recipe{qkv: attentionBias, qk: headNorm, qkWhen: "use_qk_norm", moe: biasedMoE, mtp: func(b *builder, last Kind) {
		// The line's checkpoints hold one even where no field says so (the vision variant).
		if n := b.count(1, "num_nextn_predict_layers"); n > 0 {
			b.mtpLayers(n, last, b.joinTensors(3)...)
		}
	}})(b)
}

// ernieMoE corrects the routing with a bias; the vision variant lists text and image experts.
func ernieMoE(b *builder) {
	first := func(def int, names ...string) int {
		if l := b.ints(names...); len(l) > 0 {
			return l[0]
		}
		return b.optInt(def, names...)
	}
	standard(recipe{qkv: byField("use_bias", false), o: byField("use_bias", false), mlp: byField("use_bias", false), moe: func(b *builder, i int) *moe {
		if !b.isMoE(i) {
			return nil
		}
		m := moe{module: "mlp", gated: true, experts: first(64, "moe_num_experts"), topK: first(6, "moe_k"), inter: first(1536, "moe_intermediate_size")}
		m.shared = first(2, "moe_num_shared_experts") * m.inter
		if b.find("moe_num_shared_experts") != nil && b.count(0, "moe_num_shared_experts") == 0 {
			m.shared = 0
		}
		m.routerBias = b.flag(true, "moe_use_aux_free")
		return &m
	}, mtp: mtpStandard(2)})(b)
}

// hunyuan writes per-layer lists and may share keys and values between neighbouring layers.
func hunyuan(b *builder) {
	at := func(i, def int, names ...string) int {
		if l := b.ints(names...); len(l) > 0 {
			return l[min(i, len(l)-1)]
		}
		return b.optInt(def, names...)
	}
	factor := 1
	if b.flag(false, "use_cla") {
		factor = b.optInt(1, "cla_share_factor")
	}
	qk := headNorm
	if !b.flag(true, "use_qk_norm") {
		qk = noQKNorm
	}
	standard(recipe{qkv: attentionBias, o: attentionBias, qk: qk, moe: func(b *builder, i int) *moe {
		n := at(i, 1, "num_experts")
		if n <= 1 || i < b.count(0, "moe_layer_num_skipped") {
			return nil
		}
		m := moe{module: "mlp", gated: true, experts: n, topK: at(i, 1, "moe_topk"), inter: at(i, b.inter, "moe_intermediate_size"), sharedName: "shared_mlp"}
		if b.flag(true, "use_mixed_mlp_moe") {
			m.shared = at(i, 1, "num_shared_expert") * b.inter
		}
		return &m
	}, extra: func(b *builder, k *Kind, i int) {
		if factor > 1 && i%factor != 0 {
			k.dropKeys()
		}
	}})(b)
}

// dropKeys removes the key and value projections of a layer that reads another layer's cache.
func (k *Kind) dropKeys() {
	k.Mixer.NoCache = true
	var keep []Tensor
	for _, t := range k.Tensors {
		if t.Split != KVSplit {
			keep = append(keep, t)
		}
	}
	k.Tensors = keep
}

// arcticResidual adds the dense MLP of hidden width that runs beside the experts, and its norm.
func arcticResidual(b *builder, k *Kind, i int) {
	if k.FFN.Kind != Experts || !b.flag(true, "parallel_attn_mlp_res", "use_residual") {
		return
	}
	k.FFN.Inter = b.hidden
	b.mlpTensors(k, "residual_mlp", PartMLP, "mlp", b.hidden, b.hidden, true, false, TensorSplit)
	k.norm("residual_layernorm", b.hidden)
}

// grokResidual adds Grok-2's dense MLP beside the experts.
func grokResidual(b *builder, k *Kind, i int) {
	if !b.flag(false, "residual_moe") {
		return
	}
	k.FFN.Inter = b.inter
	b.mlpTensors(k, "mlp", PartMLP, "mlp", b.inter, b.hidden, true, false, TensorSplit)
}

// bailing is the Ling and Ring line; version 2 normalises queries and keys and corrects the routing.
func bailing(b *builder) {
	v2 := b.flag(false, "use_qk_norm")
	standard(recipe{qkv: byField("use_qkv_bias", false), o: byField("use_bias", false), qk: headNorm, qkWhen: "use_qk_norm", moe: func(b *builder, i int) *moe {
		m := someMoE(b, i)
		if m != nil {
			m.routerBias = b.flag(v2, "moe_router_enable_expert_bias")
			if w := b.count(0, "moe_shared_expert_intermediate_size"); w > 0 {
				m.shared = b.count(1, nameShared...) * w
			}
		}
		return m
	}, mtp: mtpStandard(3)})(b)
}
