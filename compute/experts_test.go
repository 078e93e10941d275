package compute

import (
	"math"
	"math/rand/v2"
	"testing"

	"rankmap/internal/hardware"
	"rankmap/model"
)

// smallBatch is DeepSeek-V3's expert layer on 8 GPUs with a few tokens: where launches and the many experts weigh most.
func smallBatch(dtype string) model.ComputeOp {
	return model.ComputeOp{Name: "experts", Kind: model.MoE, DType: dtype, MoETokens: 8, Hidden: 7168, Inter: 2048, TopK: 8, Experts: 256, EP: 1, ExpertTP: 8, Gated: true}
}

func priceOf(t *testing.T, system string, o Options, op model.ComputeOp) Estimate {
	t.Helper()
	g, k := gpu(t, system)
	m, err := New(g, k, o)
	if err != nil {
		t.Fatal(err)
	}
	e, err := m.Price(op)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestPlansTakeTheFasterKernel(t *testing.T) {
	for _, c := range []struct {
		system, dtype string
		lent          bool // from another type
	}{
		{"b200_sxm", "nvfp4", false}, {"gb200", "nvfp4", false}, {"b200_sxm", "fp8_block", true}, {"h200_sxm", "fp8_block", false}, {"h100_sxm", "fp8", true},
		{"gb200", "mxfp4", true},
	} {
		plan := priceOf(t, c.system, Options{Phase: model.Decode}, smallBatch(c.dtype))
		table := priceOf(t, c.system, Options{Phase: model.Decode, Table: true}, smallBatch(c.dtype))
		if plan.Time > 0.9*table.Time {
			t.Errorf("%s %s: a plan takes %v, the table %v", c.system, c.dtype, plan.Time, table.Time)
		}
		if got := plan.Flags&NearType != 0; got != c.lent {
			t.Errorf("%s %s: flags %v", c.system, c.dtype, plan.Flags)
		}
		roof := 60 * 3 * 7168 * 256 * 0.5 / 8e12 // fewest active experts, smallest weights, fastest memory
		if plan.Time.Seconds() < roof {
			t.Errorf("%s %s: %v is less than its weights take", c.system, c.dtype, plan.Time)
		}
	}
	plain := smallBatch("nvfp4")
	plain.Gated = false
	if a, b := priceOf(t, "b200_sxm", Options{Phase: model.Decode}, plain), priceOf(t, "b200_sxm", Options{Phase: model.Decode}, smallBatch("nvfp4")); a.Time < 1.2*b.Time {
		t.Errorf("experts without gate take the fused kernel: %v, gated %v", a.Time, b.Time)
	}
	if a, b := priceOf(t, "b200_sxm", Options{Phase: model.Train, Sustained: 1}, smallBatch("nvfp4")), priceOf(t, "b200_sxm", Options{Phase: model.Decode}, smallBatch("nvfp4")); a.Time < 1.2*b.Time {
		t.Errorf("training takes the fused kernel: %v, decode %v", a.Time, b.Time)
	}
}

func TestTablesHoldTheOddKernel(t *testing.T) {
	op := smallBatch("bf16")
	op.Experts, op.EP, op.ExpertTP, op.MoETokens = 384, 32, 2, 1024 // 12 experts a GPU
	table, plan := priceOf(t, "h100_sxm", Options{Phase: model.Decode, Table: true}, op), priceOf(t, "h100_sxm", Options{Phase: model.Decode}, op)
	if table.Time < 2*plan.Time || plan.Flags&OddExperts == 0 {
		t.Errorf("table %v, plan %v %v", table.Time, plan.Time, plan.Flags)
	}
}

// TestNewerSiliconIsNoSlower: Blackwell Ultra has Blackwell's tensor cores, faster in fp4, and its memory.
func TestNewerSiliconIsNoSlower(t *testing.T) {
	models := func(system string, ph model.Phase) *Model {
		g, k := gpu(t, system)
		m, err := New(g, k, Options{Phase: ph, Framework: FrameworkFor(ph)})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for _, pair := range [][2]string{{"b200_sxm", "b300_sxm"}, {"gb200", "gb300"}} {
		for _, ph := range []model.Phase{model.Prefill, model.Decode, model.Train} {
			a, b := models(pair[0], ph), models(pair[1], ph)
			for _, dtype := range []string{"bf16", "fp8", "fp8_static", "fp8_block", "nvfp4", "mxfp4", "int4"} {
				for _, m := range []int{1, 16, 300, 8192} {
					moe := smallBatch(dtype)
					moe.MoETokens = m
					for _, op := range []model.ComputeOp{
						moe, {Name: "product", Kind: model.GEMM, DType: dtype, M: m, N: 2112, K: 7168},
						{Name: "decode", Kind: model.AttnDecode, DType: "bf16", CacheDType: "fp8", Batch: m, Context: 5000, Heads: 8, KVHeads: 1, HeadDim: 128},
						{Name: "latent", Kind: model.MLADecode, DType: "bf16", CacheDType: "fp8", Batch: m, Context: 5000, Heads: 16},
					} {
						old, err := a.Price(op)
						now, err2 := b.Price(op)
						if err != nil || err2 != nil || now.Time > 1.001*old.Time {
							t.Errorf("%v %s %s of %d: %v on %s, %v on %s (%v, %v)", ph, dtype, op.Name, m, old.Time, pair[0], now.Time, pair[1], err, err2)
						}
					}
				}
			}
		}
	}
}

// moeSamples times made-up layers by price.
func moeSamples(n int, price func(*Sample, int) float64) []Sample {
	rng := rand.New(rand.NewPCG(1, 2))
	out := make([]Sample, n)
	for i := range out {
		o := smallBatch("nvfp4")
		o.MoETokens, o.Hidden, o.Inter = 1<<rng.IntN(13), 2048<<rng.IntN(3), 1024<<rng.IntN(3)
		o.EP, o.ExpertTP = 1<<rng.IntN(6), 1<<rng.IntN(3)
		s := Sample{Op: o, Load: Balanced(o.MoETokens, o.TopK, o.Experts, o.EP)}
		s.Time = price(&s, i) * math.Exp(0.05*rng.NormFloat64())
		out[i] = s
	}
	return out
}

func TestTwoKernelsAreToldApart(t *testing.T) {
	g, _ := gpu(t, "b200_sxm")
	slow := newMoE(g, nvfp4, hardware.MoE{T0: 35, TE: 180, EM: 0.9, EC: 0.4, LK: 1.5, TW: 2, EA: 0.5, P: 2, TR: 2}, 1)
	quick := newMoE(g, nvfp4, hardware.MoE{T0: 18, TE: 2, EM: 0.9, EC: 0.7, LK: 0.6, TW: 0.5, EA: 0.9, P: 2, TR: 1}, 1)
	all := moeSamples(300, func(s *Sample, i int) float64 {
		if i%2 == 0 {
			return timeMoE(&slow, s)
		}
		return timeMoE(&quick, s)
	})
	own, fast, ok := fitTwoKernels(g, nvfp4, all[:240], all[240:], func(hardware.Fit) {})
	if !ok {
		t.Fatal("not told apart")
	}
	if _, _, ok := fitTwoKernels(g, nvfp4, all[:50], all[240:], func(hardware.Fit) {}); ok {
		t.Error("50 rows make two kernels")
	}
	for _, c := range []struct {
		name string
		rec  hardware.MoE
		true *moe
	}{{"slow", own, &slow}, {"fused", fast, &quick}} {
		x := newMoE(g, nvfp4, c.rec, 1)
		x.grid, _ = gridOf(c.rec.Grid, 4)
		fresh := moeSamples(100, func(s *Sample, _ int) float64 { return timeMoE(c.true, s) })
		if f := score(fresh, func(s *Sample) float64 { return timeMoE(&x, s) }); f.Median > 9 || f.P90 > 25 {
			t.Errorf("%s kernel: %.1f / %.1f", c.name, f.Median, f.P90)
		}
	}
}

func TestOddFactor(t *testing.T) {
	g, k := gpu(t, "h100_sxm")
	rec := k.Frameworks[DefaultFramework].MoE["bf16"]
	x := newMoE(g, bf16, rec, 1)
	made := func(factor float64) []Sample {
		all := moeSamples(60, func(s *Sample, i int) float64 {
			if i%3 == 0 {
				s.Op.Experts, s.Op.EP = 384, 64
				return factor * timeMoE(&x, s)
			}
			return timeMoE(&x, s)
		})
		return all
	}
	if f := oddFactor(g, bf16, rec, made(3)); math.Abs(f/3-1) > 0.1 {
		t.Errorf("factor %.2f, want 3", f)
	}
	if f := oddFactor(g, bf16, rec, made(1)); f != 0 {
		t.Errorf("factor %.2f of rows that run like the others", f)
	}
	if n := len(without(made(1))); n != 40 {
		t.Errorf("%d rows left", n)
	}
}
