package planner

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"rankmap/topology"
)

// Front is the Pareto front of serving: the plans of which none has both more tokens a second and GPU and a shorter time
// per output token (for prefill: time to the first token).
type Front struct {
	Points []*Outcome // shortest time first; throughput rises along it
	Of     int        // plans priced: strategies x batches
	Counts Counts
}

// Pareto prices every strategy at every batch that the search tries and keeps the front. Limits of the workload hold; the
// batch must be free. A cancelled ctx is an error. Errors: *Infeasible when nothing fits.
func Pareto(ctx context.Context, r Request) (*Front, error) {
	switch {
	case r.Workload.Task == string(TrainStep):
		return nil, errors.New("a training step has no front: its batch is given")
	case r.Workload.Batch > 0:
		return nil, errors.New("a front is over batches: leave the batch out")
	}
	var all []*Outcome
	s := &search{Request: r, base: newSeating(r.Cluster, r.Skip), ctx: ctx, points: &all}
	n := r.GPUs
	if n == 0 {
		n = s.most()
	}
	if n == 0 || n > len(s.base.gpus) {
		_, err := Search(ctx, r) // it names the reason
		return nil, err
	}
	counts := []int{n}
	if r.GPUs == 0 {
		counts = append(counts, s.rounder(n)...)
	}
	for _, n := range counts {
		if err := s.run(ctx, n); err != nil {
			return nil, err
		}
	}
	if s.stopped {
		return nil, ctx.Err()
	}
	if len(all) == 0 {
		plan, err := Search(ctx, r)
		if err != nil {
			return nil, err
		}
		all = append(all, plan.Best)
	}
	for _, o := range all {
		o.Memory = s.memory(o.Strategy, o.Batch)
	}
	return &Front{Points: front(all), Of: len(all), Counts: s.counts}, nil
}

// latency is what a user waits for: each token, or the first one where there is no other.
func (o *Outcome) latency() float64 {
	if o.TPOT.Time > 0 {
		return o.TPOT.Time.Seconds()
	}
	return o.TTFT.Time.Seconds()
}

// front keeps the outcomes that no other one dominates, by latency ascending. Of equal ones the first in rank's order of
// degrees stays.
func front(all []*Outcome) []*Outcome {
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b *Outcome) int {
		return cmp.Or(cmp.Compare(a.latency(), b.latency()), cmp.Compare(b.PerGPU, a.PerGPU), compareDegrees(a, b))
	})
	var out []*Outcome
	most := 0.0
	for _, o := range sorted {
		if o.PerGPU > most*(1+1e-9) {
			most = o.PerGPU
			out = append(out, o)
		}
	}
	return out
}

// Seats are the GPUs of an outcome by rank.
func (o *Outcome) Seats() []topology.GPUID {
	if o.seats == nil {
		return nil
	}
	return o.seats.gpus[:o.GPUs]
}
