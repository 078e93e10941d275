package accuracy

import (
	"errors"
	"strings"

	"rankmap/internal/hardware"
	"rankmap/internal/measured"
	"rankmap/layout"
	"rankmap/model"
	"rankmap/planner"
)

// practice is how a source's code trains, where its rows do not say: what its papers and scripts state.
type practice struct {
	recompute  string
	zero       int    // sharding that no row names; 0 = the distributed optimizer for a row, free for what it is compared with
	interleave int    // virtual stages where a row names none; 0 = free
	unfused    bool   // attention without flash kernels
	serial     bool   // before sequence parallelism
	serialDP   bool   // gradients are reduced after the last backward pass, not beside it
	separate   bool   // before fused accumulation of weight gradients
	plainDP    bool   // before the distributed optimizer
	overlapTP  bool   // traffic of tensor parallelism beside the matrix products
	fp8Params  bool   // parameters are gathered in fp8 where they multiply in fp8
	graphs     bool   // CUDA graphs start the kernels
	lora       int    // rank of the adapters of a source that trains nothing else
	pairedEP   bool   // on Hopper and with virtual stages, the exchange of experts runs beside another micro-batch
	blocking   bool   // the host waits for each operation
	tensors    bool   // ZeRO-3 gathers each matrix apart
	merged     bool   // tokens go once to each rank with some of their experts
	gradBytes  int    // of a reduced gradient; 0 = 4
	engine16   bool   // DeepSpeed's engine: 16-bit gradients, but in fp32 where the network trains in bf16
	unstated   string // compute type where a row states no precision; empty = bf16
}

// Megatron-LM before 2022: no sequence parallelism, flash attention, distributed optimizer or overlapped gradients
// (--use-distributed-optimizer and --sequence-parallel came in 2022, --overlap-grad-reduce in 2023). DeepSpeed's pipeline
// engine runs 1F1B without virtual stages and reduces gradients after the last backward pass (deepspeed/runtime/pipe:
// TrainSchedule ends in ReduceTiedGrads, ReduceGrads, OptimizerStep).
var (
	megatron2021 = practice{recompute: "full", interleave: 1, unfused: true, serial: true, serialDP: true, plainDP: true, separate: true}
	deepspeed    = practice{recompute: "full", interleave: 1, unfused: true, serial: true, serialDP: true, separate: true, zero: 1, gradBytes: 2, engine16: true}
	// Jean Zay hung unless every operation waited for the one before it (tr11-176B-ml/chronicles-prequel.md, Hanging Issue).
	jeanZay = practice{recompute: "full", interleave: 1, unfused: true, serial: true, serialDP: true, separate: true, zero: 1, gradBytes: 2, engine16: true, blocking: true}
	// NVIDIA's performance recipes (Megatron-Bridge scripts/performance): tp_comm_overlap on, gradients reduced in bf16,
	// mixtures over the flex dispatcher with DeepEP or HybridEP.
	// The H100 presets of mixtures with virtual stages set moe_a2a_overlap, those of Blackwell did not before August 2026
	// (configs/qwen, configs/deepseek: workload_base_configs.py, helpers set_moe_a2a_overlap_overrides).
	// Parameters of fp8 runs are gathered in fp8 (megatron/bridge/training/mixed_precision.py: fp8_param_gather).
	recipe = practice{interleave: 1, overlapTP: true, gradBytes: 2, merged: true, pairedEP: true, fp8Params: true}
	// MLPerf training: the same, and FP8=True in the common configuration of NVIDIA's code, which submitters share
	// (training_results_v5.1, NVIDIA/benchmarks/llama31_405b config_common.sh).
	// It sets FP8_PARAM_GATHER too, and the configurations of both Llama networks read config_common_cg.sh: CUDA graphs.
	mlperf = practice{interleave: 1, overlapTP: true, gradBytes: 2, unstated: "FP8", fp8Params: true, graphs: true}
	// Its GPT-3 runs in 12 virtual stages where a submission sets none (training_results_v3.1, NVIDIA/benchmarks/gpt3,
	// conf/custom.yaml: INTERLEAVED_PIPELINE).
	// Its LoRA runs train adapters of rank 16 in attention (training_policies, llama2_70b_lora) under CUDA graphs
	// (training_results_v5.1, NVIDIA/benchmarks/llama2_70b_lora/implementations/nemo/config_GB300_*.sh: MCORE_CUDA_GRAPH).
	mlperfLoRA = practice{interleave: 1, overlapTP: true, gradBytes: 2, unstated: "FP8", fp8Params: true, graphs: true, lora: 16}
	mlperfGPT3 = practice{interleave: 12, overlapTP: true, gradBytes: 2, unstated: "FP8"}
)

var practices = map[string]practice{
	"bloom":         jeanZay,   // Megatron-DeepSpeed with checkpointed activations (tr11-176B-ml scripts)
	"mtnlg":         deepspeed, // arXiv 2201.11990, section 3
	"vtrain-multi":  deepspeed,
	"vtrain-single": deepspeed,
	"sc21":          megatron2021, // its FLOP formula counts the second forward pass
	"sc21zero":      {recompute: "full", unfused: true, serial: true, serialDP: true, separate: true, tensors: true},
	"opt":           {recompute: "full", unfused: true, serial: true},
	"sc22":          {unfused: true, interleave: 1, serialDP: true}, // the note says which recomputation
	"simumax":       {recompute: "none", interleave: 1},             // the cases keep every activation
	"mcore":         {overlapTP: true},                              // Megatron-LM's README, training speed and scalability: --tp-comm-overlap
	"mbridge":       recipe, "dgxc": recipe, "nem340": {overlapTP: true},
	"mlperf-gpt3": mlperfGPT3, "mlperf-lora70b": mlperfLoRA, "mlperf-405b": mlperf, "mlperf-8b": mlperf,
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
		h.BlockingHops, h.Graphs = u.unfused, u.graphs
		h.OverlapEP = u.pairedEP && p.VPP > 1 && j.site.sheet.Generation == "hopper"
		h.OverlapTP, h.SerialDP, h.PlainDP, h.SeparateGrads, h.Merged, h.Formats.GradBytes = u.overlapTP, u.serialDP, u.plainDP, u.separate, u.merged && !allToAll(p), u.gradBytes
		h.Blocking, h.TensorGathers = u.blocking, u.tensors
	}
	precision := p.Precision
	// DeepSpeed's BF16_Optimizer adds every micro-batch's gradients to a copy in fp32 and reduces that (deepspeed/runtime/bf16_optimizer.py,
	// get_grads_for_reduction; pipe/engine.py, _bf16_reduce_grads); with fp16 they stay as they are.
	if u.engine16 && precision == "BF16" {
		h.Formats.GradBytes = 4
	}
	if u.unstated != "" && (precision == "" || precision == "unstated") {
		precision = u.unstated
	}
	j.work.Weights = trainType(precision, j.site.sheet)
	h.ZeRO = u.zero
	if u.fp8Params && strings.HasPrefix(j.work.Weights, "fp8") {
		h.Formats.ParamBytes = 1
	}
	// Megatron-FSDP rejects FP4, and MXFP8 before 2026 (Megatron-Bridge issue 1213, Megatron-LM pull requests 2239 and 7588): no
	// recipe of these types shards parameters.
	if up := strings.ToUpper(precision); u.fp8Params && (strings.Contains(up, "MX") || strings.Contains(up, "FP4")) {
		h.ZeRO = 1
	}
	j.settledByNote(&h)
	j.adapters(u)
	j.exact = h
	if known && h.ZeRO == 0 && !h.PlainDP {
		j.exact.ZeRO = 1
	}
	if j.exact.Interleave = p.VPP; p.VPP == 0 {
		j.exact.Interleave = u.interleave
	}
	// Where the layers divide, Megatron deals them out evenly unless it is told otherwise; where not, a run was told.
	j.exact.EvenStages = j.spec.Layers()%(j.strategy.PP*max(1, j.exact.Interleave)) == 0 || u.unfused // older code could not
	j.held = h
	if j.held.ZeRO == 2 {
		j.held.ZeRO = 0 // sharding of gradients alone is not searched
	}
	if want := j.work.Batch / j.strategy.DP; h.MicroBatch > 0 && want%h.MicroBatch != 0 {
		return errors.New("the row's batch a replica is not a multiple of its micro-batch")
	}
	return nil
}

// allToAll says that a recipe exchanges tokens by a plain all-to-all, a copy for each expert: Qwen3-235B outside NVL72 racks and Qwen3-Next on
// H100 (Megatron-Bridge scripts/performance/configs/qwen/qwen3_workload_base_configs.py: moe_token_dispatcher_type).
func allToAll(p *measured.Placement) bool {
	name := strings.ToLower(p.Model)
	if !strings.Contains(name, "qwen3") {
		return false
	}
	return strings.Contains(name, "235b") && !strings.HasPrefix(p.GPU, "GB") || strings.Contains(name, "next") && strings.HasPrefix(p.GPU, "H100")
}

// bridgeLoRA is the rank of the adapters of Megatron-Bridge's recipes of large networks, in linear_qkv alone
// (megatron/bridge/recipes/llama/llama3.py, the finetuning configurations of 405B).
const bridgeLoRA = 16

// adapters says which rows train adapters beside frozen weights: those that their source, model or note calls LoRA.
func (j *job) adapters(u practice) {
	switch p := j.row; {
	case u.lora > 0:
		j.work.LoRA, j.work.LoRATargets = u.lora, model.LoRAAttention.String()
	case strings.Contains(p.Note, "LoRA"), strings.Contains(p.Model, "LoRA"):
		j.work.LoRA, j.work.LoRATargets = bridgeLoRA, model.LoRAQKV.String()
	}
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
