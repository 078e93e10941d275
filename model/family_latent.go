package model

// latentFamilies use multi-head latent attention.
var latentFamilies = []*family{
	{types: []string{"deepseek_v2"}, classes: []string{"DeepseekV2"}, defaults: sizes(4096, 30, 32, 0, 11008, 102400), build: deepseek},
	{types: []string{"deepseek_v3", "kimi_k2", "kimi_k25", "deepseek_v31", "deepseek_r1", "eagle_deepseek"}, classes: []string{"DeepseekV3", "KimiK25"}, build: deepseek,
		defaults: merge(sizes(7168, 61, 128, 0, 18432, 129280), map[string]int{"q_lora_rank": 1536})},
	{types: []string{"deepseek_v32", "glm_moe_dsa"}, classes: []string{"DeepseekV32", "GlmMoeDsa"}, build: deepseek,
		defaults: merge(sizes(7168, 61, 128, 0, 18432, 129280), map[string]int{"q_lora_rank": 1536})},
}

func merge(a, b map[string]int) map[string]int {
	for k, v := range b {
		a[k] = v
	}
	return a
}

// deepseek builds DeepSeek-V2, V3, V3.2 and what follows their shapes (Kimi-K2, GLM-5).
func deepseek(b *builder) {
	b.cfgLatent()
	b.inter = b.size(nameInter...)
	layers := b.layerCount()
	if len(b.errs) > 0 {
		return
	}
	var last Kind
	for i := range layers {
		last = b.latentLayer(i, b.latentIndexer(i))
		b.add(last)
	}
	b.outerTensors(rmsNorm, 0, false)
	if n := b.count(0, "num_nextn_predict_layers"); n > 0 {
		mtp := b.latentLayer(layers, b.latentIndexer(0))
		b.mtpLayers(n, mtp, b.joinTensors(3)...)
	}
}

// joinTensors are what a multi-token-prediction layer has beside a layer: the projection of hidden state and embedding
// to one width, and norms.
func (b *builder) joinTensors(norms int) []Tensor {
	var k Kind
	k.copied("eh_proj", "", PartMTP, b.hidden, 2*b.hidden, false)
	k.Tensors[0].Linear = false
	for range norms {
		k.norm("enorm", b.hidden)
	}
	return k.Tensors
}

// cfgLatent reads the common sizes where head_dim means nothing.
func (b *builder) cfgLatent() {
	b.hidden = b.size(nameHidden...)
	b.heads = b.size(nameHeads...)
	b.kvHeads = b.heads
	b.s.Hidden = b.hidden
	b.s.Vocab = b.size(nameVocab...)
	b.s.MaxContext = b.bound(0, nameContext...)
	b.s.Tied = b.tied()
}

func (b *builder) latentAttention(k *Kind, module string, x *indexer) {
	b.mla(k, mla{module: module, heads: b.heads, qLora: b.count(b.fam.defaults["q_lora_rank"]*b.absent("q_lora_rank"), "q_lora_rank"), kvLora: b.sizeOr(512, "kv_lora_rank"),
		nope: b.sizeOr(128, "qk_nope_head_dim"), rope: b.sizeOr(64, "qk_rope_head_dim"), v: b.sizeOr(128, "v_head_dim"), bias: b.flag(false, "attention_bias"), index: x})
}

// absent is 1 when the file does not have the field at all, 0 when it is there, even as null: q_lora_rank null means
// that there is no such projection.
func (b *builder) absent(field string) int {
	if b.cfg.at[field] == nil {
		return 1
	}
	return 0
}

// sizeOr reads a size with a class default.
func (b *builder) sizeOr(def int, names ...string) int {
	if n := b.find(names...); n != nil {
		if v, ok := n.whole(); !ok || v < 1 {
			b.failf(n, "%s is not a whole number of at least 1", names[0])
			return def
		}
	}
	return b.optInt(def, names...)
}

// latentIndexer reads sparse attention's indexer for a layer, nil without one.
func (b *builder) latentIndexer(i int) *indexer {
	if !b.has("index_topk") {
		return nil
	}
	x := &indexer{heads: b.sizeOr(64, "index_n_heads"), dim: b.sizeOr(128, "index_head_dim"), topK: b.sizeOr(2048, "index_topk"), own: true}
	if t := b.words("indexer_types"); i < len(t) {
		x.own = t[i] == "full"
	}
	return x
}

func (b *builder) latentLayer(i int, x *indexer) Kind {
	var k Kind
	b.latentAttention(&k, "self_attn", x)
	k.norm("input_layernorm", b.hidden)
	k.norm("post_attention_layernorm", b.hidden)
	if b.has(nameExperts...) && b.isMoE(i) {
		b.moe(&k, b.experts(0))
	} else {
		b.mlp(&k, "mlp", b.inter, true, false)
	}
	return k
}
