package planner

import (
	"cmp"
	"fmt"
	"slices"

	"rankmap/internal/parallel"
	"rankmap/planner/step"
	"rankmap/topology"
)

// candidate is a way to go on with the former degrees.
type candidate struct {
	seats []topology.GPUID // by rank
	moves int
	out   *Outcome
	alone string // what moving fewer ranks would cost
}

// minWorth is by how much a plan that moves more ranks than must move has to be better.
const minWorth = 0.05

// maxFewer bounds how many smaller numbers of replicas are tried beside the largest that fits.
const maxFewer = 6

// kept is the best way to go on with the former degrees; nil when they no longer fit. It starts from the largest number of
// replicas with the fewest moves and takes another way where that is better.
func (x *renewal) kept() (*candidate, error) {
	best, err := x.pick(nil)
	if best == nil || err != nil || len(x.s.base.gpus) > exactGPUs {
		return best, err
	}
	again, err := x.pick(best) // once more, for what is only better than a way that moves more
	if again != nil && again != best && best.alone != "" {
		again.alone = best.alone
	}
	return again, err
}

func (x *renewal) pick(best *candidate) (*candidate, error) {
	adp := x.f.Strategy.AttentionDP()
	var ways []*candidate
	first := best
	tried := 0
	for k := x.f.Strategy.DP / adp; k > 0 && tried <= maxFewer && !(best != nil && x.s.cancelled()); k-- {
		st := x.f.Strategy
		st.DP = k * adp
		batch, ok := x.batchOf(st)
		if !ok {
			continue
		}
		keep := newKeeping(x, st, batch)
		bound, err := keep.bound()
		if err != nil {
			return nil, err
		}
		if best != nil {
			tried++
		}
		if bound == nil || best != nil && !cheaper(bound, best.out) {
			continue // not even the best seats fit, or help
		}
		all, err := keep.ways(bound, best)
		if err != nil {
			return nil, err
		}
		if best == nil && len(all) > 0 {
			best, first = all[0], all[0]
		}
		ways = append(ways, all...)
	}
	slices.SortStableFunc(ways, func(a, b *candidate) int { return cmp.Compare(a.moves, b.moves) })
	for changed := best != nil; changed; {
		changed = false
		for _, c := range ways {
			if better(c, best) {
				best, changed = c, true
			}
		}
	}
	if first != nil && best != first {
		best.alone = first.instead(best)
	}
	return best, nil
}

// instead says what a way costs beside a better one that replaced it; empty when it had no merit of its own.
func (c *candidate) instead(best *candidate) string {
	more := 100 * (c.out.CostRatio(best.out) - 1)
	switch {
	case c.out.GPUs > best.out.GPUs:
		return fmt.Sprintf("keeping %s and moving %d ranks would cost %.1f %% more", c.out.Strategy, c.moves, more)
	case c.moves < best.moves:
		return fmt.Sprintf("moving only what must move (%d) would cost %.1f %% more", c.moves, more)
	}
	return ""
}

// better says that a candidate replaces another: it costs less and moves no more, or is so much better that its moves are
// worth it.
func better(c, than *candidate) bool {
	return than == nil || cheaper(c.out, than.out) && (c.moves <= than.moves || c.out.CostRatio(than.out) <= 1-minWorth)
}

// batchOf is the batch that the former plan's share of replicas gives a strategy of its degrees; ok is false when the
// strategy cannot be.
func (x *renewal) batchOf(st parallel.Strategy) (batch int, ok bool) {
	s := x.s
	if st.World() > s.most() || s.GPUs > 0 && st.World() != s.GPUs || !s.permitted(st) {
		return 0, false
	}
	batch = s.Workload.Batch
	if batch == 0 {
		batch = max(1, x.f.Batch*st.DP/x.f.Strategy.DP)
	}
	return batch, s.Workload.Task != string(TrainStep) || batch%(st.DP*st.MicroBatch) == 0
}

// ways lists seatings of the strategy, the one with fewest moves first: on up to eight GPUs the cheapest for each number of moves,
// else those that move whole groups. Those that miss a limit at every batch are left out. bound is the least cost of any, than
// the best way known, nil when none is.
func (k *keeping) ways(bound *Outcome, than *candidate) ([]*candidate, error) {
	first, err := k.fewest()
	if err != nil {
		return nil, err
	}
	var out []*candidate
	add := func(c *candidate) error {
		c, err := k.atBestBatch(c)
		if c != nil {
			out = append(out, c)
		}
		return err
	}
	if err := add(first); err != nil {
		return nil, err
	}
	most := k.st.World()
	if len(out) > 0 && bound.CostRatio(out[0].out) > 1-minWorth { // more moves are worth it against another way at most
		if most = first.moves; than != nil {
			most = max(most, than.moves)
		}
	}
	if most == first.moves {
		return out, nil
	}
	var more []*candidate
	if len(k.usable) <= exactGPUs {
		more, err = k.exact(first, most)
		more = more[1:]
	} else {
		more, err = k.wholeGroups(first)
	}
	if err != nil {
		return nil, err
	}
	for _, c := range more {
		if err := add(c); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// fitting lists the batches that memory holds: the former one, and those that a search would try where the batch is free.
func (k *keeping) fitting() []int {
	s := k.s
	var out []int
	if s.keptMemory(k.st, k.batch) <= s.Capacity {
		out = append(out, k.batch)
	}
	if s.Workload.Batch == 0 && s.Workload.Task != string(TrainStep) {
		all, _ := s.batches(k.st)
		for _, b := range all {
			if b != k.batch {
				out = append(out, b)
			}
		}
	}
	return out
}

// atBestBatch prices a candidate at every batch that fits and keeps the best that misses no limit; nil when all do.
func (k *keeping) atBestBatch(c *candidate) (*candidate, error) {
	best, err := k.bestBatch(newComm(k.s.base.seatedOn(c.seats), k.s.Pricer, graphLaunch, k.st).price)
	if best == nil || err != nil {
		return nil, err
	}
	out := *c
	out.out = best
	return &out, nil
}

// bound is no dearer than any seating at any batch that fits.
func (k *keeping) bound() (*Outcome, error) { return k.bestBatch(k.s.ideal.comm(k.st)) }

// bestBatch is the best of the batches that fit and miss no limit; nil when all do.
func (k *keeping) bestBatch(price step.Comm) (*Outcome, error) {
	var best *Outcome
	for _, b := range k.fitting() {
		o, err := k.s.evaluate(k.st, price, b, true)
		if err != nil {
			return nil, err
		}
		if k.s.misses(o) == "" && (best == nil || cheaper(o, best)) {
			best = o
		}
	}
	return best, nil
}
