package planner

import (
	"slices"

	"rankmap/internal/parallel"
	"rankmap/topology"
)

// exact tries every seating that moves at most so many ranks, but for the numbers of the replicas, whose order changes nothing. It
// returns the cheapest for each number of moves, fewest first, as far as moving more is cheaper. The first is start where nothing
// that moves as few is cheaper.
func (k *keeping) exact(start *candidate, most int) ([]*candidate, error) {
	best := make([]*candidate, k.st.World()+1)
	best[start.moves] = start
	first := k.firstOfSets(k.st.AttentionDP())
	seats := make([]topology.GPUID, 0, k.st.World())
	used := make(map[topology.GPUID]bool, len(k.usable))
	var walk func(moves int) error
	walk = func(moves int) error {
		r := len(seats)
		if r == k.st.World() {
			c, err := k.priced(slices.Clone(seats))
			if err == nil && (best[moves] == nil || cheaper(c.out, best[moves].out)) {
				best[moves] = c
			}
			return err
		}
		for _, id := range k.usable {
			m := moves
			if k.holds[id] != k.part[r] {
				m++
			}
			if used[id] || m > most || first != nil && first[r] >= 0 && id < seats[first[r]] || k.s.cancelled() {
				continue
			}
			used[id] = true
			seats = append(seats, id)
			if err := walk(m); err != nil {
				return err
			}
			seats = seats[:r]
			used[id] = false
		}
		return nil
	}
	err := walk(0)
	var out []*candidate
	for _, c := range best {
		if c != nil && (len(out) == 0 || cheaper(c.out, out[len(out)-1].out)) {
			out = append(out, c)
		}
	}
	return out, err
}

// firstOfSets gives for the first rank of each replica set the first rank of the set before it, -1 for all other ranks; nil when
// sets are not alike, so that their order matters.
func (k *keeping) firstOfSets(adp int) []int {
	out := make([]int, k.st.World())
	at := map[parallel.Coords]int{}
	for r := range out {
		out[r] = -1
		c := k.st.CoordsOf(r)
		set := c.DP / adp
		at[parallel.Coords{TP: c.TP, CP: c.CP, PP: c.PP, DP: c.DP}] = r
		if set == 0 {
			continue
		}
		before := k.st.RankOf(parallel.Coords{TP: c.TP, CP: c.CP, PP: c.PP, DP: c.DP - adp})
		if k.part[before] != k.part[r] {
			return nil
		}
		if c.TP == 0 && c.CP == 0 && c.PP == 0 && c.DP%adp == 0 {
			if before > r {
				return nil
			}
			out[r] = before
		}
	}
	return out
}

// keepBudget bounds the seats that the exchanges of one kept strategy deal anew, keepSwaps the exchanges.
const (
	keepBudget = 1 << 17
	keepSwaps  = 1000
)

// exchange improves seats by exchanging two GPUs, one of them of a rank whose groups are not what they were, as long as one makes
// the plan cheaper and moves no more ranks.
func (k *keeping) exchange(c *candidate) (*candidate, error) {
	bound, err := k.s.evaluate(k.st, k.s.ideal.comm(k.st), k.batch, true)
	if err != nil {
		return nil, err
	}
	budget := min(keepSwaps, max(32, keepBudget/len(c.seats)))
	for cheaper(bound, c.out) && budget > 0 && !k.s.cancelled() {
		better, used, err := k.oneExchange(c, budget)
		if err != nil {
			return nil, err
		}
		budget -= used
		if better == nil {
			break
		}
		c = better
	}
	return c, nil
}

// oneExchange prices exchanges until one helps; nil when none does.
func (k *keeping) oneExchange(c *candidate, budget int) (better *candidate, used int, err error) {
	rank := map[topology.GPUID]int{}
	for r, id := range c.seats {
		rank[id] = r
	}
	changed := func(r int) bool { return c.seats[r] != k.home[r] }
	for _, r := range k.focus(c.seats) {
		tried := map[spareKind]bool{}
		for _, id := range k.usable {
			o, taken := rank[id]
			if !taken {
				o = -1
			}
			if o == r || taken && changed(o) && o < r || !k.movesNoMore(c.seats, r, o, id) || k.s.alike(c.seats[r], id) {
				continue
			}
			if !taken { // spares that are alike are tried once
				x := k.spareKind(id, c.seats[r])
				if tried[x] {
					continue
				}
				tried[x] = true
			}
			if used == budget || k.s.cancelled() {
				return nil, used, nil
			}
			used++
			seats := slices.Clone(c.seats)
			if taken {
				seats[o] = seats[r]
			}
			seats[r] = id
			x, err := k.priced(seats)
			if err != nil {
				return nil, used, err
			}
			if cheaper(x.out, c.out) {
				return x, used, nil
			}
		}
	}
	return nil, used, nil
}

// movesNoMore says that rank r can take a GPU, and the rank o that sits there (-1 = none) r's, without one more rank moving.
func (k *keeping) movesNoMore(seats []topology.GPUID, r, o int, id topology.GPUID) bool {
	moved := func(r int, id topology.GPUID) int {
		if k.holds[id] != k.part[r] {
			return 1
		}
		return 0
	}
	before, after := moved(r, seats[r]), moved(r, id)
	if o >= 0 {
		before, after = before+moved(o, id), after+moved(o, seats[r])
	}
	return after <= before
}

// spareKind tells spares apart that could differ.
type spareKind struct{ part, node, domain, class, leaf, links int }

func (k *keeping) spareKind(id, near topology.GPUID) spareKind {
	c := k.s.Cluster
	n, _ := c.Node(c.NodeOf(id))
	x := spareKind{k.holds[id], -1, c.DomainOf(id), n.Class, c.LeafOf(c.NodeOf(id)), c.LinksUp(id)}
	if c.NodeOf(id) == c.NodeOf(near) || c.Classes[n.Class].Wiring != topology.NVLinkSwitched {
		x.node = int(c.NodeOf(id))
	}
	return x
}

// maxFocus is up to how many ranks the mates of changed ones are looked at too.
const maxFocus = 128

// focus lists the ranks whose seat is not the former one, then those of their groups.
func (k *keeping) focus(seats []topology.GPUID) []int {
	var out []int
	seen := map[int]bool{}
	for r, id := range seats {
		if id != k.home[r] {
			out = append(out, r)
			seen[r] = true
		}
	}
	var group []int
	for _, r := range slices.Clone(out) {
		for _, kind := range []parallel.Dim{parallel.TP, parallel.EP, parallel.PP} {
			if k.st.Size(kind) < 2 {
				continue
			}
			group = k.st.AppendGroup(group[:0], k.st.GroupOf(kind, r))
			for _, m := range group {
				if len(out) < maxFocus && !seen[m] {
					out = append(out, m)
					seen[m] = true
				}
			}
		}
	}
	return out
}
