package whatif

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"rankmap/internal/parallel"
	"rankmap/internal/testdata"
)

// published reads the values of rows of the table of published placements by id.
func published(t *testing.T) map[string]float64 {
	t.Helper()
	f, err := os.Open(filepath.Join(testdata.Dir(t), "placements", "dev.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]int{}
	for i, name := range rows[0] {
		at[name] = i
	}
	out := map[string]float64{}
	for _, r := range rows[1:] {
		out[r[at["id"]]], _ = strconv.ParseFloat(r[at["value"]], 64)
	}
	return out
}

// SGLang's two reports on DeepSeek-V3 (large-scale EP on H100, May 2025; GB200 NVL72 part 2, September 2025): the same
// layouts here, with the expert exchange of one half of a batch beside the computation of the other, as in both reports. The
// H100 figures are a node's. Bounds leave room for what the reports do not state: the GB200 batch, the routing's balance.
func TestPublishedH100AgainstNVL72(t *testing.T) {
	pub := published(t)
	p := problem(t, "deepseek-v3")
	p.Workload.ISL, p.Workload.OSL, p.Workload.TPOTMs = 2000, 100, 0
	extra := *p
	extra.Spec = p.Spec.WithRedundantExperts(32)
	tests := []struct {
		name        string
		h100, gb200 string // ids
		task        string
		p           *Problem
		ranks       [2]int
		batch       [2]int
	}{
		{"decode", "sgl-h100-004", "sgl-gb200-005", "decode", &extra, [2]int{72, 48}, [2]int{256 * 72, 512 * 48}},
		{"prefill", "sgl-h100-002", "sgl-gb200-003", "prefill", p, [2]int{32, 4}, [2]int{256, 32}},
	}
	for _, tt := range tests {
		a, b := pub[tt.h100]/8, pub[tt.gb200]
		if a == 0 || b == 0 {
			t.Logf("%s: not in this table", tt.name)
			continue
		}
		var got [2]float64
		for i, m := range []Machine{machine(t, "hgx-h100", 9), machine(t, "gb200-nvl72", 1)} {
			q := *tt.p
			q.Workload.Task, q.Workload.Batch, q.Workload.Overlap = tt.task, tt.batch[i], true
			n := tt.ranks[i]
			col := fixedPlan(t, &q, m, map[parallel.Dim]int{parallel.TP: 1, parallel.PP: 1, parallel.CP: 1, parallel.DP: n, parallel.EP: n}, n)
			got[i] = col.Predicted.TokensPerSecondPerGPU
			t.Logf("%s on %s: step %.4g ms, %s", tt.name, m.Name, col.Predicted.StepMs, col.Binding)
		}
		t.Logf("%s: published %.0f and %.0f tokens/s/GPU, %.2fx; here %.0f and %.0f, %.2fx", tt.name, a, b, b/a, got[0], got[1], got[1]/got[0])
		for i, want := range []float64{a, b} {
			if r := got[i] / want; r < 0.7 || r > 1.4 {
				t.Errorf("%s: %.0f tokens/s/GPU, published %.0f", tt.name, got[i], want)
			}
		}
		if r := got[1] / got[0] / (b / a); r < 0.7 || r > 1.5 {
			t.Errorf("%s: ratio %.2f, published %.2f", tt.name, got[1]/got[0], b/a)
		}
	}
}
