package compute_test

import (
	"math"
	"testing"

	"rankmap/compute"
	"rankmap/configs"
	"rankmap/internal/hardware"
	"rankmap/model"
)

// trainer prices training kernels of a GPU.
func trainer(t *testing.T, system string) (*compute.Model, *hardware.GPU) {
	t.Helper()
	cat, err := hardware.Load(configs.FS)
	if err != nil {
		t.Fatal(err)
	}
	gpu, err := cat.GPU(system)
	if err != nil {
		t.Fatal(err)
	}
	k, err := hardware.LoadKernels(configs.FS, gpu.System)
	if err != nil {
		t.Fatal(err)
	}
	m, err := compute.New(gpu, k, compute.Options{Phase: model.Train, Framework: compute.FrameworkFor(model.Train)})
	if err != nil {
		t.Fatal(err)
	}
	return m, gpu
}

func priceOf(t *testing.T, m *compute.Model, op model.ComputeOp) float64 {
	t.Helper()
	op.Times = 1
	e, err := m.Price(op)
	if err != nil {
		t.Fatal(err)
	}
	return e.Time.Seconds()
}

// The weight gradient of an expert of 4,096 x 3,072 over 512 tokens took 53.3 us on H200, over 8,192 tokens 320.
func TestWeightGradientsPayForTheirSums(t *testing.T) {
	m, _ := trainer(t, "h200_sxm")
	for _, c := range []struct {
		tokens int
		us     float64
	}{{512, 53.3}, {2048, 102}, {8192, 320.3}} {
		got := 1e6 * priceOf(t, m, model.ComputeOp{Name: "wgrad", Kind: model.GEMM, DType: "bf16", M: 4096, N: 3072, K: c.tokens, OutBytes: 8})
		if math.Abs(got/c.us-1) > 0.1 {
			t.Errorf("%d tokens: %.1f us, measured %.1f", c.tokens, got, c.us)
		}
	}
	// What Hopper adds is half of the traffic: Blackwell, with the same matrix, adds less than its whole.
	b, gpu := trainer(t, "b200_sxm")
	op := model.ComputeOp{Name: "wgrad", Kind: model.GEMM, DType: "bf16", M: 4096, N: 3072, K: 8192}
	plain := priceOf(t, b, op)
	op.OutBytes = 8
	if more := priceOf(t, b, op) - plain; more > 6*4096*3072/(gpu.HBMGBps*1e9) {
		t.Errorf("%g s more for sums on Blackwell, want them hidden", more)
	}
}

func TestAttentionsGradientCostsThreeTimesItself(t *testing.T) {
	m, _ := trainer(t, "h200_sxm")
	op := model.ComputeOp{Name: "attention", Kind: model.AttnPrefill, DType: "bf16", Batch: 4, Heads: 32, KVHeads: 4, HeadDim: 128, Tokens: 4096, Context: 4096}
	forward := priceOf(t, m, op)
	op.Backward = true
	if r := priceOf(t, m, op) / forward; math.Abs(r-2.9) > 1e-9 {
		t.Errorf("backward takes %g forwards, want 2.9", r)
	}
}

// Heads of 150 elements are not loaded 16 bytes at a time: 133 TFLOP/s on H200, and no tensor cores before.
func TestMisalignedHeadsAreSlow(t *testing.T) {
	for system, tflops := range map[string]float64{"h200_sxm": 133, "a100_sxm": 10.9} {
		m, _ := trainer(t, system)
		op := model.ComputeOp{Name: "scores", Kind: model.Elementwise, DType: "bf16", FLOPs: 1e13, Bytes: 1 << 20, Kernels: 2}
		aligned := priceOf(t, m, op)
		op.Narrow = true
		s := priceOf(t, m, op)
		if s < 2*aligned {
			t.Errorf("%s: misaligned products take %g s, aligned ones %g", system, s, aligned)
		}
		if got := op.FLOPs / s / 1e12; math.Abs(got/tflops-1) > 0.2 {
			t.Errorf("%s: %.1f TFLOP/s, want about %.1f", system, got, tflops)
		}
	}
}
