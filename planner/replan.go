package planner

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
// The degrees stay, with as many replicas as the usable GPUs still hold. Of the replicas those with the fewest lost GPUs
// stay; each lost rank goes to the spare GPU on which the step is shortest. So no rank moves but those that lost their GPU,
// unless moving their tensor-parallel groups whole makes the plan at least 5 % better.
// Where the former degrees no longer fit (or Freedom, GPUs or Engine forbid them) the plan is the best one, whatever moves.
// Plan.Kept counts; Kept.Anew says what planning anew would win.
func Replan(ctx context.Context, r Request, f Former) (*Plan, error) {
	f.Strategy = f.Strategy.Normalize()
	if r.Workload.Task == string(TrainStep) {
		f.Strategy.MicroBatch = max(1, f.Strategy.MicroBatch) // a layout need not say it
	}
	if len(f.Seats) != f.Strategy.World() {
		return nil, fmt.Errorf("%d seats for the %d ranks of %s", len(f.Seats), f.Strategy.World(), f.Strategy)
	}
	anew, err := Search(ctx, r)
	var no *Infeasible
	if err != nil && !errors.As(err, &no) {
		return nil, err
	}
	s := &search{Request: r, base: newSeating(r.Cluster, r.Skip)}
	for k := f.Strategy.DP / f.Strategy.AttentionDP(); k > 0; k-- {
		plan, err := s.keepReplicas(f, k)
		if err != nil {
			return nil, err
		}
		if plan == nil {
			continue
		}
		plan.Kept.Degrees = true
		if anew != nil {
			plan.Losers, plan.Searched = anew.Losers, anew.Searched
			other := f.compare(s, anew)
			if gain := plan.Best.CostRatio(anew.Best) - 1; gain > 1e-3 {
				plan.Kept.Anew = fmt.Sprintf("a new plan (%s, batch %d) would cost %.1f %% less and move %d ranks", anew.Best.Strategy, anew.Best.Batch, 100*(1-1/(1+gain)), other.Moved)
			} else {
				plan.Kept.Anew = "a new plan wins nothing"
			}
		}
		if err := s.launchers(plan); err != nil {
			return nil, err
		}
		plan.Explained = append(plan.Explained, explainLaunchers(plan)...)
		plan.Notes = append(plan.Notes, plan.Kept.notes()...)
		return plan, nil
	}
	if anew == nil {
		return nil, no
	}
	anew.Kept = f.compare(s, anew)
	anew.Notes = append(anew.Notes, anew.Kept.notes()...)
	return anew, nil
}

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

// keepReplicas is the former plan with k replica sets (the attention replicas that share a set of experts); nil when
// that does not fit.
func (s *search) keepReplicas(f Former, k int) (*Plan, error) {
	st := f.Strategy
	adp := st.AttentionDP()
	st.DP = k * adp
	if st.World() > len(s.base.gpus) || s.GPUs > 0 && st.World() != s.GPUs || !s.permitted(st) {
		return nil, nil
	}
	batch := s.Workload.Batch
	if batch == 0 {
		batch = max(1, f.Batch*st.DP/f.Strategy.DP)
	}
	if s.Workload.Task == string(TrainStep) && batch%(st.DP*st.MicroBatch) != 0 {
		return nil, nil
	}
	seats, ok := s.keptSeats(f, st, adp)
	if !ok {
		return nil, nil
	}
	plan, err := s.keptOn(f, st, seats, batch)
	if plan == nil || err != nil {
		return nil, err
	}
	whole, ok := s.withoutBroken(st, seats)
	if !ok {
		return plan, nil
	}
	groups, err := s.keptOn(f, st, whole, batch)
	if groups == nil || err != nil || groups.Best.CostRatio(plan.Best) > 1-minWorth {
		return plan, err
	}
	groups.Kept.Alone = fmt.Sprintf("moving only what lost its GPU (%d) would cost %.1f %% more", plan.Kept.Moved, 100*(plan.Best.CostRatio(groups.Best)-1))
	return groups, nil
}

// minWorth is by how much a plan that moves whole tensor-parallel groups must be better than one that moves only the ranks
// without a GPU.
const minWorth = 0.05

// keptOn prices the kept degrees on seats, those that are Gone filled with spares; nil when they do not fit.
func (s *search) keptOn(f Former, st parallel.Strategy, seats []topology.GPUID, batch int) (*Plan, error) {
	seats = slices.Clone(seats)
	if err := s.fillSeats(st, seats, batch); err != nil {
		return nil, err
	}
	plan, err := Keep(s.Request, st, seats, batch)
	var no *Infeasible
	if errors.As(err, &no) || plan != nil && s.misses(plan.Best) != "" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	plan.Kept = f.compare(s, plan)
	return plan, nil
}

// permitted says whether the user's freedom, the model and the target engine allow a strategy.
func (s *search) permitted(st parallel.Strategy) bool {
	for _, d := range []parallel.Dim{parallel.TP, parallel.PP, parallel.CP, parallel.DP, parallel.EP, parallel.ExpertTP} {
		if !s.Freedom.allows(d, degreeOf(st, d)) {
			return false
		}
	}
	return len(s.spec(st).Check(st)) == 0 && s.refused(st) == ""
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
