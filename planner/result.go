package planner

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/topology"
)

// plan turns what was found into the answer.
func (s *search) plan(ctx context.Context) (*Plan, error) {
	rank(s.found)
	if err := s.refine(ctx); err != nil {
		return nil, err
	}
	shown := s.Top + 1
	if s.stopped {
		shown = 1 // the caller wants the answer now
	}
	for _, o := range s.found[:min(len(s.found), shown)] {
		if err := s.detail(o); err != nil {
			return nil, err
		}
	}
	best := s.found[0]
	p := &Plan{Best: best, found: s.found, Stopped: s.stopped}
	p.seats = best.seats
	p.Seats = p.seats.gpus[:best.GPUs]
	used := map[topology.GPUID]bool{}
	for _, id := range p.Seats {
		used[id] = true
	}
	for id := range topology.GPUID(s.Cluster.NumGPUs()) {
		if !used[id] {
			p.Idle = append(p.Idle, id)
		}
	}
	p.comm = newComm(p.seats, s.Pricer, graphLaunch, best.Strategy)
	p.Losers = s.nearest(best)
	p.tooLarge = slices.Clone(s.large)
	slices.SortStableFunc(p.tooLarge, func(a, b parallel.Strategy) int {
		return cmp.Compare(distance(a, best.Strategy), distance(b, best.Strategy))
	})
	if err := s.pricePlain(best); err != nil {
		return nil, err
	}
	if err := s.launchers(p); err != nil {
		return nil, err
	}
	p.Searched = s.counts
	p.Explained = s.explain(p)
	if s.Workload.Task != string(TrainStep) {
		p.Notes = append(p.Notes, s.assumed(best))
	}
	if s.stopped {
		p.Notes = append(p.Notes, "the search was stopped early: this is the best plan so far")
	}
	return p, nil
}

// refine improves the seats of every outcome that could still win, where seats beyond dimension orders can matter. An
// outcome whose lower bound is no better than the best one found cannot win.
func (s *search) refine(ctx context.Context) error {
	s.ideal = newIdeal(s)
	for i := range s.found {
		o := s.found[i]
		if !s.needsImproving(o.GPUs) || ctx.Err() != nil {
			continue
		}
		bound, err := s.evaluate(o.Strategy, s.ideal.comm(o.Strategy), o.Batch, true)
		if err != nil {
			return err
		}
		least := bound.score
		if len(s.base.gpus) <= exactGPUs {
			for _, v := range s.variants(o)[1:] {
				least = min(least, v.bound)
			}
		}
		if least >= s.found[0].score && i > 0 || least >= o.score-1e-9*abs(o.score) {
			continue
		}
		better, err := s.improve(o)
		if err != nil {
			return err
		}
		if better != o {
			if better, err = s.rebatch(better); err != nil {
				return err
			}
		}
		if better.score < o.score {
			s.found[i] = better
			if better.score < s.found[0].score {
				s.found[0], s.found[i] = s.found[i], s.found[0]
			}
		}
	}
	rank(s.found)
	return nil
}

// rebatch prices an outcome on its new seats at every batch that a search tries, and keeps the best.
func (s *search) rebatch(o *Outcome) (*Outcome, error) {
	if s.Workload.Batch > 0 || s.Workload.Task == string(TrainStep) {
		return o, nil
	}
	all, _ := s.batches(o.Strategy)
	price := newComm(o.seats, s.Pricer, graphLaunch, o.Strategy).price
	for _, b := range all {
		if b == o.Batch || s.cancelled() {
			continue
		}
		x, err := s.evaluate(o.Strategy, price, b, true)
		if err != nil {
			return nil, err
		}
		if x.seats = o.seats; s.misses(x) == "" && x.score < o.score {
			o = x
		}
	}
	return o, nil
}

// detail prices an outcome again with its parts and collectives.
func (s *search) detail(o *Outcome) error {
	priced := s.counts.Priced
	cm := newComm(o.seats, s.Pricer, graphLaunch, o.Strategy)
	full, err := s.evaluate(o.Strategy, cm.price, o.Batch, false)
	if err != nil {
		return err
	}
	bound, err := s.evaluate(o.Strategy, s.ideal.comm(o.Strategy), o.Batch, true)
	if err != nil {
		return err
	}
	s.counts.Priced = priced
	full.seats, full.Plain, full.Bound = o.seats, o.Plain, min(bound.Step.Time, full.Step.Time)
	*o = *full
	return nil
}

// nearest lists the losers: priced ones by score, then those that a limit, memory or a rule dropped.
func (s *search) nearest(best *Outcome) []Loser {
	var out []Loser
	for _, o := range s.found[1:] {
		if len(out) == s.Top || s.stopped {
			return out
		}
		out = append(out, Loser{Strategy: o.Strategy, Outcome: o, Why: whyLost(best, o)})
	}
	rest := slices.Clone(s.losers)
	slices.SortStableFunc(rest, func(a, b Loser) int {
		return cmp.Compare(distance(a.Strategy, best.Strategy), distance(b.Strategy, best.Strategy))
	})
	for _, l := range rest {
		if len(out) == s.Top {
			break
		}
		out = append(out, s.seated(l))
	}
	return out
}

// distance counts the doublings between two strategies, so that the nearest infeasible ones are shown.
func distance(a, b parallel.Strategy) int {
	n := 0
	for _, d := range []parallel.Dim{parallel.TP, parallel.PP, parallel.CP, parallel.EP} {
		x, y := degreeOf(a, d), degreeOf(b, d)
		for x < y {
			x *= 2
			n++
		}
		for y < x {
			y *= 2
			n++
		}
	}
	return n
}

// whyLost names what a loser pays more for, per generated token (or per step at equal batch), and how much worse it is.
func whyLost(best, o *Outcome) string {
	per := func(x *Outcome) map[string]units.Duration {
		m := map[string]units.Duration{}
		for _, p := range x.Step.Parts {
			m[p.Kind] += p.Band.Time / units.Duration(x.Batch)
		}
		return m
	}
	a, b := per(best), per(o)
	kinds := make([]string, 0, len(b))
	for k := range b {
		kinds = append(kinds, k)
	}
	slices.Sort(kinds)
	worst, more := "", units.Duration(0)
	for _, k := range kinds {
		if d := b[k] - a[k]; d > more {
			worst, more = k, d
		}
	}
	s := ""
	switch {
	case o.PerGPU > 0 && o.PerGPU < best.PerGPU && o.Batch != best.Batch:
		s = fmt.Sprintf("%.0f against %.0f tokens/s/GPU at its best batch of %d", o.PerGPU, best.PerGPU, o.Batch)
	default:
		s = fmt.Sprintf("step %s against %s", o.Step.Time, best.Step.Time)
	}
	if worst != "" {
		name := worst
		if bound := costliest(o, worst); bound != "" {
			name += " over " + bound
		}
		s += fmt.Sprintf("; pays %s more a sequence for %s", more, name)
	}
	return s
}

// costliest returns the bottleneck of the dearest part of a kind; empty for compute.
func costliest(o *Outcome, kind string) string {
	bound, t := "", units.Duration(0)
	if kind == "compute" {
		return ""
	}
	for _, p := range o.Step.Parts {
		if p.Kind == kind && p.Band.Time > t {
			bound, t = p.Bound, p.Band.Time
		}
	}
	return bound
}
