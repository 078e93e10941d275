package planner

import (
	"cmp"
	"slices"

	"rankmap/internal/parallel"
	"rankmap/topology"
)

// wholeGroups are the seatings that move more ranks than must move: every group of a kind that is not what it was (a
// tensor-parallel group, an expert group, a replica) seated anew, whole, where there is room for it, so that it straddles no more
// domains than it needs. Ranks of it that hold their part there still stay.
func (k *keeping) wholeGroups(c *candidate) ([]*candidate, error) {
	var out []*candidate
	for _, groups := range k.groupings() {
		if k.s.cancelled() {
			break
		}
		seats, ok := k.regrouped(c.seats, groups)
		if !ok || slices.ContainsFunc(out, func(o *candidate) bool { return slices.Equal(o.seats, seats) }) {
			continue
		}
		x, err := k.priced(seats)
		if err != nil {
			return nil, err
		}
		if x, err = k.exchange(x); err != nil {
			return nil, err
		}
		out = append(out, x)
	}
	return out, nil
}

// groupings lists the partitions of the ranks whose parts move whole: tensor-parallel groups, expert groups with the expert-tp
// beside them, and replica sets.
func (k *keeping) groupings() [][][]int {
	var out [][][]int
	add := func(size int, key func(r int) int) {
		if size < 2 {
			return
		}
		at := map[int]int{}
		var groups [][]int
		for r := range k.st.World() {
			g, ok := at[key(r)]
			if !ok {
				g = len(groups)
				at[key(r)] = g
				groups = append(groups, nil)
			}
			groups[g] = append(groups[g], r)
		}
		if !slices.ContainsFunc(out, func(o [][]int) bool { return slices.EqualFunc(o, groups, slices.Equal[[]int]) }) {
			out = append(out, groups)
		}
	}
	st := &k.st
	adp := st.AttentionDP()
	add(st.TP, func(r int) int { return st.GroupOf(parallel.TP, r).First })
	add(st.TP*st.CP, func(r int) int {
		c := st.CoordsOf(r)
		return c.DP*st.PP + c.PP
	})
	add(st.EP*st.ExpertTP, func(r int) int {
		c := st.CoordsOf(r)
		return c.ExpertDP*st.PP + c.PP
	})
	add(st.World()/st.DP*adp, func(r int) int { return st.CoordsOf(r).DP / adp })
	return out
}

// maxRegrouped bounds the groups that are seated anew.
const maxRegrouped = 64

// regrouped seats every group that is not what it was anew; ok is false where there is none.
func (k *keeping) regrouped(seats []topology.GPUID, groups [][]int) (out []topology.GPUID, ok bool) {
	out = slices.Clone(seats)
	var broken [][]int
	for _, g := range groups {
		if slices.ContainsFunc(g, func(r int) bool { return seats[r] != k.home[r] }) {
			broken = append(broken, g)
			for _, r := range g {
				out[r] = Gone
			}
		}
	}
	if len(broken) == 0 || len(broken) > maxRegrouped {
		return nil, false
	}
	free := map[int][]topology.GPUID{} // by NVLink domain
	taken := map[topology.GPUID]bool{}
	for _, id := range out {
		taken[id] = true
	}
	for _, id := range k.usable {
		if d := k.s.Cluster.DomainOf(id); !taken[id] {
			free[d] = append(free[d], id)
		}
	}
	for _, g := range broken {
		k.seatGroup(out, g, free)
	}
	return out, true
}

// seatGroup seats a group in the domain with room for it in which most of its ranks stay, the fullest of equal ones; where none
// has room, in the domains with most room. The GPUs are taken from free.
func (k *keeping) seatGroup(out []topology.GPUID, g []int, free map[int][]topology.GPUID) {
	need := map[int]int{}
	for _, r := range g {
		need[k.part[r]]++
	}
	stay := func(d int) int {
		left := map[int]int{}
		n := 0
		for _, id := range free[d] {
			if p := k.holds[id]; p >= 0 && left[p] < need[p] {
				left[p]++
				n++
			}
		}
		return n
	}
	domains := make([]int, 0, len(free))
	stays := map[int]int{}
	for d := range free {
		domains = append(domains, d)
		stays[d] = stay(d)
	}
	slices.SortFunc(domains, func(a, b int) int {
		roomA, roomB := min(len(free[a]), len(g)), min(len(free[b]), len(g))
		return cmp.Or(cmp.Compare(roomB, roomA), cmp.Compare(stays[b], stays[a]), cmp.Compare(len(free[a]), len(free[b])), cmp.Compare(a, b))
	})
	left := slices.Clone(g)
	for _, d := range domains {
		n := min(len(left), len(free[d]))
		left = k.take(out, left, free, d, n)
		if len(left) == 0 {
			return
		}
	}
}

// take seats n ranks of a list on free GPUs of a domain, those that hold a part of theirs first, and returns the ranks left over.
func (k *keeping) take(out []topology.GPUID, ranks []int, free map[int][]topology.GPUID, d, n int) (left []int) {
	ids := free[d]
	for _, r := range ranks {
		i := slices.IndexFunc(ids, func(id topology.GPUID) bool { return k.holds[id] == k.part[r] })
		if i < 0 || n == 0 {
			left = append(left, r)
			continue
		}
		out[r] = ids[i]
		ids = slices.Concat(ids[:i], ids[i+1:])
		n--
	}
	for len(left) > 0 && n > 0 {
		out[left[0]] = ids[0]
		left, ids, n = left[1:], ids[1:], n-1
	}
	if free[d] = ids; len(ids) == 0 {
		delete(free, d)
	}
	return left
}
