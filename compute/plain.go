package compute

import "rankmap/internal/hardware"

// SetPlain replaces the plain framework of a GPU's fitted records by the current constants.
func SetPlain(g *hardware.GPU, k *hardware.Kernels) {
	fw := plainFramework()
	if base := k.Frameworks[DefaultFramework]; base != nil {
		l := fw.GEMM["bf16"]
		l.Grid = base.GEMM["bf16"].Grid // the same library call, launched the same way
		fw.GEMM["bf16"] = l
		// The table's products with block scales, quantization included, are launched faster than that: on Hopper their form
		// has a wave's start of 3 us beside its launch.
		if l, t0 := fw.GEMM["fp8_block"], base.GEMM["fp8_block"].T0; t0 > 0 && t0 < l.T0 {
			l.T0 = t0
			fw.GEMM["fp8_block"] = l
		}
		if t0 := base.GEMM["bf16"].T0; familyOf(g) == tensorMemory && t0 > 0 {
			for t, l := range fw.GEMM {
				l.T0 = t0
				fw.GEMM[t] = l
			}
		}
	}
	k.Frameworks["plain"] = fw
}

// plainFramework is cuBLAS and flash attention as PyTorch runs them inside CUDA graphs, without TensorRT-LLM's rotary,
// cache write and quantization passes in the op. Constants: measured on 2 x H200 (internal/measured h200-x2, compute.csv):
// 5 decode and 4 prefill shapes, copies; launch times of 168 bf16 and 84 fp8 products without quantization (FitUser); those
// of the other types are taken as a little above. On Blackwell launches are shorter: every type takes the launch time of
// the bf16 products in the GPU's own table, 2 us, in which nothing is quantized. Public times of single products leave 1 us
// beside the form there, without a gap to the next kernel: B200 nvfp4 with quantized activations (pytorch/helion pulls 3046
// and 3079: 4096 x 4096 in 9.2 us, 5120 x 5120 in 11.2 us), fp8 likewise (vllm-project/vllm pull 19566: 6144 x 4096 in
// 5.9 us), B300 bf16 (NVIDIA/TensorRT-LLM pull 17889: 2048 x 7168 in 7 us).
func plainFramework() *hardware.Framework {
	small := hardware.Fit{Lo: 0.85, Hi: 1.15}
	prefill := hardware.Prefill{T: 128, T0: 5, EC: 0.66, PM: 1, Tail: 0.7, WX: 1, Fit: small}
	kernel := hardware.DecodePath{T0: 5.5, EM: 0.94, P: 1}
	decode := hardware.Decode{MaxGroup: 64, Grouped: kernel, PerHead: kernel, Fit: small}
	return &hardware.Framework{
		About: "cuBLAS and flash attention in CUDA graphs, as PyTorch engines run them",
		GEMM: map[string]hardware.Launch{
			"bf16": {T0: 4}, "fp8": {T0: 4.5}, "fp8_static": {T0: 4.5}, "fp8_block": {T0: 5}, "nvfp4": {T0: 5}, "int8": {T0: 4.5},
		},
		Prefill: map[string]hardware.Prefill{"bf16/bf16": prefill, "bf16/fp8": prefill},
		Decode:  map[string]hardware.Decode{"bf16/bf16": decode, "bf16/fp8": decode},
		Small:   smallKernels,
	}
}
