package planner

import (
	"cmp"
	"fmt"
	"slices"

	"rankmap/collective"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/model"
	"rankmap/planner/step"
)

// graphLaunch is how the engines issue their collectives in a step: replayed from a CUDA graph.
const graphLaunch = collective.Graph

// explain says in sentences why the plan is what it is: what binds the step, the price of each kind of communication on
// its link, and what the same collectives would cost if their groups were seated across the network.
func (s *search) explain(p *Plan) []string {
	b := p.Best
	var out []string
	total := b.Step.Time
	kinds, bounds := sums(b.Step.Parts)
	top := kinds[0]
	for _, k := range kinds {
		if k.t > top.t {
			top = k
		}
	}
	out = append(out, fmt.Sprintf("%s binds: %s of the %s step (%.0f %%)", top.kind, top.t, total, 100*float64(top.t/total)))
	for _, k := range kinds {
		if k.kind != top.kind && k.t > 0 {
			out = append(out, fmt.Sprintf("%s takes %s (%.0f %%)%s", k.kind, k.t, 100*float64(k.t/total), over(bounds[k.kind])))
		}
	}
	out = append(out, s.crossings(b)...)
	if b.Plain > total*(1+minLoss/100) {
		out = append(out, fmt.Sprintf("seats: the same degrees dealt in host and GPU order would take %s, %.1f %% more", b.Plain, 100*(float64(b.Plain/total)-1)))
	}
	out = append(out, s.explainTraining(b)...)
	out = append(out, explainLaunchers(p)...)
	return append(out, s.counts.text())
}

// searched heads the sentence that counts what was searched.
const searched = "searched "

func (c Counts) text() string {
	noun := "strategies"
	if c.Strategies == 1 {
		noun = "strategy"
	}
	return fmt.Sprintf(searched+"%d %s (%d broke a rule of the model, %d did not fit memory, %d missed a limit), %s, %d more ruled out by their kernels alone",
		c.Strategies, noun, c.ByRule, c.ByMemory, c.ByLimit, many(c.Priced, "priced step"), c.Bounded)
}

type kindSum struct {
	kind string
	t    units.Duration
}

// sums adds parts by kind, in the order of the parts, with the bound of each kind's dearest part.
func sums(parts []step.Part) ([]kindSum, map[string]string) {
	var out []kindSum
	bound := map[string]string{}
	dearest := map[string]units.Duration{}
	for _, p := range parts {
		if n := len(out); n > 0 && out[n-1].kind == p.Kind {
			out[n-1].t += p.Band.Time
		} else {
			out = append(out, kindSum{p.Kind, p.Band.Time})
		}
		if p.Band.Time > dearest[p.Kind] && p.Kind != "compute" {
			dearest[p.Kind], bound[p.Kind] = p.Band.Time, p.Bound
		}
	}
	return out, bound
}

func over(bound string) string {
	if bound == "" {
		return ""
	}
	return " over " + bound
}

// maxCrossings bounds how many collectives are explained, dearest first.
const maxCrossings = 4

// crossings says for the dearest collectives what the worst seating would make of them.
func (s *search) crossings(b *Outcome) []string {
	used := slices.DeleteFunc(slices.Clone(b.Step.Comms), func(u step.Used) bool { return u.Op.Overlappable })
	slices.SortStableFunc(used, func(x, y step.Used) int {
		return cmp.Compare(y.Est.Time*units.Duration(y.Times), x.Est.Time*units.Duration(x.Times))
	})
	var out []string
	for _, u := range used {
		if line := s.crossing(b, u); line != "" && len(out) < maxCrossings {
			out = append(out, line)
		}
	}
	return out
}

// crossing prices a collective of the winner in the dimension order that treats its kind worst.
func (s *search) crossing(b *Outcome, u step.Used) string {
	var worst collective.Estimate
	var order []parallel.Dim
	for _, o := range orders(b.Strategy) {
		st := b.Strategy
		st.Order = o
		cm := newComm(s.seating(st.World()), s.Pricer, graphLaunch, st)
		e, err := cm.price(u.Op)
		if err == nil && e.Time > worst.Time {
			worst, order = e, o
		}
	}
	if order == nil || worst.Time < u.Est.Time*1.2 {
		return ""
	}
	step := (worst.Time - u.Est.Time) * units.Duration(u.Times)
	return fmt.Sprintf("%s (%s, %s): %s here over %s; seated worst it would take %s over %s, %s more a step",
		u.Op.Name, u.Op.Op, u.Op.Bytes, u.Est.Time, u.Est.Bottleneck, worst.Time, worst.Bottleneck, step)
}

// Price exposes the price of a collective on the plan's seating, for documents and tests.
func (p *Plan) Price(op model.CollectiveOp) (collective.Estimate, error) { return p.comm.price(op) }
