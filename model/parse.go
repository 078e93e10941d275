package model

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Options change how a configuration is read.
type Options struct {
	// Quant is the hf_quant_config.json beside config.json, if there is one.
	Quant io.Reader
	// Assume takes an unknown architecture as the named one; only "dense" (Llama's layer shapes) is known. The result is
	// marked Estimated.
	Assume string
}

// Parse reads a config.json of transformers' form. name is the file's name in errors, which carry name:line and list
// every problem found (at most 20). Absent and null fields take the defaults of the architecture's configuration class.
func Parse(r io.Reader, name string, opts Options) (*Spec, error) {
	root, err := decode(r, name)
	if err != nil {
		return nil, err
	}
	var side *object
	if opts.Quant != nil {
		n, err := decode(opts.Quant, name+" (hf_quant_config.json)")
		if err != nil {
			return nil, err
		}
		side = n.object()
	}
	b := &builder{name: name, top: root.object(), s: &Spec{Name: name}}
	if b.top.get("network").object() != nil && b.top.get("model_type") == nil {
		b.top = b.top.get("network").object() // a wrapper of benchmark collections
	}
	b.cfg = textPart(b.top)
	if err := b.choose(opts.Assume); err != nil {
		return nil, err
	}
	b.s.DType = storedType(b.cfg, b.top)
	b.fam.build(b)
	if err := b.err(); err != nil {
		return nil, err
	}
	if len(b.s.Kinds) == 0 {
		return nil, fmt.Errorf("%s:1: no layers", name)
	}
	b.seal(b.readQuant(side))
	if total := b.s.floatParams(); total > 1e15 {
		return nil, fmt.Errorf("%s:1: %.3g parameters, want at most 1e15: a size must be wrong", name, total)
	}
	for _, k := range []string{"vision_config", "audio_config", "vision_tower", "sound_config", "speech_config", "mm_vision_tower"} {
		if b.top.get(k) != nil {
			b.s.Multimodal = true
		}
	}
	if b.s.Multimodal {
		b.s.Vision = b.vision()
		if b.s.Vision > 0 {
			b.warnf("figures are of the text network: the vision tower and its projector, %d parameters, are apart", b.s.Vision)
		} else {
			b.warnf("figures are of the text network: vision and audio parts are not counted")
		}
	}
	if n := b.count(0, "num_nextn_predict_layers", "num_mtp_modules", "mtp_num_hidden_layers"); n > 0 && b.s.MTPLayers == 0 {
		b.warnf("the configuration names %d multi-token-prediction layers but not their shapes: they are not counted", n)
	}
	b.warnUnquantised()
	b.s.Warnings = b.warns
	return b.s, nil
}

// warnUnquantised points at a name that promises quantised weights while no file says so.
func (b *builder) warnUnquantised() {
	if b.s.Quant != "" {
		return
	}
	up := strings.ToUpper(b.name)
	for _, k := range []string{"NVFP4", "MXFP4", "FP8", "AWQ", "GPTQ", "INT4", "INT8", "W4A16", "W8A8"} {
		if strings.Contains(up, k) {
			b.warnf("the name says %s but no quantisation is given: weights counted as %s (is hf_quant_config.json missing?)", k, b.s.DType)
			return
		}
	}
}

// textPart finds the text network's fields: wrappers keep them in a nested object.
func textPart(o *object) *object {
	for _, k := range []string{"text_config", "llm_config", "language_config", "text_model_config", "thinker_config"} {
		if t := o.get(k).object(); t != nil {
			return textPart(t)
		}
	}
	return o
}

// choose finds the family by model_type of the text part, then of the whole file, then by architectures.
func (b *builder) choose(assume string) error {
	mt, arch := b.cfg.get("model_type").text(), architecture(b.cfg)
	b.s.Architecture = architecture(b.top)
	if b.s.Architecture == "" {
		b.s.Architecture = arch
	}
	b.s.ModelType = mt
	if b.s.ModelType == "" {
		b.s.ModelType = b.top.get("model_type").text()
	}
	for _, try := range []string{mt, b.top.get("model_type").text()} {
		if f := familyByType(try); f != nil {
			b.fam = f
			return nil
		}
	}
	for _, try := range []string{arch, architecture(b.top)} {
		if f := familyByClass(try); f != nil {
			b.fam = f
			return nil
		}
	}
	if mt == "" && b.s.Architecture == "" && b.top.get("quantization").object() != nil {
		return fmt.Errorf("%s:1: this is a quantisation file (hf_quant_config.json), want the config.json beside it", b.name)
	}
	if assume == "dense" {
		b.fam = assumedDense
		b.s.Estimated = true
		b.warnf("architecture %q is unknown: counted as a dense network of Llama's shapes, an estimate", b.label())
		return nil
	}
	if assume != "" {
		return fmt.Errorf("assume %q: want dense", assume)
	}
	return fmt.Errorf("%s:1: unknown architecture %s; fields found: %s; to take it as a dense network of Llama's shapes, use --assume dense",
		b.name, b.label(), fieldList(b.cfg))
}

func (b *builder) label() string {
	switch {
	case b.s.ModelType != "" && b.s.Architecture != "":
		return b.s.Architecture + " (model_type " + b.s.ModelType + ")"
	case b.s.ModelType+b.s.Architecture != "":
		return b.s.ModelType + b.s.Architecture
	}
	return "(no model_type, no architectures)"
}

func fieldList(o *object) string {
	keys := slices.Clone(o.keys)
	slices.Sort(keys)
	const most = 40
	if len(keys) > most {
		return strings.Join(keys[:most], ", ") + fmt.Sprintf(" and %d more", len(keys)-most)
	}
	if len(keys) == 0 {
		return "none"
	}
	return strings.Join(keys, ", ")
}

func architecture(o *object) string {
	n := o.get("architectures")
	if l := n.list(); len(l) > 0 {
		return l[0].text()
	}
	return n.text()
}

// storedType reads the type of weights that are not quantised; bf16 when the file does not say.
func storedType(objs ...*object) string {
	for _, o := range objs {
		for _, k := range []string{"torch_dtype", "dtype", "params_dtype"} {
			switch strings.TrimPrefix(o.get(k).text(), "torch.") {
			case "bfloat16", "bf16":
				return "bf16"
			case "float16", "fp16", "half":
				return "fp16"
			case "float32", "fp32", "float":
				return "fp32"
			}
		}
	}
	return "bf16"
}
