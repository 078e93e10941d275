package engine

import (
	"testing"

	"rankmap/internal/parallel"
)

// Orders that differ in degrees of 1 alone are one order.
func TestEachOrderIsNamedOnce(t *testing.T) {
	e := Engine{CP: true, Orders: [][]parallel.Dim{{parallel.TP, parallel.CP, parallel.DP}, {parallel.CP, parallel.TP, parallel.DP}}}
	st := parallel.Strategy{CP: 2, DP: 4, Order: []parallel.Dim{parallel.DP, parallel.CP, parallel.TP}}.Normalize()
	if got, want := e.WhyNot(st), "cannot order the ranks dp-cp (can: cp-dp)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
