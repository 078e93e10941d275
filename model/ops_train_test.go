package model

import (
	"strings"
	"testing"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
)

// trained returns the operations of a name of one micro-batch of 4,096 tokens, forward and backward.
func trained(s *Spec, st parallel.Strategy, w Work, name string) (forward, backward []ComputeOp) {
	w.Phase, w.Batch, w.Tokens, w.Context = Train, 1, 4096, 4096
	for _, op := range s.StepOps(st.Normalize(), w, 0) {
		if op.Name != name {
			continue
		}
		if op.Backward {
			backward = append(backward, op)
		} else {
			forward = append(forward, op)
		}
	}
	return forward, backward
}

func oddGPT(t *testing.T, heads string) *Spec {
	t.Helper()
	s, err := Parse(strings.NewReader(`{"model_type":"gpt3","hidden_size":14400,"num_hidden_layers":4,"num_attention_heads":`+heads+`,"vocab_size":51200}`), "gpt", Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestQueriesAndKeysAreRotatedAndCopiedInTraining(t *testing.T) {
	s := embedded(t, "llama-3.1-8b") // 32 heads and 8 KV heads of 128
	f, b := trained(s, parallel.Strategy{}, Work{}, "positions")
	if len(f) != 1 || len(b) != 1 {
		t.Fatalf("forward %v, backward %v, want one each", f, b)
	}
	q, k, v := 4096.0*4096, 4096.0*1024, 4096.0*1024
	if want := units.Bytes(4 * (q + k + q + v)); f[0].Bytes != want || f[0].Times != 32 {
		t.Errorf("forward %d bytes in %d layers, want %d in 32", f[0].Bytes, f[0].Times, want)
	}
	if want := units.Bytes(4 * (q + k + q + k + v)); b[0].Bytes != want {
		t.Errorf("backward %d bytes, want %d", b[0].Bytes, want)
	}
	if f, _ := trained(s, parallel.Strategy{TP: 4}, Work{}, "positions"); f[0].Bytes*4 != units.Bytes(4*(q+k+q+v)) {
		t.Errorf("tp 4: %d bytes, want a quarter", f[0].Bytes)
	}
	if f, _ := trained(s, parallel.Strategy{}, Work{}, "query and key norm"); len(f) != 0 {
		t.Error("Llama normalises queries")
	}
	if f, _ := trained(embedded(t, "qwen3-235b-a22b"), parallel.Strategy{}, Work{}, "query and key norm"); len(f) != 1 {
		t.Error("Qwen3 does not normalise queries")
	}
	if f, _ := trained(oddGPT(t, "96"), parallel.Strategy{}, Work{}, "positions"); len(f) != 0 {
		t.Error("learned positions are rotated")
	}
	if f, _ := trained(embedded(t, "deepseek-v3"), parallel.Strategy{}, Work{}, "positions"); len(f) != 1 || f[0].Bytes != 4096*128*4*(192+192+128) {
		t.Errorf("latent attention: %v", f)
	}
}

func TestExpertsOfEightBitsArePadded(t *testing.T) {
	s := embedded(t, "qwen3-235b-a22b")
	st := parallel.Strategy{DP: 8, EP: 8}
	f, b := trained(s, st, Work{WeightDType: "fp8"}, "moe padding")
	if len(f) != 1 || len(b) != 1 || f[0].Bytes != 2*4*4096*8*4096 || b[0].Bytes != f[0].Bytes {
		t.Errorf("fp8: %v and %v, want two copies of 32,768 rows of 4,096 each way", f, b)
	}
	if f, _ := trained(s, st, Work{WeightDType: "bf16"}, "moe padding"); len(f) != 0 {
		t.Errorf("bf16 is padded: %v", f)
	}
	if f, _ := trained(s, st, Work{WeightDType: "bf16"}, "moe sort"); len(f) != 1 {
		t.Errorf("tokens by rank are not sorted by expert: %v", f)
	}
	if f, _ := trained(s, st, Work{WeightDType: "bf16", Merged: true}, "moe sort"); len(f) != 0 {
		t.Errorf("throughput kernels hand tokens over sorted: %v", f)
	}
	if f, _ := trained(s, st, Work{WeightDType: "bf16"}, "expert bias"); len(f) != 0 {
		t.Errorf("Qwen3's experts add a bias: %v", f)
	}
	if f, b := trained(embedded(t, "gpt-oss-120b"), st, Work{WeightDType: "bf16"}, "expert bias"); len(f) != 1 || len(b) != 1 || f[0].Kernels != 2*16+2 || b[0].Kernels != 4*16 {
		t.Errorf("gpt-oss: %v and %v, want a bias of 16 experts", f, b)
	}
}

func TestHalfGradientsHalveTheirTraffic(t *testing.T) {
	s := embedded(t, "llama-3.1-8b")
	for _, c := range []struct {
		w          Work
		out, added int
	}{
		{Work{}, 8, 0}, {Work{HalfGrads: true}, 4, 0}, {Work{SeparateGrads: true}, 0, separateGrad}, {Work{SeparateGrads: true, HalfGrads: true}, 0, separateHalf},
	} {
		_, b := trained(s, parallel.Strategy{}, c.w, "o_proj")
		wgrad := b[len(b)-1]
		if wgrad.OutBytes != c.out {
			t.Errorf("%+v: %d bytes an output element, want %d", c.w, wgrad.OutBytes, c.out)
		}
		_, sums := trained(s, parallel.Strategy{}, c.w, "main gradients")
		if c.added == 0 && len(sums) > 0 || c.added > 0 && !hasBytes(sums, units.Bytes(c.added)*4096*4096) {
			t.Errorf("%+v: sums %v, want %d bytes a weight", c.w, sums, c.added)
		}
	}
}

func hasBytes(ops []ComputeOp, b units.Bytes) bool {
	for i := range ops {
		if ops[i].Bytes == b {
			return true
		}
	}
	return false
}

func TestHeadsOfOddSizeAreMarked(t *testing.T) {
	for heads, want := range map[string]bool{"96": true, "100": false, "400": true} { // heads of 150, 144 and 36
		f, _ := trained(oddGPT(t, heads), parallel.Strategy{}, Work{Unfused: true}, "attention_scores")
		if len(f) != 1 || f[0].Narrow != want {
			t.Errorf("%s heads: %v, want narrow %v", heads, f, want)
		}
	}
}

func TestZeRO3ScattersGradientsInTheMicroBatch(t *testing.T) {
	s := embedded(t, "llama-3.1-8b")
	st := parallel.Strategy{DP: 8, ZeRO: 3}.Normalize()
	for _, c := range s.GradientCollectives(st, 0, Training{}) {
		t.Errorf("%s once a step besides", c.Name)
	}
	count := func(w Work) (n int, bytes units.Bytes) {
		w.Phase, w.Batch, w.Tokens, w.Context = Train, 1, 4096, 4096
		for _, c := range s.StepCollectives(st, w, 0) {
			if c.Name == "layer parameters" {
				n, bytes = n+c.Times, bytes+c.Bytes*units.Bytes(c.Times)
			}
		}
		return n, bytes
	}
	layers, all := count(Work{})
	apart, sum := count(Work{TensorGathers: true})
	if layers != 64 || apart != 7*64 {
		t.Errorf("%d gathers of 32 layers and %d of their matrices, want 64 and 448 (q, k, v, o, gate, up, down)", layers, apart)
	}
	if r := float64(sum) / float64(all); r < 0.999 || r > 1 {
		t.Errorf("matrices are %g of the bytes, want all but the norms", r)
	}
}

func TestAScansGradientCostsFourScans(t *testing.T) {
	s, err := Parse(strings.NewReader(`{"model_type":"mamba2","hidden_size":2048,"num_hidden_layers":2,"state_size":128,"num_heads":64,"head_dim":64,"n_groups":1,"vocab_size":51200}`), "mamba", Options{})
	if err != nil {
		t.Fatal(err)
	}
	f, b := trained(s, parallel.Strategy{}, Work{}, "mamba2_scan")
	if len(f) != 1 || len(b) != 1 || b[0].Bytes != 4*f[0].Bytes || b[0].Kernels <= f[0].Kernels {
		t.Errorf("forward %v, backward %v, want 4 times the bytes in more kernels", f, b)
	}
	if !s.Recurrent() || embedded(t, "llama-3.1-8b").Recurrent() {
		t.Error("a Mamba network is recurrent, Llama is not")
	}
}
