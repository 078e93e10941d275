package planner

import (
	"cmp"
	"slices"

	"rankmap/internal/parallel"
	"rankmap/topology"
)

// seating is the list of GPUs that ranks are dealt onto: rank r of n sits on gpus[r]. Neighbours in the list are
// neighbours in the machine: leaf by leaf, NVLink domains one after the other, inside a domain by node and index. A dimension order
// over this list is what launchers can express: node order, GPU order inside a node, a few dimension orders.
type seating struct {
	c      *topology.Cluster
	gpus   []topology.GPUID
	rankOf []int32 // by GPUID; -1 = idle
	n      int     // ranks
	// period: a group that starts period ranks later looks the same. Uniform clusters repeat after a domain (after a leaf
	// where several leaves exist); others never (period = n).
	period int
	loaded bool // leaves are oversubscribed: groups of one leaf disturb each other
	known  map[familyKey]*kindComm
	marks  *marks // of neighbours; shared by the lists of a search
}

// familyKey identifies the groups of a kind by their arithmetic: strategies that agree in it have the same groups, and
// pay the same for the same collective.
type familyKey struct {
	pairs        bool // neighbours of a pipeline
	size, stride int
}

// newSeating lists the usable GPUs of a cluster.
func newSeating(c *topology.Cluster, skip func(topology.GPUID) bool) *seating {
	s := &seating{c: c, rankOf: make([]int32, c.NumGPUs()), marks: &marks{}}
	for id := range topology.GPUID(c.NumGPUs()) {
		if skip == nil || !skip(id) {
			s.gpus = append(s.gpus, id)
		}
	}
	leaf := map[int]int{} // of each domain: the first of its nodes' leaves
	for _, id := range s.gpus {
		d, l := c.DomainOf(id), c.LeafOf(c.NodeOf(id))
		if was, ok := leaf[d]; !ok || l < was {
			leaf[d] = l
		}
	}
	slices.SortStableFunc(s.gpus, func(a, b topology.GPUID) int {
		x, y := c.DomainOf(a), c.DomainOf(b)
		return cmp.Or(cmp.Compare(leaf[x], leaf[y]), cmp.Compare(x, y), cmp.Compare(a, b))
	})
	for _, t := range c.Fabric.Tiers {
		s.loaded = s.loaded || t.Oversubscription > 1
	}
	return s.take(len(s.gpus))
}

// take seats n ranks on the first n GPUs.
func (s *seating) take(n int) *seating {
	t := *s
	t.n = n
	t.rankOf = make([]int32, s.c.NumGPUs())
	for i := range t.rankOf {
		t.rankOf[i] = -1
	}
	for r, id := range s.gpus[:n] {
		t.rankOf[id] = int32(r)
	}
	t.period = t.findPeriod()
	t.known = map[familyKey]*kindComm{}
	return &t
}

// findPeriod returns after how many ranks the machine repeats: every block of that many GPUs has the same sequence of
// classes, places, nodes, domains and leaves relative to its start. It tries one domain and one leaf.
func (s *seating) findPeriod() int {
	if s.n == 0 {
		return 1
	}
	first := s.gpus[0]
	same := func(f func(topology.GPUID) int) int {
		k := 1
		for k < s.n && f(s.gpus[k]) == f(first) {
			k++
		}
		return k
	}
	domain := same(s.c.DomainOf)
	node := same(func(id topology.GPUID) int { return int(s.c.NodeOf(id)) })
	leaf := same(func(id topology.GPUID) int { return s.c.LeafOf(s.c.NodeOf(id)) })
	for _, p := range []int{max(domain, node), leaf} {
		if p < s.n && s.n%p == 0 && s.repeats(p, leaf < s.n) {
			return p
		}
	}
	return s.n
}

// repeats checks a period against every GPU.
func (s *seating) repeats(p int, leaves bool) bool {
	for r := p; r < s.n; r++ {
		a, b := s.place(r-p, r-p-(r-p)%p), s.place(r, r-r%p)
		if !leaves {
			a.leaf, b.leaf = 0, 0
		}
		if a != b {
			return false
		}
	}
	return true
}

// place is where a rank sits, relative to the rank from.
type place struct {
	class, local, node, domain, leaf int
}

func (s *seating) place(r, from int) place {
	id, base := s.gpus[r], s.gpus[from]
	n, b := s.c.NodeOf(id), s.c.NodeOf(base)
	node, _ := s.c.Node(n)
	return place{
		class: node.Class, local: int(id - node.First), node: int(n - b),
		domain: s.c.DomainOf(id) - s.c.DomainOf(base), leaf: s.c.LeafOf(n) - s.c.LeafOf(b),
	}
}

// signature hashes what a group of ranks looks like from the machine's side (FNV-1a over places relative to its first
// member).
func (s *seating) signature(ranks []int) uint64 {
	h := uint64(14695981039346656037)
	for _, r := range ranks {
		p := s.place(r, ranks[0])
		for _, v := range [...]int{p.class, p.local, p.node, p.domain, p.leaf} {
			h = (h ^ uint64(v)) * 1099511628211
		}
	}
	return h
}

// family is distinct, remembered for every strategy with the same groups.
func (s *seating) family(st parallel.Strategy, kind parallel.Dim) *kindComm {
	stride, ok := st.Arithmetic(kind)
	if !ok || s.known == nil {
		return s.distinct(st, kind)
	}
	k := familyKey{kind == parallel.PP, st.Size(kind), stride}
	kc := s.known[k]
	if kc == nil {
		kc = s.distinct(st, kind)
		s.known[k] = kc
	}
	return kc
}

// unpriced is the same seating for another pricer: its groups are known, their prices are not.
func (s *seating) unpriced() *seating {
	if s.known == nil {
		return s
	}
	t := *s
	t.known = make(map[familyKey]*kindComm, len(s.known))
	for k, kc := range s.known {
		t.known[k] = &kindComm{members: kc.members, siblings: kc.siblings, hops: kc.hops}
	}
	return &t
}

// distinct returns the groups of a kind that could differ. For pipelines these are the pairs of stages that talk.
//
// On a machine that repeats after period ranks, two groups whose first ranks agree modulo the period are translates of
// each other, so that one of each residue is enough; the rest is left to the signature.
func (s *seating) distinct(st parallel.Strategy, kind parallel.Dim) *kindComm {
	out := &kindComm{}
	residues := make([]bool, s.period)
	seen := map[uint64]int{}
	left := s.period
	var ranks []int
	if kind == parallel.PP {
		out.hops = make([][]int, st.PP-1)
	}
	for g := range st.EachGroup(kind) {
		res := st.FirstRank(g) % s.period
		if residues[res] && s.period < s.n {
			continue
		}
		if !residues[res] {
			residues[res] = true
			left--
		}
		ranks = st.AppendGroup(ranks[:0], g)
		if kind == parallel.PP {
			for i := range len(ranks) - 1 {
				k := s.add(out, seen, st, kind, ranks[i:i+2])
				if !slices.Contains(out.hops[i], k) {
					out.hops[i] = append(out.hops[i], k)
				}
			}
		} else {
			s.add(out, seen, st, kind, ranks)
		}
		if left == 0 && s.period < s.n {
			break
		}
	}
	return out
}

// add appends a group unless one like it is there, and returns the place of that one.
func (s *seating) add(out *kindComm, seen map[uint64]int, st parallel.Strategy, kind parallel.Dim, ranks []int) int {
	sig := s.signature(ranks)
	if k, ok := seen[sig]; ok {
		return k
	}
	seen[sig] = len(out.members)
	out.members = append(out.members, s.seat(ranks))
	out.siblings = append(out.siblings, s.neighbours(st, kind, ranks))
	return len(out.members) - 1
}

// seat turns ranks into GPUs.
func (s *seating) seat(ranks []int) []topology.GPUID {
	ids := make([]topology.GPUID, len(ranks))
	for i, r := range ranks {
		ids[i] = s.gpus[r]
	}
	return ids
}

// neighbours are the other groups of the kind that run at the same time and share links with this one: those with a rank
// on one of its nodes (of its leaves, where leaves are oversubscribed). Groups elsewhere share nothing with it.
func (s *seating) neighbours(st parallel.Strategy, kind parallel.Dim, ranks []int) [][]topology.GPUID {
	var out [][]topology.GPUID
	var members []int
	marks := s.marks
	marks.next(st.World())
	own := st.GroupOf(kind, ranks[0])
	if kind == parallel.PP {
		marks.first(ranks[0]) // a pair is known by its first rank
	} else {
		marks.first(groupNumber(&st, own))
	}
	for _, n := range s.nodesOf(ranks) {
		node, class := s.c.Node(n)
		for g := range class.GPUs {
			r := int(s.rankOf[node.First+topology.GPUID(g)])
			if r < 0 || r >= s.n {
				continue
			}
			if kind != parallel.PP {
				if x := st.GroupOf(kind, r); marks.first(groupNumber(&st, x)) {
					members = st.AppendGroup(members[:0], x)
					out = append(out, s.seat(members))
				}
				continue
			}
			members = st.AppendGroup(members[:0], st.GroupOf(kind, r))
			i := slices.Index(members, r)
			sends, receives := s.beside(n, ranks[0]), s.beside(n, ranks[1])
			for _, j := range []int{i - 1, i} { // r receives, r sends
				if j >= 0 && j+1 < len(members) && (j < i && receives || j == i && sends) && marks.first(members[j]) {
					out = append(out, s.seat(members[j:j+2]))
				}
			}
		}
	}
	return out
}

// beside says that a node shares links with a rank: it is its node, or one on its leaf where leaves are oversubscribed. Of two stages
// that talk, links are shared in the direction of the transfer: NICs send and receive at full rate at the same time.
func (s *seating) beside(n topology.NodeID, rank int) bool {
	own := s.c.NodeOf(s.gpus[rank])
	return n == own || s.loaded && s.c.LeafOf(n) >= 0 && s.c.LeafOf(n) == s.c.LeafOf(own)
}

// groupNumber tells the groups of a kind apart.
func groupNumber(st *parallel.Strategy, g parallel.Group) int {
	return g.Stage*st.StageRanks() + g.First
}

// marks remembers numbers that were seen, without clearing anything between uses.
type marks struct {
	at  []uint32
	now uint32
}

// next forgets everything; numbers are below n from here on.
func (m *marks) next(n int) {
	if len(m.at) < n || m.now == 1<<32-1 {
		m.at, m.now = make([]uint32, n), 0
	}
	m.now++
}

// first marks a number and says whether it was not marked yet.
func (m *marks) first(i int) bool {
	if m.at[i] == m.now {
		return false
	}
	m.at[i] = m.now
	return true
}

// nodesOf lists the nodes whose other groups matter to a group, ascending: its own nodes, and those on their leaves where
// leaves are oversubscribed. On a machine that repeats, nodes that hold the same part of the group stand for each other.
func (s *seating) nodesOf(ranks []int) []topology.NodeID {
	held := map[topology.NodeID]uint64{}
	for _, r := range ranks {
		id := s.gpus[r]
		n := s.c.NodeOf(id)
		node, _ := s.c.Node(n)
		h, ok := held[n]
		if !ok {
			h = 14695981039346656037 ^ uint64(node.Class)
		}
		held[n] = (h ^ uint64(id-node.First+1)) * 1099511628211
	}
	nodes := make([]topology.NodeID, 0, len(held))
	for n := range held {
		nodes = append(nodes, n)
	}
	slices.Sort(nodes)
	switch {
	case s.loaded:
		return s.leafMates(nodes)
	case s.period < s.n:
		seen := map[uint64]bool{}
		nodes = slices.DeleteFunc(nodes, func(n topology.NodeID) bool {
			twin := seen[held[n]]
			seen[held[n]] = true
			return twin
		})
	}
	return nodes
}

// leafMates lists the nodes that share a leaf with one of the given, those included.
func (s *seating) leafMates(nodes []topology.NodeID) []topology.NodeID {
	leaves := map[int]bool{}
	for _, n := range nodes {
		if l := s.c.LeafOf(n); l >= 0 {
			leaves[l] = true
		}
	}
	var out []topology.NodeID
	for n := range topology.NodeID(s.c.NumNodes()) {
		if _, own := slices.BinarySearch(nodes, n); own || leaves[s.c.LeafOf(n)] {
			out = append(out, n)
		}
	}
	return out
}

// ends pairs the first and the last stage of each distinct pipeline.
func (s *seating) ends(st parallel.Strategy) *kindComm {
	out := &kindComm{}
	seen := map[uint64]bool{}
	var ranks []int
	residues := make([]bool, s.period)
	for g := range st.EachGroup(parallel.PP) {
		if res := st.FirstRank(g) % s.period; s.period < s.n {
			if residues[res] {
				continue
			}
			residues[res] = true
		}
		ranks = st.AppendGroup(ranks[:0], g)
		pair := []int{ranks[0], ranks[len(ranks)-1]}
		if sig := s.signature(pair); !seen[sig] {
			seen[sig] = true
			out.members = append(out.members, s.seat(pair))
			out.siblings = append(out.siblings, nil)
		}
	}
	return out
}
