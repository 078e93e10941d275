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
	s := &search{Request: r, base: newSeating(r.Cluster, r.Skip), ctx: ctx}
	usable := s.most()
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
		p, err := s.plan(ctx)
		if err == nil && !r.BestOnly {
			if note := s.betterTrimmed(ctx, p); note != "" {
				p.Notes = append(p.Notes, note)
			}
		}
		return p, err
	}
	if r.exactly > 0 {
		usable = r.exactly
	}
	for n := usable; n > 0 && len(s.found) == 0; n = s.fewer(n, usable) {
		if err := s.run(ctx, n); err != nil {
			return nil, err
		}
		if len(s.found) == 0 && s.exceeds(n) {
			break
		}
	}
	if len(s.found) > 0 && r.exactly == 0 {
		for _, n := range s.rounder(s.found[0].GPUs) {
			s.BestOnly = r.BestOnly || n == s.trimmed(usable) // it rarely wins: bounds first
			err := s.run(ctx, n)
			if s.BestOnly = r.BestOnly; err != nil {
				return nil, err
			}
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

// most is how many GPUs a plan may use.
func (s *search) most() int {
	if n := len(s.base.gpus); s.Budget == 0 || n < s.Budget {
		return n
	}
	return s.Budget
}

// rounder lists smaller numbers of GPUs than n that divide better: whole nodes, the roundest number, and whole blocks of domains whose
// own size is not round.
func (s *search) rounder(n int) []int {
	var out []int
	usable := s.most()
	most, last := 0, 0
	for i, id := range s.base.gpus {
		if i == 0 || s.Cluster.NodeOf(id) != s.Cluster.NodeOf(s.base.gpus[i-1]) {
			last = i
		}
		most = max(most, i-last+1)
	}
	for _, m := range []int{usable / max(most, 1) * most, roundest(usable), s.trimmed(usable)} {
		if m > 0 && m < n && !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	return out
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
	ctx       context.Context     // for what takes long inside one strategy; nil = never given up
	specs     map[int]*model.Spec // by redundant experts
	points    *[]*Outcome         // every priced batch of every strategy, where a front is asked for
	base      *seating            // all usable GPUs
	taken     map[int]*seating    // by number of ranks
	packed    map[packKey]*seating
	ideal     *ideal
	counts    Counts
	found     []*Outcome
	losers    []Loser
	large     []parallel.Strategy // what memory forbade
	minNeed   units.Bytes         // least memory of a GPU over the strategies that memory forbids
	minAt     parallel.Strategy
	missed    nearMiss // of the limits
	loose     *ideal   // see beyondLimits
	beyond    map[limitKey]limitFound
	sets      map[string]*knownGroups // see commOf
	exchanges [][]byte                // see twins
	known     bool                    // that they were sought
	stopped   bool
	kernels   map[kernelKey]kernelPrice
	scratch   step.Scratch
	served    [2]step.Scratch // of steps without and with a piece of a prompt
	waiting   []trainSplit
	queue     []waitingServe
	limit     float64  // seconds from which on a training step need not be priced to its end; 0 = none
	domains   []int    // see trim
	block     int      // see trim
	swapped   int      // seats that exchanges have dealt anew: see seatBudget
	bar       *float64 // see worthwhile
	barAt     int
	facts     *engine.Facts // of the target; nil until asked
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
	all := s.splitter(n).strategies(s.Freedom)
	for i, st := range all {
		if s.Progress != nil {
			s.Progress(i, len(all))
		}
		if ctx.Err() != nil {
			if len(s.found) == 0 {
				return ctx.Err()
			}
			s.stopped = true
			return nil
		}
		s.counts.Strategies++
		if err := s.consider(st.Normalize()); err != nil {
			if ctx.Err() != nil && len(s.found) > 0 { // given up in the middle of a strategy
				s.stopped = true
				return nil
			}
			return err
		}
	}
	err := s.settleTraining()
	if err == nil {
		err = s.settleServing()
	}
	if ctx.Err() != nil && len(s.found) > 0 {
		s.stopped = true
		return nil
	}
	return err
}

// splitter lists the strategies of n GPUs.
func (s *search) splitter(n int) splitter {
	return splitter{
		gpus: n, layers: s.Spec.Layers(), expert: s.Spec.RoutedExperts(), copies: max(0, s.RedundantExperts),
		balanced: s.RedundantExperts == 0 && s.copiesAllowed(),
		training: s.Workload.Task == string(TrainStep),
		cp:       s.Workload.Task == string(TrainStep) || s.Workload.Task == string(PrefillOnly),
	}
}

// consider prices one strategy and records it as found or lost.
func (s *search) consider(st parallel.Strategy) error {
	if v := s.violations(st); len(v) > 0 {
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
		s.large = append(s.large, st)
		if s.minNeed == 0 || need < s.minNeed {
			s.minNeed, s.minAt = need, st
		}
		s.losers = append(s.losers, Loser{Strategy: st, Why: fmt.Sprintf("needs %s a GPU, has %s", need.Decimal(), s.Capacity.Decimal())})
		return nil
	}
	if batches = s.withinBudget(st, batches); len(batches) == 0 {
		return nil
	}
	if lost, err := s.beyondLimits(st, batches); lost || err != nil {
		return err
	}
	if s.onlyBest() {
		s.queue = append(s.queue, waitingServe{st: st, batches: batches})
		return nil
	}
	return s.priceServing(st, batches)
}

// priceServing prices a strategy that fits memory at every batch and records it as found, at the best one, or lost.
func (s *search) priceServing(st parallel.Strategy, batches []int) error {
	cm, st, err := s.bestOrder(st, batches[len(batches)/2])
	if err != nil {
		return err
	}
	var best *Outcome
	limited := ""
	for _, b := range batches {
		if s.cancelled() {
			return s.ctx.Err()
		}
		o, err := s.evaluate(st, cm.price, b, true)
		if err != nil {
			return err
		}
		o.seats = cm.seats
		if why := s.misses(o); why != "" {
			if s.near(o, Loser{Strategy: o.Strategy, Why: why}); limited == "" {
				limited = why // of the smallest batch, the nearest
			}
			if best == nil && len(batches) == 1 {
				s.counts.ByLimit++
				s.losers = append(s.losers, Loser{Strategy: st, Outcome: o, Why: why})
				return nil
			}
			continue
		}
		if s.points != nil {
			*s.points = append(*s.points, o)
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

// cancelled says that the caller has given up.
func (s *search) cancelled() bool { return s.ctx != nil && s.ctx.Err() != nil }

// misses names the limit that an outcome breaks.
func (s *search) misses(o *Outcome) string { return s.missesBy(o, 1) }

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
			if s.cancelled() {
				return nil, st, s.ctx.Err()
			}
			cand := st
			cand.Order = o
			cm := newComm(seats, s.Pricer, graphLaunch, cand)
			s.limit = bestT
			out, err := s.evaluate(cand, cm.price, batch, true)
			s.limit = 0
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
		return cmp.Or(cmp.Compare(a.score, b.score), compareDegrees(a, b))
	})
}

// compareDegrees orders outcomes of equal cost.
func compareDegrees(a, b *Outcome) int {
	x, y := &a.Strategy, &b.Strategy
	return cmp.Or(cmp.Compare(x.PP, y.PP), cmp.Compare(x.CP, y.CP), cmp.Compare(x.TP, y.TP), cmp.Compare(x.EP, y.EP), cmp.Compare(x.ExpertTP, y.ExpertTP))
}

// shrink looks for the fewest GPUs that keep the limits, from one up. Numbers that memory forbids cost their memory alone.
func (s *search) shrink(ctx context.Context) error {
	enough := s.found
	for n := 1; n < enough[0].GPUs; n++ {
		s.found = nil
		if err := s.run(ctx, n); err != nil {
			if ctx.Err() == nil {
				return err
			}
			s.stopped = true
			break
		}
		if len(s.found) > 0 {
			return nil
		}
	}
	s.found = enough
	return nil
}
