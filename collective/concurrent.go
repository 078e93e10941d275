package collective

import (
	"fmt"
	"slices"

	"rankmap/internal/units"
	"rankmap/topology"
)

// Interval of a collective beside other ones on its links, on top of its own: the residuals of two collectives at once on two
// H200 from 16 MiB up lie between these (docs/accuracy.md; nothing was fitted to them).
const (
	besideLow  = -0.12
	besideHigh = 0.18
)

// PriceConcurrent prices collectives of different kinds, sizes or members that all run at the same time, over and over: each
// estimate is the time of that one while every other keeps its links as busy as it can. Groups that share no link do not
// disturb each other. Siblings of a request are counted besides; requests need not be each other's siblings.
//
// What two groups share (NVLink ports of a GPU, NICs, uplinks of leaves and of PCIe switches) comes from the topology; how
// busy each keeps them, from its own time. Cost: a shape for every ordered pair of requests.
func (m *Model) PriceConcurrent(requests []Request) ([]Estimate, error) {
	out := make([]Estimate, len(requests))
	busy := make([]load, len(requests))
	for i := range requests {
		e, err := m.Price(requests[i])
		if err != nil {
			return nil, fmt.Errorf("collective %d: %w", i, err)
		}
		if out[i] = e; len(requests[i].Members) < 2 {
			continue
		}
		if busy[i], err = m.busy(&requests[i], e.Time); err != nil {
			return nil, fmt.Errorf("collective %d: %w", i, err)
		}
	}
	sh, _ := m.shapers.Get().(*topology.Shaper)
	defer m.shapers.Put(sh)
	for i := range requests {
		var others load
		groups := 0
		for j := range requests {
			if i == j || len(requests[i].Members) < 2 || len(requests[j].Members) < 2 {
				continue
			}
			s, err := sharing(sh, requests[i].Members, requests[j].Members)
			if err != nil {
				return nil, err
			}
			if s.port+s.nic > 0 {
				groups++
			}
			others.port += s.port * busy[j].port
			others.nic += s.nic * busy[j].nic
		}
		f := max(slowdown(busy[i].port, others.port), slowdown(busy[i].nic, others.nic))
		if f > 1.005 {
			slower(&out[i], &requests[i], f, groups)
		}
	}
	return out, nil
}

// busy is the share of its time for which a collective occupies its links.
func (m *Model) busy(r *Request, t units.Duration) (load, error) {
	rt, err := m.routeOf(r)
	if err != nil || t <= 0 {
		return load{}, err
	}
	l := rt.load(r.Op, float64(r.Bytes))
	return load{port: min(l.port/t.Micros(), 1), nic: min(l.nic/t.Micros(), 1)}, nil
}

// sharing says which of its links the first group shares with the second: 0 none, 1 in equal parts.
func sharing(sh *topology.Shaper, a, b []topology.GPUID) (load, error) {
	alone, err := sh.Shape(a)
	if err != nil {
		return load{}, err
	}
	with, err := sh.ShapeWith(a, [][]topology.GPUID{b})
	if err != nil {
		return load{}, err
	}
	var l load
	switch {
	case alone.PCIeUsed:
		l.port = float64(with.PCIeShare - 1)
	case alone.NVLink:
		l.port = float64(with.PortShare - 1)
	}
	if with.NICBW > 0 && with.NICBW < alone.NICBW { // fewer NICs, or less of the leaf's uplinks
		l.nic = float64(alone.NICBW/with.NICBW) - 1
	}
	return l, nil
}

// slower stretches an estimate.
func slower(e *Estimate, r *Request, f float64, groups int) {
	b := logBand{besideLow, besideHigh}
	e.Time *= units.Duration(f)
	low, high := b.interval(e.Time)
	e.P10, e.P90 = min(e.P10*units.Duration(f), low), max(e.P90*units.Duration(f), high)
	e.BusBW = BusBandwidth(r.Op, len(r.Members), r.Bytes, e.Time)
	e.Flags = append(slices.Clip(e.Flags), fmt.Sprintf("beside %d other collectives on the same links: %s times as long", groups, units.Trim(f, 2)))
}
