package compute_test

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"rankmap/compute"
	"rankmap/configs"
	"rankmap/internal/hardware"
	"rankmap/internal/units"
	"rankmap/model"
)

// ops is one of each kind, of sizes that serving meets.
var ops = []model.ComputeOp{
	{Name: "decode projection", Kind: model.GEMM, DType: "bf16", M: 64, N: 8192, K: 8192},
	{Name: "prefill projection", Kind: model.GEMM, DType: "fp8", M: 8192, N: 10240, K: 8192},
	{Name: "block fp8 projection", Kind: model.GEMM, DType: "fp8_block", M: 256, N: 7168, K: 2048},
	{Name: "weight gradient", Kind: model.GEMM, DType: "bf16", M: 8192, N: 8192, K: 4096, OutBytes: 8, Backward: true},
	{Name: "prompt attention", Kind: model.AttnPrefill, DType: "bf16", Batch: 2, Heads: 8, KVHeads: 1, HeadDim: 128, Tokens: 4096, Context: 4096},
	{Name: "chunk attention", Kind: model.AttnPrefill, DType: "bf16", Batch: 1, Heads: 8, KVHeads: 1, HeadDim: 128, Tokens: 2048, Context: 16384},
	{Name: "windowed prompt attention", Kind: model.AttnPrefill, DType: "bf16", CacheDType: "fp8", Batch: 1, Heads: 8, KVHeads: 1, HeadDim: 64, Tokens: 8192, Context: 8192, Window: 128},
	{Name: "cache attention", Kind: model.AttnDecode, DType: "bf16", Batch: 64, Heads: 8, KVHeads: 1, HeadDim: 128, Tokens: 1, Context: 4096},
	{Name: "multi-head cache attention", Kind: model.AttnDecode, DType: "bf16", CacheDType: "fp8", Batch: 8, Heads: 32, KVHeads: 32, HeadDim: 128, Tokens: 1, Context: 2048},
	{Name: "latent prompt", Kind: model.MLAPrefill, DType: "bf16", Batch: 1, Heads: 16, Tokens: 4096, Context: 4096},
	{Name: "latent cache", Kind: model.MLADecode, DType: "bf16", CacheDType: "fp8", Batch: 64, Heads: 128, Context: 4096},
	{Name: "experts", Kind: model.MoE, DType: "fp8_block", MoETokens: 1024, Hidden: 7168, Inter: 2048, TopK: 8, Experts: 256, EP: 16, ExpertTP: 1, Gated: true},
	{Name: "skewed experts", Kind: model.MoE, DType: "bf16", MoETokens: 128, Hidden: 4096, Inter: 14336, TopK: 2, Experts: 8, EP: 1, ExpertTP: 8, Gated: true, Skew: 1.5},
	{Name: "norm", Kind: model.Elementwise, DType: "bf16", Bytes: 4 << 20, Kernels: 1},
	{Name: "scan", Kind: model.Elementwise, DType: "bf16", Bytes: 4 << 20, FLOPs: 1e12, Kernels: 3},
}

func systems(t testing.TB) []string {
	cat, err := hardware.Load(configs.FS)
	if err != nil {
		t.Fatal(err)
	}
	return cat.Systems()
}

// TestEveryGPUPricesEveryKind holds for both frameworks and all phases: finite, ordered, and marked where estimated.
func TestEveryGPUPricesEveryKind(t *testing.T) {
	measured := map[string]bool{"a100_sxm": true, "h100_sxm": true, "h200_sxm": true, "b200_sxm": true, "gb200": true}
	for _, s := range systems(t) {
		for _, fw := range []string{"trtllm", "plain"} {
			for ph, m := range pricers(t, s, fw) {
				want := compute.Family
				if measured[s] {
					want = compute.Fitted
				}
				for _, dtype := range []string{"", "bf16", "fp16", "fp8", "fp8_static", "fp8_block", "nvfp4", "mxfp4", "int8", "int4", "fp32"} {
					for _, op := range ops {
						if dtype != "" && op.Kind != model.GEMM && op.Kind != model.MoE {
							continue
						}
						if dtype != "" {
							op.DType = dtype
						}
						e, err := m.Price(op)
						if err != nil {
							t.Fatalf("%s %s %v: %s: %v", s, fw, ph, op.Name, err)
						}
						if v := e.Time.Seconds(); !(v > 1e-7 && v < 10) || !(e.P10 > 0 && e.P10 <= e.Time*1.3 && e.P10 < e.P90 && e.P90 >= e.Time*0.77) {
							t.Errorf("%s %s %v: %s %s: %v (%v to %v)", s, fw, ph, op.Name, op.DType, e.Time, e.P10, e.P90)
						}
						if e.Provenance != want {
							t.Errorf("%s: %v, want %v", s, e.Provenance, want)
						}
					}
				}
			}
		}
	}
}

// TestSustainedClock: the factor slows prefill and training, never decode, and is said.
func TestSustainedClock(t *testing.T) {
	g, k := records(t, "h200")
	op := model.ComputeOp{Kind: model.GEMM, DType: "bf16", M: 8192, N: 8192, K: 8192}
	price := func(o compute.Options) compute.Estimate {
		t.Helper()
		m, err := compute.New(g, k, o)
		if err != nil {
			t.Fatal(err)
		}
		e, err := m.Price(op)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	boost := price(compute.Options{Phase: model.Decode})
	burst := price(compute.Options{Phase: model.Prefill, Sustained: 1})
	half := price(compute.Options{Phase: model.Train, Sustained: 0.5})
	own := price(compute.Options{Phase: model.Train})
	if boost.Time != burst.Time || boost.Flags&compute.SustainedUsed != 0 {
		t.Errorf("decode %v, prefill at boost %v, flags %v", boost.Time, burst.Time, boost.Flags)
	}
	if r := half.Time / burst.Time; r < 1.8 || r > 2.01 || half.Flags&compute.SustainedUsed == 0 {
		t.Errorf("half clock costs %.2f times as long, want about 2; flags %v", r, half.Flags)
	}
	if own.Time <= burst.Time || own.Time >= half.Time {
		t.Errorf("own factor: %v, want between %v and %v", own.Time, burst.Time, half.Time)
	}
	if _, err := compute.New(g, k, compute.Options{Phase: model.Train, Sustained: 3}); err == nil {
		t.Error("a factor of 3 was accepted")
	}
	h20, _ := records(t, "h20")
	hk, _ := hardware.LoadKernels(configs.FS, "h20")
	m, err := compute.New(h20, hk, compute.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if e, _ := m.Price(op); e.Flags&compute.NoFactor == 0 {
		t.Errorf("unknown factor is not said: %v", e.Flags)
	}
}

// TestPlansReadRealMemory: no plan lets decode attention read its cache faster than 0.94 of the datasheet, the most that was measured with real K and V, whatever the
// tables show.
func TestPlansReadRealMemory(t *testing.T) {
	for _, s := range systems(t) {
		g, k := records(t, s)
		for name := range k.Frameworks {
			m, err := compute.New(g, k, compute.Options{Framework: name, Phase: model.Decode})
			if err != nil {
				t.Fatal(err)
			}
			for _, cache := range []string{"bf16", "fp8"} {
				for _, heads := range []int{1, 8, 64} {
					e, err := m.Price(model.ComputeOp{Kind: model.AttnDecode, DType: "bf16", CacheDType: cache, Batch: 256, Heads: 64, KVHeads: heads, HeadDim: 128, Context: 32768})
					if err != nil {
						t.Fatal(err)
					}
					bytes := 2 * 256 * float64(heads) * 32768 * 128 * map[string]float64{"bf16": 2, "fp8": 1}[cache]
					if rate := bytes / e.Time.Seconds() / 1e9; rate > 0.95*g.HBMGBps {
						t.Errorf("%s %s %s cache, %d KV heads: %.0f GB/s of %.0f", s, name, cache, heads, rate, g.HBMGBps)
					}
				}
			}
		}
	}
}

// TestGB200PlansUseTheGroupedKernel: its table ran one block a query head for every shape.
func TestGB200PlansUseTheGroupedKernel(t *testing.T) {
	g, k := records(t, "gb200")
	op := model.ComputeOp{Kind: model.AttnDecode, DType: "bf16", Batch: 128, Heads: 64, KVHeads: 8, HeadDim: 128, Context: 8192}
	plan, err := compute.New(g, k, compute.Options{Phase: model.Decode})
	if err != nil {
		t.Fatal(err)
	}
	table, err := compute.New(g, k, compute.Options{Phase: model.Decode, Table: true})
	if err != nil {
		t.Fatal(err)
	}
	p, _ := plan.Price(op)
	q, _ := table.Price(op)
	if p.Time >= q.Time/2 || p.Flags&compute.BorrowedPath == 0 || q.Flags&compute.BorrowedPath != 0 {
		t.Errorf("plan %v (%v), table %v (%v)", p.Time, p.Flags, q.Time, q.Flags)
	}
}

// TestWarnings: what makes an estimate doubtful is said.
func TestWarnings(t *testing.T) {
	h200 := pricers(t, "h200", "trtllm")[model.Decode]
	a100 := pricers(t, "a100", "trtllm")[model.Decode]
	moe := ops[11]
	odd, wide := moe, moe
	odd.Experts, odd.EP = 384, 32
	wide.EP = 64
	gemm := model.ComputeOp{Kind: model.GEMM, DType: "bf16", M: 128, N: 57344, K: 8192}
	fp8 := gemm
	fp8.DType = "fp8"
	for _, c := range []struct {
		name string
		m    *compute.Model
		op   model.ComputeOp
		want compute.Flags
	}{
		{"12 experts a GPU", h200, odd, compute.OddExperts},
		{"64 expert-parallel ranks", h200, wide, compute.ManyRanks},
		{"batch of 128 over a wide matrix", h200, gemm, compute.PoorKernel},
		{"fp8 on a GPU without it", a100, fp8, compute.WeightOnly},
		{"experts in a framework without measured ones", pricers(t, "h200", "plain")[model.Decode], moe, compute.LentKernels},
	} {
		e, err := c.m.Price(c.op)
		if err != nil {
			t.Fatal(err)
		}
		if e.Flags&c.want == 0 || e.Flags.String() == "" || len(e.Flags.List()) != strings.Count(e.Flags.String(), "; ")+1 {
			t.Errorf("%s: flags %q", c.name, e.Flags)
		}
	}
}

// TestBadInput: no size or type goes through unseen.
func TestBadInput(t *testing.T) {
	m := pricers(t, "h100", "trtllm")[model.Decode]
	for name, op := range map[string]model.ComputeOp{
		"no rows":                   {Kind: model.GEMM, N: 1, K: 1},
		"negative columns":          {Kind: model.GEMM, M: 1, N: -1, K: 1},
		"absurd depth":              {Kind: model.GEMM, M: 1, N: 1, K: math.MaxInt},
		"unknown type":              {Kind: model.GEMM, DType: "fp13", M: 1, N: 1, K: 1},
		"no sequences":              {Kind: model.AttnDecode, Heads: 1, KVHeads: 1, HeadDim: 1, Context: 1},
		"no KV heads":               {Kind: model.AttnPrefill, Batch: 1, Heads: 1, HeadDim: 1, Tokens: 1},
		"no context":                {Kind: model.MLADecode, Batch: 1, Heads: 1},
		"more ranks than experts":   {Kind: model.MoE, MoETokens: 1, Hidden: 1, Inter: 1, TopK: 1, Experts: 8, EP: 16},
		"more choices than experts": {Kind: model.MoE, MoETokens: 1, Hidden: 1, Inter: 1, TopK: 9, Experts: 8, EP: 1},
		"negative bytes":            {Kind: model.Elementwise, Bytes: -1},
		"NaN FLOPs":                 {Kind: model.Elementwise, FLOPs: math.NaN()},
		"unknown kind":              {Kind: 99},
	} {
		if e, err := m.Price(op); err == nil {
			t.Errorf("%s: priced at %v", name, e.Time)
		}
	}
	g, k := records(t, "h100")
	if _, err := compute.New(g, k, compute.Options{Framework: "nosuch"}); err == nil || !strings.Contains(err.Error(), "plain, trtllm") {
		t.Errorf("unknown framework: %v", err)
	}
	if _, err := compute.New(nil, k, compute.Options{}); err == nil {
		t.Error("no GPU was accepted")
	}
}

// anyOp draws an operation.
func anyOp(t *rapid.T) model.ComputeOp {
	size := func(name string, bits int) int { return 1 << rapid.IntRange(0, bits).Draw(t, name) * 3 / 2 }
	op := model.ComputeOp{Kind: model.OpKind(rapid.IntRange(0, 6).Draw(t, "kind")), DType: rapid.SampledFrom([]string{"bf16", "fp8", "fp8_block", "nvfp4", "int4"}).Draw(t, "type")}
	op.CacheDType = rapid.SampledFrom([]string{"bf16", "fp8"}).Draw(t, "cache")
	op.M, op.N, op.K = size("m", 15), size("n", 16), size("k", 15)
	op.KVHeads = 1 << rapid.IntRange(0, 4).Draw(t, "kv")
	op.Batch, op.Heads, op.HeadDim = size("batch", 9), op.KVHeads<<rapid.IntRange(0, 4).Draw(t, "group"), 64<<rapid.IntRange(0, 2).Draw(t, "dim")
	op.Tokens = size("tokens", 14)
	op.Context = op.Tokens + rapid.IntRange(0, 1<<15).Draw(t, "history")
	op.Window = rapid.SampledFrom([]int{0, 0, 128, 4096}).Draw(t, "window")
	op.Experts = 8 << rapid.IntRange(0, 5).Draw(t, "experts")
	op.EP, op.TopK, op.ExpertTP = 1<<rapid.IntRange(0, 3).Draw(t, "ep"), rapid.IntRange(1, 8).Draw(t, "topk"), 1
	op.MoETokens, op.Hidden, op.Inter = size("moe tokens", 15), size("hidden", 13), size("inter", 14)
	op.Bytes, op.Kernels = units.Bytes(size("bytes", 34)), 1
	return op
}

// TestMoreBandwidthIsNeverSlower, nor are faster tensor cores, and no price is negative.
func TestMoreBandwidthIsNeverSlower(t *testing.T) {
	type pair struct{ base, memory, tensor *compute.Model }
	var all []pair
	for _, s := range []string{"a100", "h100", "h200", "b200", "gb200", "l40s"} {
		g, k := records(t, s)
		mk := func(g hardware.GPU) *compute.Model {
			m, err := compute.New(&g, k, compute.Options{Phase: model.Decode})
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		mem, ten := *g, *g
		mem.HBMGBps *= 1.3
		ten.TFLOPS = map[string]float64{}
		for d, v := range g.TFLOPS {
			ten.TFLOPS[d] = 1.3 * v
		}
		all = append(all, pair{mk(*g), mk(mem), mk(ten)})
	}
	rapid.Check(t, func(t *rapid.T) {
		op := anyOp(t)
		p := rapid.SampledFrom(all).Draw(t, "gpu")
		base, err := p.base.Price(op)
		if err != nil {
			t.Fatal(err)
		}
		if !(base.Time > 0) || math.IsInf(float64(base.Time), 0) {
			t.Fatalf("%+v: %v", op, base.Time)
		}
		for name, m := range map[string]*compute.Model{"memory": p.memory, "tensor cores": p.tensor} {
			if e, err := m.Price(op); err != nil || e.Time > base.Time*(1+1e-9) {
				t.Fatalf("faster %s: %v after %v (%v): %+v", name, e.Time, base.Time, err, op)
			}
		}
	})
}

// TestWorkCosts: well beyond the granularity of tiles, twice the work takes longer.
func TestWorkCosts(t *testing.T) {
	m := pricers(t, "h200", "trtllm")[model.Decode]
	rapid.Check(t, func(t *rapid.T) {
		op := anyOp(t)
		more := op
		switch op.Kind {
		case model.GEMM:
			more.M *= 4
		case model.AttnDecode: // enough sequences that the grouped kernel is chosen both times
			op.Batch *= 64
			more.Batch = 4 * op.Batch
		case model.AttnPrefill, model.MLAPrefill, model.MLADecode:
			more.Batch *= 4
		case model.MoE:
			more.MoETokens *= 4
		default:
			more.Bytes *= 4
		}
		a, err := m.Price(op)
		b, err2 := m.Price(more)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if b.Time < a.Time*0.6 { // corrections for kernel choice may bend a curve, not turn it over
			t.Fatalf("four times the work: %v after %v: %+v", b.Time, a.Time, op)
		}
	})
}

func TestPricingDoesNotAllocate(t *testing.T) {
	m := pricers(t, "h200", "trtllm")[model.Prefill]
	if n := testing.AllocsPerRun(20, func() {
		for i := range ops {
			if _, err := m.Price(ops[i]); err != nil {
				t.Fatal(err)
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkLayer prices one layer: 15 operations; the budget is 5 us.
func BenchmarkLayer(b *testing.B) {
	m := pricers(b, "h200", "trtllm")[model.Decode]
	b.ReportAllocs()
	for b.Loop() {
		for i := range ops {
			m.Price(ops[i])
		}
	}
}

// BenchmarkNew resolves one GPU's records from the embedded files.
func BenchmarkNew(b *testing.B) {
	g, _ := records(b, "h200")
	b.ReportAllocs()
	for b.Loop() {
		k, err := hardware.LoadKernels(configs.FS, "h200_sxm")
		if err != nil {
			b.Fatal(err)
		}
		if _, err := compute.New(g, k, compute.Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
