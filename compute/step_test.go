package compute_test

import (
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"testing"

	"rankmap/compute"
	"rankmap/configs"
	"rankmap/internal/hardware"
	"rankmap/internal/measured"
	"rankmap/internal/testdata"
	"rankmap/internal/units"
	"rankmap/model"
)

// pricers returns models of a shipped GPU by phase.
func pricers(t testing.TB, system, framework string) map[model.Phase]*compute.Model {
	t.Helper()
	g, k := records(t, system)
	out := map[model.Phase]*compute.Model{}
	for _, ph := range []model.Phase{model.Prefill, model.Decode, model.Train} {
		m, err := compute.New(g, k, compute.Options{Framework: framework, Phase: ph})
		if err != nil {
			t.Fatal(err)
		}
		out[ph] = m
	}
	return out
}

func records(t testing.TB, system string) (*hardware.GPU, *hardware.Kernels) {
	t.Helper()
	cat, err := hardware.Load(configs.FS)
	if err != nil {
		t.Fatal(err)
	}
	g, err := cat.GPU(system)
	if err != nil {
		t.Fatal(err)
	}
	k, err := hardware.LoadKernels(configs.FS, g.System)
	if err != nil {
		t.Fatal(err)
	}
	return g, k
}

// layerSizes are those of Llama 3.1 (its published configurations).
var layerSizes = map[string]struct{ hidden, heads, kv, inter int }{
	"llama70b": {8192, 64, 8, 28672}, "llama8b": {4096, 32, 8, 14336},
}

// layerOps is one layer on one of tp GPUs: four products, attention, two norms, two residual adds, activation and gate
// as two kernels.
func layerOps(name string, tp, batch, tokens, context int, decode bool) []model.ComputeOp {
	s := layerSizes[name]
	t := batch * tokens
	attn := model.ComputeOp{Kind: model.AttnPrefill, DType: "bf16", Batch: batch, Heads: s.heads / tp, KVHeads: s.kv / tp, HeadDim: 128, Tokens: tokens, Context: context}
	if decode {
		attn.Kind = model.AttnDecode
	}
	small := func(bytes, kernels int) model.ComputeOp {
		return model.ComputeOp{Kind: model.Elementwise, Bytes: units.Bytes(bytes), Kernels: kernels}
	}
	gemm := func(n, k int) model.ComputeOp {
		return model.ComputeOp{Kind: model.GEMM, DType: "bf16", M: t, N: n, K: k}
	}
	return []model.ComputeOp{
		gemm((s.heads+2*s.kv)*128/tp, s.hidden), attn, gemm(s.hidden, s.heads*128/tp),
		gemm(2*s.inter/tp, s.hidden), gemm(s.hidden, s.inter/tp),
		small(2*4*t*s.hidden, 2), small(2*6*t*s.hidden, 2), small(10*t*s.inter/tp, 2),
	}
}

// allReduceTimes reads the default all-reduces of the sweep: bytes, us; from a CUDA graph up to 16 MiB, else eager.
func allReduceTimes(t *testing.T) (bytes, us []float64) {
	f, err := os.Open(filepath.Join(testdata.Dir(t, "measured", "h200-x2"), "sweep.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r[0] == "default" && r[2] == "all_reduce" {
			at := 7
			if r[7] == "" {
				at = 4
			}
			b, _ := strconv.ParseFloat(r[3], 64)
			v, err := strconv.ParseFloat(r[at], 64)
			if err != nil {
				t.Fatal(err)
			}
			bytes, us = append(bytes, b), append(us, v)
		}
	}
	return bytes, us
}

// interpolate is linear between the logarithms of the neighbours.
func interpolate(x, y []float64, at float64) float64 {
	i := sort.SearchFloat64s(x, at)
	i = min(max(i, 1), len(x)-1)
	f := math.Log(at/x[i-1]) / math.Log(x[i]/x[i-1])
	return math.Exp(math.Log(y[i-1]) + f*math.Log(y[i]/y[i-1]))
}

// TestTensorParallelSteps predicts the 48 measured stacks of layers, nothing fitted to them: products and attention of
// this package, all-reduces as the same machine measured them alone.
func TestTensorParallelSteps(t *testing.T) {
	f, err := os.Open(filepath.Join(testdata.Dir(t, "measured", "h200-x2"), "step.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	steps, err := measured.Steps(f, "step.csv")
	if err != nil {
		t.Fatal(err)
	}
	x, y := allReduceTimes(t)
	models := pricers(t, "h200_sxm", "plain")
	var ape []float64
	for _, s := range steps {
		ph := model.Prefill
		if s.Phase == "decode" {
			ph = model.Decode
		}
		us, gemm, attn := 0.0, 0.0, 0.0
		for _, op := range layerOps(s.Model, s.TP, s.Batch, s.Tokens, s.Context, ph == model.Decode) {
			e, err := models[ph].Price(op)
			if err != nil {
				t.Fatal(err)
			}
			us += e.Time.Micros()
			switch op.Kind {
			case model.GEMM:
				gemm += e.Time.Micros()
			case model.AttnDecode, model.AttnPrefill:
				attn += e.Time.Micros()
			}
		}
		if s.Comm {
			us += 2 * interpolate(x, y, float64(2*s.Batch*s.Tokens*layerSizes[s.Model].hidden))
		}
		e := us/s.PerLayer.Micros() - 1
		ape = append(ape, 100*math.Abs(e))
		t.Logf("%s tp%d %s b%d s%d comm %-5v measured %8.1f predicted %8.1f (%+5.1f %%) products %.1f attention %.1f", s.Model, s.TP, s.Phase, s.Batch, s.Tokens, s.Comm, s.PerLayer.Micros(), us, 100*e, gemm, attn)
	}
	sort.Float64s(ape)
	if len(ape) != 48 {
		t.Fatalf("%d steps, want 48", len(ape))
	}
	median, p90 := ape[len(ape)/2], ape[len(ape)*9/10]
	t.Logf("%d steps: median %.1f %%, p90 %.1f %%, worst %.1f %%", len(ape), median, p90, ape[len(ape)-1])
	if median > 4 || p90 > 10 {
		t.Errorf("median %.1f, p90 %.1f, want at most 4 and 10", median, p90)
	}
}
