package compute

import "rankmap/model"

// FrameworkFor names whose launches and matrix products price a phase of a plan. It is "plain" for all: engines fuse the
// quantization of activations into the operation before, while the tables of TensorRT-LLM time it, with its 12 to 14 us of
// launches, inside each matrix product. Expert layers and latent attention come from those tables all the same. Measured
// decode steps of dense networks on H100 and H200 with fp8 weights come out 20 to 60 % too long otherwise; training steps
// in fp8 20 to 30 %.
func FrameworkFor(model.Phase) string { return "plain" }
