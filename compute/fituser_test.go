package compute

import (
	"testing"

	"rankmap/internal/measured"
	"rankmap/model"
)

// TestFitUserOfAnUnmeasuredGPU: each fitted GPU in turn as if unknown, its family estimate calibrated from half of its
// own tables, or from a dozen rows a record, and scored on the other half.
func TestFitUserOfAnUnmeasuredGPU(t *testing.T) {
	files := []string{"gemm.csv", "context_attention.csv", "moe.csv", "context_mla.csv", "generation_mla.csv"}
	names := map[model.OpKind]string{model.GEMM: "gemm", model.AttnPrefill: "attn_prefill", model.MoE: "moe", model.MLAPrefill: "mla_prefill", model.MLADecode: "mla_decode"}
	systems := []string{"a100_sxm", "b200_sxm", "h200_sxm"}
	var all []Fitting
	for _, s := range []string{"a100_sxm", "b200_sxm", "gb200", "h100_sxm", "h200_sxm"} {
		g, k := gpu(t, s)
		all = append(all, Fitting{g, k})
	}
	for _, system := range systems {
		var others []Fitting
		var own Fitting
		for _, f := range all {
			if f.GPU.System == system {
				own = f
			} else {
				others = append(others, f)
			}
		}
		base, err := Estimated(own.GPU, others)
		if err != nil {
			t.Fatal(err)
		}
		var half, dozen, rest []measured.OpRow
		seen := map[string]int{}
		for _, r := range rowsOf(t, "public", system, files...) {
			switch id := r.Kind + r.DType + r.Cache; {
			case shapeHash(&r, "half")%2 != 0:
				rest = append(rest, r)
			default:
				half = append(half, r)
				if seen[id]++; seen[id]%8 == 1 && seen[id] < 96 {
					dozen = append(dozen, r)
				}
			}
		}
		scores := func(m *Model) map[model.OpKind]float64 {
			samples, times := map[model.OpKind][]Sample{}, map[model.OpKind][]float64{}
			for i := range rest {
				s, ok := SampleOf(&rest[i])
				if !ok {
					continue
				}
				e, err := m.Price(s.Op)
				if s.Op.Kind == model.MoE {
					e, err = m.PriceLoad(s.Op, s.Load)
				}
				if err != nil {
					t.Fatal(err)
				}
				samples[s.Op.Kind], times[s.Op.Kind] = append(samples[s.Op.Kind], s), append(times[s.Op.Kind], e.Time.Seconds())
			}
			out := map[model.OpKind]float64{}
			for k, l := range samples {
				i := -1
				out[k] = score(l, func(*Sample) float64 { i++; return times[k][i] }).Median
			}
			return out
		}
		m, err := New(own.GPU, base, Options{Phase: model.Decode, Table: true})
		if err != nil {
			t.Fatal(err)
		}
		before := scores(m)
		for _, c := range []struct {
			name string
			rows []measured.OpRow
		}{{"half the table", half}, {"a dozen rows a record", dozen}} {
			u, err := FitUser(own.GPU, base, "", c.rows, false)
			if err != nil {
				t.Fatal(err)
			}
			m, err := New(own.GPU, u.Kernels, Options{Phase: model.Decode, Table: true})
			if err != nil {
				t.Fatal(err)
			}
			after := scores(m)
			for kind := model.GEMM; kind <= model.MoE; kind++ {
				if name := names[kind]; name != "" {
					t.Logf("%-8s %-12s median %5.1f estimated, %5.1f after %s", system, name, before[kind], after[kind], c.name)
					if after[kind] > before[kind]+1.5 {
						t.Errorf("%s %s: median %.1f, %.1f after %s", system, name, before[kind], after[kind], c.name)
					}
				}
			}
		}
	}
}
