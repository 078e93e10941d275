package accuracy

import (
	"testing"

	"rankmap/internal/measured"
	"rankmap/internal/testdata"
	"rankmap/internal/units"
)

// The 48 measured stacks of layers on two H200, everything predicted: kernels and all-reduces (goal: 4 % in the median, 10 at the 90th
// percentile, which the kernels alone reach beside measured all-reduces).
func TestMeasuredSteps(t *testing.T) {
	res := confronter(t, Options{System: "h200_sxm", NoMulticast: true}).Rows(readAll(t, testdata.Dir(t, "measured", "h200-x2")+"/step.csv")...)
	s := Score(res.Cases, Ours)
	t.Logf("%d steps: %.1f / %.1f %%, bias %.1f", s.N, s.MedianAPE, s.P90APE, s.Bias)
	if s.N != 48 || s.MedianAPE > 5 || s.P90APE > 12 {
		t.Errorf("%+v, left out %v", s, res.Skipped)
	}
}

func TestStepsThatCannotBePriced(t *testing.T) {
	step := measured.StepRow{Model: "llama8b", TP: 2, Phase: "decode", Batch: 1, Tokens: 1, Context: 1024, Layers: 1, PerLayer: units.Micros(100)}
	other, odd := step, step
	other.Model, odd.TP = "gpt2", 3
	f := measured.File{Steps: []measured.StepRow{step, other, odd}}
	res := confronter(t, Options{System: "h200_sxm"}).Rows(f)
	if len(res.Cases) != 1 || len(res.Skipped) != 2 {
		t.Errorf("%d cases, left out %v", len(res.Cases), res.Skipped)
	}
	if res := confronter(t, Options{}).Rows(f); len(res.Cases) != 0 || res.Skipped[0].N != 3 {
		t.Errorf("without a system: %v", res.Skipped)
	}
}
