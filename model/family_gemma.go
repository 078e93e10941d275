package model

// gemmaFamilies tie the head to the embedding and norm before and after each block from version 2 on.
var gemmaFamilies = []*family{
	{types: []string{"gemma", "paligemma"}, classes: []string{"Gemma", "PaliGemma"}, tied: true, defaults: withHead(sizes(3072, 28, 16, 16, 24576, 256000), 256), build: standard(recipe{qkv: attentionBias, o: attentionBias, window: noWindow})},
	{types: []string{"gemma2"}, classes: []string{"Gemma2"}, tied: true, defaults: withHead(sizes(2304, 26, 8, 4, 9216, 256000), 256), build: standard(recipe{norms: 4, qkv: attentionBias, o: attentionBias, window: alternate(4096)})},
	{types: []string{"vaultgemma"}, classes: []string{"VaultGemma"}, tied: true, defaults: withHead(sizes(1152, 26, 4, 4, 6912, 256000), 256), build: standard(recipe{qkv: attentionBias, o: attentionBias, window: alternate(512)})},
	{types: []string{"gemma3", "medgemma", "t5gemma_text", "shieldgemma2"}, classes: []string{"Gemma3"}, tied: true, defaults: withHead(sizes(2304, 26, 8, 4, 9216, 262208), 256),
		build: standard(recipe{norms: 4, qkv: attentionBias, o: attentionBias, qk: headNorm, window: everyNth(6, 4096)})},
	{types: []string{"gemma3n"}, classes: []string{"Gemma3n"}, tied: true, defaults: withHead(sizes(2048, 35, 8, 2, 16384, 262400), 256), build: gemma3n},
	{types: []string{"gemma4"}, classes: []string{"Gemma4"}, tied: true, defaults: withHead(sizes(2304, 30, 8, 4, 9216, 262144), 256), build: gemma4},
}

// gemma4 uses wider heads, fewer KV heads and one tensor for keys and values in full layers; its experts run beside a
// dense MLP.
func gemma4(b *builder) {
	b.common()
	b.inter = b.size(nameInter...)
	types := b.words("layer_types")
	layers := b.layerCount()
	if len(b.errs) > 0 {
		return
	}
	global := b.optInt(b.headDim, "global_head_dim")
	globalKV := b.optInt(b.kvHeads, "num_global_key_value_heads")
	shared := b.flag(false, "attention_k_eq_v")
	window := b.bound(512, nameWindow...)
	perLayer := b.count(0, "hidden_size_per_layer_input")
	from := layers - b.count(0, "num_kv_shared_layers")
	for i := range layers {
		var k Kind
		a := gqa{module: "self_attn", heads: b.heads, kv: b.kvHeads, dim: b.headDim, window: window, qk: headNorm, qkv: b.bias(attentionBias), o: b.bias(attentionBias)}
		if i < len(types) && types[i] == "full_attention" || len(types) == 0 && (i+1)%6 == 0 {
			a.kv, a.dim, a.window, a.sharedKV = globalKV, global, 0, shared
		}
		a.noCache = i >= from
		b.attention(&k, a)
		inter := b.inter
		if b.flag(false, "use_double_wide_mlp") && a.noCache {
			inter *= 2
		}
		b.mlp(&k, "mlp", inter, true, false)
		norms := 4
		if b.flag(false, "enable_moe_block") {
			m := b.experts(0)
			m.module = "moe"
			m.shared = 0
			b.moe(&k, m)
			k.FFN.Inter = inter
			k.vector("router.scale", PartRouter, b.hidden, Replicated, 0)
			k.vector("moe.per_expert_scale", PartExperts, m.experts, Replicated, 0)
			norms = 7
		}
		for range norms {
			k.norm("input_layernorm", b.hidden)
		}
		k.vector("layer_scalar", PartNorm, 1, Replicated, 0)
		if perLayer > 0 {
			k.copied("per_layer_input_gate", "per_layer_gate", PartMLP, perLayer, b.hidden, false)
			k.copied("per_layer_projection", "per_layer_up", PartMLP, b.hidden, perLayer, false)
			k.norm("post_per_layer_input_norm", b.hidden)
		}
		b.add(k)
	}
	b.outerTensors(rmsNorm, 0, false)
	b.perLayerInputs(perLayer, layers)
}

// perLayerInputs adds the embedding that feeds every layer apart (Gemma 3n and 4).
func (b *builder) perLayerInputs(width, layers int) {
	if width == 0 {
		return
	}
	v := b.optInt(b.s.Vocab, "vocab_size_per_layer_input")
	b.s.outer = append(b.s.outer,
		Tensor{Module: "embed_tokens_per_layer", Part: PartEmbedding, Out: v, In: width * layers, Split: VocabSplit, Units: v},
		Tensor{Module: "per_layer_model_projection", Part: PartEmbedding, Out: width * layers, In: b.hidden},
		Tensor{Module: "per_layer_projection_norm", Part: PartEmbedding, Out: width})
}

// gemma3n carries several residual streams (alternating updates), a low-rank path beside attention, and an embedding of
// its own for each layer.
func gemma3n(b *builder) {
	per := b.optInt(256, "hidden_size_per_layer_input")
	n := b.optInt(4, "altup_num_inputs")
	rank := b.optInt(64, "laurel_rank")
	h := b.size(nameHidden...)
	inters := b.ints(nameInter...)
	layers := b.layerCount()
	from := layers - b.count(15, "num_kv_shared_layers")
	standard(recipe{norms: 4, qk: headNorm, window: everyNth(5, 512), inter: func(b *builder) int {
		if len(inters) > 0 {
			return inters[0]
		}
		return b.size(nameInter...)
	}, extra: func(b *builder, k *Kind, i int) {
		if i < len(inters) && inters[i] != inters[0] && inters[i] > 0 {
			w := inters[i]
			for j := range k.Tensors {
				t := &k.Tensors[j]
				if t.Part == PartMLP && t.Row {
					t.In, t.Units = w, w
				} else if t.Part == PartMLP {
					t.Out, t.Units = w, w
				}
			}
			k.FFN.Inter = w
		}
		k.Mixer.NoCache = i >= from
		k.copied("laurel.linear_left", "laurel_down", PartMLP, rank, h, false)
		k.copied("laurel.linear_right", "laurel_up", PartMLP, h, rank, false)
		k.norm("laurel.post_laurel_norm", h)
		k.vector("altup", PartNorm, n*n+n*n*n+h+h+n*h, Replicated, 0)
		k.copied("per_layer_input_gate", "per_layer_gate", PartMLP, per, h, false)
		k.copied("per_layer_projection", "per_layer_up", PartMLP, h, per, false)
		k.norm("post_per_layer_input_norm", h)
	}, outer: func(b *builder) {
		b.perLayerInputs(per, layers)
		for range 2 * (n - 1) {
			b.s.outer = append(b.s.outer, Tensor{Module: "altup_projections", Part: PartEmbedding, Out: h, In: h})
		}
	}})(b)
}
