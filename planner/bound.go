package planner

import (
	"cmp"
	"slices"

	"rankmap/collective"
	"rankmap/internal/parallel"
	"rankmap/model"
	"rankmap/planner/step"
	"rankmap/topology"
)

// ideal prices every collective as if its group alone could choose its GPUs: the group of its size that spans the fewest
// NVLink domains, alone on its links; where domains do not hold as many such groups as there are, the best spot that is left for
// the last one (spotsFor). No seating of all groups together can be cheaper, so a step priced this way is a
// lower bound of every seating of the strategy.
//
// The group is sought among the machine's best spots: for each size, blocks of neighbours inside each distinct kind of
// domain, and the largest domains together when none is large enough. On wirings where members of one domain differ (cube
// mesh, bridges) all pairs, and for larger groups every window of neighbours, are priced.
type ideal struct {
	s     *search
	spots map[int][][]topology.GPUID // by group size
	cache map[idealKey]collective.Estimate
	parts [][]topology.GPUID // see units
	kinds [][]topology.GPUID // see unlike
	apart [][]topology.GPUID // units of which none lies in another

	loose   bool // the number of groups does not count, so that prices hold for any number of replicas
	counted map[spotKey]counted
	levels  []int // see lastLevel
}

type idealKey struct {
	priceKey
	size   int
	groups int // where their number makes the worst one dearer, see spotsFor
}

func newIdeal(s *search) *ideal {
	return &ideal{s: s, spots: map[int][][]topology.GPUID{}, cache: map[idealKey]collective.Estimate{}}
}

// comm returns the step.Comm of the bound for a strategy.
func (i *ideal) comm(st parallel.Strategy) step.Comm {
	return func(op model.CollectiveOp) (collective.Estimate, error) {
		n := st.Size(op.Group)
		if op.Group == parallel.PP || op.Op == parallel.SendRecv {
			n = 2
		}
		k := idealKey{priceKey: keyOfPrice(&op), size: n}
		k.hop = 0
		spots := i.at(n)
		if !i.loose && n == st.Size(op.Group) && op.Group != parallel.PP && op.Op != parallel.SendRecv {
			if c := i.spotsFor(n, groupsOf(&st, op.Group)); c.tight {
				spots, k.groups = c.spots, groupsOf(&st, op.Group)
			}
		}
		if e, ok := i.cache[k]; ok {
			return e, nil
		}
		var best collective.Estimate
		for j, spot := range spots {
			e, err := i.s.Pricer.Price(collective.Request{Op: op.Op, Bytes: wireBytes(i.s.Cluster, spot, &op), DType: op.DType, Launch: graphLaunch, Members: spot})
			if err != nil {
				return e, err
			}
			if j == 0 || e.Time < best.Time {
				best = e
			}
		}
		i.cache[k] = best
		return best, nil
	}
}

// at lists the spots worth pricing for a group of n.
func (i *ideal) at(n int) [][]topology.GPUID {
	if spots, ok := i.spots[n]; ok {
		return spots
	}
	lists := i.units()
	var spots [][]topology.GPUID
	seen := map[uint64]bool{}
	add := func(ids []topology.GPUID) {
		ranks := make([]int, len(ids))
		for j, id := range ids {
			ranks[j] = int(i.s.base.rankOf[id])
		}
		if sig := i.s.base.signature(ranks); !seen[sig] {
			seen[sig] = true
			spots = append(spots, ids)
		}
	}
	for _, d := range i.unlike(lists) {
		if len(d) < n {
			break
		}
		choose(d, n, add)
	}
	if len(spots) == 0 { // no domain holds the group: the largest together, and whole equal shares of them
		var all []topology.GPUID
		if i.apart == nil {
			i.apart = disjoint(lists)
		}
		lists = i.apart
		for _, d := range lists {
			if all = append(all, d...); len(all) >= n {
				break
			}
		}
		add(all[:n])
		if k := slices.IndexFunc(lists, func(d []topology.GPUID) bool { return len(d) < len(lists[0]) }); k != 0 {
			spread(lists, n, add)
		}
	}
	i.spots[n] = spots
	return spots
}

// unlike leaves one of the units that look the same: their subsets do too.
func (i *ideal) unlike(lists [][]topology.GPUID) [][]topology.GPUID {
	if i.kinds != nil {
		return i.kinds
	}
	seen := map[uint64]bool{}
	i.kinds = [][]topology.GPUID{}
	var ranks []int
	for _, d := range lists {
		ranks = ranks[:0]
		for _, id := range d {
			ranks = append(ranks, int(i.s.base.rankOf[id]))
		}
		if sig := i.s.base.signature(ranks); !seen[sig] {
			seen[sig] = true
			i.kinds = append(i.kinds, d)
		}
	}
	return i.kinds
}

// units lists the parts of the machine that a group would rather not leave: NVLink domains, and nodes that hold several
// of them (PCIe, bridges); larger ones first.
func (i *ideal) units() [][]topology.GPUID {
	if i.parts != nil {
		return i.parts
	}
	c := i.s.Cluster
	type unit struct {
		node bool
		id   int
	}
	at := map[unit][]topology.GPUID{}
	for _, id := range i.s.base.gpus {
		d, n := unit{id: c.DomainOf(id)}, unit{node: true, id: int(c.NodeOf(id))}
		at[d] = append(at[d], id)
		at[n] = append(at[n], id)
	}
	var lists [][]topology.GPUID
	for u, ids := range at {
		if u.node && len(ids) <= len(at[unit{id: c.DomainOf(ids[0])}]) {
			continue // the domain holds the node
		}
		lists = append(lists, ids)
	}
	slices.SortFunc(lists, func(a, b []topology.GPUID) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), slices.Compare(a, b))
	})
	i.parts = lists
	return lists
}

// disjoint drops units that lie inside one listed before: the domains of a node that is listed itself.
func disjoint(lists [][]topology.GPUID) [][]topology.GPUID {
	held := map[topology.GPUID]bool{}
	var out [][]topology.GPUID
	for _, d := range lists {
		if held[d[0]] {
			continue
		}
		for _, id := range d {
			held[id] = true
		}
		out = append(out, d)
	}
	return out
}

// maxSubsets bounds how many subsets of a domain are listed one by one.
const maxSubsets = 256

// choose lists subsets of n of a domain: all of them when they are few, else the windows of neighbours.
func choose(d []topology.GPUID, n int, add func([]topology.GPUID)) {
	if count := binomial(len(d), n); count <= maxSubsets {
		pick := make([]topology.GPUID, 0, n)
		var walk func(int)
		walk = func(from int) {
			if len(pick) == n {
				add(slices.Clone(pick))
				return
			}
			for j := from; j <= len(d)-(n-len(pick)); j++ {
				pick = append(pick, d[j])
				walk(j + 1)
				pick = pick[:len(pick)-1]
			}
		}
		walk(0)
		return
	}
	for j := 0; j+n <= len(d); j++ {
		add(d[j : j+n])
	}
}

// spread deals a group over 2, 4, 8, ... domains in equal shares.
func spread(lists [][]topology.GPUID, n int, add func([]topology.GPUID)) {
	for k := 2; k <= len(lists) && k <= n; k *= 2 {
		if n%k != 0 || len(lists[k-1]) < n/k {
			continue
		}
		var ids []topology.GPUID
		for _, d := range lists[:k] {
			ids = append(ids, d[:n/k]...)
		}
		add(ids)
	}
}

func binomial(n, k int) int {
	r := 1
	for i := 1; i <= min(k, n-k); i++ {
		r = r * (n - min(k, n-k) + i) / i
		if r > 1<<20 {
			return r
		}
	}
	return r
}
