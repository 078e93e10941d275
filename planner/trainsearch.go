package planner

import (
	"cmp"
	"container/heap"
	"fmt"
	"math"
	"slices"

	"rankmap/collective"
	"rankmap/internal/parallel"
	"rankmap/model"
	"rankmap/planner/step"
)

// trainSplit is a split whose options wait to be priced.
type trainSplit struct {
	options []trainOption // by bound, ascending
	bound   float64       // of the first
	tight   bool          // the bounds count the collectives of a micro-batch
	place   int           // in the order of enumeration: settles ties
}

// sort orders the options.
func (x *trainSplit) sort() {
	slices.SortStableFunc(x.options, func(a, b trainOption) int { return cmp.Compare(a.bound, b.bound) })
	if len(x.options) > 0 {
		x.bound = x.options[0].bound
	}
}

// splitQueue is a heap of splits, the least bound first.
type splitQueue []trainSplit

func (q splitQueue) Len() int { return len(q) }
func (q splitQueue) Less(i, j int) bool {
	return q[i].bound < q[j].bound || q[i].bound == q[j].bound && q[i].place < q[j].place
}
func (q splitQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push is heap.Interface's.
func (q *splitQueue) Push(x any) { *q = append(*q, x.(trainSplit)) }

// Pop is heap.Interface's.
func (q *splitQueue) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}

// considerTraining keeps the options of a split that fit memory until all splits are known (settleTraining).
func (s *search) considerTraining(st parallel.Strategy) error {
	fit, large, none := s.trainOptions(st)
	switch {
	case none:
		s.counts.ByRule++
		s.losers = append(s.losers, Loser{Strategy: st, Why: s.fewMicroBatches(st)})
		return nil
	case len(fit) == 0:
		least := large[0].need
		for _, o := range large {
			if least = min(least, o.need); s.minNeed == 0 || o.need < s.minNeed {
				s.minNeed, s.minAt = o.need, o.st
			}
		}
		s.counts.ByMemory++
		s.losers = append(s.losers, Loser{Strategy: st, Why: fmt.Sprintf("needs %s a GPU even with full recomputation, has %s", least.Decimal(), s.Capacity.Decimal())})
		return nil
	}
	for i := range fit {
		t, err := step.TrainFloor(s.trainInput(fit[i].st, nil))
		if err != nil {
			return err
		}
		fit[i].bound = t.Seconds()
	}
	x := trainSplit{options: fit, place: len(s.waiting)}
	x.sort()
	s.waiting = append(s.waiting, x)
	return nil
}

// settleTraining prices the splits that wait, those with the least lower bound first, so that most of them are ruled out
// without a price: first by their kernels alone (nothing communicated), then by their kernels and the collectives of a
// micro-batch on the best GPUs that the machine has for each group alone. Both are lower bounds of every seating. A split
// whose first bound is the least of all gets its second and waits again, so that no more bounds are computed than needed.
func (s *search) settleTraining() error {
	q := splitQueue(s.waiting)
	s.waiting = nil
	heap.Init(&q)
	if s.ideal == nil {
		s.ideal = newIdeal(s)
	}
	for len(q) > 0 {
		if s.cancelled() {
			return s.ctx.Err()
		}
		limit := s.worthwhile()
		if q[0].bound > limit {
			for _, x := range q {
				s.counts.Bounded += len(x.options)
			}
			return nil
		}
		x := heap.Pop(&q).(trainSplit)
		if x.tight {
			if err := s.settle(x.options); err != nil {
				return err
			}
			continue
		}
		if err := s.tighten(&x, limit); err != nil {
			return err
		}
		if len(x.options) > 0 {
			heap.Push(&q, x)
		}
	}
	return nil
}

// tighten gives the options of a split their second bound and drops those that are not worth a price.
func (s *search) tighten(x *trainSplit, limit float64) error {
	kept := x.options[:0]
	for _, o := range x.options {
		if o.bound <= limit {
			b, err := s.trainBound(o.st)
			if err != nil {
				return err
			}
			o.bound = max(o.bound, b)
		}
		if o.bound > limit {
			s.counts.Bounded++
			continue
		}
		kept = append(kept, o)
	}
	x.options, x.tight = kept, true
	x.sort()
	return nil
}

// settle prices the options of a split and keeps the fastest.
func (s *search) settle(options []trainOption) error {
	cm, seated, err := s.bestOrder(options[0].st, s.Workload.Batch)
	if err != nil {
		return err
	}
	var best *Outcome
	var cuts []*Outcome // the best of each number of virtual stages: their ends may be levelled
	for i, x := range options {
		if best != nil && x.bound >= best.score*s.levelGain(x.st) {
			s.counts.Bounded += len(options) - i
			break
		}
		x.st.Order = seated.Order
		o, err := s.evaluate(x.st, cm.price, s.Workload.Batch, true)
		if err != nil {
			return err
		}
		cuts = keepCut(cuts, o)
		if best == nil || o.score < best.score {
			best = o
		}
	}
	if best, err = s.levelAll(best, cuts, cm); err != nil {
		return err
	}
	best.seats = cm.seats
	s.found = append(s.found, best)
	return nil
}

// trainBound is a lower bound of a step on any seats: kernels, and what each micro-batch communicates on the best GPUs of
// the machine. What can run beside computation counts as free.
func (s *search) trainBound(st parallel.Strategy) (float64, error) {
	price := s.ideal.comm(st)
	in := s.trainInput(st, func(op model.CollectiveOp) (collective.Estimate, error) {
		if op.Overlappable || op.Group == parallel.PP && op.Op != parallel.SendRecv {
			return collective.Estimate{}, nil
		}
		return price(op)
	})
	in.Brief = true
	r, err := step.Train(in)
	if err != nil {
		return 0, err
	}
	return r.Time.Seconds(), nil
}

// levelEnds moves layers away from the ends of the pipeline, whose stages hold embedding and head besides, while the step
// gets shorter and memory holds (Megatron-LM's first and last stage of their own size; Llama 3 took one layer off each,
// arXiv 2407.21783 section 3.3.2).
func (s *search) levelEnds(o *Outcome, cm *comm) (*Outcome, error) {
	st := o.Strategy
	pieces := st.PP * max(st.Interleave, 1)
	if st.PP == 1 || o.score > s.worthwhile()*levelMargin || s.Held.EvenStages {
		return o, nil
	}
	first, last := s.Spec.EndLayers(st)
	for range maxLevels {
		var better *Outcome
		for _, e := range [][2]int{{first, last - 1}, {first - 1, last}, {first - 1, last - 1}, {first + 1, last - 1}} {
			x := st
			x.FirstStage, x.LastStage = e[0], e[1]
			if e[0] < 1 || e[1] < 1 || pieces == 2 && e[0]+e[1] != s.Spec.Layers() || len(s.violations(x)) > 0 {
				continue
			}
			if floor, err := step.TrainFloor(s.trainInput(x, nil)); err != nil || floor.Seconds() >= o.score {
				continue
			}
			if s.Spec.Memory(x, s.trainWork(x), s.memoryOptions()).Total() > s.Capacity {
				continue
			}
			c, err := s.evaluate(x, cm.price, s.Workload.Batch, true)
			if err != nil {
				return nil, err
			}
			if c.score < o.score*(1-1e-6) && (better == nil || c.score < better.score) {
				better = c
			}
		}
		if better == nil {
			break
		}
		o = better
		first, last = o.Strategy.FirstStage, o.Strategy.LastStage
	}
	return o, nil
}

const (
	// levelMargin is how far behind the strategies shown a split may lie for its ends to be levelled: by as much as this can
	// shorten a step, about a head of 4 layers on a stage of 20.
	levelMargin = 1.2
	// maxLevels bounds the layers that an end may lose.
	maxLevels = 4
)

// worthwhile is the score from which on a training strategy cannot even be among the losers that are shown.
func (s *search) worthwhile() float64 {
	keep := s.Top + 1
	if len(s.found) < keep || Objective(s.Workload.Objective) == MinGPUs {
		return math.Inf(1)
	}
	if s.bar == nil || s.barAt != len(s.found) {
		scores := make([]float64, len(s.found))
		for i, o := range s.found {
			scores[i] = o.score
		}
		slices.Sort(scores)
		s.bar, s.barAt = &scores[keep-1], len(s.found)
	}
	return *s.bar
}
