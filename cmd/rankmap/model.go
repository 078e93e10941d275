package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"rankmap/internal/hardware"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/model"
	"rankmap/report"
)

// modelOptions are the flags of model.
type modelOptions struct {
	arg       string
	list      bool
	assume    string
	strategy  string
	task      string
	batch     int
	context   int
	weights   string
	kvCache   string
	gpu       string
	skew      float64
	gradBytes int
	out       output
	given     func(flag string) bool
}

const modelExamples = `  rankmap model llama-3.1-70b
  rankmap model ./config.json -o json
  rankmap model deepseek-v3 --strategy dp=32,ep=32 --task decode --batch 128 --context 4096 --gpu h200-sxm`

func newModelCmd(d *deps) *cobra.Command {
	o := &modelOptions{}
	cmd := &cobra.Command{
		Use:     "model DIR|FILE|NAME",
		Short:   "What a network costs to hold and to split: parameters, cache, volumes, memory",
		Example: modelExamples,
		RunE: func(_ *cobra.Command, args []string) error {
			if o.list {
				return listModels(d, o, args)
			}
			if len(args) != 1 {
				return withHint(inputErrf("want one model, got %d argument(s)", len(args)), "known names: "+strings.Join(model.Names(d.Configs), ", "))
			}
			o.arg = args[0]
			if err := o.unused(o.given); err != nil {
				return err
			}
			return runModel(d, o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.list, "list", false, "list the models that rankmap ships")
	f.StringVar(&o.assume, "assume", "", "take an unknown architecture as: dense (Llama's layer shapes), marked as an estimate")
	f.StringVar(&o.strategy, "strategy", "", "degrees, such as tp=8,ep=8,pp=2 (tp, pp, dp, cp, ep, expert-tp, interleave, zero, sp, recompute, recompute-layers, offload-layers, first-stage, last-stage)")
	f.StringVar(&o.task, "task", "decode", "step of --strategy: prefill, decode or train")
	f.IntVar(&o.batch, "batch", 1, "sequences of one attention replica (train: of one micro-batch)")
	f.IntVar(&o.context, "context", 4096, "tokens a sequence")
	f.StringVar(&o.weights, "weights", "", "weight type: bf16, fp8, fp8_block, nvfp4, mxfp4, int8, int4 (default: as stored; bf16 in training)")
	f.StringVar(&o.kvCache, "kv-cache", "bf16", "cache type: bf16 or fp8")
	f.StringVar(&o.gpu, "gpu", "", "GPU whose memory bounds batch and context, such as h200-sxm")
	f.Float64Var(&o.skew, "skew", 1, "load of the most loaded expert rank over the mean")
	f.IntVar(&o.gradBytes, "grad-bytes", 4, "bytes of a gradient in training: 4 or 2")
	o.out.addFlags(cmd, "table", "wide", "yaml", "json")
	o.given = f.Changed
	return cmd
}

// listModels prints the names of the models that rankmap ships, one a line or as a list.
func listModels(d *deps, o *modelOptions, args []string) error {
	u := unusedFlags{given: o.given}
	u.because("--list stands alone", "assume", "strategy", "task", "batch", "context", "weights", "kv-cache", "gpu", "skew", "grad-bytes")
	if len(args) > 0 {
		u.errs = append(u.errs, fmt.Errorf("--list takes no model, got %s", strings.Join(args, " ")))
	}
	if err := u.err(); err != nil {
		return err
	}
	names := model.Names(d.Configs)
	data, err := []byte(strings.Join(names, "\n")+"\n"), error(nil)
	switch o.out.format {
	case "json":
		data, err = marshalJSON(names)
	case "yaml":
		data, err = marshalYAML(names)
	default:
		_, err = o.out.pick(d)
	}
	if err != nil {
		return err
	}
	return o.out.write(d, data)
}

func runModel(d *deps, o *modelOptions) error {
	format, err := o.out.pick(d)
	if err != nil {
		return err
	}
	s, files, err := openModelAssuming(d, o.arg, o.assume)
	if err != nil {
		return err
	}
	doc := s.Describe()
	if o.strategy != "" {
		st, w, mo, err := o.split(d, s)
		if err != nil {
			return err
		}
		doc.Split = s.Split(st, w, mo)
	}
	for _, w := range doc.Warnings {
		d.warnf("%s: %s", o.arg, sanitize(w))
	}
	var data []byte
	switch format {
	case "json":
		data, err = marshalJSON(doc)
	case "yaml":
		data, err = marshalYAML(doc)
	default:
		var b bytes.Buffer
		err = modelTable(&b, doc, d.Width, format == "wide")
		data = b.Bytes()
	}
	if err != nil {
		return err
	}
	return o.out.write(d, data, files...)
}

// openModelAssuming is openModel that may take an unknown architecture as a dense one.
func openModelAssuming(d *deps, arg, assume string) (*model.Spec, []string, error) {
	if assume == "" || slices.Contains(model.Names(d.Configs), arg) {
		s, info, err := openModel(d, arg)
		return s, info.files, err
	}
	if assume != "dense" {
		return nil, nil, inputErrf("--assume %q: want dense", assume)
	}
	file := arg
	if st, err := os.Stat(arg); err == nil && st.IsDir() {
		file = filepath.Join(arg, "config.json")
	}
	data, err := readAll(d, file, maxInput)
	if err != nil {
		return nil, nil, inputErr(err)
	}
	s, err := model.Parse(bytes.NewReader(data), file, model.Options{Assume: assume})
	return s, []string{file}, inputErr(err)
}

// split reads the flags that describe a step.
func (o *modelOptions) split(d *deps, s *model.Spec) (parallel.Strategy, model.Work, model.MemoryOptions, error) {
	st, errs := parseStrategy(o.strategy, s)
	if o.task != trainTask {
		errs = append(errs, trainingKeys(st)...)
	} else if o.gpu != "" {
		errs = append(errs, errors.New("--gpu bounds batch and context of inference: leave it out with --task train"))
	}
	if o.given("skew") && st.EP < 2 {
		errs = append(errs, errors.New("--skew is about experts spread over GPUs: --strategy has no ep above 1"))
	}
	if st.Interleave > 1 && st.PP == 1 {
		errs = append(errs, fmt.Errorf("--strategy interleave=%d: virtual stages need a pipeline, such as pp=2", st.Interleave))
	}
	w := model.Work{Batch: o.batch, Context: o.context, WeightDType: o.weights, KVDType: o.kvCache, Skew: o.skew}
	switch o.task {
	case "prefill":
		w.Phase, w.Tokens = model.Prefill, o.context
	case "decode":
		w.Phase, w.Tokens = model.Decode, 1
	case "train":
		w.Phase, w.Tokens = model.Train, o.context
	default:
		errs = append(errs, fmt.Errorf("--task %q: want prefill, decode or train", o.task))
	}
	const most = 1 << 26
	for _, v := range []struct {
		name string
		n    int
	}{{"batch", o.batch}, {"context", o.context}} {
		if v.n < 1 || v.n > most {
			errs = append(errs, fmt.Errorf("--%s is %d, want 1 to %d", v.name, v.n, most))
		}
	}
	if o.weights != "" {
		if _, err := model.StorageNamed(o.weights); err != nil {
			errs = append(errs, fmt.Errorf("--weights: %w", err))
		}
		w.WeightDType = strings.ToLower(o.weights)
	}
	if o.kvCache != "bf16" && o.kvCache != "fp8" {
		errs = append(errs, fmt.Errorf("--kv-cache %q: want bf16 or fp8", o.kvCache))
	}
	if !(o.skew >= 1 && o.skew <= 1e6) {
		errs = append(errs, fmt.Errorf("--skew is %v, want at least 1", o.skew))
	}
	if o.gradBytes != 4 && o.gradBytes != 2 {
		errs = append(errs, fmt.Errorf("--grad-bytes is %d, want 4 or 2", o.gradBytes))
	}
	mo := model.MemoryOptions{Training: model.Training{GradBytes: o.gradBytes}}
	if o.gpu != "" {
		cat, err := hardware.Load(d.Configs)
		if err != nil {
			return st, w, mo, err
		}
		g, err := cat.GPU(o.gpu)
		if err != nil {
			errs = append(errs, fmt.Errorf("--gpu: %w", err))
		} else {
			mo.Capacity = g.Memory()
		}
	}
	return st, w, mo, inputErr(errors.Join(errs...))
}

// parseStrategy reads "tp=8,ep=8,pp=2". Experts that no degree mentions are shared out over tp x cp / ep; dp follows
// from ep where ep spans several attention replicas.
func parseStrategy(text string, s *model.Spec) (parallel.Strategy, []error) {
	var st parallel.Strategy
	var errs []error
	degrees := map[string]*int{"tp": &st.TP, "pp": &st.PP, "dp": &st.DP, "cp": &st.CP, "ep": &st.EP, "expert-tp": &st.ExpertTP, "etp": &st.ExpertTP, "experttp": &st.ExpertTP,
		"interleave": &st.Interleave, "zero": &st.ZeRO, "recompute-layers": &st.RecomputeLayers, "offload-layers": &st.OffloadLayers, "first-stage": &st.FirstStage, "last-stage": &st.LastStage}
	const most = 1 << 20
	seen := map[string]bool{}
	for _, f := range strings.Split(text, ",") {
		key, val, ok := strings.Cut(strings.TrimSpace(f), "=")
		key, val = strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(val)
		switch {
		case seen[key]:
			errs = append(errs, fmt.Errorf("--strategy %s: given twice", key))
		case !ok:
			errs = append(errs, fmt.Errorf("--strategy %q: want key=value, such as tp=8", f))
		case key == "sp" || key == "sequence-parallel":
			on, err := strconv.ParseBool(val)
			if err != nil {
				errs = append(errs, fmt.Errorf("--strategy sp=%s: want true or false", val))
			}
			st.SequenceParallel = on
		case key == "recompute":
			if val != "none" && val != "selective" && val != "full" {
				errs = append(errs, fmt.Errorf("--strategy recompute=%s: want none, selective or full", val))
			}
			if st.Recompute = val; val == "none" {
				st.Recompute = ""
			}
		case degrees[key] == nil:
			errs = append(errs, fmt.Errorf("--strategy %q: want one of tp, pp, dp, cp, ep, expert-tp, interleave, zero, sp, recompute, recompute-layers, offload-layers, first-stage, last-stage", key))
		default:
			n, err := strconv.Atoi(val)
			if err != nil || n > most || n < 0 || (n == 0 && key != "zero") || (n > 3 && key == "zero") {
				errs = append(errs, fmt.Errorf("--strategy %s=%s: want a whole number of at least 1 (zero: 0 to 3)", key, val))
				continue
			}
			*degrees[key] = n
		}
		seen[key] = true
	}
	if len(errs) > 0 {
		return st.Normalize(), errs
	}
	noETP, noDP := st.ExpertTP == 0, st.DP == 0
	st = st.Normalize()
	if s.MoE() {
		if side := st.TP * st.CP; noETP && side%st.EP == 0 {
			st.ExpertTP = side / st.EP
		}
		if n, side := st.EP*st.ExpertTP, st.TP*st.CP; noDP && n > side && n%side == 0 {
			st.DP = n / side
		}
	} else if noETP {
		st.ExpertTP = 1
	}
	if err := st.Check(); err != nil {
		errs = append(errs, fmt.Errorf("--strategy: %w", err))
	}
	return st, errs
}

// trainingKeys reports what only a training step looks at.
func trainingKeys(st parallel.Strategy) []error {
	var errs []error
	for _, k := range []struct {
		key   string
		given bool
	}{{"interleave", st.Interleave > 1}, {"zero", st.ZeRO > 0}, {"recompute", st.Recompute != ""}, {"recompute-layers", st.RecomputeLayers > 0}, {"offload-layers", st.OffloadLayers > 0}} {
		if k.given {
			errs = append(errs, fmt.Errorf("--strategy %s is about --task train", k.key))
		}
	}
	return errs
}

// modelTable prints the document for people.
func modelTable(b *bytes.Buffer, doc *model.Document, width int, wide bool) error {
	p := doc.Parameters
	head := report.Table{Columns: []report.Column{{Title: "MODEL"}, {Title: report.Clean(doc.Name)}}}
	row := func(name, format string, a ...any) { head.Add(name, fmt.Sprintf(format, a...)) }
	row("architecture", "%s", doc.Architecture)
	row("parameters", "%s (%d)", billions(p.Total), p.Total)
	if p.Active != p.Total {
		row("active a token", "%s (%d)", billions(p.Active), p.Active)
	}
	if p.MTP > 0 {
		row("multi-token prediction", "%s apart", billions(p.MTP))
	}
	row("layers x hidden", "%d x %d, vocabulary %d", doc.Layers, doc.Hidden, doc.Vocab)
	row("weights", "%s, %s", doc.WeightBytes.Decimal(), doc.Weights)
	row("cache a token", "%d B in bf16", int64(doc.KVBytesPerTokenBf16))
	if doc.StateBytesPerSequence > 0 {
		row("state a sequence", "%s", doc.StateBytesPerSequence.Decimal())
	}
	if err := head.Write(b, "", width); err != nil {
		return err
	}
	kinds := report.Table{Columns: []report.Column{{Title: "LAYERS", Align: report.Right}, {Title: "MIXER"}, {Title: "FFN"}, {Title: "PARAMETERS", Align: report.Right}, {Title: "CACHE B/TOKEN", Align: report.Right, Drop: 1}}}
	for _, k := range doc.LayerKinds {
		kinds.Add(strconv.Itoa(k.Layers), k.Mixer, k.FFN, billions(k.Parameters), units.Trim(k.KVPerToken, 1))
	}
	b.WriteByte('\n')
	if err := kinds.Write(b, "", width); err != nil {
		return err
	}
	if doc.Split == nil {
		return nil
	}
	return splitTable(b, doc.Split, width, wide)
}

func billions(n int64) string {
	switch {
	case n >= 1e9:
		return units.Trim(float64(n)/1e9, 2) + " B"
	case n >= 1e6:
		return units.Trim(float64(n)/1e6, 2) + " M"
	}
	return strconv.FormatInt(n, 10)
}

// splitTable prints volumes and memory of a strategy.
func splitTable(b *bytes.Buffer, c *model.SplitCost, width int, wide bool) error {
	fmt.Fprintf(b, "\n%s on %s: %s, %s a replica, %d tokens each\n", c.Strategy, many(c.GPUs, "GPU"), c.Task, many(c.Batch, "sequence"), c.Context)
	for _, v := range c.Violations {
		fmt.Fprintf(b, "does not fit: %s\n", report.Clean(v))
	}
	for _, n := range c.Notes {
		fmt.Fprintf(b, "note: %s\n", report.Clean(n))
	}
	for _, s := range c.Stages {
		fmt.Fprintf(b, "\nstage %s, %d layers, %s TFLOP a step and GPU\n", ranges(s.Stages), s.Layers, units.Signif(s.FLOPs/1e12, 3))
		t := report.Table{Columns: []report.Column{{Title: "COLLECTIVE"}, {Title: "OP"}, {Title: "GROUP"}, {Title: "BYTES", Align: report.Right}, {Title: "TIMES", Align: report.Right}, {Title: "TYPE", Drop: 2}, {Title: "OVERLAP", Drop: 1}}}
		for _, e := range append(slices.Clone(s.Collectives), c.Gradients...) {
			overlap := ""
			if e.Overlappable {
				overlap = "yes"
			}
			t.Add(e.Name, e.Op, e.Group, e.Bytes.Decimal(), strconv.Itoa(e.Times), e.DType, overlap)
		}
		if len(t.Rows) == 0 {
			fmt.Fprintln(b, "  no collectives")
		} else if err := t.Write(b, "  ", width); err != nil {
			return err
		}
		if wide {
			if err := operationTable(b, s.Operations, width); err != nil {
				return err
			}
		}
	}
	m := c.Memory
	t := report.Table{Columns: []report.Column{{Title: fmt.Sprintf("MEMORY OF A GPU, STAGE %d", m.Stage)}, {Title: "BYTES", Align: report.Right}}}
	for _, p := range []struct {
		name string
		n    units.Bytes
	}{{"weights", m.Weights}, {"cache", m.KV}, {"activations", m.Activations}, {"logits", m.Logits}, {"gradients", m.Gradients}, {"optimizer", m.Optimizer}, {"cuda, nccl, graphs (estimate)", m.Overhead}, {"total", c.MemoryTotal}} {
		if p.n > 0 {
			t.Add(p.name, p.n.Decimal())
		}
	}
	if m.MaxBatch > 0 {
		t.Add("largest batch at this context", strconv.Itoa(m.MaxBatch))
	}
	if m.MaxContext > 0 {
		t.Add("largest context at this batch", strconv.Itoa(m.MaxContext))
	}
	b.WriteByte('\n')
	return t.Write(b, "", width)
}

func operationTable(b *bytes.Buffer, ops []model.OperationEntry, width int) error {
	t := report.Table{Columns: []report.Column{{Title: "OPERATION"}, {Title: "TYPE"}, {Title: "SHAPE", Drop: 1}, {Title: "TIMES", Align: report.Right}, {Title: "GFLOP", Align: report.Right}, {Title: "BYTES", Align: report.Right}}}
	for _, e := range ops {
		name := e.Name
		if e.Backward {
			name += " (backward)"
		}
		t.Add(name, e.DType, e.Shape, strconv.Itoa(e.Times), units.Signif(e.FLOPs/1e9, 3), e.Bytes.Decimal())
	}
	b.WriteByte('\n')
	return t.Write(b, "  ", width)
}

// ranges prints ascending numbers as "0-3, 5".
func ranges(n []int) string {
	var out []string
	for i := 0; i < len(n); {
		j := i
		for j+1 < len(n) && n[j+1] == n[j]+1 {
			j++
		}
		if j > i {
			out = append(out, fmt.Sprintf("%d-%d", n[i], n[j]))
		} else {
			out = append(out, strconv.Itoa(n[i]))
		}
		i = j + 1
	}
	return strings.Join(out, ", ")
}

// many counts things in words: "1 sequence", "2 sequences".
func many(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
