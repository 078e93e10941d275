package planner

import (
	"cmp"
	"fmt"
	"slices"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
)

// waitingServe is a strategy that fits memory and waits to be priced: see settleServing.
type waitingServe struct {
	st      parallel.Strategy
	batches []int
	best    float64 // score of the best batch on ideal seats
}

// boundSlack is how far, as a share of the score, a bound must lie behind the outcomes that are kept before its strategy is
// not priced. The ideal seats of a bound are sought, not proven, on machines of unequal domains.
const boundSlack = 0.02

// onlyBest says that strategies which cannot be the best need no price: their place among the losers is not asked for.
func (s *search) onlyBest() bool {
	return s.BestOnly && s.Workload.Task != string(TrainStep) && Objective(s.Workload.Objective) != MinGPUs && s.points == nil
}

// settleServing prices the strategies that wait, most promising first. Each is priced on ideal seats first, at one price a
// collective instead of one for each dimension order, and dropped when even that is worse than the outcomes kept.
func (s *search) settleServing() error {
	q := s.queue
	s.queue = nil
	if len(q) == 0 {
		return nil
	}
	if s.ideal == nil {
		s.ideal = newIdeal(s)
	}
	kept := q[:0]
	for _, x := range q {
		if s.cancelled() {
			return s.ctx.Err()
		}
		ok, err := s.boundServing(&x)
		if err != nil {
			return err
		}
		if ok {
			kept = append(kept, x)
		}
	}
	slices.SortStableFunc(kept, func(a, b waitingServe) int { return cmp.Compare(a.best, b.best) })
	for i, x := range kept {
		if s.cancelled() {
			return s.ctx.Err()
		}
		bar := s.worthwhile()
		if x.best > bar+boundSlack*abs(bar) {
			s.counts.Bounded += len(kept) - i
			return nil
		}
		if err := s.priceServing(x.st, x.batches); err != nil {
			return err
		}
	}
	return nil
}

// boundServing fills in the bound of a strategy. It records the strategy as lost, and returns false, when limits are missed
// even on ideal seats.
//
// Batches are tried from the largest down. No batch has a shorter step than the smallest one, so a batch whose throughput at
// that step would still be lower than the best found ends the walk.
func (s *search) boundServing(x *waitingServe) (ok bool, err error) {
	price := s.ideal.comm(x.st)
	least, err := s.evaluate(x.st, price, x.batches[0], true)
	if err != nil {
		return false, err
	}
	miss := s.missesBy(least, 1+boundSlack)
	if miss == "" {
		x.best, ok = least.score, true
	}
	rates, single := s.ratedByTokens()
	if single && !rates { // latency: no larger batch is faster
		if !ok {
			s.dropByLimit(x.st, miss)
		}
		return ok, nil
	}
	served := !single && Objective(s.Workload.Objective) == Throughput
	paid := float64(least.GPUs)
	if least.PerGPU > 0 {
		paid = least.Tokens / least.PerGPU
	}
	for i := len(x.batches) - 1; i > 0 && (ok || !rates); i-- {
		b := x.batches[i]
		if rates && -least.PerGPU*float64(b)/float64(least.Batch) > x.best {
			break
		}
		if served && ok && -float64(b)/least.Step.Time.Seconds()/paid > x.best { // each of b requests gains a token a step at most
			break
		}
		o, err := s.evaluate(x.st, price, b, true)
		if err != nil {
			return false, err
		}
		if why := s.missesBy(o, 1+boundSlack); why != "" {
			miss = why
			continue
		}
		if !ok || o.score < x.best {
			x.best = o.score
		}
		ok = true
	}
	if !ok {
		s.dropByLimit(x.st, miss)
	}
	return ok, nil
}

func (s *search) dropByLimit(st parallel.Strategy, why string) {
	s.counts.ByLimit++
	s.losers = append(s.losers, Loser{Strategy: st, Why: why})
}

// ratedByTokens says that the score is that of a single step: its tokens over its time (rates), or its time alone.
func (s *search) ratedByTokens() (rates, single bool) {
	t := Task(s.Workload.Task)
	return Objective(s.Workload.Objective) == Throughput && (t == DecodeOnly || t == PrefillOnly), t == DecodeOnly || t == PrefillOnly
}

// missesBy names the limit that an outcome breaks by more than a factor.
func (s *search) missesBy(o *Outcome, factor float64) string {
	if l := s.Workload.TTFTMs; l > 0 && o.TTFT.Time.Millis() > l*factor {
		return fmt.Sprintf("TTFT %s is over the limit of %s", o.TTFT.Time, units.Millis(l))
	}
	if l := s.Workload.TPOTMs; l > 0 && o.TPOT.Time.Millis() > l*factor {
		return fmt.Sprintf("TPOT %s is over the limit of %s", o.TPOT.Time, units.Millis(l))
	}
	return ""
}
