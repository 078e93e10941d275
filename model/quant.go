package model

import "strings"

// quantisation is what quantization_config or hf_quant_config.json ask for.
type quantisation struct {
	on      bool
	base    Storage // for every linear module that no rule names
	exclude []rule
	include []rule // modules with a storage of their own; first match wins
	only    bool   // nothing but what include names
	experts bool   // nothing but routed experts
	head    bool   // lm_head too, unless excluded
	kv      string
}

// readQuant reads the quantisation of the configuration and of the side file, which wins where both speak.
func (b *builder) readQuant(side *object) quantisation {
	var q quantisation
	for _, o := range []*object{b.top, b.cfg} {
		if qc := o.get("quantization_config").object(); qc != nil {
			q = b.quantConfig(qc)
			break
		}
	}
	if q.kv == "" {
		q.kv = kvAlgo(b.cfg.get("kv_cache_dtype").text())
	}
	if d := b.word("expert_dtype"); d == "fp4" && q.on {
		q.include = append(q.include, rule{glob: "*experts*", store: storeMXFP4})
		q.exclude = append(q.exclude, rule{glob: "\x00"})
	}
	if side != nil {
		qc := side.get("quantization").object()
		if qc == nil {
			qc = side
		}
		if s := b.modelOpt(qc, "exclude_modules", q); s.on {
			q = s
		}
	}
	return q
}

// quantConfig reads the forms of quantization_config that transformers, vLLM and ModelOpt write.
func (b *builder) quantConfig(o *object) quantisation {
	var q quantisation
	method := strings.ToLower(o.get("quant_method").text())
	q.kv = kvScheme(o.get("kv_cache_scheme"))
	skip := func(keys ...string) {
		for _, k := range keys {
			for _, n := range o.get(k).list() {
				q.exclude = append(q.exclude, b.pattern(n.text()))
			}
		}
	}
	switch {
	case method == "modelopt" || method == "modelopt_fp4" || (method == "" && o.get("quant_algo") != nil):
		return b.modelOpt(o, "ignore", q)
	case method == "fp8" || method == "fbgemm_fp8":
		q.on, q.base = true, Storage{Format: FP8, ScaleBytes: 4}
		if method == "fbgemm_fp8" {
			q.base.ScaleBytes = 4
		}
		if wb := o.get("weight_block_size").list(); len(wb) == 2 {
			r, okR := wb[0].whole()
			c, okC := wb[1].whole()
			if okR && okC && r > 0 && c > 0 {
				q.base = Storage{Format: FP8Block, BlockOut: r, Group: c, ScaleBytes: 4}
			}
		} else if method == "fp8" && o.get("activation_scheme").text() == "static" {
			q.base = storeFP8Tensor
		}
		if layers := o.get("quantized_layers").object(); layers != nil {
			// A second quantiser went over some modules; its own ignore list leaves the rest at fp8.
			b.perLayer(&q, layers)
			return q
		}
		skip("modules_to_not_convert", "ignored_layers", "ignore")
	case method == "mxfp4":
		q.on, q.base, q.experts = true, storeMXFP4, true
	case method == "compressed-tensors":
		b.compressedTensors(o, &q)
		skip("ignore")
	case method == "awq" || method == "gptq" || method == "auto-round" || method == "autoround" || method == "intel/auto-round":
		q.on, q.base = true, b.groupInt(o, method)
		skip("modules_to_not_convert", "modules_in_block_to_not_quantize")
	case method == "bitsandbytes":
		q.on, q.base = true, Storage{Format: INT8, ScaleBytes: 4}
		if four, _ := o.get("load_in_4bit").boolean(); four {
			q.base = Storage{Format: INT4, Group: 64, ScaleBytes: 4} // nf4: one fp32 absmax for 64 weights
			if dq, _ := o.get("bnb_4bit_use_double_quant").boolean(); dq {
				q.base.ScaleBytes = 1
			}
		}
		skip("llm_int8_skip_modules")
	case method == "quanto" || method == "torchao" || method == "eetq" || method == "hqq" || method == "quark" || method == "higgs" || method == "aqlm":
		q.on, q.base = true, storeFP8Tensor
		w := strings.ToLower(o.get("weights").text() + o.get("quant_type").text())
		switch {
		case strings.Contains(w, "int4") || method == "hqq" || method == "higgs":
			q.base = Storage{Format: INT4, Group: 64, ScaleBytes: 2, ZeroPoints: method == "hqq"}
		case strings.Contains(w, "int8") || method == "eetq":
			q.base = Storage{Format: INT8, ScaleBytes: 2}
		}
		skip("modules_to_not_convert", "exclude")
		b.warnf("quant_method %s is read by its weight type alone: taken as %s", method, q.base.words())
	default:
		b.warnf("quant_method %q is unknown: weights counted as not quantised", method)
	}
	return q
}

// groupInt reads AWQ and GPTQ: bits, group_size, zero points, desc_act.
func (b *builder) groupInt(o *object, method string) Storage {
	st := Storage{Format: INT4, Group: 128, ScaleBytes: 2, ZeroPoints: true}
	for _, k := range []string{"bits", "w_bit"} {
		if n := o.get(k); n != nil {
			if v, ok := n.whole(); ok && v == 8 {
				st.Format = INT8
			} else if ok && v != 4 {
				b.warnf("%s with %d bits: counted as 4", method, v)
			}
		}
	}
	for _, k := range []string{"group_size", "q_group_size"} {
		if n := o.get(k); n != nil {
			if v, ok := n.whole(); ok {
				st.Group = max(v, 0) // -1: one scale a row
			}
		}
	}
	if v, ok := o.get("zero_point").boolean(); ok {
		st.ZeroPoints = v
	}
	if v, ok := o.get("desc_act").boolean(); ok {
		st.ActOrder = v
	}
	return st
}

// boolean reads a node as a truth value; ok tells whether it is one.
func (n *node) boolean() (v, ok bool) {
	if n == nil {
		return false, false
	}
	v, ok = n.val.(bool)
	return v, ok
}

func kvAlgo(s string) string {
	switch strings.ToUpper(s) {
	case "FP8", "FP8_E4M3", "FP8_E5M2":
		return "fp8"
	case "NVFP4":
		return "nvfp4"
	case "INT8":
		return "int8"
	}
	return ""
}

func kvScheme(n *node) string {
	if s := n.text(); s != "" {
		return kvAlgo(s)
	}
	o := n.object()
	if o == nil {
		return ""
	}
	if bits := o.get("num_bits"); bits != nil {
		if v, ok := bits.whole(); ok && v == 8 {
			if o.get("type").text() == "int" {
				return "int8"
			}
			return "fp8"
		}
	}
	return ""
}
