package planner

import (
	"cmp"
	"slices"

	"rankmap/internal/parallel"
	"rankmap/topology"
)

// keeping seats one strategy of the former degrees where the former layout runs.
//
// Ranks and GPUs are told apart by the part of the model that they hold. A rank on a GPU that holds its part loads nothing,
// whichever replica the GPU was in. So every seating moves at least the ranks of a part beyond the GPUs that hold it, and
// one that moves no more is easily made; what is searched is the cheapest of them.
type keeping struct {
	s      *search
	f      *Former
	st     parallel.Strategy
	batch  int
	part   []int            // by rank: the number of its part of the model
	holds  []int            // by GPU: the part that it holds, -1 = none that a rank needs
	usable []topology.GPUID // in the order of the machine
	home   []topology.GPUID // by rank: its seat where its replica stays as it was, else Gone
}

func newKeeping(x *renewal, st parallel.Strategy, batch int) *keeping {
	k := &keeping{s: x.s, f: &x.f, st: st, batch: batch, part: make([]int, st.World()), usable: x.s.base.gpus}
	k.holds = make([]int, x.s.Cluster.NumGPUs())
	for i := range k.holds {
		k.holds[i] = -1
	}
	number := map[held]int{}
	for r := range k.part {
		h := share(&st, r)
		n, ok := number[h]
		if !ok {
			n = len(number)
			number[h] = n
		}
		k.part[r] = n
	}
	for r, id := range x.f.Seats {
		if x.s.usable(id) {
			if n, ok := number[share(&x.f.Strategy, r)]; ok {
				k.holds[id] = n
			}
		}
	}
	return k
}

// moves counts the ranks that load another part of the model, or theirs on another GPU.
func (k *keeping) moves(seats []topology.GPUID) int {
	n := 0
	for r, id := range seats {
		if k.holds[id] != k.part[r] {
			n++
		}
	}
	return n
}

// least is how many ranks move in every seating: those of each part beyond the GPUs that hold it.
func (k *keeping) least() int {
	left := map[int]int{}
	for _, id := range k.usable {
		if p := k.holds[id]; p >= 0 {
			left[p]++
		}
	}
	n := 0
	for _, p := range k.part {
		if left[p] > 0 {
			left[p]--
		} else {
			n++
		}
	}
	return n
}

// usable says that a seat can be taken.
func (s *search) usable(id topology.GPUID) bool { return id != Gone && s.base.rankOf[id] >= 0 }

// held is the part of the model that a rank holds: replicas of it are alike.
type held struct{ tp, pp, ep, etp, interleave, first, last, copies, i, j, k, l int }

func share(st *parallel.Strategy, r int) held {
	c := st.CoordsOf(r)
	return held{st.TP, st.PP, st.EP, st.ExpertTP, st.Interleave, st.FirstStage, st.LastStage, st.RedundantExperts, c.TP, c.PP, c.EP, c.ExpertTP}
}

// fewest is the cheapest seating found of those that move fewest ranks: of every one of them on machines of up to eight GPUs.
func (k *keeping) fewest() (*candidate, error) {
	c, err := k.nearest()
	if err != nil || len(k.usable) > exactGPUs {
		return c, err
	}
	all, err := k.exact(c, k.least())
	return all[0], err
}

// nearest leaves the replicas with fewest losses as they are, gives them what they lost from replicas that go, the rest from
// spares, and then makes exchanges that move no more ranks as long as one helps.
func (k *keeping) nearest() (*candidate, error) {
	k.home = k.homes()
	seats := slices.Clone(k.home)
	k.join(seats)
	c, err := k.priced(seats)
	if err != nil {
		return nil, err
	}
	return k.exchange(c)
}

// homes chooses which replica sets stay, those with the fewest lost GPUs first, and returns their seats by the new rank, Gone
// where one must be found: the GPU is lost, or the order of the ranks makes fewer replicas cut experts otherwise.
func (k *keeping) homes() []topology.GPUID {
	old, st := &k.f.Strategy, &k.st
	adp := st.AttentionDP()
	lost := make([]int, old.DP/adp)
	for r, id := range k.f.Seats {
		if !k.s.usable(id) {
			lost[old.CoordsOf(r).DP/adp]++
		}
	}
	sets := make([]int, len(lost))
	for i := range sets {
		sets[i] = i
	}
	beside := k.besideLost(adp, lost)
	slices.SortStableFunc(sets, func(a, b int) int {
		return cmp.Or(cmp.Compare(lost[a], lost[b]), cmp.Compare(beside[a], beside[b]))
	})
	sets = sets[:st.DP/adp]
	slices.Sort(sets)
	seats := make([]topology.GPUID, st.World())
	for r := range seats {
		c := st.CoordsOf(r)
		o := old.RankOf(parallel.Coords{TP: c.TP, CP: c.CP, PP: c.PP, DP: sets[c.DP/adp]*adp + c.DP%adp})
		seats[r] = Gone
		if id := k.f.Seats[o]; k.s.usable(id) && k.holds[id] == k.part[r] {
			seats[r] = id
		}
	}
	return seats
}

// besideLost counts the GPUs that each replica set has on nodes where a rank lost its GPU. Of replicas that may go, those with
// most go first: what stays then fills whole nodes.
func (k *keeping) besideLost(adp int, lost []int) []int {
	hurt := map[topology.NodeID]bool{}
	c := k.s.Cluster
	set := func(r int) int { return k.f.Strategy.CoordsOf(r).DP / adp }
	for r, id := range k.f.Seats {
		if id != Gone && lost[set(r)] > 0 {
			hurt[c.NodeOf(id)] = true
		}
	}
	out := make([]int, len(lost))
	for r, id := range k.f.Seats {
		if id != Gone && hurt[c.NodeOf(id)] {
			out[set(r)]++
		}
	}
	return out
}

// join gives every rank without a seat a GPU that holds its part, as long as there is one, then a spare; of several the nearest
// to the ranks that it talks to.
func (k *keeping) join(seats []topology.GPUID) {
	taken := make([]bool, k.s.Cluster.NumGPUs())
	for _, id := range seats {
		if id != Gone {
			taken[id] = true
		}
	}
	same := map[int][]topology.GPUID{} // free GPUs by the part that they hold
	for _, id := range k.usable {
		if p := k.holds[id]; p >= 0 && !taken[id] {
			same[p] = append(same[p], id)
		}
	}
	var rest []int
	for r, id := range seats {
		if id != Gone {
			continue
		}
		list := same[k.part[r]]
		if len(list) == 0 {
			rest = append(rest, r)
			continue
		}
		near := k.neighbour(seats, r)
		best := 0
		for i := range list {
			if k.far(list[i], near) < k.far(list[best], near) {
				best = i
			}
		}
		seats[r], taken[list[best]] = list[best], true
		same[k.part[r]] = slices.Delete(list, best, best+1)
	}
	spare := map[int][]topology.GPUID{} // by NVLink domain
	for _, id := range k.usable {
		if d := k.s.Cluster.DomainOf(id); !taken[id] {
			spare[d] = append(spare[d], id)
		}
	}
	for _, r := range rest {
		d := k.nearestDomain(spare, k.neighbour(seats, r))
		seats[r] = spare[d][0]
		if spare[d] = spare[d][1:]; len(spare[d]) == 0 {
			delete(spare, d)
		}
	}
}

// nearestDomain is the domain to take a spare from: that of near, else one on its leaf, else the one with most spares.
func (k *keeping) nearestDomain(spare map[int][]topology.GPUID, near topology.GPUID) int {
	best, bestFar := -1, 0
	for d, ids := range spare {
		f := k.far(ids[0], near)
		if best < 0 || cmp.Or(cmp.Compare(f, bestFar), cmp.Compare(len(spare[best]), len(ids)), cmp.Compare(d, best)) < 0 {
			best, bestFar = d, f
		}
	}
	return best
}

// far orders GPUs by their distance from another: its node, its NVLink domain, its leaf, others.
func (k *keeping) far(id, near topology.GPUID) int {
	c := k.s.Cluster
	switch {
	case near == Gone:
		return 0
	case c.NodeOf(id) == c.NodeOf(near):
		return 0
	case c.DomainOf(id) == c.DomainOf(near):
		return 1
	case c.LeafOf(c.NodeOf(id)) == c.LeafOf(c.NodeOf(near)):
		return 2
	}
	return 3
}

// evaluate prices the strategy on seats at the former batch, in brief.
func (k *keeping) evaluate(seats []topology.GPUID) (*Outcome, error) {
	return k.s.evaluate(k.st, newComm(k.s.base.seatedOn(seats), k.s.Pricer, graphLaunch, k.st).price, k.batch, true)
}

// priced makes seats a candidate.
func (k *keeping) priced(seats []topology.GPUID) (*candidate, error) {
	o, err := k.evaluate(seats)
	return &candidate{seats: seats, moves: k.moves(seats), out: o}, err
}

// neighbour is the seat of the rank nearest to r, in its tensor-parallel group, else its experts', else by number, that has one.
func (k *keeping) neighbour(seats []topology.GPUID, r int) topology.GPUID {
	for _, kind := range []parallel.Dim{parallel.TP, parallel.EP} {
		if k.st.Size(kind) < 2 {
			continue
		}
		for _, m := range k.st.AppendGroup(nil, k.st.GroupOf(kind, r)) {
			if seats[m] != Gone {
				return seats[m]
			}
		}
	}
	for d := 1; d < len(seats); d++ {
		if i := r ^ d; i < len(seats) && seats[i] != Gone {
			return seats[i]
		}
	}
	return Gone
}
