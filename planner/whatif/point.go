package whatif

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"rankmap/planner"
)

// sweeper is the state of a sweep.
type sweeper struct {
	ctx      context.Context
	p        *Problem
	machines []Machine
	axis     *Axis
	changes  Changes
	same     Same

	prepare sync.Mutex // machines and prices are made ready one at a time: Grow and Price may keep books
	mu      sync.Mutex
	seen    map[float64]*point // by value; words by place
	count   atomic.Int64       // plans searched
}

// point is one value of the axis. Its machines are planned when a column is first asked for, each once.
type point struct {
	s     *sweeper
	v     Setting
	where float64

	ready    sync.Once
	err      error
	machines []Machine
	problem  *Problem
	budget   int
	slots    []slot
}

// slot is one machine at one value.
type slot struct {
	once sync.Once
	col  *Column
	no   *planner.Infeasible
	err  error
}

// at returns the point of a value. place is where it stands in the axis, -1 between two values.
func (s *sweeper) at(place int, v Setting) *point {
	where := v.Num
	if s.axis.key.unit == word {
		where = float64(place)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	pt := s.seen[where]
	if pt == nil {
		pt = &point{s: s, v: v, where: where, slots: make([]slot, len(s.machines))}
		s.seen[where] = pt
	}
	return pt
}

// change applies the changes and the value to every machine. The caller holds s.prepare.
func (pt *point) change() {
	s := pt.s
	ch := s.changes
	ch.Set = append(slices.Clone(ch.Set), pt.v.Key+"="+pt.v.Text)
	pt.machines = make([]Machine, len(s.machines))
	for i := range s.machines {
		m, p, err := ch.Apply(s.machines[i], s.p)
		if err != nil {
			pt.err = pt.at(err)
			return
		}
		pt.machines[i], pt.problem = m, p
		if n := m.paid(p, 0); s.same == EqualGPUs && p.GPUs == 0 && (pt.budget == 0 || n < pt.budget) {
			pt.budget = n
		}
	}
}

func (pt *point) at(err error) error { return fmt.Errorf("%s=%s: %w", pt.v.Key, pt.v.Text, err) }

// column is the best plan of a machine at the point; no is the reason when nothing fits.
func (pt *point) column(i int) (col *Column, no *planner.Infeasible, err error) {
	x := &pt.slots[i]
	x.once.Do(func() {
		s := pt.s
		s.prepare.Lock()
		pt.ready.Do(pt.change)
		if x.err = pt.err; x.err != nil {
			s.prepare.Unlock()
			return
		}
		m := &pt.machines[i]
		req, err := pt.problem.request(m, pt.budget)
		s.prepare.Unlock()
		if err != nil {
			x.err = pt.at(err)
			return
		}
		s.count.Add(1)
		if x.col, x.no, err = pt.problem.search(s.ctx, m, &req, pt.budget); err != nil {
			x.err = pt.at(err)
			return
		}
		x.col.index = i
		x.col.At = &Position{Axis: pt.v.Key, Value: pt.v.Shown(), Text: pt.v.Text}
		if s.axis.key.unit == word {
			x.col.At.Value = pt.where
		}
		x.col.plan, x.col.seats = nil, nil
		pt.machines[i] = Machine{} // large clusters need not be kept
	})
	return x.col, x.no, x.err
}

// all are the columns of every machine, which have been planned.
func (pt *point) all() []*Column {
	cols := make([]*Column, len(pt.slots))
	for i := range pt.slots {
		cols[i] = pt.slots[i].col
	}
	return cols
}
