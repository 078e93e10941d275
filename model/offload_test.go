package model

import (
	"math"
	"testing"

	"rankmap/internal/parallel"
)

// Layers in the host's memory keep nothing on the GPU, but for the one at work and the one on its way.
func TestOffloadedLayersLeaveTheGPU(t *testing.T) {
	s := embedded(t, "llama-3.1-70b")
	w := Work{Phase: Train, Batch: 1, Tokens: 8192, Context: 8192}
	st := parallel.Strategy{DP: 64, ZeRO: 3}.Normalize()
	all := s.Memory(st, w, MemoryOptions{})
	st.OffloadLayers = 40
	half := s.Memory(st, w, MemoryOptions{})
	layer := float64(all.Activations) / 80
	if want := 42 * layer; math.Abs(float64(half.Activations)/want-1) > 1e-6 {
		t.Errorf("activations take %v, want %.4g", half.Activations, want)
	}
	if got := float64(s.OffloadBytes(&st, &w, 0)); math.Abs(got/(40*layer)-1) > 1e-6 {
		t.Errorf("%.4g bytes move, want %.4g", got, 40*layer)
	}
	for _, x := range []parallel.Strategy{{DP: 16, PP: 4, OffloadLayers: 4}, {DP: 64, OffloadLayers: 4, Recompute: "full"}} {
		x = x.Normalize()
		if got := s.OffloadBytes(&x, &w, 0); got != 0 {
			t.Errorf("%+v moves %v: neither a pipeline nor recomputation allows it", x, got)
		}
	}
}
