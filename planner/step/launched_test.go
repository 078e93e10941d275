package step

import (
	"testing"

	"rankmap/internal/units"
)

// A stage outside CUDA graphs takes at least as long as its host needs to start the kernels; a longer one is left alone.
func TestAStageWaitsForItsHost(t *testing.T) {
	for _, c := range []struct {
		gpu, host, want units.Duration
		brief           bool
	}{
		{units.Millis(4), units.Micros(50), units.Millis(5), false},
		{units.Millis(4), units.Micros(50), units.Millis(5), true},
		{units.Millis(8), units.Micros(50), units.Millis(8), false},
		{units.Millis(4), 0, units.Millis(4), false},
	} {
		r := Result{Band: Band{c.gpu, c.gpu * 0.9, c.gpu * 1.1}, launches: 100}
		r.launched(c.host, c.brief)
		if d := r.Time - c.want; d > units.Micros(1) || d < -units.Micros(1) || r.P10 > r.Time || r.P90 < r.Time {
			t.Errorf("%v beside %v a kernel: %+v, want %v", c.gpu, c.host, r.Band, c.want)
		}
		if told := len(r.Parts) > 0; told != (c.want > c.gpu && !c.brief) {
			t.Errorf("%v beside %v a kernel: parts %+v", c.gpu, c.host, r.Parts)
		}
	}
}
