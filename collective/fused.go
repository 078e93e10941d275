package collective

import (
	"rankmap/internal/units"
)

// Norm is the element-wise work that follows an all_reduce in a transformer layer: residual add and RMSNorm.
type Norm struct {
	MemoryGBps float64 // memory bandwidth of the GPU that such kernels reach, GB/s
	LaunchUs   float64 // us that a kernel of its own takes before it moves a byte, inside a graph
}

// Passes over a rank's buffer of the all_reduce (one activation matrix): what each kernel reads and writes.
const (
	normPasses  = 4 // apart: read the sum and the residual, write the new residual and the normalised output
	fusedPasses = 2 // fused: the sum is still in registers and the output takes the all_reduce's own write; residual in and out remain
)

const flagFused = "fused with residual add and norm: an estimate, no measurement"

// Apart is the time of a custom all_reduce e of s bytes and of the norm kernel after it.
func (q Norm) Apart(e Estimate, s units.Bytes) Estimate {
	return q.after(e, q.LaunchUs+q.passes(s, normPasses))
}

// Fused is the time of the kernel that does both (TensorRT-LLM's and flashinfer's all_reduce + RMSNorm fusion, which vLLM takes too):
// the all_reduce and the passes over memory that fusion does not save. It holds for one-shot and two-shot kernels; an all_reduce
// of NCCL cannot be fused and stays as Apart has it. No published table times such kernels alone: the result is flagged, and its
// interval is widened by the whole of what fusion saves.
func (q Norm) Fused(e Estimate, s units.Bytes) Estimate {
	apart := q.Apart(e, s)
	switch e.Algorithm {
	case "one-shot", "two-shot", "multicast":
	default:
		return apart
	}
	f := q.after(e, q.passes(s, fusedPasses))
	f.Algorithm = fusedName(e.Algorithm)
	f.P10, f.P90 = e.P10, max(f.P90, apart.P90)
	f.Flags = append(f.Flags[:len(f.Flags):len(f.Flags)], flagFused)
	return f
}

// Saves is what fusion saves of an all_reduce of s bytes and the norm after it, us; nothing without a memory rate.
func (q Norm) Saves(s units.Bytes) float64 {
	if !(q.MemoryGBps > 0) {
		return 0
	}
	return q.LaunchUs + q.passes(s, normPasses-fusedPasses)
}

// fusedName is the algorithm of an estimate whose kernel does the norm too.
func fusedName(kernel string) string {
	switch kernel {
	case "one-shot":
		return "one-shot+norm"
	case "two-shot":
		return "two-shot+norm"
	case "multicast":
		return "multicast+norm"
	}
	return kernel
}

// passes is the time of n passes over s bytes, us.
func (q Norm) passes(s units.Bytes, n float64) float64 { return n * float64(s) / (1000 * q.MemoryGBps) }

func (q Norm) after(e Estimate, us float64) Estimate {
	d := units.Micros(us)
	e.Time, e.P10, e.P90 = e.Time+d, e.P10+d, e.P90+d
	return e
}
