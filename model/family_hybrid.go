package model

// hybridFamilies mix attention with recurrent layers, or leave attention out.
var hybridFamilies = []*family{
	{types: []string{"qwen3_next"}, classes: []string{"Qwen3Next"}, defaults: withHead(withMoE(sizes(2048, 48, 16, 2, 5632, 151936), 512, 10, 512), 256), build: qwenHybrid},
	{types: []string{"qwen3_5", "qwen3_5_moe", "qwen3_6", "qwen3_6_moe"}, classes: []string{"Qwen3_5", "Qwen3_5Moe"}, defaults: withHead(sizes(4096, 32, 16, 4, 12288, 248320), 256), build: qwenHybrid},
	{types: []string{"kimi_linear", "kimi_k3"}, classes: []string{"KimiLinear", "KimiK3"}, defaults: sizes(2304, 27, 32, 0, 9216, 163840), build: kimiLinear},
	{types: []string{"nemotron_h", "nemotron_hybrid"}, classes: []string{"NemotronH"}, defaults: withHead(sizes(4096, 52, 32, 8, 21504, 131072), 128), build: nemotronH},
	{types: []string{"jamba"}, classes: []string{"Jamba"}, defaults: withMoE(sizes(4096, 32, 32, 8, 14336, 65536), 16, 2, 0), build: jamba},
	{types: []string{"mamba", "falcon_mamba"}, classes: []string{"Mamba", "FalconMamba"}, tied: true, defaults: sizes(768, 32, 1, 0, 0, 50280), build: mamba1},
	{types: []string{"mamba2"}, classes: []string{"Mamba2"}, defaults: sizes(4096, 64, 128, 0, 0, 32768), build: mamba2},
	{types: []string{"bamba"}, classes: []string{"Bamba"}, defaults: sizes(4096, 32, 32, 8, 14336, 128000), build: bamba},
	{types: []string{"granitemoehybrid"}, classes: []string{"GraniteMoeHybrid"}, tied: true, defaults: sizes(4096, 32, 32, 0, 11008, 32000), build: graniteHybrid},
	{types: []string{"falcon_h1"}, classes: []string{"FalconH1"}, defaults: sizes(4096, 32, 32, 8, 14336, 128000), build: falconH1},
	{types: []string{"minimax_text_01", "minimax", "minimax_m1", "minimax_vl_01"}, classes: []string{"MiniMaxText01", "MiniMaxM1", "MiniMax", "MiniMaxVL01"}, defaults: withMoE(sizes(4096, 32, 32, 8, 14336, 32000), 8, 2, 0), build: minimaxLightning},
	{types: []string{"lfm2", "lfm2_moe", "lfm2_vl"}, classes: []string{"Lfm2", "Lfm2Moe", "Lfm2Vl"}, tied: true, defaults: sizes(2560, 32, 32, 8, 12288, 65536), build: lfm2},
	{types: []string{"recurrent_gemma"}, classes: []string{"RecurrentGemma"}, tied: true, defaults: sizes(2560, 26, 10, 1, 15360, 256000), build: recurrentGemma},
	{types: []string{"nemotron_nas", "deci"}, classes: []string{"DeciLM"}, defaults: sizes(8192, 80, 64, 0, 0, 128256), build: nemotronNAS},
}

// delta describes linear attention with a matrix state for each value head (gated delta rule).
type delta struct {
	module           string
	keyHeads, keyDim int
	valHeads, valDim int
	kernel           int
	splitProj        bool // in_proj_qkv, in_proj_z, in_proj_b, in_proj_a apart
}

func (b *builder) gatedDelta(k *Kind, d delta) {
	kd, vd := d.keyHeads*d.keyDim, d.valHeads*d.valDim
	conv := 2*kd + vd
	k.Mixer = Mixer{Kind: Linear, Heads: d.valHeads, KVHeads: d.keyHeads, HeadDim: d.keyDim, VHeadDim: d.valDim,
		ConvState: (d.kernel - 1) * conv, State: d.valHeads * d.keyDim * d.valDim, StateBytes: 4, InProj: conv + vd, Inner: vd}
	qkvz, z := "in_proj_qkvz", "in_proj_qkvz"
	ba := "in_proj_ba"
	if d.splitProj {
		qkvz, z, ba = "in_proj_qkv", "in_proj_z", "in_proj_b"
	}
	m := d.module
	h := b.hidden
	k.matrix(m+"."+qkvz, "in_proj", PartAttention, 2*kd, h, KVSplit, d.keyHeads, false)
	k.matrix(m+"."+qkvz, "in_proj", PartAttention, vd, h, TensorSplit, d.valHeads, false)
	k.matrix(m+"."+z, "in_proj", PartAttention, vd, h, TensorSplit, d.valHeads, false)
	k.matrix(m+"."+ba, "in_proj_ba", PartAttention, 2*d.valHeads, h, TensorSplit, d.valHeads, false)
	k.vector(m+".conv1d", PartAttention, conv*d.kernel, TensorSplit, d.valHeads)
	k.vector(m+".dt_bias", PartAttention, d.valHeads, TensorSplit, d.valHeads)
	k.vector(m+".A_log", PartAttention, d.valHeads, TensorSplit, d.valHeads)
	k.norm(m+".norm", d.valDim)
	k.row(m+".out_proj", "o_proj", PartAttention, h, vd, d.valHeads, false)
}

// qwenHybrid is Qwen3-Next and Qwen3.5: three layers of gated delta rule, one of gated attention.
func qwenHybrid(b *builder) {
	b.common()
	b.inter = b.optInt(0, nameInter...)
	types := b.words("layer_types")
	every := b.optInt(4, "full_attention_interval")
	d := delta{module: "linear_attn", keyHeads: b.sizeOr(16, "linear_num_key_heads"), keyDim: b.sizeOr(128, "linear_key_head_dim"), valHeads: b.sizeOr(32, "linear_num_value_heads"),
		valDim: b.sizeOr(128, "linear_value_head_dim"), kernel: b.sizeOr(4, "linear_conv_kernel_dim"), splitProj: b.fam.types[0] == "qwen3_5"}
	gate := b.flag(true, "attn_output_gate")
	layers := b.layerCount()
	if len(b.errs) > 0 {
		return
	}
	layer := func(i int, full bool) Kind {
		var k Kind
		if full {
			b.attention(&k, gqa{module: "self_attn", heads: b.heads, kv: b.kvHeads, dim: b.headDim, qk: headNorm, gate: gate, qkv: b.bias(attentionBias), o: b.bias(attentionBias)})
		} else {
			b.gatedDelta(&k, d)
		}
		k.norm("input_layernorm", b.hidden)
		k.norm("post_attention_layernorm", b.hidden)
		if m := qwenHybridMoE(b, i); m != nil {
			b.moe(&k, *m)
		} else {
			b.mlp(&k, "mlp", b.size(nameInter...), true, false)
		}
		return k
	}
	for i := range layers {
		full := (i+1)%every == 0
		if i < len(types) {
			full = types[i] == "full_attention"
		}
		b.add(layer(i, full))
	}
	b.outerTensors(rmsNorm, 0, false)
	n := b.count(0, "mtp_num_hidden_layers", "num_nextn_predict_layers")
	if b.fam.types[0] == "qwen3_next" && !b.has("mtp_num_hidden_layers") {
		n = 1 // the checkpoints hold one without a field for it
	}
	if n > 0 {
		b.mtpLayers(n, layer(0, true), b.joinTensors(3)...)
	}
}

func qwenHybridMoE(b *builder, i int) *moe {
	if !b.has("num_experts") && !(b.fam.types[0] == "qwen3_next") {
		return nil
	}
	return qwenMoE(b, i)
}

// kimiLinear is Kimi Linear and Kimi-K3: delta attention with a gate for each channel, latent attention without
// positions in between, experts that may run in a narrower width.
func kimiLinear(b *builder) {
	b.cfgLatent()
	b.inter = b.size(nameInter...)
	full := map[int]bool{}
	heads, dim, kernel, fullRank := b.heads, 128, 4, false
	b.within("linear_attn_config", func() {
		for _, l := range b.ints("full_attn_layers") {
			full[l-1] = true // counted from 1
		}
		heads, dim, kernel = b.optInt(heads, "num_heads"), b.optInt(dim, "head_dim"), b.optInt(kernel, "short_conv_kernel_size")
		fullRank = b.flag(false, "use_full_rank_gate")
	})
	layers := b.layerCount()
	if len(b.errs) > 0 {
		return
	}
	for i := range layers {
		var k Kind
		if full[i] {
			b.mla(&k, mla{module: "self_attn", heads: b.heads, qLora: b.count(0, "q_lora_rank"), kvLora: b.sizeOr(512, "kv_lora_rank"), nope: b.sizeOr(128, "qk_nope_head_dim"),
				rope: b.sizeOr(64, "qk_rope_head_dim"), v: b.sizeOr(128, "v_head_dim"), gate: b.flag(false, "mla_use_output_gate")})
		} else {
			b.kda(&k, heads, dim, kernel, fullRank)
		}
		k.norm("input_layernorm", b.hidden)
		k.norm("post_attention_layernorm", b.hidden)
		if b.has(nameExperts...) && b.isMoE(i) {
			m := b.experts(0)
			m.module, m.routerBias = "block_sparse_moe", true
			m.latent = b.count(0, "routed_expert_hidden_size")
			m.latentNorm = b.flag(false, "latent_moe_use_norm")
			b.moe(&k, m)
		} else {
			b.mlp(&k, "mlp", b.inter, true, false)
		}
		b.add(k)
	}
	b.outerTensors(rmsNorm, 0, false)
}

// kda adds Kimi delta attention: queries, keys and values with short convolutions, and decay, beta and output gates.
func (b *builder) kda(k *Kind, heads, dim, kernel int, fullRank bool) {
	p, h := heads*dim, b.hidden
	k.Mixer = Mixer{Kind: Linear, Heads: heads, KVHeads: heads, HeadDim: dim, VHeadDim: dim, ConvState: (kernel - 1) * 3 * p, State: heads * dim * dim, StateBytes: 4, InProj: 4 * p, Inner: p}
	for _, n := range []string{"q_proj", "k_proj", "v_proj"} {
		k.column("self_attn."+n, "in_proj", PartAttention, p, h, heads, false)
	}
	k.vector("self_attn.conv1d", PartAttention, 3*p*kernel, TensorSplit, heads)
	k.vector("self_attn.A_log", PartAttention, heads, TensorSplit, heads)
	k.vector("self_attn.dt_bias", PartAttention, p, TensorSplit, heads)
	k.column("self_attn.b_proj", "beta", PartAttention, heads, h, heads, false)
	if fullRank {
		k.column("self_attn.f_proj", "decay", PartAttention, p, h, heads, false)
		k.column("self_attn.g_proj", "gate", PartAttention, p, h, heads, false)
	} else {
		k.copied("self_attn.f_a_proj", "decay_a", PartAttention, dim, h, false)
		k.column("self_attn.f_b_proj", "decay_b", PartAttention, p, dim, heads, false)
		k.copied("self_attn.g_a_proj", "gate_a", PartAttention, dim, h, false)
		k.column("self_attn.g_b_proj", "gate_b", PartAttention, p, dim, heads, false)
	}
	k.norm("self_attn.o_norm", dim)
	k.row("self_attn.o_proj", "o_proj", PartAttention, h, p, heads, false)
}

// minimaxLightning is MiniMax-Text-01 and M1: lightning attention with one full layer in eight, and experts.
func minimaxLightning(b *builder) {
	b.common()
	b.inter = b.size(nameInter...)
	kinds := b.ints("attn_type_list")
	types := b.words("layer_types")
	layers := b.layerCount()
	if len(b.errs) > 0 {
		return
	}
	for i := range layers {
		var k Kind
		full := (i+1)%8 == 0
		if i < len(kinds) {
			full = kinds[i] == 1
		} else if i < len(types) {
			full = types[i] == "full_attention"
		}
		if full {
			b.attention(&k, gqa{module: "self_attn", heads: b.heads, kv: b.kvHeads, dim: b.headDim})
		} else {
			p := b.heads * b.headDim
			k.Mixer = Mixer{Kind: Linear, Heads: b.heads, KVHeads: b.heads, HeadDim: b.headDim, VHeadDim: b.headDim, State: b.heads * b.headDim * b.headDim, StateBytes: 4, InProj: 4 * p, Inner: p}
			k.column("self_attn.qkv_proj", "in_proj", PartAttention, 3*p, b.hidden, b.heads, false)
			k.column("self_attn.output_gate", "in_proj", PartAttention, p, b.hidden, b.heads, false)
			k.vector("self_attn.norm", PartNorm, p, TensorSplit, b.heads)
			k.row("self_attn.out_proj", "o_proj", PartAttention, b.hidden, p, b.heads, false)
		}
		k.norm("input_layernorm", b.hidden)
		k.norm("post_attention_layernorm", b.hidden)
		m := b.experts(b.inter)
		m.module = "block_sparse_moe"
		m.shared = b.count(0, "shared_intermediate_size")
		b.moe(&k, m)
		b.add(k)
	}
	b.outerTensors(rmsNorm, 0, false)
}

// lfm2 mixes gated short convolutions with attention.
func lfm2(b *builder) {
	b.common()
	ff := b.optInt(0, "block_ff_dim")
	if ff == 0 {
		ff = b.size(nameInter...)
	}
	inter := ff
	if b.flag(b.fam == familyByType("lfm2") && b.s.ModelType != "lfm2_moe", "block_auto_adjust_ff_dim") {
		mul := b.optInt(256, "block_multiple_of")
		inter = ceilDiv(2*ff/3, mul) * mul
	}
	types := b.words("layer_types")
	full := map[int]bool{}
	for _, i := range b.ints("full_attn_idxs") {
		full[i] = true
	}
	kernel := b.sizeOr(3, "conv_L_cache")
	bias := b.flag(false, "conv_bias")
	layers := b.layerCount()
	if len(b.errs) > 0 {
		return
	}
	h := b.hidden
	for i := range layers {
		var k Kind
		isFull := full[i]
		if i < len(types) {
			isFull = types[i] == "full_attention"
		}
		if isFull {
			b.attention(&k, gqa{module: "self_attn", heads: b.heads, kv: b.kvHeads, dim: b.headDim, qk: headNorm})
		} else {
			k.Mixer = Mixer{Kind: ShortConv, Heads: h, ConvState: (kernel - 1) * h, InProj: 3 * h, Inner: h}
			k.column("conv.in_proj", "in_proj", PartAttention, 3*h, h, h, bias)
			k.vector("conv.conv", PartAttention, h*kernel, TensorSplit, h)
			if bias {
				k.vector("conv.conv.bias", PartAttention, h, TensorSplit, h)
			}
			k.row("conv.out_proj", "o_proj", PartAttention, h, h, h, bias)
		}
		k.norm("operator_norm", h)
		k.norm("ffn_norm", h)
		if b.has("num_experts") && i >= b.count(2, "num_dense_layers") {
			m := b.experts(0)
			m.module, m.routerBias = "feed_forward", b.flag(true, "use_expert_bias")
			b.moe(&k, m)
		} else {
			b.mlp(&k, "feed_forward", inter, true, false)
		}
		b.add(k)
	}
	b.outerTensors(rmsNorm, 0, false)
}
