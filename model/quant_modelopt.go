package model

import "strings"

// modelOpt reads NVIDIA ModelOpt's form, in config.json (ignore) or hf_quant_config.json (exclude_modules).
func (b *builder) modelOpt(o *object, skip string, q quantisation) quantisation {
	out := quantisation{kv: q.kv}
	if kv := kvAlgo(o.get("kv_cache_quant_algo").text()); kv != "" {
		out.kv = kv
	}
	algo := strings.ToUpper(o.get("quant_algo").text())
	group := 0
	if n := o.get("group_size"); n != nil {
		group, _ = n.whole()
	}
	out.head = true
	switch algo {
	case "MIXED_PRECISION":
		if layers := o.get("quantized_layers").object(); layers != nil {
			if q.on && !q.only && q.base.Format == FP8Block {
				out.base = q.base // ModelOpt went over an fp8 checkpoint
			} else {
				out.only = true
			}
			out.on = true
			b.perLayer(&out, layers)
			if !out.only {
				return out
			}
		}
	default:
		st, ok := modelOptStorage(algo, group)
		if !ok {
			if algo != "" {
				b.warnf("quant_algo %q is unknown: weights counted as not quantised", algo)
			}
			return q
		}
		out.on, out.base = true, st
	}
	for _, n := range o.get(skip).list() {
		out.exclude = append(out.exclude, b.pattern(n.text()))
	}
	return out
}

func (b *builder) perLayer(q *quantisation, layers *object) {
	for _, k := range layers.keys {
		l := layers.at[k].object()
		group := 0
		if n := l.get("group_size"); n != nil {
			group, _ = n.whole()
		}
		if st, ok := modelOptStorage(strings.ToUpper(l.get("quant_algo").text()), group); ok {
			r := b.pattern(k)
			r.store = st
			q.include = append(q.include, r)
		}
	}
}

func modelOptStorage(algo string, group int) (Storage, bool) {
	switch algo {
	case "FP8", "FP8_DEFAULT":
		return storeFP8Tensor, true
	case "FP8_PB_WO", "FP8_PB_REAL", "FP8_BLOCK_SCALES":
		return storeFP8Block, true
	case "FP8_PER_CHANNEL_PER_TOKEN":
		return Storage{Format: FP8, ScaleBytes: 4}, true
	case "NVFP4", "NVFP4_AWQ", "W4A16_NVFP4", "W4A8_NVFP4_FP8":
		st := storeNVFP4
		if group > 0 {
			st.Group = group
		}
		return st, true
	case "MXFP4", "W4A8_MXFP4_FP8":
		return storeMXFP4, true
	case "MXFP8":
		return Storage{Format: FP8Block, Group: 32, BlockOut: 1, ScaleBytes: 1}, true
	case "W4A16", "W4A16_AWQ", "INT4_AWQ", "W4A8_AWQ":
		if group <= 0 {
			group = 128
		}
		return Storage{Format: INT4, Group: group, ScaleBytes: 2}, true
	case "W8A16", "W8A8_SQ_PER_CHANNEL", "INT8_SQ", "W8A8_SQ_PER_TENSOR_PLUGIN":
		return Storage{Format: INT8, ScaleBytes: 4}, true
	}
	return Storage{}, false
}
