package model

// compressedFamilies merge the keys and values of several tokens into one cached entry.
var compressedFamilies = []*family{
	{types: []string{"deepseek_v4", "deepseek_ref"}, classes: []string{"DeepseekV4"}, defaults: withHead(withMoE(sizes(4096, 43, 64, 1, 0, 129280), 256, 6, 2048), 512), build: deepseekV4},
}

// deepseekV4 has one wide KV head, a window of uncompressed tokens in every layer, and compressed ones by compress_ratios:
// 4 with an indexer that picks among them, 128 without, 0 for the window alone. Queries and output go through low
// ranks, the output in groups. Residual streams are several (hyper-connections).
func deepseekV4(b *builder) {
	b.common()
	ratios := b.ints("compress_ratios")
	window := b.bound(128, nameWindow...)
	h, a, d := b.hidden, b.heads, b.headDim
	q, o, g := b.sizeOr(1024, "q_lora_rank"), b.sizeOr(1024, "o_lora_rank"), b.sizeOr(8, "o_groups")
	idxHeads, idxDim, topK := b.sizeOr(64, "index_n_heads"), b.sizeOr(128, "index_head_dim"), b.sizeOr(512, "index_topk")
	hash := b.count(0, "num_hash_layers")
	hc := b.optInt(0, "hc_mult")
	layers := b.layerCount()
	if a*d%g != 0 {
		b.failf(b.find("o_groups"), "%d heads of %d are not a multiple of %d output groups", a, d, g)
	}
	if len(b.errs) > 0 {
		return
	}
	layer := func(i, ratio int) Kind {
		var k Kind
		k.Mixer = Mixer{Kind: Compressed, Heads: a, KVHeads: 1, HeadDim: d, VHeadDim: d, Window: window, SharedKV: true, CompressRatio: ratio, QLora: q, OLora: o, OGroups: g, Rope: b.sizeOr(64, "qk_rope_head_dim")}
		k.copied("attn.wq_a", "q_a_proj", PartAttention, q, h, false)
		k.norm("attn.q_norm", q)
		k.column("attn.wq_b", "q_b_proj", PartAttention, a*d, q, a, false)
		k.copied("attn.wkv", "kv_proj", PartAttention, d, h, false)
		k.norm("attn.kv_norm", d)
		k.column("attn.wo_a", "o_a_proj", PartAttention, g*o, a*d/g, g, false)
		k.row("attn.wo_b", "o_b_proj", PartAttention, h, g*o, g, false)
		k.vector("attn.attn_sink", PartAttention, a, TensorSplit, a)
		if ratio > 0 {
			twice := 1
			if ratio == 4 {
				twice = 2 // neighbouring groups overlap
			}
			k.compressor("attn.compressor", h, d, twice, ratio)
			if ratio == 4 {
				m := &k.Mixer
				m.IndexHeads, m.IndexDim, m.IndexTopK, m.IndexKey, m.IndexOwn = idxHeads, idxDim, topK, IndexCached, true
				k.copied("attn.indexer.wq_b", "indexer_q", PartAttention, idxHeads*idxDim, q, false)
				k.plain("attn.indexer.weights_proj", "indexer_w", PartAttention, idxHeads, h)
				k.compressor("attn.indexer.compressor", h, idxDim, twice, ratio)
			}
		}
		k.norm("attn_norm", h)
		k.norm("ffn_norm", h)
		if hc > 0 {
			// Mixing weights of the residual streams, before attention and before the experts.
			mix := (2 + hc) * hc
			k.vector("hc", PartNorm, 2*(mix*hc*h+mix+3), Replicated, 0)
		}
		m := b.experts(0)
		m.module = "ffn"
		m.routerBias = i >= hash
		b.moe(&k, m)
		if i < hash {
			// Hash routing looks experts up by token.
			k.vector("ffn.gate.tid2eid", PartRouter, 0, Replicated, 0)
		}
		return k
	}
	for i := range layers {
		ratio := 0
		if i < len(ratios) {
			ratio = ratios[i]
		}
		if ratio < 0 || ratio > 1<<20 {
			b.failf(b.find("compress_ratios"), "a compression ratio of %d, want 0 to %d", ratio, 1<<20)
			return
		}
		b.add(layer(i, ratio))
	}
	b.outerTensors(rmsNorm, 0, false)
	if n := b.count(0, "num_nextn_predict_layers"); n > 0 {
		// Hidden state and embedding are projected apart, to the same number of weights as one joint projection.
		b.mtpLayers(n, layer(layers, 0), b.joinTensors(3)...)
	}
	if hc > 0 {
		b.s.outer = append(b.s.outer, Tensor{Module: "hc_head", Part: PartNorm, Out: hc*hc*h + hc + 1})
	}
}

// compressor merges ratio tokens into one of width d.
func (k *Kind) compressor(module string, h, d, twice, ratio int) {
	k.copied(module+".wkv", "compress_kv", PartAttention, twice*d, h, false)
	k.copied(module+".wgate", "compress_gate", PartAttention, twice*d, h, false)
	k.vector(module+".ape", PartAttention, ratio*twice*d, Replicated, 0)
	k.norm(module+".norm", d)
}
