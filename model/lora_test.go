package model

import (
	"math"
	"testing"

	"rankmap/internal/parallel"
)

// Rank 16 beside the fused projections of attention: 16 x (in + out) for qkv (8,192 to 10,240) and the out-projection (8,192 to
// 8,192) of each of the 80 layers of a 70B network.
func TestAdapterParameters(t *testing.T) {
	s := embedded(t, "llama-3.1-70b")
	for _, c := range []struct {
		targets LoRATargets
		layer   int64
	}{
		{LoRAQKV, 16 * (8192 + 10240)},
		{LoRAAttention, 16 * (8192 + 10240 + 8192 + 8192)},
		{LoRALinear, 16 * (8192 + 10240 + 8192 + 8192 + 8192 + 2*28672 + 28672 + 8192)},
	} {
		if got := s.AdapterParams(LoRA{Rank: 16, Targets: c.targets}); got != 80*c.layer {
			t.Errorf("%s: %d parameters, want %d", c.targets, got, 80*c.layer)
		}
	}
	if got := s.AdapterParams(LoRA{}); got != 0 {
		t.Errorf("without adapters: %d parameters", got)
	}
}

// Over tensor parallelism both matrices of an adapter are cut as the weight beside them: the ranks hold them once together.
func TestAdaptersAreCutWithTheirWeights(t *testing.T) {
	s := embedded(t, "llama-3.1-70b")
	l := LoRA{Rank: 16}
	w := Work{Phase: Train}
	x := s.shapeOf(&parallel.Strategy{TP: 4}, &w)
	dense, experts := s.trained(&x, 0, l)
	if want := float64(s.AdapterParams(l)) / 4; math.Abs(dense/want-1) > 1e-9 || experts != 0 {
		t.Errorf("a rank of tp 4 trains %v dense and %v expert parameters, want %v and 0", dense, experts, want)
	}
}

// Of a frozen weight only the result and the input's gradient are multiplied: 4 of 6 operations a weight, plus attention.
func TestFrozenWeightsHaveNoGradients(t *testing.T) {
	s := embedded(t, "llama-3.1-70b")
	st := parallel.Strategy{TP: 1, DP: 8, ZeRO: 1}.Normalize()
	flops := func(l LoRA) (total, weightGrads float64) {
		for _, op := range s.StepOps(st, Work{Phase: Train, Batch: 1, Tokens: 4096, Context: 4096, LoRA: l}, 0) {
			if op.Name == "adapters" {
				continue
			}
			total += op.FLOPs * float64(op.Times)
			if op.Kind == GEMM && op.OutBytes > 0 {
				weightGrads += op.FLOPs * float64(op.Times)
			}
		}
		return total, weightGrads
	}
	full, grads := flops(LoRA{})
	lora, left := flops(LoRA{Rank: 16, Targets: LoRAAttention})
	if left != 0 || math.Abs((full-grads)/lora-1) > 1e-9 {
		t.Errorf("%.4g FLOPs with frozen weights and %.4g of weight gradients, want %.4g and 0", lora, left, full-grads)
	}
	tokens := 4096.0
	if got, want := s.LoRAFLOPsPerToken(4096)*tokens, lora; math.Abs(got/want-1) > 0.02 {
		t.Errorf("LoRAFLOPsPerToken gives %.4g for 4,096 tokens, the operations %.4g", got, want)
	}
}

// A replica of frozen weights holds them once in their type, no gradients or optimizer to speak of, and moves next to nothing
// over data parallelism.
func TestFrozenMemoryAndTraffic(t *testing.T) {
	s := embedded(t, "llama-3.1-70b")
	st := parallel.Strategy{TP: 2, DP: 4, ZeRO: 1, SequenceParallel: true}.Normalize()
	l := LoRA{Rank: 16, Targets: LoRAAttention}
	w := Work{Phase: Train, Batch: 1, Tokens: 8192, Context: 8192, WeightDType: "fp8", LoRA: l}
	lora := s.Memory(st, w, MemoryOptions{Training: Training{LoRA: l}})
	w.LoRA = LoRA{}
	full := s.Memory(st, w, MemoryOptions{})
	adapters := float64(s.AdapterParams(l)) / 2
	if want := float64(s.WeightBytes("fp8"))/2 + 2*adapters; math.Abs(float64(lora.Weights)/want-1) > 0.01 {
		t.Errorf("weights take %v, want %.4g", lora.Weights, want)
	}
	if state := float64(lora.Gradients + lora.Optimizer); math.Abs(state/(adapters*(4+12.0/4))-1) > 1e-6 {
		t.Errorf("gradients and optimizer take %.4g, want %.4g", state, adapters*7)
	}
	if lora.Activations >= full.Activations {
		t.Errorf("activations take %v with frozen weights, %v without", lora.Activations, full.Activations)
	}
	for _, c := range s.GradientCollectives(st, 0, Training{LoRA: l}) {
		if float64(c.Bytes) > 4*adapters+1 {
			t.Errorf("%s moves %v", c.Name, c.Bytes)
		}
	}
	if a, b := s.OptimizerOp(st, 0, Training{LoRA: l}).Bytes, s.OptimizerOp(st, 0, Training{}).Bytes; a*500 > b {
		t.Errorf("the optimizer moves %v with adapters, %v without", a, b)
	}
}

// FSDP over frozen weights gathers them in their type and scatters nothing.
func TestFrozenShards(t *testing.T) {
	s := embedded(t, "llama-3.1-8b")
	st := parallel.Strategy{DP: 8, ZeRO: 3}.Normalize()
	bytes := func(l LoRA) (gathered, scattered float64) {
		for _, c := range s.StepCollectives(st, Work{Phase: Train, Batch: 1, Tokens: 4096, Context: 4096, WeightDType: "fp8", LoRA: l}, 0) {
			switch c.Op {
			case parallel.AllGather:
				gathered += float64(c.Bytes) * float64(c.Times)
			case parallel.ReduceScatter:
				scattered += float64(c.Bytes) * float64(c.Times)
			}
		}
		return gathered, scattered
	}
	g, sc := bytes(LoRA{})
	gl, scl := bytes(LoRA{Rank: 8})
	if sc == 0 || scl != 0 || math.Abs(gl/g-0.5) > 0.01 {
		t.Errorf("gathers %.4g and scatters %.4g with frozen fp8 weights, %.4g and %.4g in full training", gl, scl, g, sc)
	}
}

func TestNamesOfTargets(t *testing.T) {
	for _, want := range []LoRATargets{LoRALinear, LoRAAttention, LoRAQKV} {
		if got, err := LoRATargetsNamed(want.String()); err != nil || got != want {
			t.Errorf("%s reads as %v, %v", want, got, err)
		}
	}
	if _, err := LoRATargetsNamed("mlp"); err == nil {
		t.Error("mlp is accepted")
	}
	if got, err := LoRATargetsNamed(""); err != nil || got != LoRALinear {
		t.Errorf("empty reads as %v, %v", got, err)
	}
}
