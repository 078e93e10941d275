package validate

import (
	"fmt"
	"math"
	"slices"

	"rankmap/internal/measured"
	"rankmap/internal/parallel"
)

// spec is one operation of a family at one size.
type spec struct {
	op    parallel.Op
	bytes int64
	dtype string
	sweep bool // not in the layout
}

// unit is what is timed by itself: a group, or one boundary of a pipeline.
type unit struct {
	family, group int
	ranks         []int
	pair          [2]int // positions in the group, of a send/recv
}

// specs lists the operations of a family: the layout's own sizes first, in its order, then the sweep for each of its
// operations.
func (f family) specs(sweep []int64) []spec {
	var list []spec
	add := func(s spec) {
		same := func(o spec) bool { return o.op == s.op && o.bytes == s.bytes && o.dtype == s.dtype }
		if !slices.ContainsFunc(list, same) {
			list = append(list, s)
		}
	}
	for _, g := range f.groups {
		for _, c := range g.Collectives {
			add(spec{op: c.Op, bytes: c.Bytes, dtype: c.DType})
		}
	}
	own := slices.Clone(list)
	for _, s := range own {
		for _, b := range sweep {
			add(spec{op: s.op, bytes: b, dtype: s.dtype, sweep: true})
		}
	}
	return list
}

// find returns the layout's collective of a group for a spec, or nil.
func (g JobGroup) find(s spec) *JobCollective {
	for i := range g.Collectives {
		c := &g.Collectives[i]
		if c.Op == s.op && c.Bytes == s.bytes && c.DType == s.dtype {
			return c
		}
	}
	return nil
}

// units lists what is timed alone: each group, or for send/recv each pair of neighbours.
func (f family) units(index int, op parallel.Op) []unit {
	var us []unit
	for gi, g := range f.groups {
		if op != parallel.SendRecv {
			us = append(us, unit{family: index, group: gi, ranks: g.Members})
			continue
		}
		for i := 0; i+1 < len(g.Members); i++ {
			us = append(us, unit{family: index, group: gi, ranks: g.Members[i : i+2], pair: [2]int{i, i + 1}})
		}
	}
	return us
}

// ranks lists every rank of the family, ascending.
func (f family) ranks() []int {
	var all []int
	for _, g := range f.groups {
		all = append(all, g.Members...)
	}
	slices.Sort(all)
	return all
}

// together is the call that all groups of the family make at once. A pipeline of two stages exchanges both ways, a longer
// one passes on from stage to stage.
func (f family) together(index int, s spec) call {
	c := call{Family: index, Op: s.op, Bytes: s.bytes, DType: s.dtype}
	if s.op == parallel.SendRecv && len(f.groups[0].Members) == 2 {
		c.Pair = [2]int{0, 1}
	}
	return c
}

// alone is the call of one unit.
func (u unit) alone(s spec) call {
	return call{Family: u.family, Op: s.op, Bytes: s.bytes, DType: s.dtype, Pair: u.pair}
}

// mixStep is the sequence of one layer: each collective of the layout as often as it comes for one of the rarest. Only
// what all groups of a family do alike can be issued by all ranks in one order.
type mixStep struct {
	phase  string
	calls  []call
	words  []string
	expect Prediction
	known  bool // every part has a prediction
}

// maxMixTimes bounds how often one collective is repeated in a mix.
const maxMixTimes = 16

func mixes(fams []family) []mixStep {
	var phases []string
	for _, f := range fams {
		for _, c := range f.groups[0].Collectives {
			if !slices.Contains(phases, c.Phase) {
				phases = append(phases, c.Phase)
			}
		}
	}
	var out []mixStep
	for _, ph := range phases {
		m := mixStep{phase: ph, known: true}
		rarest := math.Inf(1)
		for _, f := range fams {
			for _, c := range f.groups[0].Collectives {
				if c.Phase == ph && c.TimesPerStep > 0 {
					rarest = min(rarest, c.TimesPerStep)
				}
			}
		}
		for i, f := range fams {
			for _, c := range f.groups[0].Collectives {
				s := spec{op: c.Op, bytes: c.Bytes, dtype: c.DType}
				shared := !slices.ContainsFunc(f.groups, func(g JobGroup) bool { return g.find(s) == nil || len(g.Members) != len(f.groups[0].Members) })
				if c.Phase != ph || c.TimesPerStep <= 0 || !shared {
					continue
				}
				n := min(maxMixTimes, int(math.Round(c.TimesPerStep/rarest)))
				k := f.together(i, s)
				k.Times = n
				if last := len(m.calls) - 1; last >= 0 && sameCall(m.calls[last], k) {
					m.calls[last].Times += n
				} else {
					m.calls = append(m.calls, k)
				}
				if p := c.Predicted; p != nil {
					m.expect.Us += float64(n) * p.Us
					m.expect.P10Us += float64(n) * p.P10Us
					m.expect.P90Us += float64(n) * p.P90Us
				} else {
					m.known = false
				}
			}
		}
		for _, k := range m.calls {
			m.words = append(m.words, fmt.Sprintf("%d x %s %s %d B", k.Times, fams[k.Family].kind, k.Op, k.Bytes))
		}
		if len(m.calls) > 1 || len(m.calls) == 1 && m.calls[0].Times > 1 {
			out = append(out, m)
		}
	}
	return out
}

func sameCall(a, b call) bool {
	b.Times = a.Times
	return a == b
}

// innerFor is how many passes make a batch long enough for the clock.
func innerFor(passUs, batchUs float64, most int) int {
	if !(passUs > 0) {
		return most
	}
	return max(1, min(most, int(math.Ceil(batchUs/passUs))))
}

// bufferNeed is the device memory that a call takes on each member, both buffers.
func bufferNeed(s spec) int64 { return 2 * s.bytes }

// rates fills algbw and busbw of a row.
func rates(row *measured.ReportGroup, n int) {
	if row.Times.MedianUs > 0 {
		row.AlgGBps = float64(row.Bytes) / row.Times.MedianUs / 1e3
		row.BusGBps = row.AlgGBps * row.Op.BusFactor(n)
	}
	if row.Predicted.Us > 0 {
		row.Predicted.BusGBps = float64(row.Bytes) / row.Predicted.Us / 1e3 * row.Op.BusFactor(n)
		if row.Times.MedianUs > 0 {
			row.Error = 100 * (row.Predicted.Us - row.Times.MedianUs) / row.Times.MedianUs
		}
	}
}
