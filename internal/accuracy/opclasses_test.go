package accuracy

import (
	"strings"
	"testing"

	"rankmap/compute"
	"rankmap/internal/measured"
	"rankmap/internal/units"
)

func opCase(system, dtype, cache string, m int, measuredUS, ours float64) Case {
	return Case{
		System: system, Measured: units.Micros(measuredUS), Ours: units.Micros(ours), P10: units.Micros(0.9 * ours), P90: units.Micros(1.1 * ours),
		Op: &measured.OpRow{Kind: "gemm", Framework: compute.DefaultFramework, DType: dtype, Cache: cache, M: m, N: 64, K: 64},
	}
}

func TestOpClassesKeepHeldOutRowsApart(t *testing.T) {
	var cases []Case
	for m := 1; m <= 100; m++ {
		cases = append(cases, opCase("h100_sxm", "bf16", "", m, 100, 105), opCase("h200_sxm", "fp8", "", m, 100, 80))
	}
	cases = append(cases, Case{System: "h100_sxm", Measured: 1, Ours: 1}) // a collective
	classes := OpClasses(cases)
	total := map[string]int{}
	for _, c := range classes {
		total[c.DType+" "+c.System] += c.N
		if c.System == "h100_sxm" && (c.MedianAPE < 4.9 || c.MedianAPE > 5.1 || c.Bias < 4.9 || c.Coverage != 100) {
			t.Errorf("%+v", c)
		}
		if c.System == "h200_sxm" && (c.MedianAPE < 19.9 || c.MedianAPE > 20.1 || c.Bias > -19.9 || c.Coverage != 0) {
			t.Errorf("%+v", c)
		}
		if c.HeldOut && c.System != "all" && (c.N < 8 || c.N > 35) {
			t.Errorf("%d of 100 rows held out", c.N)
		}
	}
	for k, want := range map[string]int{"bf16 h100_sxm": 100, "fp8 h200_sxm": 100, "all all": 200, "all h100_sxm": 100} {
		if total[k] != want {
			t.Errorf("%s: %d rows, want %d", k, total[k], want)
		}
	}
	var b strings.Builder
	if err := WriteOpClasses(&b, classes); err != nil || !strings.Contains(b.String(), "held out") || !strings.Contains(b.String(), "h200_sxm") {
		t.Errorf("%v\n%s", err, b.String())
	}
	b.Reset()
	if err := WriteOpClasses(&b, nil); err != nil || b.Len() != 0 {
		t.Errorf("%v %q", err, b.String())
	}
}
