package planner

import (
	"slices"

	"rankmap/internal/parallel"
	"rankmap/topology"
)

// plain seats n ranks as a launcher does without a plan: hosts in their order, GPUs by index, usable ones only.
func (s *search) plain(n int) *seating {
	ids := slices.Clone(s.base.gpus)
	slices.Sort(ids)
	if slices.Equal(ids[:n], s.base.gpus[:n]) {
		return s.seating(n)
	}
	return s.base.seatedOn(ids[:n])
}

// pricePlain prices the plan's degrees dealt out plainly, in Megatron's default order of the dimensions (the engine's own
// with a target). So Outcome.Plain says what seating alone is worth. Cost: one step.
func (s *search) pricePlain(o *Outcome) error {
	st := o.Strategy
	st.Order = parallel.DefaultOrder
	if s.Engine != nil && s.Engine.Orders != nil {
		st.Order = s.Engine.Orders[0]
	}
	t := s.plain(o.GPUs)
	if sameDims(live(st), live(o.Strategy)) && slices.Equal(t.gpus[:o.GPUs], o.seats.gpus[:o.GPUs]) {
		return nil
	}
	p, err := s.evaluate(st, newComm(t, s.Pricer, graphLaunch, st).price, o.Batch, true)
	if err != nil {
		return err
	}
	s.counts.Priced--
	o.Plain = p.Step.Time
	return nil
}

// live lists the dimensions that are split, in the order of the ranks.
func live(st parallel.Strategy) []parallel.Dim {
	return slices.DeleteFunc(slices.Clone(st.Order), func(d parallel.Dim) bool { return d == parallel.EP || degreeOf(st, d) < 2 })
}

func sameDims(a, b []parallel.Dim) bool { return slices.Equal(a, b) }

// seatsOf lists how many of the ranks sit on each node, in rank order; ok is false when a node's ranks are not consecutive.
func seatsOf(c *topology.Cluster, ids []topology.GPUID) (counts []int, ok bool) {
	seen := map[topology.NodeID]bool{}
	last := topology.NodeID(-1)
	for _, id := range ids {
		n := c.NodeOf(id)
		if n == last {
			counts[len(counts)-1]++
			continue
		}
		if seen[n] {
			return nil, false
		}
		seen[n], last = true, n
		counts = append(counts, 1)
	}
	return counts, true
}

// orderText prints dimensions, fastest first: "tp-dp".
func orderText(dims []parallel.Dim) string {
	if len(dims) == 0 {
		return "-"
	}
	var out string
	for i, d := range dims {
		if i > 0 {
			out += "-"
		}
		out += d.String()
	}
	return out
}
