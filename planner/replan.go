package planner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"rankmap/internal/parallel"
	"rankmap/layout"
	"rankmap/topology"
)

// Former is a layout that runs, seated on a cluster: what Replan leaves in place where it can.
type Former struct {
	Strategy parallel.Strategy
	Seats    []topology.GPUID // by rank; Gone where the GPU is no longer there
	Batch    int
}

// Gone is the seat of a rank whose GPU is not in the cluster.
const Gone topology.GPUID = -1

// FormerOf finds the GPUs of a layout's ranks in a cluster, by host and GPU index. A GPU whose UUID is known on both sides
// and differs was exchanged: it holds nothing. Errors: no rank is on a host of the cluster.
func FormerOf(l *layout.Layout, c *topology.Cluster, name string) (Former, error) {
	f := Former{Strategy: l.Strategy.Parallel(), Batch: l.Predicted.Batch, Seats: make([]topology.GPUID, len(l.Ranks))}
	found := 0
	for i, r := range l.Ranks {
		f.Seats[i] = Gone
		n, ok := c.FindNode(r.Host)
		if !ok {
			continue
		}
		node, class := c.Node(n)
		for g := range class.GPUs {
			id := node.First + topology.GPUID(g)
			if x := c.GPUIdent(id); x.Index == r.GPU && (x.UUID == "" || r.UUID == "" || x.UUID == r.UUID) {
				f.Seats[i] = id
				found++
			}
		}
	}
	if found == 0 {
		return f, fmt.Errorf("%s: none of its %d ranks is on a GPU of this cluster (first host: %s)", name, len(l.Ranks), c.Nodes[0].Name)
	}
	return f, nil
}

// Kept says what a new plan leaves of a former one.
type Kept struct {
	Stay    int      // ranks that keep their GPU and their share of the model
	Moved   int      // ranks that load another share, or theirs on another GPU
	Gone    int      // former ranks that the new plan does not have
	Moves   []string // "rank 5: node3/5 to node0/2", at most maxMoves
	Degrees bool     // the degrees are the former ones, but for the number of replicas
	Alone   string   // what moving fewer ranks would cost; empty when no fewer could move
	Anew    string   // the best plan without regard to the former one, and what it would win
}

// maxMoves is how many moved ranks are named.
const maxMoves = 16

// Replan plans after a failure and moves as few ranks as possible.
//
// The degrees stay, with as many replicas as the usable GPUs still hold. GPUs that hold the same part of the model stand in
// for each other, so that the surviving halves of two replicas become one; of the seatings that move fewest ranks the
// cheapest is taken. A plan with fewer replicas or one that moves whole groups into one NVLink domain replaces it when it is
// at least 5 % better, and any plan, a new one too, that is better and moves no more ranks.
// Where the former degrees no longer fit (or Freedom, GPUs or Engine forbid them) the plan is the best one, on those of its
// seats that cost the same and move fewest. Plan.Kept counts; Kept.Anew says what planning anew would win.
func Replan(ctx context.Context, r Request, f Former) (*Plan, error) {
	x, err := newRenewal(ctx, r, f)
	if err != nil {
		return nil, err
	}
	if x.anew != nil && x.s.cancelled() {
		return x.anew, nil // the caller wants the answer now
	}
	kept, err := x.kept()
	if err != nil {
		return nil, err
	}
	if kept == nil {
		if x.anew == nil {
			return nil, x.no
		}
		x.anew.Notes = append(x.anew.Notes, x.anew.Kept.notes()...)
		return x.anew, nil
	}
	if x.anew != nil && x.anew.Kept.Moved <= kept.moves && cheaper(x.anew.Best, kept.out) {
		x.anew.Kept.Degrees = true // it leaves as many ranks in place as the former degrees would
		x.anew.Notes = append(x.anew.Notes, x.anew.Kept.notes()...)
		return x.anew, nil
	}
	plan, err := x.finish(kept)
	if err != nil {
		return nil, err
	}
	plan.Notes = append(plan.Notes, plan.Kept.notes()...)
	return plan, nil
}

// Renew plans anew on a machine where a layout runs: the best plan, or the one of Replan where that costs at most 0.1 % more and
// moves fewer ranks.
func Renew(ctx context.Context, r Request, f Former) (*Plan, error) {
	x, err := newRenewal(ctx, r, f)
	if err != nil {
		return nil, err
	}
	if x.anew == nil {
		return nil, x.no
	}
	kept, err := x.kept()
	if err != nil {
		return nil, err
	}
	if kept == nil || kept.moves >= x.anew.Kept.Moved || kept.out.CostRatio(x.anew.Best) > 1+sameCost {
		return x.anew, nil
	}
	return x.finish(kept)
}

// sameCost is the share of the cost below which two plans are not told apart.
const sameCost = 1e-3

// renewal is what Replan and Renew work with.
type renewal struct {
	s    *search
	f    Former
	anew *Plan // the best plan whatever moves, with Kept; nil when nothing fits
	no   *Infeasible
}

// newRenewal plans anew first.
func newRenewal(ctx context.Context, r Request, f Former) (*renewal, error) {
	f.Strategy = f.Strategy.Normalize()
	if r.Workload.Task == string(TrainStep) {
		f.Strategy.MicroBatch = max(1, f.Strategy.MicroBatch) // a layout need not say it
	}
	if len(f.Seats) != f.Strategy.World() {
		return nil, fmt.Errorf("%d seats for the %d ranks of %s", len(f.Seats), f.Strategy.World(), f.Strategy)
	}
	x := &renewal{f: f}
	anew, err := Search(ctx, r)
	if err != nil && !errors.As(err, &x.no) {
		return nil, err
	}
	x.s = &search{Request: r, base: newSeating(r.Cluster, r.Skip), ctx: ctx}
	x.s.ideal = newIdeal(x.s)
	if anew == nil {
		return x, nil
	}
	x.anew = anew
	if !x.s.cancelled() {
		if err := x.settle(); err != nil {
			return nil, err
		}
	}
	anew.Kept = f.compare(x.s, anew)
	return x, nil
}

// finish makes the kept seats a plan, with what the new search knows.
func (x *renewal) finish(k *candidate) (*Plan, error) {
	plan, err := Keep(x.s.Request, k.out.Strategy, k.seats, k.out.Batch)
	if err != nil {
		return nil, err
	}
	plan.Kept = x.f.compare(x.s, plan)
	plan.Kept.Degrees, plan.Kept.Alone = true, k.alone
	if err := x.s.launchers(plan); err != nil {
		return nil, err
	}
	plan.Explained = append(plan.Explained, explainLaunchers(plan)...)
	if anew := x.anew; anew != nil {
		plan.Losers, plan.Searched, plan.Stopped = x.losers(plan.Best), anew.Searched, anew.Stopped
		if gain := plan.Best.CostRatio(anew.Best) - 1; gain > sameCost {
			plan.Kept.Anew = fmt.Sprintf("a new plan (%s, batch %d) would cost %.1f %% less and move %d ranks", anew.Best.Strategy, anew.Best.Batch, 100*(1-1/(1+gain)), anew.Kept.Moved)
		} else {
			plan.Kept.Anew = "a new plan wins nothing"
		}
		if i := slices.IndexFunc(plan.Explained, func(t string) bool { return strings.HasPrefix(t, searched) }); i >= 0 {
			plan.Explained[i] = anew.Searched.text()
		}
		plan.found, plan.tooLarge = append(plan.found, anew.found...), anew.tooLarge
	}
	return plan, nil
}

// losers are the new plan and those that it beat, each with what it loses to the kept plan, or why it was not taken.
func (x *renewal) losers(kept *Outcome) []Loser {
	var out []Loser
	for _, l := range append([]Loser{{Strategy: x.anew.Best.Strategy, Outcome: x.anew.Best}}, x.anew.Losers...) {
		switch o := l.Outcome; {
		case l.Strategy.String() == kept.Strategy.String() || len(out) == x.s.Top:
			continue
		case o == nil:
		case cheaper(o, kept):
			l.Why = fmt.Sprintf("would cost %.1f %% less, and move more ranks", 100*(1-1/kept.CostRatio(o)))
		default:
			l.Why = whyLost(kept, o)
		}
		out = append(out, l)
	}
	return out
}

// cheaper says that an outcome is better than another by more than rounding.
func cheaper(a, b *Outcome) bool { return a.score < b.score-1e-9*abs(b.score) }

// notes say what stays and what moves.
func (k *Kept) notes() []string {
	out := []string{fmt.Sprintf("of the layout kept: %d ranks stay, %d move, %d are gone", k.Stay, k.Moved, k.Gone)}
	if !k.Degrees {
		out[0] += "; its degrees no longer fit"
	}
	out = append(out, k.Moves...)
	if n := k.Moved - len(k.Moves); n > 0 {
		out = append(out, fmt.Sprintf("and %d more", n))
	}
	for _, x := range []string{k.Alone, k.Anew} {
		if x != "" {
			out = append(out, x)
		}
	}
	return out
}

// permitted says whether the user's freedom, the model and the target engine allow a strategy.
func (s *search) permitted(st parallel.Strategy) bool {
	for _, d := range []parallel.Dim{parallel.TP, parallel.PP, parallel.CP, parallel.DP, parallel.EP, parallel.ExpertTP} {
		if !s.Freedom.allows(d, degreeOf(st, d)) {
			return false
		}
	}
	return len(s.violations(st)) == 0 && s.refused(st) == ""
}

// compare counts what a plan leaves of the former one. A rank stays when its GPU holds the same part of the model as
// before.
func (f Former) compare(s *search, p *Plan) *Kept {
	k := &Kept{}
	at := map[topology.GPUID]int{}
	from := map[held][]int{} // former ranks by share, for the names of moves
	for r, id := range f.Seats {
		if id != Gone {
			at[id] = r
		}
	}
	stays := map[int]bool{}
	var moved []int
	for r, id := range p.Seats {
		if o, was := at[id]; was && share(&f.Strategy, o) == share(&p.Best.Strategy, r) {
			k.Stay++
			stays[o] = true
			continue
		}
		moved = append(moved, r)
	}
	for r := range f.Seats {
		if !stays[r] {
			h := share(&f.Strategy, r)
			from[h] = append(from[h], r)
		}
	}
	k.Moved = len(moved)
	k.Gone = max(0, len(f.Seats)-len(p.Seats))
	for _, r := range moved[:min(len(moved), maxMoves)] {
		h := share(&p.Best.Strategy, r)
		was := "another part of the model"
		if l := from[h]; len(l) > 0 {
			from[h] = l[1:]
			was = "a GPU that is gone"
			if id := f.Seats[l[0]]; id != Gone {
				was = s.Cluster.GPUName(id)
			}
		}
		k.Moves = append(k.Moves, fmt.Sprintf("rank %d: %s to %s", r, was, s.Cluster.GPUName(p.Seats[r])))
	}
	return k
}
