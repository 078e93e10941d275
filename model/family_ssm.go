package model

// nemotronH has one block a layer: Mamba-2, attention, a plain MLP, or experts that may run in a latent width.
func nemotronH(b *builder) {
	b.common()
	kinds := b.blockKinds("layers_block_type", "hybrid_override_pattern")
	if len(kinds) == 0 {
		b.failf(b.cfgNode(), "neither layers_block_type nor hybrid_override_pattern says what the layers are")
	}
	if n := b.optInt(len(kinds), nameLayers...); n != len(kinds) {
		b.failf(b.find(nameLayers...), "%d layers, but the pattern has %d", n, len(kinds))
	}
	if len(kinds) > maxLayers {
		b.failf(b.cfgNode(), "%d layers, want at most %d", len(kinds), maxLayers)
	}
	m := ssd{module: "mixer", heads: b.sizeOr(128, "mamba_num_heads"), dim: b.sizeOr(64, "mamba_head_dim"), groups: b.sizeOr(8, "n_groups", "mamba_n_groups"), state: b.sizeOr(128, "ssm_state_size", "mamba_d_state"),
		kernel: b.sizeOr(4, "conv_kernel", "mamba_d_conv"), bias: b.flag(false, "mamba_proj_bias", "use_bias"), convBias: b.flag(true, "use_conv_bias"), norm: true}
	if len(b.errs) > 0 {
		return
	}
	for _, kind := range kinds {
		b.add(b.nemotronLayer(kind, m))
	}
	b.outerTensors(rmsNorm, 0, false)
	mtp := b.blockKinds("mtp_layers_block_type", "mtp_hybrid_override_pattern")
	if n := b.count(0, "num_nextn_predict_layers"); n > 0 && len(mtp) > 0 {
		for range min(n, maxMTP) {
			b.s.MTPLayers++
			for _, kind := range mtp {
				b.s.mtp = append(b.s.mtp, b.nemotronLayer(kind, m).Tensors...)
			}
			b.s.mtp = append(b.s.mtp, b.joinTensors(3)...)
		}
	}
}

// blockKinds reads the layers' kinds as words, or as letters of a pattern: M Mamba, * attention, - MLP, E experts.
func (b *builder) blockKinds(words, letters string) []string {
	if w := b.words(words); len(w) > 0 {
		return w
	}
	var out []string
	for _, c := range b.word(letters) {
		switch c {
		case 'M':
			out = append(out, "mamba")
		case '*':
			out = append(out, "attention")
		case '-':
			out = append(out, "mlp")
		case 'E':
			out = append(out, "moe")
		case '|':
		default:
			b.failf(b.find(letters), "%s has %q, want M, *, - or E", letters, c)
			return out
		}
	}
	return out
}

func (b *builder) nemotronLayer(kind string, m ssd) Kind {
	var k Kind
	k.norm("norm", b.hidden)
	switch kind {
	case "mamba":
		b.mambaTwo(&k, m)
	case "attention":
		b.attention(&k, gqa{module: "mixer", heads: b.heads, kv: b.kvHeads, dim: b.headDim, qkv: b.bias(attentionBias), o: b.bias(attentionBias)})
	case "mlp":
		b.mlp(&k, "mixer", b.size(nameInter...), false, b.flag(false, "mlp_bias"))
	case "moe":
		e := b.experts(0)
		e.module, e.gated, e.routerBias = "mixer", false, false
		e.latent = b.count(0, "moe_latent_size")
		e.shared = b.count(1, nameShared...) * b.optInt(b.optInt(0, nameInter...), "moe_shared_expert_intermediate_size")
		b.moe(&k, e)
	default:
		b.failf(b.find("layers_block_type"), "layer kind %q, want mamba, attention, mlp or moe", kind)
	}
	return k
}

// jamba alternates Mamba-1 with attention, and dense layers with experts.
func jamba(b *builder) {
	period, offset := b.sizeOr(8, "attn_layer_period"), b.count(4, "attn_layer_offset")
	every, first := b.sizeOr(2, "expert_layer_period"), b.count(1, "expert_layer_offset")
	b.common()
	b.inter = b.size(nameInter...)
	rank := b.optInt(0, "mamba_dt_rank")
	if n := b.find("mamba_dt_rank"); n == nil || n.text() == "auto" {
		rank = ceilDiv(b.hidden, 16)
	}
	layers := b.layerCount()
	b.dropAuto("mamba_dt_rank")
	if len(b.errs) > 0 {
		return
	}
	for i := range layers {
		var k Kind
		if i%period == offset%period {
			b.attention(&k, gqa{module: "self_attn", heads: b.heads, kv: b.kvHeads, dim: b.headDim})
		} else {
			b.mambaOne(&k, "mamba", b.sizeOr(2, "mamba_expand")*b.hidden, b.sizeOr(16, "mamba_d_state"), b.sizeOr(4, "mamba_d_conv"), max(rank, 1), b.flag(false, "mamba_proj_bias"), b.flag(true, "mamba_conv_bias"), true)
		}
		k.norm("input_layernorm", b.hidden)
		k.norm("pre_ff_layernorm", b.hidden)
		if n := b.count(16, "num_experts"); n > 1 && i%every == first%every {
			m := b.experts(b.inter)
			m.module = "feed_forward"
			b.moe(&k, m)
		} else {
			b.mlp(&k, "feed_forward", b.inter, true, false)
		}
		b.add(k)
	}
	b.outerTensors(rmsNorm, 0, false)
}

// dropAuto forgets the complaint about a field that holds the word auto.
func (b *builder) dropAuto(field string) {
	if n := b.find(field); n == nil || n.text() != "auto" {
		return
	}
	keep := b.errs[:0]
	for _, e := range b.errs {
		if l, ok := e.(*lineError); !ok || l.line != b.find(field).line {
			keep = append(keep, e)
		}
	}
	b.errs = keep
}

// mamba1 is a stack of Mamba-1 mixers without MLPs.
func mamba1(b *builder) {
	b.hidden = b.size(nameHidden...)
	b.s.Hidden, b.s.Vocab, b.s.Tied = b.hidden, b.size(nameVocab...), b.tied()
	inner := b.optInt(b.sizeOr(2, "expand")*b.hidden, "intermediate_size", "d_inner")
	rank := ceilDiv(b.hidden, 16)
	if n := b.find("time_step_rank"); n != nil && n.text() != "auto" {
		rank = b.optInt(rank, "time_step_rank")
	}
	layers := b.layerCount()
	if len(b.errs) > 0 {
		return
	}
	for range layers {
		var k Kind
		k.norm("norm", b.hidden)
		b.mambaOne(&k, "mixer", inner, b.sizeOr(16, "state_size"), b.sizeOr(4, "conv_kernel"), rank, b.flag(false, "use_bias"), b.flag(true, "use_conv_bias"), false)
		b.add(k)
	}
	b.outerTensors(rmsNorm, 0, false)
}

// mamba2 is a stack of Mamba-2 mixers without MLPs.
func mamba2(b *builder) {
	b.hidden = b.size(nameHidden...)
	b.s.Hidden, b.s.Vocab, b.s.Tied = b.hidden, b.size(nameVocab...), b.tied()
	dim := b.sizeOr(64, "head_dim")
	heads := b.optInt(b.sizeOr(2, "expand")*b.hidden/max(dim, 1), "num_heads")
	layers := b.layerCount()
	if len(b.errs) > 0 {
		return
	}
	for range layers {
		var k Kind
		k.norm("norm", b.hidden)
		b.mambaTwo(&k, ssd{module: "mixer", heads: max(heads, 1), dim: dim, groups: b.sizeOr(8, "n_groups"), state: b.sizeOr(128, "state_size"), kernel: b.sizeOr(4, "conv_kernel"),
			bias: b.flag(false, "use_bias"), convBias: b.flag(true, "use_conv_bias"), norm: true})
		b.add(k)
	}
	b.outerTensors(rmsNorm, 0, false)
}

// ssdFields reads the Mamba-2 fields of Bamba, Granite 4 and Falcon-H1.
func (b *builder) ssdFields() ssd {
	m := ssd{module: "mamba", groups: b.sizeOr(1, "mamba_n_groups"), state: b.sizeOr(256, "mamba_d_state"), kernel: b.sizeOr(4, "mamba_d_conv"), bias: b.flag(false, "mamba_proj_bias"), convBias: b.flag(true, "mamba_conv_bias"), norm: true}
	m.heads = b.sizeOr(128, "mamba_n_heads")
	inner := b.optInt(b.sizeOr(2, "mamba_expand")*b.hidden, "mamba_d_ssm")
	m.dim = max(inner/m.heads, 1)
	if n := b.find("mamba_d_head"); n != nil && n.text() != "auto" {
		m.dim = b.optInt(m.dim, "mamba_d_head")
	}
	return m
}

// bamba alternates Mamba-2 with attention; every layer has a dense MLP.
func bamba(b *builder) {
	b.common()
	b.inter = b.size(nameInter...)
	full := map[int]bool{}
	for _, i := range b.ints("attn_layer_indices") {
		full[i] = true
	}
	m := b.ssdFields()
	layers := b.layerCount()
	if len(b.errs) > 0 {
		return
	}
	for i := range layers {
		var k Kind
		if full[i] {
			b.attention(&k, gqa{module: "self_attn", heads: b.heads, kv: b.kvHeads, dim: b.headDim, qkv: b.bias(attentionBias), o: b.bias(attentionBias)})
		} else {
			b.mambaTwo(&k, m)
		}
		k.norm("input_layernorm", b.hidden)
		k.norm("pre_ff_layernorm", b.hidden)
		b.mlp(&k, "feed_forward", b.inter, true, b.flag(false, "mlp_bias"))
		b.add(k)
	}
	b.outerTensors(rmsNorm, 0, false)
}

// graniteHybrid is Granite 4: Mamba-2 and attention, a shared MLP in every layer, and experts where there are any.
func graniteHybrid(b *builder) {
	b.common()
	types := b.words("layer_types", "layers_block_type")
	shared := b.count(0, "shared_intermediate_size")
	m := b.ssdFields()
	layers := b.layerCount()
	if len(b.errs) > 0 {
		return
	}
	for i := range layers {
		var k Kind
		if i < len(types) && types[i] == "attention" {
			b.attention(&k, gqa{module: "self_attn", heads: b.heads, kv: b.kvHeads, dim: b.headDim, qkv: b.bias(attentionBias), o: b.bias(attentionBias)})
		} else {
			b.mambaTwo(&k, m)
		}
		k.norm("input_layernorm", b.hidden)
		k.norm("post_attention_layernorm", b.hidden)
		if b.count(0, nameExperts...) > 0 {
			e := b.experts(b.size(nameInter...))
			e.module, e.shared, e.sharedName = "block_sparse_moe", shared, "shared_mlp"
			b.moe(&k, e)
		} else {
			b.mlp(&k, "shared_mlp", max(shared, 1), true, false)
		}
		b.add(k)
	}
	b.outerTensors(rmsNorm, 0, false)
}

// falconH1 runs attention and Mamba-2 side by side in every layer.
func falconH1(b *builder) {
	m := ssd{}
	standard(recipe{qkv: attentionBias, o: attentionBias, mlp: byField("mlp_bias", false), extra: func(b *builder, k *Kind, i int) {
		if i == 0 {
			m = b.ssdFields()
			m.norm = b.flag(false, "mamba_rms_norm")
		}
		inner := m.heads * m.dim
		k.Mixer.ConvState, k.Mixer.State, k.Mixer.StateBytes = (m.kernel-1)*(inner+2*m.groups*m.state), inner*m.state, 4
		k.Mixer.InProj, k.Mixer.Inner = 2*inner+2*m.groups*m.state+m.heads, inner
		b.mambaTwoTensors(k, m)
	}})(b)
}

// recurrentGemma alternates two gated linear recurrences with one window of attention.
func recurrentGemma(b *builder) {
	b.common()
	b.inter = b.size(nameInter...) / 2 // the field counts both input matrices
	pattern := b.words("block_types", "_block_types")
	if len(pattern) == 0 {
		pattern = []string{"recurrent", "recurrent", "attention"}
	}
	w := b.optInt(b.hidden, "lru_width")
	kernel := b.sizeOr(4, "conv1d_width")
	layers := b.layerCount()
	if len(b.errs) > 0 {
		return
	}
	for i := range layers {
		var k Kind
		if pattern[i%len(pattern)] == "attention" {
			b.attention(&k, gqa{module: "temporal_block", heads: b.heads, kv: b.kvHeads, dim: b.headDim, window: b.optInt(2048, "attention_window_size"), qkv: b.bias(attentionBias), o: true})
		} else {
			k.Mixer = Mixer{Kind: Linear, Heads: b.heads, HeadDim: 1, VHeadDim: 1, ConvState: (kernel - 1) * w, State: w, StateBytes: 4, InProj: 2 * w, Inner: w}
			k.column("temporal_block.linear_x", "in_proj", PartAttention, w, b.hidden, b.heads, true)
			k.column("temporal_block.linear_y", "in_proj", PartAttention, w, b.hidden, b.heads, true)
			k.vector("temporal_block.conv_1d", PartAttention, w*(kernel+1), TensorSplit, b.heads)
			// Two gates, block-diagonal over the heads, with biases, and the recurrence itself.
			k.vector("temporal_block.rg_lru", PartAttention, 2*(w*w/b.heads+w)+w, TensorSplit, b.heads)
			k.row("temporal_block.linear_out", "o_proj", PartAttention, b.hidden, w, b.heads, true)
		}
		k.norm("temporal_pre_norm", b.hidden)
		k.norm("channel_pre_norm", b.hidden)
		b.mlp(&k, "mlp_block", b.inter, true, true)
		b.add(k)
	}
	b.outerTensors(rmsNorm, 0, false)
}
