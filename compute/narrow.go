package compute

import "rankmap/internal/hardware"

// FLOPs a clock of one multiprocessor in batched products whose rows are no multiple of 16 bytes, which the loads of the fast
// tensor-core kernels need.
const (
	// cuBLAS 13 on H200: heads of 108, 150 and 450 elements over 2,048 tokens took 3 to 4 times as long as those of 104, 152 and
	// 448, 133 to 182 TFLOP/s over the five products of a training step (docs/measurements/h200/2026-11-30-training/heads.csv).
	narrowTensor = 590
	// Before Hopper: the libraries of that time ran them on the 64 FP32 lanes (2 FLOPs each), at the 0.6 of their peak that such
	// thin products reach.
	narrowVector = 0.6 * 64 * 2
)

func narrowRate(g *hardware.GPU) float64 {
	switch g.Generation {
	case "volta", "turing", "ampere":
		return narrowVector
	}
	return narrowTensor
}
