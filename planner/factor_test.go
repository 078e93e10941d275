package planner

import "testing"

// A factor is never said as 1 where it is not.
func TestAFactorNearOne(t *testing.T) {
	for f, want := range map[float64]float64{0.2634: 0.26, 1.033: 1.03, 1.06: 1.1, 0.9968: 0.997, 4.02: 4} {
		if got := factor(f); got != want {
			t.Errorf("%v: %v, want %v", f, got, want)
		}
	}
}
