package compute

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"rankmap/configs"
	"rankmap/internal/hardware"
	"rankmap/internal/measured"
	"rankmap/internal/testdata"
	"rankmap/internal/units"
	"rankmap/model"
)

func TestSearchFindsABoundedMinimum(t *testing.T) {
	ps := []param{{"a", 0.1, 10, 1, false}, {"b", 0, 4, 1, true}, {"c", 1, 3, 2, false}}
	v, l := search(ps, func(v []float64) float64 {
		return math.Abs(math.Log(v[0]/2.5)) + math.Abs(v[1]-3) + math.Abs(v[2]-5) // c's best lies outside its bounds
	})
	if math.Abs(v[0]-2.5) > 0.05 || math.Abs(v[1]-3) > 0.05 || v[2] < 2.97 || v[2] > 3 {
		t.Errorf("%.3f, loss %.3f", v, l)
	}
}

func TestParamsStayInBounds(t *testing.T) {
	p := param{"x", 0.5, 8, 1, false}
	for u := -3.0; u < 3; u += 0.01 {
		if v := p.decode(u); v < p.lo-1e-9 || v > p.hi+1e-9 {
			t.Fatalf("decode(%g) = %g", u, v)
		}
	}
	for _, v := range []float64{0.5, 1, 3, 8} {
		if w := p.decode(p.encode(v)); math.Abs(w-v) > 1e-9 {
			t.Errorf("%g became %g", v, w)
		}
	}
}

// rowsOf reads tables of the collection.
func rowsOf(t testing.TB, dir, system string, files ...string) []measured.OpRow {
	t.Helper()
	var out []measured.OpRow
	for _, n := range files {
		f, err := os.Open(filepath.Join(testdata.Dir(t, "measured", dir), n))
		if err != nil {
			t.Fatal(err)
		}
		rows, err := measured.Ops(f, n, system)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			if r.System == system {
				out = append(out, r)
			}
		}
	}
	return out
}

func gpu(t testing.TB, system string) (*hardware.GPU, *hardware.Kernels) {
	t.Helper()
	cat, err := hardware.Load(configs.FS)
	if err != nil {
		t.Fatal(err)
	}
	g, err := cat.GPU(system)
	if err != nil {
		t.Fatal(err)
	}
	k, err := hardware.LoadKernels(configs.FS, system)
	if err != nil {
		t.Fatal(err)
	}
	return g, k
}

// TestFormsReproducePublishedErrors: the forms with the prototype's parameters give the prototype's errors on rows
// (median, percent), so they are the same forms. Decode attention has a form of its own since.
func TestFormsReproducePublishedErrors(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(testdata.Dir(t, "docs"), "compute-params.json"))
	if err != nil {
		t.Fatal(err)
	}
	var p map[string]map[string]map[string]float64
	if err := json.Unmarshal(b, &p); err != nil {
		t.Fatal(err)
	}
	g, _ := gpu(t, "h200_sxm")
	v := p["gemm"]["h200_sxm|bfloat16"]
	product := newGEMM(g, bf16, hardware.GEMM{EC: v["ec"], EM: v["em"], LK: v["lk"], TW: v["tw"], T1: v["t1"], P: v["p"]}, hardware.Launch{T0: v["t0"]}, 1)
	v = p["gemm"]["h200_sxm|fp8"]
	product8 := newGEMM(g, fp8, hardware.GEMM{EC: v["ec"], EM: v["em"], LK: v["lk"], TW: v["tw"], T1: v["t1"], P: v["p"]}, hardware.Launch{T0: v["t0"], Q: v["q"], TR: v["tr"]}, 1)
	v = p["attn_prefill"]["h200_sxm|bfloat16/fp8"]
	prompt := newPrefill(g, keyBF16FP8, hardware.Prefill{T: int(v["T"]), T0: v["t0"], EC: v["ec"], SX: v["sx"], PM: v["pm"], EM: v["em"], WKV: v["wkv"], TCTA: v["tcta"], Tail: v["tail"], WX: v["wx"]}, 1)
	v = p["mla_prefill"]["h200_sxm|bfloat16/bfloat16"]
	latent := newMLAPrefill(g, hardware.MLAPrefill{T: int(v["T"]), T0: v["t0"], EC: v["ec"], SX: v["sx"], PM: v["pm"], EM: v["em"], TCTA: v["tcta"], Tail: v["tail"]}, 1)
	v = p["mla_decode"]["h200_sxm|bfloat16/bfloat16"]
	cache := newMLADecode(g, keyBF16, hardware.MLADecode{T0: v["t0"], T1: v["t1"], EM: v["em"], EC: v["ec"], LT: v["lt"], TW: v["tw"], EQ: v["eq"]})
	v = p["moe"]["h200_sxm|fp8"]
	experts := newMoE(g, fp8, hardware.MoE{T0: v["t0"], TE: v["te"], EM: v["em"], EC: v["ec"], LK: v["lk"], TW: v["tw"], EA: v["ea"], P: v["p"]}, 1)
	for _, c := range []struct {
		file, key   string
		kind        model.OpKind
		median, p90 float64 // published, on these rows
		price       func(*Sample) float64
	}{
		{"gemm.csv", "bf16", model.GEMM, 4.6, 12.0, func(s *Sample) float64 { return product.time(s.Op.M, s.Op.N, s.Op.K, 2).total }},
		{"gemm.csv", "fp8", model.GEMM, 2.6, 9.9, func(s *Sample) float64 { return product8.time(s.Op.M, s.Op.N, s.Op.K, 2).total }},
		{"context_attention.csv", "bf16/fp8", model.AttnPrefill, 6.4, 16.5, func(s *Sample) float64 { return timePrefill(&prompt, s) }},
		{"context_mla.csv", "bf16/bf16", model.MLAPrefill, 4.0, 11.2, func(s *Sample) float64 { return timeMLAPrefill(&latent, s) }},
		{"generation_mla.csv", "bf16/bf16", model.MLADecode, 3.7, 12.9, func(s *Sample) float64 { return timeMLADecode(&cache, s) }},
		{"moe.csv", "fp8", model.MoE, 10.2, 32.7, func(s *Sample) float64 { return timeMoE(&experts, s) }},
	} {
		set := newSampleSet(rowsOf(t, "public", "h200_sxm", c.file), func(*measured.OpRow) bool { return false })
		in, _ := set.of(c.kind, c.key)
		s := score(in, c.price)
		t.Logf("%s %s: %d rows, %.1f / %.1f, published %.1f / %.1f", c.file, c.key, s.Rows, s.Median, s.P90, c.median, c.p90)
		if s.Median > c.median+0.3 || s.P90 > c.p90+1 {
			t.Errorf("%s %s: %.1f / %.1f, published %.1f / %.1f", c.file, c.key, s.Median, s.P90, c.median, c.p90)
		}
	}
}

// TestShippedRecordsHold: the errors written in the records are those on held-out rows, and within the goals.
func TestShippedRecordsHold(t *testing.T) {
	files := map[model.OpKind]string{model.GEMM: "gemm.csv", model.AttnPrefill: "context_attention.csv", model.AttnDecode: "generation_attention.csv",
		model.MoE: "moe.csv", model.MLAPrefill: "context_mla.csv", model.MLADecode: "generation_mla.csv"}
	goals := map[model.OpKind][2]float64{model.GEMM: {4, 15}, model.AttnPrefill: {3, 12}, model.AttnDecode: {7, 22}, model.MoE: {8, 31.5}, model.MLAPrefill: {3, 10}, model.MLADecode: {4, 14}}
	for kind := model.GEMM; kind <= model.MoE; kind++ {
		var all []Sample
		at := map[int]*Model{}
		ratio := []float64{}
		for _, system := range []string{"a100_sxm", "h100_sxm", "h200_sxm", "b200_sxm", "gb200"} {
			g, k := gpu(t, system)
			m, err := New(g, k, Options{Phase: model.Decode, Table: true})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range rowsOf(t, "public", system, files[kind]) {
				if s, ok := SampleOf(&r); ok && HeldOut(&r) {
					at[len(all)] = m
					all = append(all, s)
				}
			}
		}
		inside := 0
		for i := range all {
			var e Estimate
			var err error
			if kind == model.MoE {
				e, err = at[i].PriceLoad(all[i].Op, all[i].Load)
			} else {
				e, err = at[i].Price(all[i].Op)
			}
			if err != nil {
				t.Fatal(err)
			}
			ratio = append(ratio, e.Time.Seconds())
			if m := all[i].Time; m >= e.P10.Seconds() && m <= e.P90.Seconds() {
				inside++
			}
		}
		j := -1
		s := score(all, func(*Sample) float64 { j++; return ratio[j] })
		cover := 100 * float64(inside) / float64(len(all))
		t.Logf("kind %d: %d held-out rows, median %.1f, p90 %.1f, %.0f %% inside the interval", kind, s.Rows, s.Median, s.P90, cover)
		if g := goals[kind]; s.Median > g[0] || s.P90 > g[1] {
			t.Errorf("kind %d: %.1f / %.1f, want at most %.1f / %.1f", kind, s.Median, s.P90, g[0], g[1])
		}
		if cover < 70 || cover > 90 {
			t.Errorf("kind %d: %.0f %% of held-out rows inside an 80 %% interval", kind, cover)
		}
	}
}

// TestFitUserFromHalfATable: every other row of a machine's own table calibrates; the other half must come closer.
func TestFitUserFromHalfATable(t *testing.T) {
	rows := rowsOf(t, "h200-x2", "h200_sxm", "compute.csv")
	g, k := gpu(t, "h200_sxm")
	var dozen, rest []measured.OpRow
	for i, r := range rows {
		if i%2 == 0 {
			dozen = append(dozen, r)
		} else {
			rest = append(rest, r)
		}
	}
	u, err := FitUser(g, k, "plain", dozen, true)
	if err != nil {
		t.Fatal(err)
	}
	if u.Sustained < 0.85 || u.Sustained >= 1 {
		t.Errorf("sustained factor %.2f", u.Sustained)
	}
	median := func(k *hardware.Kernels, sustained float64) float64 {
		m, err := New(g, k, Options{Framework: "plain", Phase: model.Prefill, Sustained: sustained})
		if err != nil {
			t.Fatal(err)
		}
		if k.Calibrated != "" && m.Provenance() != Calibrated {
			t.Errorf("provenance %v", m.Provenance())
		}
		var in []Sample
		for i := range rest {
			if s, ok := SampleOf(&rest[i]); ok && s.Op.Kind == model.GEMM {
				in = append(in, s)
			}
		}
		return score(in, func(s *Sample) float64 {
			e, err := m.Price(s.Op)
			if err != nil {
				t.Fatal(err)
			}
			return e.Time.Seconds()
		}).Median
	}
	before, after := median(k, 1), median(u.Kernels, u.Sustained)
	t.Logf("other half: median %.1f before, %.1f after", before, after)
	if after > 5.5 || after > before+0.1 {
		t.Errorf("median %.1f before, %.1f after", before, after)
	}
	if _, err := FitUser(g, k, "plain", rest[:3], false); err == nil {
		t.Error("three rows calibrated")
	}
}

// TestFitUserFindsAnotherMachine: rows of a made-up machine, slower in all three ways, lead back to it; the records that
// they do not cover stay.
func TestFitUserFindsAnotherMachine(t *testing.T) {
	g, k := gpu(t, "h100_sxm")
	slow := clone(k)
	rec, l := slow.GEMM["bf16"], slow.Frameworks["trtllm"].GEMM["bf16"]
	rec.EC, rec.EM, l.T0 = rec.EC*0.85, rec.EM*0.9, l.T0*1.5
	slow.GEMM["bf16"], slow.Frameworks["trtllm"].GEMM["bf16"] = rec, l
	m, err := New(g, slow, Options{Phase: model.Decode})
	if err != nil {
		t.Fatal(err)
	}
	var rows []measured.OpRow
	for _, m1 := range []int{1, 16, 64, 256, 2048, 8192} {
		for _, n := range []int{1280, 8192, 28672} {
			e, err := m.Price(model.ComputeOp{Kind: model.GEMM, DType: "bf16", M: m1, N: n, K: 8192})
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, measured.OpRow{Kind: "gemm", Framework: "trtllm", DType: "bf16", M: m1, N: n, K: 8192, Time: units.Duration(e.Time)})
		}
	}
	u, err := FitUser(g, k, "", rows, false)
	if err != nil {
		t.Fatal(err)
	}
	if len(u.Records) != 1 || u.Records[0].After.Median > 1 || u.Sustained != 0 {
		t.Errorf("%+v", u)
	}
	if got := u.Kernels.GEMM["bf16"]; math.Abs(got.EC/rec.EC-1) > 0.05 || math.Abs(got.EM/rec.EM-1) > 0.05 {
		t.Errorf("ec %.3f em %.3f, want %.3f %.3f", got.EC, got.EM, rec.EC, rec.EM)
	}
	if u.Kernels.GEMM["fp8"] != k.GEMM["fp8"] || k.Calibrated != "" {
		t.Error("records without rows changed")
	}
}

// TestEstimatedFollowsTheClock: a sister GPU at half the clock has twice the kernel times and a wider interval.
func TestEstimatedFollowsTheClock(t *testing.T) {
	g, k := gpu(t, "h100_sxm")
	half := *g
	half.System, half.BoostGHz, half.SMs = "h100_half", g.BoostGHz/2, g.SMs+2
	e, err := Estimated(&half, []Fitting{{g, k}})
	if err != nil {
		t.Fatal(err)
	}
	a, b := k.GEMM["bf16"], e.GEMM["bf16"]
	if b.LK != 2*a.LK || b.EC != a.EC || b.Fit.Lo >= a.Fit.Lo || b.Fit.Hi <= a.Fit.Hi || e.Estimate == "" {
		t.Errorf("%+v from %+v", b, a)
	}
	d, f := k.Frameworks["trtllm"].Decode["bf16/bf16"], e.Frameworks["trtllm"].Decode["bf16/bf16"]
	if f.Grouped.TW != 2*d.Grouped.TW || f.Grouped.EM != d.Grouped.EM || f.Grouped.Grid != "" {
		t.Errorf("%+v from %+v", f, d)
	}
	if _, err := Estimated(&half, nil); err == nil {
		t.Error("estimated from nothing")
	}
}

// TestFitUserTrustsRealDecodeRows: a user's decode rows, at the full rate of the memory, are not held to the rate that
// plans assume where only published tables are known.
func TestFitUserTrustsRealDecodeRows(t *testing.T) {
	g, k := gpu(t, "h100_sxm")
	var rows []measured.OpRow
	for _, b := range []int{16, 32, 64, 128, 256} {
		for _, l := range []int{4096, 16384} {
			bytes := 2 * float64(b*8*l) * 128 * 2
			rows = append(rows, measured.OpRow{Kind: "attn_decode", Framework: "trtllm", DType: "bf16", Cache: "bf16", Batch: b, Heads: 64, KVHeads: 8, HeadDim: 128,
				Tokens: 1, Context: l, Time: units.Micros(6) + units.Duration(bytes/(0.97*g.HBMGBps*1e9))})
		}
	}
	u, err := FitUser(g, k, "", rows, false)
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(g, u.Kernels, Options{Phase: model.Decode})
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		s, _ := SampleOf(&rows[i])
		e, err := m.Price(s.Op)
		if err != nil {
			t.Fatal(err)
		}
		if r := e.Time.Seconds() / s.Time; r < 0.93 || r > 1.07 {
			t.Errorf("batch %d, context %d: %.2f of the measured time", s.Op.Batch, s.Op.Context, r)
		}
	}
}
