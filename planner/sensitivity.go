package planner

import (
	"context"
	"fmt"
	"math"
	"slices"

	"rankmap/internal/units"
	"rankmap/layout"
)

// Quantity is one number of the hardware that a choice may hang on.
type Quantity string

// The quantities.
const (
	NVLinkRate Quantity = "NVLink bandwidth"
	NICRate    Quantity = "NIC rate"
	NICLatency Quantity = "network latency"
	HBMRate    Quantity = "memory bandwidth"
	ComputeOps Quantity = "FLOP/s"
	MemorySize Quantity = "memory size"
)

// Quantities lists them, in the order in which they are tried.
func Quantities() []Quantity {
	return []Quantity{NVLinkRate, NICRate, NICLatency, HBMRate, ComputeOps, MemorySize}
}

// Vary returns the request with one quantity times a factor: other prices or memory, the same cluster numbering. ok is
// false when the machine has no such part.
type Vary func(q Quantity, factor float64) (r Request, ok bool, err error)

// The search for a flip: factors from 1/maxFactor to maxFactor, found to flipSteps halvings of the logarithm (2 %).
const (
	maxFactor = 8.0
	flipSteps = 6
	// rivals is how many strategies beside the winner are priced again, each at its best batch and those next to it.
	rivals = 12
	// edge is by how much, as a share of the score, a winner must be better.
	edge = 1e-3
)

// Sensitivity finds for each quantity the factor nearest to 1, up and down, from which on another of the best strategies
// wins, by bisection over the strategies that came closest. A flip counts when the new winner is more than 0.1 % better: equal
// plans do not alternate. What memory alone forbade is priced again where memory grows. The result is in p.Flips and in
// p.Explained.
//
// Cost: 6 quantities up and down, each (1 + flipSteps) x rivals x 3 batches of priced steps at most, where it flips; one
// x rivals x 3 where not.
func Sensitivity(ctx context.Context, r Request, p *Plan, vary Vary) error {
	v := &varied{r: r, p: p, vary: vary}
	v.gather()
	if err := v.dropCheaper(); err != nil {
		return err
	}
	if v.cheaper > 0 {
		rest := "of the others:"
		if len(v.cands) < 2 {
			rest = "no other is left to compare"
		}
		p.Explained = append(p.Explained, fmt.Sprintf("strategies that cost less but move more ranks: %d; %s", v.cheaper, rest))
	}
	if len(v.cands) < 2 {
		return nil
	}
	var quiet []string
	for _, q := range Quantities() {
		flips := 0
		for _, to := range []float64{1 / maxFactor, maxFactor} {
			if ctx.Err() != nil {
				return nil
			}
			f, winner, err := v.flip(q, to)
			if err != nil {
				return err
			}
			if winner == nil {
				continue
			}
			flips++
			p.Flips = append(p.Flips, layout.Sensitivity{Quantity: string(q), Factor: factor(f), Strategy: winner.Strategy.String()})
		}
		if flips == 0 && v.has {
			quiet = append(quiet, string(q))
		}
	}
	for _, f := range p.Flips {
		way := "from"
		if f.Factor < 1 {
			way = "down to"
		}
		p.Explained = append(p.Explained, fmt.Sprintf("%s %s %s times, %s wins", f.Quantity, way, units.Signif(f.Factor, 3), f.Strategy))
	}
	if len(quiet) > 0 {
		p.Explained = append(p.Explained, fmt.Sprintf("no factor from 1/%g to %g changes the choice for %s", maxFactor, maxFactor, joinAnd(quiet)))
	}
	return nil
}

// factor keeps two digits, or three where two would not tell it from 1.
func factor(f float64) float64 {
	if r := round(f, 2); r != 1 {
		return r
	}
	return round(f, 3)
}

// varied is the state of a sensitivity analysis.
type varied struct {
	r     Request
	p     *Plan
	vary  Vary
	cands []*Outcome
	has   bool // the machine has the quantity
	// cheaper counts the strategies that cost less than a kept plan already: moves decided against them, not the machine.
	cheaper int
}

// gather lists the strategies to price again: the winner, those that came closest, and those that memory alone forbade,
// nearest first.
func (v *varied) gather() {
	best := v.p.Best
	v.cands = append(v.cands, v.p.found[:min(len(v.p.found), rivals+1)]...)
	n := 0
	for _, l := range v.p.tooLarge {
		if n == tooLarge || v.r.Workload.Task == string(TrainStep) || l.World() != best.GPUs {
			continue
		}
		n++
		seats := best.seats
		if len(seats.gpus) >= l.World() {
			b := best.Batch
			if v.r.Workload.Batch == 0 {
				b = l.DP * max(1, best.Batch/l.DP)
			}
			v.cands = append(v.cands, &Outcome{Strategy: l, GPUs: best.GPUs, Batch: b, seats: seats})
		}
	}
}

// dropCheaper leaves out the strategies that cost less than a kept plan on the machine as it is.
func (v *varied) dropCheaper() error {
	if v.p.Kept == nil {
		return nil
	}
	all, kept := v.cands, v.cands[:1:1]
	for _, o := range all[1:] {
		if o.Strategy.String() == all[0].Strategy.String() {
			continue
		}
		v.cands = []*Outcome{all[0], o}
		won, err := v.best(v.r)
		if err != nil {
			return err
		}
		if won != nil && won.Strategy.String() == o.Strategy.String() {
			v.cheaper++
			continue
		}
		kept = append(kept, o)
	}
	v.cands = kept
	return nil
}

// tooLarge is how many of the strategies that memory alone forbade are priced again where memory grows.
const tooLarge = 4

// best prices the candidates under a request and returns the winner; nil when none fits.
func (v *varied) best(r Request) (*Outcome, error) {
	s := &search{Request: r, base: v.p.seats}
	var best *Outcome
	seats := map[*seating]*seating{} // as they are, without the prices of the machine as it is
	for i, o := range v.cands {
		if seats[o.seats] == nil {
			seats[o.seats] = o.seats.unpriced()
		}
		batches := []int{o.Batch}
		if r.Workload.Batch == 0 && r.Workload.Task != string(TrainStep) {
			batches = []int{max(o.Strategy.DP, o.Batch/2), o.Batch, o.Batch * 2}
		}
		cm := newComm(seats[o.seats], r.Pricer, graphLaunch, o.Strategy)
		for _, b := range slices.Compact(batches) {
			if s.keptMemory(o.Strategy, b) > r.Capacity {
				continue
			}
			x, err := s.evaluate(o.Strategy, cm.price, b, true)
			if err != nil {
				return nil, err
			}
			if s.misses(x) != "" {
				continue
			}
			// the winner as it is must be beaten by more than rounding
			by := 0.0
			if i > 0 {
				by = edge
			}
			if best == nil || x.score < best.score-by*abs(best.score) {
				best = x
			}
		}
	}
	return best, nil
}

// flip bisects the factor between 1 and to at which the winner changes; nil when it does not.
func (v *varied) flip(q Quantity, to float64) (float64, *Outcome, error) {
	at := func(f float64) (*Outcome, error) {
		r, ok, err := v.vary(q, f)
		if v.has = ok; err != nil || !ok {
			return nil, err
		}
		return v.best(r)
	}
	other := func(o *Outcome) bool { return o != nil && o.Strategy.String() != v.p.Best.Strategy.String() }
	end, err := at(to)
	if err != nil || !other(end) {
		return 0, nil, err
	}
	same, flipped, winner := 0.0, math.Log(to), end
	for range flipSteps {
		mid := (same + flipped) / 2
		o, err := at(math.Exp(mid))
		if err != nil {
			return 0, nil, err
		}
		if other(o) {
			flipped, winner = mid, o
		} else {
			same = mid
		}
	}
	return math.Exp(flipped), winner, nil
}

// joinAnd joins words: "a, b and c".
func joinAnd(w []string) string {
	if len(w) < 2 {
		return fmt.Sprint(w[0])
	}
	out := w[0]
	for _, x := range w[1 : len(w)-1] {
		out += ", " + x
	}
	return out + " and " + w[len(w)-1]
}
