package planner

import (
	"cmp"
	"slices"

	"rankmap/internal/parallel"
	"rankmap/topology"
)

// keptSeats chooses which replica sets stay, those with the fewest lost GPUs first, and returns their seats by the new
// rank, Gone where one must be found. ok is false when the order of the ranks makes fewer replicas cut experts otherwise:
// then every share changes.
func (s *search) keptSeats(f Former, st parallel.Strategy, adp int) (seats []topology.GPUID, ok bool) {
	old := f.Strategy
	lost := make([]int, old.DP/adp)
	for r, id := range f.Seats {
		if !s.usable(id) {
			lost[old.CoordsOf(r).DP/adp]++
		}
	}
	sets := make([]int, len(lost))
	for i := range sets {
		sets[i] = i
	}
	beside := s.besideLost(f, adp, lost)
	slices.SortStableFunc(sets, func(a, b int) int {
		return cmp.Or(cmp.Compare(lost[a], lost[b]), cmp.Compare(beside[a], beside[b]))
	})
	sets = sets[:st.DP/adp]
	slices.Sort(sets)
	seats = make([]topology.GPUID, st.World())
	for r := range seats {
		c := st.CoordsOf(r)
		was := parallel.Coords{TP: c.TP, CP: c.CP, PP: c.PP, DP: sets[c.DP/adp]*adp + c.DP%adp}
		o := old.RankOf(was)
		if share(&st, r) != share(&old, o) {
			return nil, false
		}
		seats[r] = Gone
		if s.usable(f.Seats[o]) {
			seats[r] = f.Seats[o]
		}
	}
	return seats, true
}

// besideLost counts the GPUs that each replica set has on nodes where a rank lost its GPU. Of replicas that may go, those with
// most go first: what stays then fills whole nodes.
func (s *search) besideLost(f Former, adp int, lost []int) []int {
	hurt := map[topology.NodeID]bool{}
	set := func(r int) int { return f.Strategy.CoordsOf(r).DP / adp }
	for r, id := range f.Seats {
		if id != Gone && lost[set(r)] > 0 {
			hurt[s.Cluster.NodeOf(id)] = true
		}
	}
	out := make([]int, len(lost))
	for r, id := range f.Seats {
		if id != Gone && hurt[s.Cluster.NodeOf(id)] {
			out[set(r)]++
		}
	}
	return out
}

// usable says that a seat can be taken.
func (s *search) usable(id topology.GPUID) bool { return id != Gone && s.base.rankOf[id] >= 0 }

// held is the part of the model that a rank holds: replicas of it are alike.
type held struct{ tp, pp, ep, etp, interleave, first, last, copies, i, j, k, l int }

func share(st *parallel.Strategy, r int) held {
	c := st.CoordsOf(r)
	return held{st.TP, st.PP, st.EP, st.ExpertTP, st.Interleave, st.FirstStage, st.LastStage, st.RedundantExperts, c.TP, c.PP, c.EP, c.ExpertTP}
}

// maxSpared is up to how many lost ranks the choice of spares is priced; beyond it the nearest spare is taken.
const maxSpared = 16

// fillSeats gives every rank without a seat the spare GPU on which the step is shortest. Spares of one node are tried
// once for each number of NVLinks up, other nodes once for each class, NVLink domain and leaf.
func (s *search) fillSeats(st parallel.Strategy, seats []topology.GPUID, batch int) error {
	var holes []int
	taken := map[topology.GPUID]bool{}
	for r, id := range seats {
		if id == Gone {
			holes = append(holes, r)
		}
		taken[id] = true
	}
	spare := slices.DeleteFunc(slices.Clone(s.base.gpus), func(id topology.GPUID) bool { return taken[id] })
	for i, r := range holes { // any seats first, so that a step can be priced
		seats[r] = spare[i]
	}
	for _, r := range holes {
		free := slices.DeleteFunc(slices.Clone(spare), func(id topology.GPUID) bool { return taken[id] })
		best, bestT := seats, -1.0
		for _, id := range s.differing(free, seats, r) {
			try := slices.Clone(seats)
			if at := slices.Index(try, id); at >= 0 {
				try[at] = try[r]
			}
			try[r] = id
			if len(holes) > maxSpared {
				best = try
				break
			}
			t := s.base.seatedOn(try)
			o, err := s.evaluate(st, newComm(t, s.Pricer, graphLaunch, st).price, batch, true)
			if err != nil {
				return err
			}
			if v := o.Step.Time.Seconds(); bestT < 0 || v < bestT*(1-1e-9) {
				best, bestT = try, v
			}
		}
		copy(seats, best)
		taken[seats[r]] = true
	}
	return nil
}

// differing lists spares that could differ for rank r, nearest to its neighbours first.
func (s *search) differing(free, seats []topology.GPUID, r int) []topology.GPUID {
	c := s.Cluster
	near := seats[r]
	for d := 1; d < len(seats); d++ { // the nearest rank that has kept its seat
		if i := r ^ d; i < len(seats) && !slices.Contains(free, seats[i]) {
			near = seats[i]
			break
		}
	}
	far := func(id topology.GPUID) int {
		switch {
		case c.NodeOf(id) == c.NodeOf(near):
			return 0
		case c.DomainOf(id) == c.DomainOf(near):
			return 1
		case c.LeafOf(c.NodeOf(id)) == c.LeafOf(c.NodeOf(near)):
			return 2
		}
		return 3
	}
	slices.SortStableFunc(free, func(a, b topology.GPUID) int { return cmp.Compare(far(a), far(b)) })
	type kind struct{ node, domain, class, leaf, links int }
	seen := map[kind]bool{}
	var out []topology.GPUID
	for _, id := range free {
		n, _ := c.Node(c.NodeOf(id))
		k := kind{-1, c.DomainOf(id), n.Class, c.LeafOf(c.NodeOf(id)), c.LinksUp(id)}
		if far(id) == 0 {
			k.node = int(c.NodeOf(id))
		}
		if !seen[k] {
			seen[k] = true
			out = append(out, id)
		}
	}
	return out
}

// withoutBroken seats every tensor-parallel group that lost a GPU anew, whole, in an NVLink domain with room for it: the
// ranks that still have their GPU move too, but the group does not straddle two domains. ok is false where there is no
// such group or no room for all of them.
func (s *search) withoutBroken(st parallel.Strategy, seats []topology.GPUID) (out []topology.GPUID, ok bool) {
	out = slices.Clone(seats)
	var broken [][]int
	for _, g := range st.Groups(parallel.TP) {
		if slices.ContainsFunc(g, func(r int) bool { return seats[r] == Gone }) {
			broken = append(broken, g)
			for _, r := range g {
				out[r] = Gone
			}
		}
	}
	if len(broken) == 0 || len(broken) > maxSpared {
		return nil, false
	}
	for _, g := range broken {
		room := s.room(out, len(g))
		if room == nil {
			return nil, false
		}
		for i, r := range g {
			out[r] = room[i]
		}
	}
	return out, true
}

// room finds n spare GPUs of one NVLink domain, on as few nodes as the order of the machine gives, the smallest domain
// that has as many first; nil when there is none.
func (s *search) room(seats []topology.GPUID, n int) []topology.GPUID {
	taken := map[topology.GPUID]bool{}
	for _, id := range seats {
		taken[id] = true
	}
	free := map[int][]topology.GPUID{}
	var domains []int
	for _, id := range s.base.gpus {
		if d := s.Cluster.DomainOf(id); !taken[id] {
			if free[d] == nil {
				domains = append(domains, d)
			}
			free[d] = append(free[d], id)
		}
	}
	best := -1
	for _, d := range domains {
		if len(free[d]) >= n && (best < 0 || len(free[d]) < len(free[best])) {
			best = d
		}
	}
	if best < 0 {
		return nil
	}
	return free[best][:n]
}
