package step

import (
	"fmt"

	"rankmap/internal/units"
	"rankmap/model"
)

// offload adds what the kernels of a stage do not cover of its results' way to the host's memory, beside the forward pass, and
// back, beside the backward pass. Copy engines move them, which take nothing from the kernels; but what NICs move beside the
// kernels crosses the same link of the GPU.
func (r *Result) offload(in *Input, w model.Work, stage int) {
	if in.Strategy.OffloadLayers < 1 || in.HostLink <= 0 {
		return
	}
	b := in.Spec.OffloadBytes(&in.Strategy, &w, stage)
	t := units.Duration(float64(b) / float64(in.HostLink)) // seconds
	back := r.Band.Scale(backwardShare)
	forward := r.Band.Add(back.Scale(-1))
	more := func(share float64, cover units.Duration) units.Duration {
		net := r.network * units.Duration(share)
		return rest(t+net, cover) - rest(net, cover)
	}
	both := func(f, b units.Duration) units.Duration { return more(1-backwardShare, f) + more(backwardShare, b) }
	left := Band{both(forward.Time, back.Time), both(forward.P90, back.P90), both(forward.P10, back.P10)}
	if left.P90 <= 0 {
		return
	}
	r.Band = r.Band.Add(left)
	if !in.Brief {
		r.Parts = append(r.Parts, Part{Name: "exposed off-load", Kind: "overhead", Band: left, Bound: fmt.Sprintf("host memory %s", in.HostLink)})
	}
}
