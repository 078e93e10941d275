package model

import (
	"fmt"
	"regexp"
	"strings"
)

// rule decides about the modules that match.
type rule struct {
	glob  string
	re    *regexp.Regexp
	store Storage
}

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

// compressedTensors reads config_groups: what each group's targets are stored as.
func (b *builder) compressedTensors(o *object, q *quantisation) {
	groups := o.get("config_groups").object()
	if groups == nil {
		b.warnf("quantization_config has no config_groups: weights counted as not quantised")
		return
	}
	q.only = true
	for _, k := range groups.keys {
		g := groups.at[k].object()
		st, ok := groupStorage(g.get("weights").object(), g.get("format").text()+o.get("format").text())
		if !ok {
			continue
		}
		q.on = true
		for _, t := range g.get("targets").list() {
			if name := t.text(); name == "Linear" {
				q.base, q.only = st, false
			} else {
				r := b.pattern(name)
				r.store = st
				q.include = append(q.include, r)
			}
		}
	}
}

// groupStorage reads the "weights" object of compressed-tensors.
func groupStorage(w *object, format string) (Storage, bool) {
	if w == nil {
		return Storage{}, false
	}
	bits, group := 0, 0
	if n := w.get("num_bits"); n != nil {
		bits, _ = n.whole()
	}
	if n := w.get("group_size"); n != nil {
		group, _ = n.whole()
	}
	float := w.get("type").text() == "float"
	strategy := w.get("strategy").text()
	switch {
	case bits == 4 && float && strings.Contains(format, "mxfp4"):
		return storeMXFP4, true
	case bits == 4 && float:
		st := storeNVFP4
		if group > 0 {
			st.Group = group
		}
		return st, true
	case bits == 8 && float && strategy == "block":
		st := storeFP8Block
		if bs := w.get("block_structure").list(); len(bs) == 2 {
			r, okR := bs[0].whole()
			c, okC := bs[1].whole()
			if okR && okC && r > 0 && c > 0 {
				st.BlockOut, st.Group = r, c
			}
		}
		return st, true
	case bits == 8 && float && strategy == "tensor":
		return storeFP8Tensor, true
	case bits == 8 && float:
		return Storage{Format: FP8, ScaleBytes: 2}, true
	case bits == 8:
		return Storage{Format: INT8, ScaleBytes: 2, Group: max(group, 0)}, true
	case bits == 4:
		sym, _ := w.get("symmetric").boolean()
		return Storage{Format: INT4, Group: max(group, 0), ScaleBytes: 2, ZeroPoints: !sym}, true
	}
	return Storage{}, false
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

// pattern reads a module pattern: "re:" starts a regular expression, * stands for anything.
func (b *builder) pattern(s string) rule {
	if rest, ok := strings.CutPrefix(s, "re:"); ok {
		re, err := regexp.Compile(rest)
		if err != nil {
			b.warnf("module pattern %q is not a regular expression that Go reads: skipped", s)
			return rule{glob: "\x00"}
		}
		return rule{re: re}
	}
	return rule{glob: trimModule(s)}
}

// trimModule drops what stands before the layers, which differs between wrappers and engines.
func trimModule(s string) string {
	if i := strings.Index(s, "layers."); i >= 0 && (i == 0 || s[i-1] == '.') {
		if !strings.HasPrefix(s, "mtp") && !strings.HasPrefix(s, "vision") {
			return s[i:]
		}
	}
	for _, p := range []string{"model.language_model.", "language_model.model.", "language_model.", "model.", "transformer.", "backbone."} {
		if rest, ok := strings.CutPrefix(s, p); ok {
			return rest
		}
	}
	return s
}

// match tells whether a module is the one that the rule names, or lies below it.
func (r rule) match(module string) bool {
	if r.re != nil {
		return r.re.MatchString(module) || r.re.MatchString("model."+module)
	}
	if !strings.Contains(r.glob, "*") {
		g := r.glob
		return module == g || strings.HasPrefix(module, g+".") || strings.HasSuffix(module, "."+g) ||
			(g != "" && strings.Contains(module, "."+g+"."))
	}
	return glob(r.glob, module) || glob(r.glob+".*", module) || glob("*."+r.glob, module)
}

// glob matches with * for any run of characters, in linear time.
func glob(pat, s string) bool {
	star, mark := -1, 0
	p, i := 0, 0
	for i < len(s) {
		switch {
		case p < len(pat) && pat[p] == '*':
			star, mark = p, i
			p++
		case p < len(pat) && pat[p] == s[i]:
			p++
			i++
		case star >= 0:
			p = star + 1
			mark++
			i = mark
		default:
			return false
		}
	}
	for p < len(pat) && pat[p] == '*' {
		p++
	}
	return p == len(pat)
}

// storageOf decides how a module of a layer is stored. plain is the type of weights that stay as they are.
func (q *quantisation) storageOf(module string, t *Tensor, plain Storage) Storage {
	if !q.on || !t.Linear || t.In == 0 {
		return plain
	}
	if t.Part == PartHead && !q.head && !q.named(module) {
		return plain
	}
	if q.experts && t.Part != PartExperts {
		return plain
	}
	for i := range q.include {
		if q.include[i].match(module) {
			return q.include[i].store
		}
	}
	if q.only {
		return plain
	}
	for i := range q.exclude {
		if q.exclude[i].match(module) {
			return plain
		}
	}
	return q.base
}

func (q *quantisation) named(module string) bool {
	for i := range q.include {
		if q.include[i].match(module) {
			return true
		}
	}
	return false
}

// words describes the whole quantisation.
func (q *quantisation) words() string {
	if !q.on {
		return ""
	}
	switch {
	case q.experts:
		return q.base.words() + " (experts only)"
	case q.only && len(q.include) > 0:
		return "mixed: " + mixWords(q.include)
	case len(q.include) > 0:
		return q.base.words() + "; " + mixWords(q.include)
	}
	return q.base.words()
}

func mixWords(rules []rule) string {
	var n [numFormats]int
	for _, r := range rules {
		n[r.store.Format]++
	}
	var out []string
	for f, c := range n {
		if c > 0 {
			out = append(out, fmt.Sprintf("%s on %d modules", Format(f), c))
		}
	}
	return strings.Join(out, ", ")
}
