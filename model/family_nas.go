package model

// nemotronNAS reads one block description a layer: KV heads, an MLP width, or no block at all.
func nemotronNAS(b *builder) {
	blocks := b.find("block_configs").list()
	if len(blocks) == 0 {
		if b.has("num_key_value_heads_per_layer") {
			deciPerLayer(b)
			return
		}
		familyByType("llama").build(b)
		return
	}
	b.common()
	layers := b.optInt(len(blocks), nameLayers...)
	if layers != len(blocks) {
		b.failf(b.find("block_configs"), "%d blocks for %d layers", len(blocks), layers)
	}
	if len(blocks) > maxLayers {
		b.failf(b.find("block_configs"), "%d layers, want at most %d", len(blocks), maxLayers)
	}
	if len(b.errs) > 0 {
		return
	}
	old := b.cfg
	for _, n := range blocks {
		b.cfg = n.object()
		if b.cfg == nil {
			b.failf(n, "a block that is not an object")
			break
		}
		b.add(b.nasLayer())
	}
	b.cfg = old
	b.outerTensors(rmsNorm, 0, false)
}

// nasLayer reads one block; b.cfg is its object.
func (b *builder) nasLayer() Kind {
	var k Kind
	h := b.hidden
	b.within("attention", func() {
		switch {
		case b.flag(false, "no_op"):
		case b.flag(false, "replace_with_linear"):
			k.norm("input_layernorm", h)
			k.copied("self_attn.linear_attn", "attention_linear", PartAttention, h, h, false)
		default:
			kv := b.optInt(0, "num_key_value_heads")
			if kv == 0 {
				kv = b.heads / max(b.optInt(1, "n_heads_in_group"), 1)
			}
			k.norm("input_layernorm", h)
			b.attention(&k, gqa{module: "self_attn", heads: b.heads, kv: max(kv, 1), dim: b.headDim, window: b.optInt(0, "window_length")})
		}
	})
	b.within("ffn", func() {
		switch {
		case b.flag(false, "no_op"):
		case b.flag(false, "replace_with_linear"):
			k.norm("post_attention_layernorm", h)
			k.copied("mlp.linear_mlp", "mlp_linear", PartMLP, h, h, false)
		default:
			inter := b.optInt(0, "intermediate_size")
			if n := b.find("ffn_mult"); inter == 0 && n != nil {
				mult, ok := n.real()
				if !ok || mult <= 0 || mult > 1000 {
					b.failf(n, "ffn_mult is not a number between 0 and 1000")
					return
				}
				// Two thirds of the width for a gated MLP, rounded up to a multiple of 256.
				inter = ceilDiv(int(2*mult*float64(h)/3), 256) * 256
			}
			if inter == 0 {
				b.failf(b.cfgNode(), "an ffn block without ffn_mult or intermediate_size")
				return
			}
			k.norm("post_attention_layernorm", h)
			b.mlp(&k, "mlp", inter, true, false)
		}
	})
	return k
}

// deciPerLayer reads the first generation, Llama's shapes with KV heads listed by layer.
func deciPerLayer(b *builder) {
	kv := b.ints("num_key_value_heads_per_layer")
	b.common()
	b.inter = b.size(nameInter...)
	layers := b.layerCount()
	if len(b.errs) > 0 {
		return
	}
	for i := range layers {
		var k Kind
		n := b.kvHeads
		if i < len(kv) && kv[i] > 0 && kv[i] <= b.heads {
			n = kv[i]
		}
		b.attention(&k, gqa{module: "self_attn", heads: b.heads, kv: n, dim: b.headDim})
		k.norm("input_layernorm", b.hidden)
		k.norm("post_attention_layernorm", b.hidden)
		b.mlp(&k, "mlp", b.inter, true, false)
		b.add(k)
	}
	b.outerTensors(rmsNorm, 0, false)
}
