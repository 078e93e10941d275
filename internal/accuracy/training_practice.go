package accuracy

import (
	"errors"
	"strings"

	"rankmap/internal/hardware"
	"rankmap/layout"
	"rankmap/planner"
)

// practice is how a source's code trains, where its rows do not say: what its papers and scripts state.
type practice struct {
	recompute  string
	interleave int    // virtual stages where a row names none; 0 = free
	unfused    bool   // attention without flash kernels
	serial     bool   // before sequence parallelism
	serialDP   bool   // gradients are reduced after the last backward pass, not beside it
	separate   bool   // before fused accumulation of weight gradients
	plainDP    bool   // before the distributed optimizer
	overlapTP  bool   // traffic of tensor parallelism beside the matrix products
	merged     bool   // tokens go once to each rank with some of their experts
	gradBytes  int    // of a reduced gradient; 0 = 4
	unstated   string // compute type where a row states no precision; empty = bf16
}

// Megatron-LM before 2022: no sequence parallelism, flash attention, distributed optimizer or overlapped gradients
// (--use-distributed-optimizer and --sequence-parallel came in 2022, --overlap-grad-reduce in 2023). DeepSpeed's pipeline
// engine runs 1F1B without virtual stages and reduces gradients after the last backward pass (deepspeed/runtime/pipe:
// TrainSchedule ends in ReduceTiedGrads, ReduceGrads, OptimizerStep).
var (
	megatron2021 = practice{recompute: "full", interleave: 1, unfused: true, serial: true, serialDP: true, plainDP: true, separate: true}
	deepspeed    = practice{recompute: "full", interleave: 1, unfused: true, serial: true, serialDP: true, separate: true}
	// NVIDIA's performance recipes (Megatron-Bridge scripts/performance): tp_comm_overlap on, gradients reduced in bf16,
	// mixtures over the flex dispatcher with DeepEP or HybridEP.
	recipe = practice{interleave: 1, overlapTP: true, gradBytes: 2, merged: true}
	// MLPerf training: the same, and FP8=True in the common configuration of NVIDIA's code, which submitters share
	// (training_results_v5.1, NVIDIA/benchmarks/llama31_405b config_common.sh).
	mlperf = practice{interleave: 1, overlapTP: true, gradBytes: 2, unstated: "FP8"}
)

var practices = map[string]practice{
	"bloom":         deepspeed, // Megatron-DeepSpeed with checkpointed activations (tr11-176B-ml scripts)
	"mtnlg":         deepspeed, // arXiv 2201.11990, section 3
	"vtrain-multi":  deepspeed,
	"vtrain-single": deepspeed,
	"sc21":          megatron2021, // its FLOP formula counts the second forward pass
	"sc21zero":      {recompute: "full", unfused: true, serial: true, serialDP: true, separate: true},
	"opt":           {recompute: "full", unfused: true, serial: true},
	"sc22":          {unfused: true, interleave: 1, serialDP: true}, // the note says which recomputation
	"simumax":       {recompute: "none", interleave: 1},             // the cases keep every activation
	"mbridge":       recipe, "dgxc": recipe, "nem340": {overlapTP: true},
	"mlperf-gpt3": mlperf, "mlperf-405b": mlperf, "mlperf-8b": mlperf,
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
	h := planner.Held{MicroBatch: p.MicroBatch, Serial: p.SP == "no" && p.TP > 1}
	u, known := practices[p.Family()]
	if known {
		h.Recompute, h.Unfused, h.Serial = u.recompute, u.unfused, h.Serial || u.serial && p.SP != "yes"
		h.OverlapTP, h.SerialDP, h.PlainDP, h.SeparateGrads, h.Merged, h.Formats.GradBytes = u.overlapTP, u.serialDP, u.plainDP, u.separate, u.merged, u.gradBytes
	}
	precision := p.Precision
	if u.unstated != "" && (precision == "" || precision == "unstated") {
		precision = u.unstated
	}
	j.work.Weights = trainType(precision, j.site.sheet)
	j.settledByNote(&h)
	j.exact = h
	if j.exact.Interleave = p.VPP; p.VPP == 0 {
		j.exact.Interleave = u.interleave
	}
	j.held = h
	if j.held.ZeRO != 3 {
		j.held.ZeRO = 0
	}
	if want := j.work.Batch / j.strategy.DP; h.MicroBatch > 0 && want%h.MicroBatch != 0 {
		return errors.New("the row's batch a replica is not a multiple of its micro-batch")
	}
	return nil
}

// settledByNote reads recomputation and sharding out of a row's note.
func (j *job) settledByNote(h *planner.Held) {
	note := j.row.Note
	switch {
	case strings.Contains(note, "selective recompute"):
		h.Recompute = "selective"
	case strings.Contains(note, "full recompute"), strings.Contains(note, "full activation recomputation"):
		h.Recompute = "full"
	}
	switch {
	case strings.HasPrefix(note, "PTD-P"): // beside rows of ZeRO-3, which its note names
		h.PlainDP = true
	case strings.Contains(note, "parameters not resharded"):
		h.ZeRO = 2
	case strings.Contains(note, "FSDP"), strings.Contains(note, "ZeRO-3"):
		h.ZeRO = 3
	}
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
