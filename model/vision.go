package model

// vision counts the vision tower and its projector, for the towers whose shapes the configuration gives; 0 when it has
// none or the tower is not known. It is apart from the text network: no figure but Vision includes it.
func (b *builder) vision() int64 {
	o := b.top.get("vision_config").object()
	if o == nil {
		return 0
	}
	v := &builder{name: b.name, top: o, cfg: o, fam: &family{types: []string{"vision"}}}
	kind := v.word("model_type")
	var n int64
	switch whole := b.top.get("model_type").text(); {
	case kind == "siglip_vision_model" && whole == "gemma3":
		n = v.siglip() + v.dim("hidden_size")*int64(b.s.Hidden) + v.dim("hidden_size")
	case kind == "clip_vision_model" && whole == "llava":
		h := int64(b.s.Hidden)
		n = v.clip() + v.dim("hidden_size")*h + h + h*h + h
	case kind == "llama4_vision_model":
		n = v.llama4Tower(int64(b.s.Hidden))
	case kind == "pixtral":
		n = v.pixtral()
		merge := int64(b.optTop("spatial_merge_size", 2))
		d, h := v.dim("hidden_size"), int64(b.s.Hidden)
		n += d + merge*merge*d*d + d*h + h*h
		if on, _ := b.top.get("multimodal_projector_bias").boolean(); on {
			n += 2 * h
		}
	case whole == "qwen2_5_vl":
		n = v.qwen25Tower()
	case whole == "qwen2_vl":
		n = v.qwen2Tower()
	case v.has("deepstack_visual_indexes"):
		n = v.qwen3Tower()
	}
	if len(v.errs) > 0 || n < 0 {
		return 0
	}
	return n
}

func (b *builder) optTop(field string, def int) int {
	if n := b.top.get(field); n != nil {
		if v, ok := n.whole(); ok && v > 0 && v < 1<<10 {
			return v
		}
	}
	return def
}

// dim reads a size of the tower; an absurd one makes the whole count unknown.
func (b *builder) dim(names ...string) int64 {
	v := b.optInt(0, names...)
	if v < 1 || v > 1<<17 {
		b.failf(b.cfgNode(), "vision %s", names[0])
		return 1
	}
	return int64(v)
}

// block is a ViT layer: four projections and two matrices with biases, two LayerNorms.
func vitBlock(h, inter int64) int64 { return 4*h*h + 4*h + 2*h*inter + inter + h + 4*h }

func (b *builder) grid() int64 {
	g := b.dim("image_size") / b.dim("patch_size")
	return g * g
}

func (b *builder) siglip() int64 {
	h, p := b.dim("hidden_size"), b.dim("patch_size")
	return b.dim("num_hidden_layers")*vitBlock(h, b.dim("intermediate_size")) + 3*p*p*h + h + b.grid()*h + 2*h
}

func (b *builder) clip() int64 {
	h, p := b.dim("hidden_size"), b.dim("patch_size")
	// A class token; norms before and after.
	return b.dim("num_hidden_layers")*vitBlock(h, b.dim("intermediate_size")) + 3*p*p*h + h + (b.grid()+1)*h + 4*h
}

// llama4Tower ends in a pixel shuffle that joins four patches, two matrices, and the projector.
func (b *builder) llama4Tower(text int64) int64 {
	in, out := b.dim("projector_input_dim"), b.dim("projector_output_dim")
	return b.clip() + 4*b.dim("hidden_size")*in + in*out + b.dim("vision_output_dim")*text
}

// pixtral has RMSNorms and gated MLPs without biases.
func (b *builder) pixtral() int64 {
	h, p := b.dim("hidden_size"), b.dim("patch_size")
	return b.dim("num_hidden_layers")*(4*h*h+3*h*b.dim("intermediate_size")+2*h) + 3*p*p*h + h
}

// merger joins neighbouring patches to the width of the text network.
func (b *builder) merger(norm int64) int64 {
	m := b.dim("spatial_merge_size")
	w, out := b.dim("hidden_size", "embed_dim")*m*m, b.dim("out_hidden_size", "hidden_size")
	return norm + w*w + w + w*out + out
}

// frames of video that a patch spans.
func (b *builder) patch(h int64) int64 {
	p := b.dim("patch_size")
	return 3 * int64(b.optInt(2, "temporal_patch_size")) * p * p * h
}

func (b *builder) qwen25Tower() int64 {
	h, i := b.dim("hidden_size"), b.dim("intermediate_size")
	return b.dim("depth")*(4*h*h+4*h+3*h*i+2*i+h+2*h) + b.patch(h) + b.merger(h)
}

func (b *builder) qwen2Tower() int64 {
	h := b.dim("embed_dim")
	m := b.dim("spatial_merge_size")
	w, out := h*m*m, b.dim("hidden_size")
	return b.dim("depth")*vitBlock(h, h*int64(b.optInt(4, "mlp_ratio"))) + b.patch(h) + 2*h + w*w + w + w*out + out
}

// qwen3Tower feeds features of some layers to the text network through mergers of their own, normed after the join.
func (b *builder) qwen3Tower() int64 {
	h, m := b.dim("hidden_size"), b.dim("spatial_merge_size")
	deep := int64(len(b.find("deepstack_visual_indexes").list()))
	return b.dim("depth")*vitBlock(h, b.dim("intermediate_size")) + b.patch(h) + h + b.dim("num_position_embeddings")*h + b.merger(2*h) + deep*b.merger(2*h*m*m)
}
