package collective

import (
	"math"
	"testing"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
)

// TestGroupsBetweenMeasuredOnesAreSurer: six GPUs stand between four and eight; twelve of a rack stand beyond.
func TestGroupsBetweenMeasuredOnesAreSurer(t *testing.T) {
	ps := profiles(t)
	g := NewPredictor(ps.Collective("h100_sxm")).grid
	key := gridKey{op: parallel.AllGather}
	for n, want := range map[int]bool{1: false, 3: true, 6: true, 9: false} {
		if got := g.between(key, n); got != want {
			t.Errorf("%d ranks: %v", n, got)
		}
	}
	width := func(m *Model, n int) float64 {
		e := price(t, m, Request{Op: parallel.AllGather, Bytes: 32 << 20, Members: ids(0, 1, n)})
		return math.Log(float64(e.P90 / e.P10))
	}
	m := New(cluster(t, box("h100_sxm", 12, 18, units.Gbps(400)), 1, ""), ps, Options{})
	if six, twelve := width(m, 6), width(m, 12); six >= twelve {
		t.Errorf("the interval of six ranks is %.3f wide, of twelve %.3f", six, twelve)
	}
	if !hasBands(ps.Collective("h100_sxm").Bands, "between") || hasBands(nil, "between") {
		t.Error("bands of groups between measured ones")
	}
}
