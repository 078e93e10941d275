package planner

import (
	"cmp"
	"fmt"
	"slices"

	"rankmap/internal/engine"
	"rankmap/layout"
	"rankmap/topology"
)

// byNode are the launchers whose ranks are dealt out node by node, as many on each: rank = node rank x processes a node +
// local rank. torchrun starts Megatron; vLLM (--nnodes, --node-rank) and SGLang (--nnodes, --node-rank) count alike. Host
// files and rank files (Slurm, MPI, and TensorRT-LLM over MPI) place each rank.
var byNode = map[string]bool{"torchrun": true, "megatron": true, "vllm": true, "sglang": true}

// launchers says for each launcher whether it can express the plan and, where not, what its best layout loses: the same
// degrees in its own orders on seats that it can deal, or the next degrees that it has words for.
//
// Cost: for each launcher that cannot, the outcomes better than its best one so far, each in at most three orders and one
// dealing for each number of ranks a node.
func (s *search) launchers(p *Plan) error { return s.launchersOf(p, true) }

// launchersOf is launchers, without the search for what they lose when loss is false.
func (s *search) launchersOf(p *Plan, loss bool) error {
	p.Launchers = nil
	for _, e := range engine.All() {
		l := layout.Launcher{Target: e.Name, Why: e.Why}
		l.Expressible = true
		if why := s.cannot(&e, p.Best, p.Seats); why != "" {
			l.Expressible, l.Why = false, why
			var best *Outcome
			if loss {
				var err error
				if best, err = s.bestOf(&e, p); err != nil {
					return err
				}
			}
			if best != nil {
				l.LossPercent = max(0, round(100*(best.CostRatio(p.Best)-1), 3))
				l.Best = &layout.LauncherBest{Strategy: layout.Of(best.Strategy), Batch: best.Batch, StepMs: round(best.Step.Time.Millis(), 4)}
			}
		}
		p.Launchers = append(p.Launchers, l)
	}
	slices.SortStableFunc(p.Launchers, func(a, b layout.Launcher) int { return cmp.Compare(a.Target, b.Target) })
	return nil
}

// cannot says why an engine cannot run an outcome on its seats; empty when it can.
func (s *search) cannot(e *engine.Engine, o *Outcome, seats []topology.GPUID) string {
	if why := s.breaks(e, o); why != "" {
		return why
	}
	if why := e.WhyNot(o.Strategy); why != "" {
		return why
	}
	if !byNode[e.Name] {
		return ""
	}
	counts, ok := seatsOf(s.Cluster, seats)
	if !ok {
		return "deals ranks node by node; here a node's ranks are not consecutive"
	}
	if most, least := slices.Max(counts), slices.Min(counts); most != least {
		return fmt.Sprintf("starts as many ranks on every node; here %d to %d", least, most)
	}
	return ""
}

// breaks names the rule of an engine that an outcome's degrees break.
func (s *search) breaks(e *engine.Engine, o *Outcome) string {
	st := o.Strategy
	if st.RedundantExperts > 0 && !balancers[e.Name] && e.Orders != nil {
		return "places no copies of experts"
	}
	if v := e.Check(st, *s.factsFor(st)); len(v) > 0 {
		return v[0].Rule + ": " + v[0].Text
	}
	return ""
}

// bestOf is the best outcome that an engine can express; nil when none of those found is one.
func (s *search) bestOf(e *engine.Engine, p *Plan) (*Outcome, error) {
	var best *Outcome
	for _, o := range p.found {
		if best != nil && o.score >= best.score || s.cancelled() {
			break
		}
		if s.breaks(e, o) != "" {
			continue
		}
		for _, t := range s.dealings(e, o.GPUs) {
			for _, order := range orders(o.Strategy) {
				if !e.Permits(order, o.Strategy) {
					continue
				}
				st := o.Strategy
				st.Order = order
				if e.WhyNot(st) != "" {
					continue
				}
				x, err := s.evaluate(st, newComm(t, s.Pricer, graphLaunch, st).price, o.Batch, true)
				if err != nil {
					return nil, err
				}
				s.counts.Priced--
				if best == nil || x.score < best.score {
					x.seats, best = t, x
				}
			}
		}
	}
	return best, nil
}

// dealings lists the seats of n ranks that a launcher can deal: any of the search's for those that place each rank, else
// one list for each number of ranks a node, the nodes and GPUs in the machine's order.
func (s *search) dealings(e *engine.Engine, n int) []*seating {
	if !byNode[e.Name] {
		return []*seating{s.seating(n)}
	}
	var nodes []topology.NodeID
	on := map[topology.NodeID][]topology.GPUID{}
	most := 0
	for _, id := range s.base.gpus {
		k := s.Cluster.NodeOf(id)
		if on[k] == nil {
			nodes = append(nodes, k)
		}
		on[k] = append(on[k], id)
		most = max(most, len(on[k]))
	}
	var out []*seating
	for m := min(most, n); m > 0; m-- {
		if n%m != 0 {
			continue
		}
		var ids []topology.GPUID
		for _, k := range nodes {
			if len(on[k]) >= m && len(ids) < n {
				ids = append(ids, on[k][:m]...)
			}
		}
		if len(ids) < n {
			continue
		}
		if slices.Equal(ids, s.base.gpus[:n]) {
			out = append(out, s.seating(n))
		} else {
			out = append(out, s.base.seatedOn(ids))
		}
		if len(out) == maxDealings {
			break
		}
	}
	return out
}

// maxDealings bounds how many numbers of ranks a node are tried; the largest come first.
const maxDealings = 3

// explainLaunchers says which launchers lose, and with what; those that lose alike together.
func explainLaunchers(p *Plan) []string {
	var out []string
	done := map[string]bool{}
	for _, l := range p.Launchers {
		if l.Best == nil || l.LossPercent < minLoss || done[l.Target] {
			continue
		}
		var names []string
		for _, x := range p.Launchers {
			if x.Why == l.Why && x.Best != nil && x.LossPercent == l.LossPercent {
				names = append(names, x.Target)
				done[x.Target] = true
			}
		}
		st := l.Best.Strategy.Parallel()
		out = append(out, fmt.Sprintf("%s cannot express this plan (%s); the best that can be, %s in the order %s, costs %.1f %% more",
			joinAnd(names), l.Why, st, orderText(live(st)), l.LossPercent))
	}
	return out
}

// minLoss is the loss, percent, below which nothing is said.
const minLoss = 0.05
