// Package compute says how long one computation of a transformer layer takes on one GPU: matrix products, attention over
// a prompt and over a cache, latent attention, expert layers and small memory-bound operations.
//
//	gpu, _ := catalog.GPU("h200")
//	kernels, _ := hardware.LoadKernels(configs.FS, gpu.System)
//	m, _ := compute.New(gpu, kernels, compute.Options{Phase: model.Decode})
//	e, _ := m.Price(model.ComputeOp{Kind: model.GEMM, DType: "bf16", M: 64, N: 8192, K: 8192})
//
// Each kind has a short physical form (one file each: gemm.go, attention.go, decode.go, mla.go, moe.go) whose parameters
// are efficiencies and kernel times with bounds; fit.go finds them from measured tables. What belongs to the chip is kept
// apart from what belongs to a framework's kernels and launches, so that one GPU prices TensorRT-LLM's quantizing fp8
// product and PyTorch's plain one.
//
// The tables that the parameters come from are short bursts at boost clock. Under lasting load power limits lower the
// clock; Options.Sustained is that factor. It belongs to a machine (power cap, cooling), applies to prefill and training,
// and every estimate that used it says so.
//
// Where libraries hold several kernels for the same work a plan takes the fastest (experts.go). docs/compute-model.md has the
// forms, what they were fitted to, and their limits.
//
// It does not know collectives, layers or steps: planner/step adds up. Pricing allocates nothing and may be used from
// many goroutines.
package compute
