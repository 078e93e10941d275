package step

import (
	"rankmap/internal/units"
	"rankmap/model"
)

// launches is how many kernels an operation of a kind starts where its list of operations does not say. Attention: the core (and the join
// of split keys); rotary and the cache write stand in the list. Latent attention: two norms, rotary, concatenation, cache
// write, core, and in prefill the keys' copy and the join with cached context (vLLM v1/attention/backends/mla/common.py).
// A mixture: router top-k, alignment and sort, permutation, two quantizations, two grouped products, activation, weighted
// sum (vLLM model_executor/layers/fused_moe/fused_moe.py, TensorRT-LLM cutlass_kernels/moe_gemm).
var launches = [...]int{
	model.GEMM: 1, model.AttnPrefill: 1, model.AttnDecode: 2, model.MLAPrefill: 8, model.MLADecode: 7, model.MoE: 12, model.Elementwise: 1,
}

// launchesOf counts the kernels of one execution. A product whose input is quantized first starts a kernel for that.
func launchesOf(op *model.ComputeOp) int {
	n := 1
	if int(op.Kind) < len(launches) {
		n = launches[op.Kind]
	}
	if op.Kind == model.GEMM && op.DType != "bf16" && op.DType != "fp16" && op.DType != "int4" {
		n++
	}
	return max(n, op.Kernels)
}

// started is the time of a stage whose host takes so long to start a kernel; 0 = in CUDA graphs.
func (r *Result) started(kernel units.Duration) units.Duration {
	return max(r.Time, units.Duration(r.launches)*kernel)
}

// launched stretches a stage of an inference engine that runs outside CUDA graphs to the time in which its host starts the
// kernels.
func (r *Result) launched(kernel units.Duration, brief bool) {
	host := units.Duration(r.launches) * kernel
	wait := Band{rest(host, r.Time), rest(host, r.P10), rest(host, r.P90)}
	switch {
	case wait.P10 <= 0:
	case brief:
		r.Band = r.Band.Add(wait)
	default:
		r.add(Part{Name: "host", Kind: "overhead", Band: wait})
	}
}
