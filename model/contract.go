package model

import (
	"rankmap/internal/parallel"
	"rankmap/internal/units"
)

// Phase is what a step does.
type Phase uint8

// The phases.
const (
	Prefill Phase = iota
	Decode
	Train
)

// String returns "prefill", "decode" or "train".
func (p Phase) String() string { return [...]string{"prefill", "decode", "train"}[p] }

// Work is what one step processes on one attention replica (the tp x cp x pp ranks that share a batch).
type Work struct {
	Phase Phase
	Batch int // sequences in the step (decode: all running sequences of the replica; train: one micro-batch)
	// Tokens is how many new tokens each sequence brings: 1 in decode, the prompt or chunk in prefill, the sequence
	// length in training.
	Tokens int
	// Context is how many tokens the attention reads for each sequence, the new ones included; for prefill without
	// history it equals Tokens.
	Context     int
	WeightDType string  // "bf16", "fp8", "fp8_block", "nvfp4", "mxfp4", "int4"; empty = as the config stores them
	KVDType     string  // "bf16", "fp8"; empty = bf16
	Skew        float64 // hot-rank factor of expert load (most loaded rank / mean); 0 or 1 = balanced
	// Merged says that a token is sent once to each rank that holds some of its experts, and comes back reduced, instead of
	// once an expert: throughput kernels such as DeepEP's normal mode (is_token_in_rank in its README) and TensorRT-LLM's.
	Merged bool
	// Unfused is attention without a flash kernel: scores, softmax and dropout pass through memory, as in training runs
	// before 2023. Prefill and training only.
	Unfused bool
	// SeparateGrads says that a kernel of its own adds each weight gradient to the fp32 main gradient, after every micro-batch,
	// as before Megatron-LM's fused accumulation (2022). Training only.
	SeparateGrads bool
	// TensorGathers says that ZeRO-3 gathers and scatters each matrix of a layer apart, and keeps vectors whole, as DeepSpeed does
	// (runtime/zero, stage3_param_persistence_threshold), instead of a layer at a time. Training only.
	TensorGathers bool
	// HalfGrads says that main gradients are bf16 (Megatron-Core without grad_reduce_in_fp32), not fp32: a product that adds to one
	// moves 4 bytes a weight, not 8. Training only.
	HalfGrads bool
	LoRA      LoRA // adapters beside frozen weights. Training only.
}

// NewTokens is the number of tokens that pass through each layer.
func (w Work) NewTokens() int { return w.Batch * w.Tokens }

// OpKind is the kind of a computation; compute prices each kind by its own form.
type OpKind uint8

// The kinds of computation.
const (
	GEMM OpKind = iota
	AttnPrefill
	AttnDecode
	MLAPrefill
	MLADecode
	MoE         // route, permute, grouped GEMMs, activation, combine on one GPU
	Elementwise // norms, residual adds, activations, rotary, copies, scans: memory-bound
)

// ComputeOp is one computation of a step on ONE GPU, with sizes after sharding. Fields that a kind does not use are 0.
type ComputeOp struct {
	Name  string // "qkv_proj", "attention", "moe", ...
	Kind  OpKind
	DType string // compute type: "bf16", "fp8", "fp8_block", "nvfp4", ...
	Times int    // how often a step runs it on this GPU (identical layers are merged)

	M, N, K int // GEMM: C[M,N] = A[M,K] B[K,N]

	Batch, Heads, KVHeads, HeadDim int // attention, on this GPU
	Tokens, Context, Window        int // new tokens a sequence; tokens read; sliding window (0 = none)
	CacheDType                     string

	MoETokens, Hidden, Inter, TopK, Experts, EP, ExpertTP int // MoE: tokens routed over the whole EP group
	Gated                                                 bool
	// Dispatched: tokens reach the experts by an exchange, so that a rank routes its own tokens and computes on what it
	// receives; otherwise every rank of the group holds, and sorts, all MoETokens.
	Dispatched bool
	Skew       float64

	Bytes   units.Bytes // memory traffic of one execution (elementwise: all of it)
	FLOPs   float64     // of one execution
	Kernels int         // elementwise: launches

	// Narrow: batched products over rows that are no multiple of 16 bytes, which the fast tensor-core kernels cannot load
	// (attention through memory with such a head size).
	Narrow bool

	// OutBytes is the traffic of one output element of a GEMM; 0 = 2. A weight gradient reads and writes fp32: 8.
	OutBytes int
	// Looped operations are started in a loop by one operation of the framework, such as the products of each expert of a
	// grouped layer: the host needs less time for each.
	Looped bool
	// Backward marks the gradient of an operation. Attention: one pass that costs 2.5 forwards; MoE: input and weight
	// gradients, 2 forwards; a GEMM is listed with its own sizes, once for each gradient.
	Backward bool
}

// CollectiveOp is one collective of a step, of the group kind that a rank belongs to.
type CollectiveOp struct {
	Name  string // "attention out-projection", "moe dispatch", ...
	Op    parallel.Op
	Group parallel.Dim
	Bytes units.Bytes // as nccl-tests counts: the larger of one rank's send and receive buffer
	DType string
	Times int // how often in a step, identical layers merged
	// Overlappable collectives need not sit on the critical path (DP gradients, ZeRO gathers, backward all-gathers).
	Overlappable bool
	// Exchange describes expert dispatch and combine, for kernels that know it; nil for others.
	Exchange *Exchange
	// Hop is 1 + the boundary of a pipeline that is crossed, for prices that know each: boundary b lies between the stages b
	// and b+1, the last (pp-1) leads from the last stage back to the first. 0 = not of one boundary; the worst counts.
	Hop int
}

// Exchange is an expert dispatch or combine.
type Exchange struct {
	TokensPerRank, Hidden, TopK, Experts int
	// Groups and TopGroups: node-limited routing, a token uses experts of at most TopGroups of Groups; 0 = unlimited.
	Groups, TopGroups int
	Combine           bool
	Merged            bool // copies for one rank are sent once (Work.Merged)
	BytesPerCopy      units.Bytes
}
