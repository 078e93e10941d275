package model

// stepFlash is Step-3.5 and its successors: grouped-query attention with windows, in whose layers
// attention_other_setting may give other heads, a gate for each head, and a shared expert of its own width.
func stepFlash(b *builder) {
	b.common()
	b.inter = b.size(nameInter...)
	layers := b.layerCount()
	kv := b.optInt(b.kvHeads, "num_attention_groups")
	gate := b.flag(false, "use_head_wise_attn_gate")
	qk := noQKNorm
	if b.flag(false, "use_qk_norm") {
		qk = headNorm
	}
	full := gqa{module: "self_attn", heads: b.heads, kv: kv, dim: b.headDim, qk: qk}
	other := full
	b.within("attention_other_setting", func() {
		other.heads = b.optInt(full.heads, nameHeads...)
		other.kv = b.optInt(full.kv, "num_attention_groups", "num_key_value_heads")
		other.dim = b.optInt(full.dim, "head_dim")
	})
	if len(b.errs) > 0 {
		return
	}
	for i := range layers {
		var k Kind
		a := full
		if win, _ := windowOf(b, recipe{}, i); win > 0 {
			a = other
			a.window = win
		}
		b.attention(&k, a)
		if gate {
			k.column("self_attn.g_proj", "gate_proj", PartAttention, a.heads, b.hidden, a.heads, false)
		}
		k.norm("input_layernorm", b.hidden)
		k.norm("post_attention_layernorm", b.hidden)
		if m := someMoE(b, i); m != nil {
			m.routerBias = b.flag(false, "use_moe_router_bias")
			if w := b.count(0, "share_expert_dim", "share_expert_dims"); w > 0 {
				m.shared, m.sharedName = w, "share_expert"
			}
			b.moe(&k, *m)
		} else {
			b.mlp(&k, "mlp", b.inter, true, false)
		}
		b.add(k)
	}
	b.outerTensors(rmsNorm, 0, false)
}

// step3 factorises the queries through a narrow projection (multi-matrix factorisation attention).
func step3(b *builder) {
	b.common()
	b.inter = b.size(nameInter...)
	kv := b.optInt(b.kvHeads, "num_attention_groups")
	q := b.optInt(2048, "share_q_dim")
	layers := b.layerCount()
	if len(b.errs) > 0 {
		return
	}
	for i := range layers {
		var k Kind
		b.attention(&k, gqa{module: "self_attn", heads: b.heads, kv: kv, dim: b.headDim})
		// The query projection goes through share_q_dim.
		k.Tensors[0].In = q
		k.Tensors[0].Op = "q_proj"
		k.copied("self_attn.q_down_proj", "q_down_proj", PartAttention, q, b.hidden, false)
		k.norm("self_attn.inter_norm", q)
		k.norm("input_layernorm", b.hidden)
		k.norm("post_attention_layernorm", b.hidden)
		if m := someMoE(b, i); m != nil {
			if w := b.count(0, "share_expert_dim"); w > 0 {
				m.shared, m.sharedName = w, "share_expert"
			}
			b.moe(&k, *m)
		} else {
			b.mlp(&k, "mlp", b.inter, true, false)
		}
		b.add(k)
	}
	b.outerTensors(rmsNorm, 0, false)
}

// mimoV2 has value heads narrower than key heads, and other KV heads and sinks in window layers.
func mimoV2(b *builder) {
	b.common()
	b.inter = b.size(nameInter...)
	pattern := b.ints("hybrid_layer_pattern")
	layers := b.layerCount()
	if len(b.errs) > 0 {
		return
	}
	v := b.optInt(b.headDim, "v_head_dim")
	full := gqa{module: "self_attn", heads: b.heads, kv: b.kvHeads, dim: b.headDim, vdim: v, sinks: b.flag(false, "add_full_attention_sink_bias"), qkv: b.bias(attentionBias)}
	win := gqa{module: "self_attn", heads: b.optInt(b.heads, "swa_num_attention_heads"), kv: b.optInt(b.kvHeads, "swa_num_key_value_heads"), dim: b.optInt(b.headDim, "swa_head_dim"),
		vdim: b.optInt(v, "swa_v_head_dim"), window: b.bound(128, nameWindow...), sinks: b.flag(false, "add_swa_attention_sink_bias"), qkv: b.bias(attentionBias)}
	for i := range layers {
		var k Kind
		if i < len(pattern) && pattern[i] == 1 {
			b.attention(&k, win)
		} else {
			b.attention(&k, full)
		}
		k.norm("input_layernorm", b.hidden)
		k.norm("post_attention_layernorm", b.hidden)
		if m := someMoE(b, i); m != nil {
			b.moe(&k, *m)
		} else {
			b.mlp(&k, "mlp", b.inter, true, false)
		}
		b.add(k)
	}
	b.outerTensors(rmsNorm, 0, false)
}
