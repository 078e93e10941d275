package compute

import (
	"testing"

	"rankmap/model"
)

// TestFamilyEstimates predicts each fitted GPU from the others, as an unmeasured one would be: the error of the rule,
// and how many rows its interval holds.
func TestFamilyEstimates(t *testing.T) {
	files := map[model.OpKind]string{model.GEMM: "gemm.csv", model.AttnPrefill: "context_attention.csv", model.AttnDecode: "generation_attention.csv",
		model.MoE: "moe.csv", model.MLAPrefill: "context_mla.csv", model.MLADecode: "generation_mla.csv"}
	systems := []string{"a100_sxm", "b200_sxm", "gb200", "h100_sxm", "h200_sxm"}
	var all []Fitting
	for _, s := range systems {
		g, k := gpu(t, s)
		all = append(all, Fitting{g, k})
	}
	for kind := model.GEMM; kind <= model.MoE; kind++ {
		var samples []Sample
		var times []float64
		inside := 0
		for i, f := range all {
			var others []Fitting
			for j := range all {
				if j != i {
					others = append(others, all[j])
				}
			}
			k, err := Estimated(f.GPU, others)
			if err != nil {
				t.Fatal(err)
			}
			m, err := New(f.GPU, k, Options{Phase: model.Decode, Table: true})
			if err != nil {
				t.Fatal(err)
			}
			from, n := len(samples), 0
			for _, r := range rowsOf(t, "public", f.GPU.System, files[kind]) {
				s, ok := SampleOf(&r)
				if !ok || !HeldOut(&r) || kind == model.AttnDecode && f.GPU.System == "gb200" { // its table ran another kernel
					continue
				}
				e, err := m.Price(s.Op)
				if kind == model.MoE {
					e, err = m.PriceLoad(s.Op, s.Load)
				}
				if err != nil {
					t.Fatal(err)
				}
				samples, times = append(samples, s), append(times, e.Time.Seconds())
				if s.Time >= e.P10.Seconds() && s.Time <= e.P90.Seconds() {
					inside++
					n++
				}
			}
			at := from - 1
			s := score(samples[from:], func(*Sample) float64 { at++; return times[at] })
			t.Logf("kind %d from the others: %-8s %4d rows, %.1f / %.1f, %d %% inside", kind, f.GPU.System, s.Rows, s.Median, s.P90, 100*n/max(s.Rows, 1))
		}
		at := -1
		s := score(samples, func(*Sample) float64 { at++; return times[at] })
		cover := 100 * inside / len(samples)
		t.Logf("kind %d: median %.1f, p90 %.1f, %d %% inside", kind, s.Median, s.P90, cover)
		if s.Median > 20 || cover < 65 {
			t.Errorf("kind %d: median %.1f, %d %% inside", kind, s.Median, cover)
		}
	}
}
