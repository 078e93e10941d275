package model

import "strings"

// gatedFamilies gate the output of attention, a head or a channel at a time.
var gatedFamilies = []*family{
	{types: []string{"laguna"}, classes: []string{"Laguna"}, defaults: withHead(withMoE(sizes(2048, 40, 48, 8, 8192, 100352), 256, 8, 512), 128), build: laguna},
	{types: []string{"afmoe"}, classes: []string{"Afmoe"}, defaults: withHead(withMoE(sizes(2048, 32, 16, 4, 6144, 200192), 64, 6, 1408), 128), build: afmoe},
	{types: []string{"longcat_flash", "longcat"}, classes: []string{"LongcatFlash"}, defaults: withMoE(sizes(6144, 28, 64, 0, 12288, 131072), 512, 12, 2048), build: longcat},
	{types: []string{"rwkv5", "rwkv6", "rwkv"}, classes: []string{"Rwkv", "Rwkv5", "Rwkv6"}, defaults: sizes(2560, 32, 40, 0, 0, 65536), build: rwkv},
	{types: []string{"openelm"}, classes: []string{"OpenELM"}, tied: true, build: openELM},
	{types: []string{"minicpm3"}, classes: []string{"MiniCPM3"}, tied: true, defaults: map[string]int{nameHidden[0]: 2560, nameLayers[0]: 62, nameHeads[0]: 40, nameInter[0]: 6400, nameVocab[0]: 73448, "q_lora_rank": 768}, build: deepseek},
}

// laguna has more query heads in window layers and a gate for each head or channel.
func laguna(b *builder) {
	b.common()
	perLayer := b.ints("num_attention_heads_per_layer")
	gates := b.words("gating_types")
	gate := b.word("gating")
	if on, ok := b.find("gating").boolean(); ok && on {
		gate = "per-head"
	}
	layers := b.layerCount()
	if len(b.errs) > 0 {
		return
	}
	r := recipe{}
	for i := range layers {
		var k Kind
		heads := b.heads
		if i < len(perLayer) {
			heads = perLayer[i]
		}
		if heads < b.kvHeads || heads > maxWidth/b.headDim {
			b.failf(b.find("num_attention_heads_per_layer"), "layer %d has %d heads, want %d to %d", i, heads, b.kvHeads, maxWidth/b.headDim)
			return
		}
		win, _ := windowOf(b, r, i)
		b.attention(&k, gqa{module: "self_attn", heads: heads, kv: b.kvHeads, dim: b.headDim, window: win, qk: headNorm, qkv: b.bias(attentionBias)})
		g := gate
		if i < len(gates) {
			g = gates[i]
		}
		switch g := strings.ReplaceAll(g, "_", "-"); {
		case strings.Contains(g, "head"):
			k.column("self_attn.g_proj", "gate_proj", PartAttention, heads, b.hidden, heads, false)
		case g != "" && g != "none":
			k.Mixer.OutGate = true
			k.column("self_attn.g_proj", "gate_proj", PartAttention, heads*b.headDim, b.hidden, heads, false)
		}
		k.norm("input_layernorm", b.hidden)
		k.norm("post_attention_layernorm", b.hidden)
		if m := qwenMoE(b, i); m != nil {
			m.routerBias, m.sharedGate = true, false
			b.moe(&k, *m)
		} else {
			b.mlp(&k, "mlp", b.size(nameInter...), true, false)
		}
		b.add(k)
	}
	b.outerTensors(rmsNorm, 0, false)
}

// afmoe norms before and after each block and gates every channel.
func afmoe(b *builder) {
	standard(recipe{norms: 4, qk: headNorm, window: everyNth(4, 0), moe: biasedMoE, extra: func(b *builder, k *Kind, _ int) {
		k.Mixer.OutGate = true
		k.column("self_attn.gate_proj", "gate_proj", PartAttention, b.heads*b.headDim, b.hidden, b.heads, false)
	}})(b)
}

// longcat runs two latent attentions and two dense MLPs in a block, experts beside the first MLP; some experts hold
// nothing. A block counts as two layers here.
func longcat(b *builder) {
	b.cfgLatent()
	b.inter = b.size(nameInter...)
	blocks := b.optInt(0, "num_layers")
	if blocks == 0 {
		blocks = max(b.layerCount()/2, 1)
	}
	if blocks > maxLayers/2 {
		b.failf(b.find("num_layers"), "%d blocks, want at most %d", blocks, maxLayers/2)
	}
	if len(b.errs) > 0 {
		return
	}
	b.warnf("%d blocks of two attention layers each are counted as %d layers", blocks, 2*blocks)
	for range blocks {
		for half := range 2 {
			var k Kind
			b.latentAttention(&k, "self_attn", nil)
			k.norm("input_layernorm", b.hidden)
			k.norm("post_attention_layernorm", b.hidden)
			b.mlp(&k, "mlps", b.inter, true, false)
			if half == 0 {
				m := b.experts(0)
				m.routerBias, m.zero = true, b.count(0, "zero_expert_num")
				b.moe(&k, m)
				k.FFN.Inter = b.inter
			}
			b.add(k)
		}
	}
	b.outerTensors(rmsNorm, 0, false)
}

// rwkv is RWKV 5 and 6: time mixing with a matrix state for each head, channel mixing, no cache.
func rwkv(b *builder) {
	h := b.size(nameHidden...)
	b.hidden = h
	b.s.Hidden, b.s.Vocab, b.s.Tied = h, b.size(nameVocab...), b.tied()
	a := b.optInt(h, "attention_hidden_size", "dim_att")
	size := b.sizeOr(64, "head_size", "num_heads_size", "head_size_a")
	heads := max(a/size, 1)
	six := b.s.ModelType == "rwkv6" || strings.HasPrefix(b.word("model_version"), "6")
	inter := b.optInt(h*7/2/32*32, nameInter...)
	layers := b.layerCount()
	if len(b.errs) > 0 {
		return
	}
	b.s.LayerNorm = true
	for range layers {
		var k Kind
		k.Mixer = Mixer{Kind: Linear, Heads: heads, KVHeads: heads, HeadDim: size, VHeadDim: size, ConvState: 2 * h, State: a * size, StateBytes: 4, InProj: 4 * a, Inner: a}
		for _, n := range []string{"receptance", "key", "value", "gate"} {
			k.column("attention."+n, "in_proj", PartAttention, a, h, heads, false)
		}
		k.row("attention.output", "o_proj", PartAttention, h, a, heads, false)
		mix := 4*h + a + a // token shift of k, v, r, g; decay and bonus
		if six {
			// Token shift and decay through low ranks of 32 and 64.
			mix = 6*h + 5*32*h*2 + 2*a + 64*(h+a)
		}
		k.vector("attention.time_mix", PartAttention, mix, Replicated, 0)
		k.vector("attention.ln_x", PartNorm, 2*a, TensorSplit, heads)
		k.norm("ln1", 2*h)
		k.norm("ln2", 2*h)
		k.FFN = FFN{Kind: Dense, Inter: inter}
		k.vector("feed_forward.time_mix", PartMLP, 2*h, Replicated, 0)
		k.matrix("feed_forward.key", "mlp_up", PartMLP, inter, h, TensorSplit, inter, false)
		k.matrix("feed_forward.value", "mlp_down", PartMLP, h, inter, TensorSplit, inter, true)
		k.copied("feed_forward.receptance", "mlp_gate", PartMLP, h, h, false)
		b.add(k)
	}
	b.outerTensors(layerNorm, 0, false)
	b.s.outer = append(b.s.outer, Tensor{Module: "pre_ln", Part: PartEmbedding, Out: 2 * h})
}

// openELM lists heads and MLP multipliers by layer.
func openELM(b *builder) {
	h, dim := b.size("model_dim"), b.sizeOr(128, "head_dim")
	b.hidden, b.s.Hidden, b.s.Vocab = h, h, b.size(nameVocab...)
	b.s.Tied = b.flag(true, "share_input_output_layers")
	b.s.MaxContext = b.optInt(0, "max_context_length")
	q, kv, mult := b.ints("num_query_heads"), b.ints("num_kv_heads"), b.find("ffn_multipliers").list()
	layers := b.size("num_transformer_layers")
	if len(q) != layers || len(kv) != layers || len(mult) != layers || layers > maxLayers {
		b.failf(b.find("num_query_heads"), "%d, %d and %d entries of num_query_heads, num_kv_heads and ffn_multipliers for %d layers (at most %d)", len(q), len(kv), len(mult), layers, maxLayers)
	}
	if len(b.errs) > 0 {
		return
	}
	div := b.sizeOr(256, "ffn_dim_divisor")
	qk := noQKNorm
	if b.flag(true, "normalize_qk_projections") {
		qk = headNorm
	}
	for i := range layers {
		m, ok := mult[i].real()
		if !ok || m <= 0 || m > 100 || q[i] < 1 || kv[i] < 1 || kv[i] > q[i] || q[i] > maxWidth/dim {
			b.failf(mult[i], "layer %d: %d heads, %d KV heads, multiplier out of range", i, q[i], kv[i])
			return
		}
		var k Kind
		b.attention(&k, gqa{module: "attn", fused: "qkv_proj", heads: q[i], kv: kv[i], dim: dim, qk: qk})
		// Rounded to the nearest multiple, not below nine tenths.
		inter := max(div, int(m*float64(h)+float64(div)/2)/div*div)
		if float64(inter) < 0.9*m*float64(h) {
			inter += div
		}
		k.norm("attn_norm", h)
		k.norm("ffn_norm", h)
		b.mlp(&k, "ffn", inter, b.flag(true, "ffn_with_glu"), false)
		b.add(k)
	}
	b.outerTensors(rmsNorm, 0, false)
}
