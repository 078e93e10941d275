package compute

import "rankmap/internal/hardware"

// plainFramework is cuBLAS and flash attention as PyTorch runs them inside CUDA graphs, without TensorRT-LLM's rotary,
// cache write and quantization passes in the op. Constants: measured on 2 x H200 (internal/measured h200-x2, compute.csv):
// 5 decode and 4 prefill shapes, copies, fp8 products without quantization.
func plainFramework() *hardware.Framework {
	small := hardware.Fit{Lo: 0.85, Hi: 1.15}
	prefill := hardware.Prefill{T: 128, T0: 5, EC: 0.66, PM: 1, Tail: 0.7, WX: 1, Fit: small}
	decode := hardware.Decode{T0: 5.5, EMX: 0.94, EMM: 0.94, MaxGroup: 64, Fit: small}
	return &hardware.Framework{
		About: "cuBLAS and flash attention in CUDA graphs, as PyTorch engines run them",
		GEMM: map[string]hardware.Launch{
			"bf16": {T0: 2}, "fp8": {T0: 2.6}, "fp8_static": {T0: 2.6}, "fp8_block": {T0: 4}, "nvfp4": {T0: 4}, "int8": {T0: 2.6},
		},
		Prefill: map[string]hardware.Prefill{"bf16/bf16": prefill, "bf16/fp8": prefill},
		Decode:  map[string]hardware.Decode{"bf16/bf16": decode, "bf16/fp8": decode},
		Small:   smallKernels,
	}
}
