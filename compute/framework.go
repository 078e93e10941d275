package compute

import "rankmap/model"

// FrameworkFor names whose kernels run a phase: training runs in PyTorch (cuBLAS, flash attention; Transformer Engine
// quantizes beside other work), inference in an engine with kernels of its own.
func FrameworkFor(ph model.Phase) string {
	if ph == model.Train {
		return "plain"
	}
	return DefaultFramework
}
