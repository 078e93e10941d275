package step

import (
	"math"
	"testing"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/model"
)

// What the host's link moves in less than a third of a micro-batch out, and two thirds back, costs nothing; beyond, the rest.
// NICs that are busy beside the kernels take their part of the link.
func TestOffloadHidesBesideKernels(t *testing.T) {
	in := input(t, parallel.Strategy{DP: 8, OffloadLayers: 4}, 1)
	w := model.Work{Phase: model.Train, Batch: 1, Tokens: 4096, Context: 4096}
	in.Work = w
	b := float64(in.Spec.OffloadBytes(&in.Strategy, &w, 0))
	if b <= 0 {
		t.Fatal("nothing to off-load")
	}
	exposed := func(link, kernels, network float64) float64 {
		x := in
		x.HostLink = units.Bandwidth(link)
		r := Result{Band: band(kernels), network: units.Micros(network)}
		r.offload(&x, w, 0)
		return r.Time.Micros() - kernels
	}
	at := b / 200e-6 // 200 us each way
	for _, c := range []struct{ link, kernels, network, want float64 }{
		{at, 900, 0, 0},
		{at, 300, 0, 100},       // 100 forward, 200 backward
		{at, 150, 0, 150 + 100}, // 50 and 100
		{at, 900, 900, 200 + 200},
		{0, 300, 0, 0},
	} {
		if got := exposed(c.link, c.kernels, c.network); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("link %.3g, kernels %v us, network %v us: %v us are left, want %v", c.link, c.kernels, c.network, got, c.want)
		}
	}
}
