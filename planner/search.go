package planner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"rankmap/internal/engine"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/model"
	"rankmap/planner/step"
)

// Search returns the best plan. When no strategy fits the exact number of GPUs and the user did not ask for an exact
// number, it leaves as few GPUs idle as it must. A cancelled ctx returns the best plan so far with a note, or ctx's
// error when there is none yet.
//
// The search is exhaustive over degrees, dimension orders and powers of two of the batch. Cost: strategies x (orders +
// batches) priced steps; a step is a few dozen closed-form prices.
func Search(ctx context.Context, r Request) (*Plan, error) {
	if r.Top == 0 {
		r.Top = 5
	}
	s := &search{Request: r, base: newSeating(r.Cluster, r.Skip)}
	usable := len(s.base.gpus)
	if usable == 0 {
		return nil, &Infeasible{Binding: "the cluster has no usable GPU", Nearest: "free a GPU"}
	}
	if r.GPUs > usable {
		return nil, &Infeasible{
			Binding: fmt.Sprintf("%d GPUs are asked for, %d are usable", r.GPUs, usable),
			Nearest: fmt.Sprintf("--gpus %d", usable),
		}
	}
	if r.GPUs > 0 {
		if err := s.run(ctx, r.GPUs); err != nil {
			return nil, err
		}
		if len(s.found) == 0 {
			return nil, s.infeasible(ctx, r.GPUs, true)
		}
		return s.plan(ctx)
	}
	for n := usable; n > 0 && len(s.found) == 0; n-- {
		if n < usable && s.hopeless() {
			break
		}
		if err := s.run(ctx, n); err != nil {
			return nil, err
		}
	}
	if n := roundest(usable); n < usable && len(s.found) > 0 && s.found[0].GPUs > n {
		if err := s.run(ctx, n); err != nil {
			return nil, err
		}
	}
	if len(s.found) == 0 {
		return nil, s.infeasible(ctx, usable, false)
	}
	if r.Workload.Objective == string(MinGPUs) {
		if err := s.shrink(ctx); err != nil {
			return nil, err
		}
	}
	return s.plan(ctx)
}

// roundest is the number from three quarters of n to n with the most factors of two. Degrees of networks are powers of
// two: 64 of the 72 GPUs of a rack can beat all 72, idle ones counted.
func roundest(n int) int {
	for step := 1 << bits.Len(uint(n)); step > 0; step /= 2 {
		if m := n / step * step; m > 0 && 4*m >= 3*n {
			return m
		}
	}
	return n
}

// search is one run's state.
type search struct {
	Request
	base    *seating         // all usable GPUs
	taken   map[int]*seating // by number of ranks
	packed  map[packKey]*seating
	ideal   *ideal
	counts  Counts
	found   []*Outcome
	losers  []Loser
	minNeed units.Bytes // least memory of a GPU over the strategies that memory forbids
	minAt   parallel.Strategy
	stopped bool
	kernels map[kernelKey]kernelPrice
	scratch step.Scratch
	bar     *float64 // see worthwhile
	barAt   int
	facts   *engine.Facts // of the target; nil until asked
}

type kernelKey struct {
	phase model.Phase
	op    model.ComputeOp
}

type kernelPrice struct {
	band  step.Band
	bound string
	err   error
}

// kernel returns the prices of a phase's computations; each distinct one is priced once a search.
func (s *search) kernel(phase model.Phase) step.Kernel {
	return func(op model.ComputeOp) (step.Band, string, error) {
		k := kernelKey{phase, op}
		k.op.Name, k.op.Times = "", 0
		if p, ok := s.kernels[k]; ok {
			return p.band, p.bound, p.err
		}
		b, bound, err := s.Kernel(phase, op)
		if s.kernels == nil {
			s.kernels = map[kernelKey]kernelPrice{}
		}
		s.kernels[k] = kernelPrice{b, bound, err}
		return b, bound, err
	}
}

// seating returns the seats of n ranks.
func (s *search) seating(n int) *seating {
	if s.taken == nil {
		s.taken = map[int]*seating{}
	}
	if s.taken[n] == nil {
		s.taken[n] = s.base.take(n)
	}
	return s.taken[n]
}

// hopeless says that fewer GPUs cannot help: memory alone forbade everything.
func (s *search) hopeless() bool { return s.counts.ByMemory > 0 && s.counts.ByRule == 0 }

// run prices every strategy of n GPUs.
func (s *search) run(ctx context.Context, n int) error {
	sp := splitter{
		gpus: n, layers: s.Spec.Layers(), expert: routedExperts(s.Spec),
		cp: s.Workload.Task == string(TrainStep) || s.Workload.Task == string(PrefillOnly),
	}
	for _, st := range sp.strategies(s.Freedom) {
		if ctx.Err() != nil {
			if len(s.found) == 0 {
				return ctx.Err()
			}
			s.stopped = true
			return nil
		}
		s.counts.Strategies++
		if err := s.consider(st.Normalize()); err != nil {
			return err
		}
	}
	return nil
}

// consider prices one strategy and records it as found or lost.
func (s *search) consider(st parallel.Strategy) error {
	if v := s.Spec.Check(st); len(v) > 0 {
		s.counts.ByRule++
		s.losers = append(s.losers, Loser{Strategy: st, Why: v[0].String()})
		return nil
	}
	if why := s.refused(st); why != "" {
		s.counts.ByRule++
		s.losers = append(s.losers, Loser{Strategy: st, Why: why})
		return nil
	}
	if s.Workload.Task == string(TrainStep) {
		return s.considerTraining(st)
	}
	batches, need := s.batches(st)
	if len(batches) == 0 {
		s.counts.ByMemory++
		if s.minNeed == 0 || need < s.minNeed {
			s.minNeed, s.minAt = need, st
		}
		s.losers = append(s.losers, Loser{Strategy: st, Why: fmt.Sprintf("needs %s a GPU, has %s", need.Decimal(), s.Capacity.Decimal())})
		return nil
	}
	cm, st, err := s.bestOrder(st, batches[len(batches)/2])
	if err != nil {
		return err
	}
	var best *Outcome
	limited := ""
	for _, b := range batches {
		o, err := s.evaluate(st, cm.price, b, true)
		if err != nil {
			return err
		}
		o.seats = cm.seats
		if why := s.misses(o); why != "" {
			limited = why
			if best == nil && len(batches) == 1 {
				s.counts.ByLimit++
				s.losers = append(s.losers, Loser{Strategy: st, Outcome: o, Why: why})
				return nil
			}
			continue
		}
		if best == nil || o.score < best.score {
			best = o
		}
	}
	if best == nil {
		s.counts.ByLimit++
		s.losers = append(s.losers, Loser{Strategy: st, Why: limited})
		return nil
	}
	s.found = append(s.found, best)
	return nil
}

// misses names the limit that an outcome breaks.
func (s *search) misses(o *Outcome) string {
	if l := s.Workload.TTFTMs; l > 0 && o.TTFT.Time.Millis() > l {
		return fmt.Sprintf("TTFT %s is over the limit of %s", o.TTFT.Time, units.Millis(l))
	}
	if l := s.Workload.TPOTMs; l > 0 && o.TPOT.Time.Millis() > l {
		return fmt.Sprintf("TPOT %s is over the limit of %s", o.TPOT.Time, units.Millis(l))
	}
	return ""
}

// bestOrder seats the strategy on every list of GPUs worth trying in every distinct dimension order and keeps the one
// with the shortest step at batch.
func (s *search) bestOrder(st parallel.Strategy, batch int) (*comm, parallel.Strategy, error) {
	var best *comm
	var bestSt parallel.Strategy
	bestT := math.Inf(1)
	for _, seats := range s.seatingsFor(st) {
		for _, o := range orders(st) {
			if s.Engine != nil && !s.Engine.Permits(o, st) {
				continue
			}
			cand := st
			cand.Order = o
			cm := newComm(seats, s.Pricer, graphLaunch, cand)
			out, err := s.evaluate(cand, cm.price, batch, true)
			if err != nil {
				return nil, st, err
			}
			if t := out.Step.Time.Seconds() + out.TTFT.Time.Seconds()*1e-6; t < bestT*(1-1e-9) {
				best, bestSt, bestT = cm, cand, t
			}
		}
	}
	if best == nil {
		return nil, st, errors.New("no dimension order")
	}
	return best, bestSt, nil
}

// rank sorts outcomes best first; ties go to fewer dimensions split, then to the smaller degrees in a fixed order.
func rank(o []*Outcome) {
	slices.SortStableFunc(o, func(a, b *Outcome) int {
		return cmp.Or(
			cmp.Compare(a.score, b.score),
			cmp.Compare(a.Strategy.PP, b.Strategy.PP),
			cmp.Compare(a.Strategy.CP, b.Strategy.CP),
			cmp.Compare(a.Strategy.TP, b.Strategy.TP),
			cmp.Compare(a.Strategy.EP, b.Strategy.EP),
			cmp.Compare(a.Strategy.ExpertTP, b.Strategy.ExpertTP),
		)
	})
}

// shrink looks for the fewest GPUs that keep the limits, by halving steps down from what works.
func (s *search) shrink(ctx context.Context) error {
	best := s.found
	for n := best[0].GPUs - 1; n > 0; n-- {
		s.found = nil
		if err := s.run(ctx, n); err != nil {
			return err
		}
		if len(s.found) > 0 {
			best = s.found
		}
	}
	s.found = best
	return nil
}
