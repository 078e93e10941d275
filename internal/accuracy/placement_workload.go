package accuracy

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"rankmap/internal/hardware"
	"rankmap/internal/measured"
	"rankmap/internal/parallel"
	"rankmap/layout"
	"rankmap/model"
	"rankmap/planner"
)

// job is a placement as the planner understands it.
type job struct {
	row      *measured.Placement
	spec     *model.Spec
	site     *site
	work     layout.Workload
	strategy parallel.Strategy // as the row states it; expert-tp completed
	held     planner.Held      // of every candidate: what the row settles beside the degrees
	exact    planner.Held      // of the row itself: its virtual stages too
	engine   string            // what ran it: only layouts and orders that it can express are compared; empty = not known
}

// practice is how a source's code trains, where its rows do not say: what its papers and scripts state.
type practice struct {
	recompute string
	unfused   bool // attention without flash kernels
	serial    bool // before sequence parallelism
	overlapTP bool // traffic of tensor parallelism beside the matrix products
	gradBytes int  // of a reduced gradient; 0 = 4
}

var practices = map[string]practice{
	"bloom":         {recompute: "full", unfused: true, serial: true}, // Megatron-DeepSpeed with checkpointed activations (tr11-176B-ml scripts)
	"sc21":          {recompute: "full", unfused: true, serial: true}, // its FLOP formula counts the second forward pass
	"sc21zero":      {recompute: "full", unfused: true, serial: true},
	"mtnlg":         {recompute: "full", unfused: true, serial: true}, // arXiv 2201.11990, section 3
	"opt":           {recompute: "full", unfused: true, serial: true},
	"sc22":          {unfused: true}, // the note says which recomputation
	"vtrain-multi":  {recompute: "full", unfused: true, serial: true},
	"vtrain-single": {recompute: "full", unfused: true, serial: true},
	"simumax":       {recompute: "none"}, // the cases keep every activation
	// NVIDIA's performance recipes (Megatron-Bridge scripts/performance, MLPerf training submissions): tp_comm_overlap on,
	// gradients reduced in bf16.
	"mbridge": {overlapTP: true, gradBytes: 2}, "dgxc": {overlapTP: true, gradBytes: 2}, "nem340": {overlapTP: true},
	"mlperf-gpt3": {overlapTP: true, gradBytes: 2}, "mlperf-405b": {overlapTP: true, gradBytes: 2}, "mlperf-8b": {overlapTP: true, gradBytes: 2},
}

// errLoRA is a reason to skip.
var errLoRA = errors.New("LoRA fine-tuning: frozen weights are not modelled")

// job reads a row. The error is a reason to skip it.
func (c *Placer) job(p *measured.Placement) (*job, error) {
	if strings.Contains(p.Note, "LoRA") || strings.Contains(p.Model, "LoRA") {
		return nil, errLoRA
	}
	if len(p.Unclear) > 0 {
		return nil, fmt.Errorf("the row states no single number (%s)", strings.SplitN(p.Unclear[0], ":", 2)[0])
	}
	if p.GPUs == 0 || p.TP == 0 {
		return nil, errors.New("the row states no layout")
	}
	j := &job{row: p}
	var err error
	if j.spec, err = c.models.find(p); err != nil {
		return nil, err
	}
	if j.site, err = c.site(p); err != nil {
		return nil, err
	}
	if j.strategy, err = degrees(p, j.spec); err != nil {
		return nil, err
	}
	if p.Task == "train" {
		j.engine = "megatron"
		return j, j.training()
	}
	for _, e := range []string{"vllm", "sglang", "trtllm"} {
		if strings.Contains(p.Note, e+" recipe") || strings.Contains(p.Note, "backend "+e) || p.Family() == "mlinf" && e == "trtllm" {
			j.engine = e
		}
	}
	return j, j.serving()
}

// degrees completes the degrees of a row: what it leaves blank is 1, data parallelism fills the GPUs, and the experts
// spread over attention data parallelism where the row says ep, else over tensor parallelism.
func degrees(p *measured.Placement, spec *model.Spec) (parallel.Strategy, error) {
	st := parallel.Strategy{TP: p.TP, PP: max(p.PP, 1), CP: max(p.CP, 1), EP: max(p.EP, 1), ExpertTP: 1}
	group := st.TP * st.PP * st.CP
	if p.GPUs%group != 0 {
		return st, errors.New("the row's degrees do not divide its GPUs")
	}
	st.DP = p.GPUs / group
	if !spec.MoE() {
		st.EP = 1
		return st, nil
	}
	ranks := st.StageRanks()
	switch {
	case ranks%st.EP != 0:
		return st, errors.New("the row's ep does not divide the GPUs of a stage")
	case p.Task != "train" && st.EP == 1 && p.DP > 1: // attention replicas that share experts cut by tensor parallelism
		st.ExpertTP = min(ranks, p.DP*st.TP)
	case p.Task != "train" && st.EP == 1:
		st.ExpertTP = st.TP
	case p.Task != "train" && st.EP < st.TP*st.CP && st.TP*st.CP%st.EP == 0:
		st.ExpertTP = st.TP * st.CP / st.EP
	}
	return st, nil
}

// training fills the workload of a training step.
func (j *job) training() error {
	p := j.row
	j.work = layout.Workload{Task: string(planner.TrainStep), Objective: string(planner.StepTime), SeqLen: p.SeqLen, Batch: p.GlobalBatch}
	if j.work.SeqLen == 0 {
		j.work.SeqLen = 4096
	}
	if p.BatchTokens > 0 {
		j.work.Batch = p.BatchTokens / j.work.SeqLen
	}
	if j.work.Batch == 0 {
		j.work.Batch = 1024
	}
	if j.work.Batch%j.strategy.DP != 0 {
		return errors.New("the row's global batch is not a multiple of its data parallelism")
	}
	j.work.Weights = trainType(p.Precision, j.site.sheet)
	h := planner.Held{MicroBatch: p.MicroBatch, Serial: p.SP == "no" && p.TP > 1}
	if u, ok := practices[p.Family()]; ok {
		h.Recompute, h.Unfused, h.Serial = u.recompute, u.unfused, h.Serial || u.serial && p.SP != "yes"
		h.OverlapTP, h.Formats.GradBytes = u.overlapTP, u.gradBytes
	}
	note := p.Note
	switch {
	case strings.Contains(note, "selective recompute"):
		h.Recompute = "selective"
	case strings.Contains(note, "full recompute"), strings.Contains(note, "full activation recomputation"):
		h.Recompute = "full"
	}
	switch {
	case strings.Contains(note, "parameters not resharded"):
		h.ZeRO = 2
	case strings.Contains(note, "FSDP"), strings.Contains(note, "ZeRO-3"):
		h.ZeRO = 3
	}
	j.exact = h
	j.exact.Interleave = p.VPP
	j.held = h
	if j.held.ZeRO != 3 {
		j.held.ZeRO = 0
	}
	if want := j.work.Batch / j.strategy.DP; h.MicroBatch > 0 && want%h.MicroBatch != 0 {
		return errors.New("the row's batch a replica is not a multiple of its micro-batch")
	}
	return nil
}

// trainType is the type of the matrix products of a training precision. MXFP8 has hardware support from Blackwell on; the
// block scales of Hopper are software.
func trainType(precision string, gpu *hardware.GPU) string {
	s := strings.ToUpper(precision)
	first, _, _ := strings.Cut(s, "/")
	switch {
	case strings.HasPrefix(first, "NVFP4"), strings.HasPrefix(first, "FP4"), strings.HasPrefix(first, "MXFP4"):
		return "nvfp4"
	case strings.Contains(first, "BLOCK"), strings.HasPrefix(first, "MXFP8") && gpu.Generation == "hopper":
		return "fp8_block"
	case strings.HasPrefix(first, "FP8"), strings.HasPrefix(first, "MXFP8"):
		return "fp8"
	}
	return "bf16"
}

// serveTypes are weight and cache type of a serving precision; an empty weight type is what the configuration stores.
func serveTypes(precision string, spec *model.Spec) (weights, cache string) {
	s := strings.ToLower(precision)
	switch {
	case strings.Contains(s, "fp4"):
		if q := strings.ToLower(spec.Quant); !strings.Contains(q, "fp4") {
			weights = "nvfp4"
		}
		return weights, "fp8"
	case strings.Contains(s, "fp8"):
		if spec.Quant == "" || strings.Contains(strings.ToLower(spec.Quant), "fp4") {
			weights = "fp8"
		}
		return weights, "fp8"
	case strings.Contains(s, "int4"):
		return "int4", ""
	}
	return "", ""
}

var (
	concurrencyNote = regexp.MustCompile(`concurrency (\d+)-(\d+)`)
	instancesNote   = regexp.MustCompile(`instance counts ([\d,]+)`)
)

// serving fills the workload of an inference instance. Requests in flight: as stated, for the GPUs of one instance; from a
// range the geometric middle.
func (j *job) serving() error {
	p := j.row
	w := layout.Workload{Objective: string(planner.Throughput), ISL: p.ISL, OSL: p.OSL}
	switch p.Task {
	case "prefill":
		w.Task = string(planner.PrefillOnly)
	case "decode":
		w.Task = string(planner.DecodeOnly)
	case "serve":
		w.Task = string(planner.Serve)
	default:
		return fmt.Errorf("task %q is not known", p.Task)
	}
	if w.ISL == 0 {
		w.ISL = 4096
	}
	if w.OSL == 0 && w.Task != string(planner.PrefillOnly) {
		w.OSL = 1024
	}
	w.Weights, w.KVCache = serveTypes(p.Precision, j.spec)
	if w.Task != string(planner.PrefillOnly) {
		w.Batch = j.inFlight()
	}
	j.work = w
	return nil
}

// inFlight is how many requests an instance holds; 0 = the row does not say.
func (j *job) inFlight() int {
	p := j.row
	if p.Concurrency > 0 {
		return p.Concurrency
	}
	if p.MicroBatch > 0 && p.Family() != "mlinf" { // there it is the engine's limit, not what runs
		return p.MicroBatch * p.GPUs
	}
	r := concurrencyNote.FindStringSubmatch(p.Note)
	if r == nil {
		return 0
	}
	lo, _ := strconv.ParseFloat(r[1], 64)
	hi, _ := strconv.ParseFloat(r[2], 64)
	mid := math.Sqrt(lo * hi)
	if n := instancesNote.FindStringSubmatch(p.Note); n != nil {
		sum, k := 0.0, 0.0
		for _, s := range strings.Split(n[1], ",") {
			if v, err := strconv.ParseFloat(s, 64); err == nil && v > 0 {
				sum, k = sum+math.Log(v), k+1
			}
		}
		if k > 0 {
			mid /= math.Exp(sum / k)
		}
	}
	return max(1, int(math.Round(mid)))
}
