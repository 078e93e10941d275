package planner

import (
	"cmp"
	"slices"

	"rankmap/internal/parallel"
	"rankmap/topology"
)

// maxSettled bounds the nodes whose contents are exchanged to leave more ranks in place.
const maxSettled = 256

// settle gives the new plan's seats other names that leave more ranks where their part of the model is: what one node holds goes
// to another, tensor-parallel groups change places, and ranks of one node do. Seats that cost more are not taken.
func (x *renewal) settle() error {
	o := x.anew.Best
	k := newKeeping(x, o.Strategy, o.Batch)
	seats := x.anew.Seats
	if k.moves(seats) == k.least() {
		return nil
	}
	for _, try := range [][]topology.GPUID{k.insideNodes(k.betweenNodes(seats)), k.insideNodes(seats)} {
		ok, err := k.noWorse(try, seats, o)
		if err != nil {
			return err
		}
		if ok {
			seats = try
			break
		}
	}
	seats, err := k.betweenGroups(seats, o)
	if err != nil || slices.Equal(seats, x.anew.Seats) {
		return err
	}
	return x.reseat(seats)
}

// noWorse says that seats move fewer ranks than others and cost no more than an outcome.
func (k *keeping) noWorse(seats, than []topology.GPUID, o *Outcome) (bool, error) {
	if k.moves(seats) >= k.moves(than) {
		return false, nil
	}
	c, err := k.priced(seats)
	return err == nil && c.out.score <= o.score+1e-9*abs(o.score), err
}

// maxGroupSwaps bounds the exchanges of two groups that are priced, maxSwapped the groups that are looked at.
const (
	maxGroupSwaps = 100
	maxSwapped    = 64
)

// betweenGroups exchanges the seats of two tensor-parallel groups as long as fewer ranks move and the cost stays.
func (k *keeping) betweenGroups(seats []topology.GPUID, o *Outcome) ([]topology.GPUID, error) {
	n := k.st.TP
	if k.st.World()/n > maxSwapped {
		return seats, nil
	}
	groups := k.st.Groups(parallel.TP)
	if n == 1 {
		for r := range k.st.World() {
			groups = append(groups, []int{r})
		}
	}
	for priced := 0; priced < maxGroupSwaps; {
		better := false
		for i, a := range groups {
			for _, b := range groups[:i] {
				try := slices.Clone(seats)
				for j := range a {
					try[a[j]], try[b[j]] = seats[b[j]], seats[a[j]]
				}
				for _, try := range [][]topology.GPUID{k.insideNodes(try), try} {
					if k.moves(try) >= k.moves(seats) || priced == maxGroupSwaps {
						continue
					}
					priced++
					ok, err := k.noWorse(try, seats, o)
					if err != nil {
						return nil, err
					}
					if ok {
						seats, better = try, true
						break
					}
				}
			}
		}
		if !better {
			break
		}
	}
	return seats, nil
}

// reseat puts the new plan on other seats that cost the same.
func (x *renewal) reseat(seats []topology.GPUID) error {
	s, p := x.s, x.anew
	p.Best.seats = s.base.seatedOn(seats)
	if err := s.detail(p.Best); err != nil {
		return err
	}
	p.seats = p.Best.seats
	p.Seats = p.seats.gpus[:p.Best.GPUs]
	p.comm = newComm(p.seats, s.Pricer, graphLaunch, p.Best.Strategy)
	used := map[topology.GPUID]bool{}
	for _, id := range p.Seats {
		used[id] = true
	}
	p.Idle = nil
	for id := range topology.GPUID(s.Cluster.NumGPUs()) {
		if !used[id] {
			p.Idle = append(p.Idle, id)
		}
	}
	return s.launchers(p)
}

// betweenNodes exchanges what whole nodes hold, the best matches first. Nodes are of one class and leaf and have equally many
// ranks.
func (k *keeping) betweenNodes(seats []topology.GPUID) []topology.GPUID {
	c := k.s.Cluster
	ranks := map[topology.NodeID][]int{}
	for r, id := range seats {
		n := c.NodeOf(id)
		ranks[n] = append(ranks[n], r)
	}
	holds := map[topology.NodeID]map[int]int{} // GPUs by part
	for _, id := range k.usable {
		if p := k.holds[id]; p >= 0 {
			n := c.NodeOf(id)
			if holds[n] == nil {
				holds[n] = map[int]int{}
			}
			holds[n][p]++
		}
	}
	nodes := make([]topology.NodeID, 0, len(ranks))
	for n := range ranks {
		nodes = append(nodes, n)
	}
	if len(nodes) > maxSettled {
		return seats
	}
	slices.Sort(nodes)
	type match struct {
		from, to topology.NodeID
		stay     int
	}
	like := func(a, b topology.NodeID) bool {
		x, _ := c.Node(a)
		y, _ := c.Node(b)
		return x.Class == y.Class && c.LeafOf(a) == c.LeafOf(b) && len(ranks[a]) == len(ranks[b]) && len(ranks[a]) == len(c.Classes[x.Class].GPUs)
	}
	var matches []match
	for _, a := range nodes {
		for _, b := range nodes {
			if !like(a, b) {
				continue
			}
			need := map[int]int{}
			n := 0
			for _, r := range ranks[a] {
				if p := k.part[r]; need[p] < holds[b][p] {
					need[p]++
					n++
				}
			}
			if n > 0 {
				matches = append(matches, match{a, b, n})
			}
		}
	}
	slices.SortStableFunc(matches, func(a, b match) int { return cmp.Compare(b.stay, a.stay) })
	to := map[topology.NodeID]topology.NodeID{}
	given := map[topology.NodeID]bool{}
	for _, m := range matches {
		if _, done := to[m.from]; !done && !given[m.to] {
			to[m.from], given[m.to] = m.to, true
		}
	}
	var left []topology.NodeID
	for _, n := range nodes {
		if !given[n] {
			left = append(left, n)
		}
	}
	out := slices.Clone(seats)
	for _, a := range nodes {
		b, ok := to[a]
		if !ok {
			i := slices.IndexFunc(left, func(n topology.NodeID) bool { return like(a, n) })
			if i < 0 {
				return seats
			}
			b = left[i]
			left = slices.Delete(left, i, i+1)
		}
		was, _ := c.Node(a)
		now, _ := c.Node(b)
		for _, r := range ranks[a] {
			out[r] = now.First + (seats[r] - was.First)
		}
	}
	return out
}

// insideNodes exchanges ranks of a node so that more of them sit where their part is.
func (k *keeping) insideNodes(seats []topology.GPUID) []topology.GPUID {
	c := k.s.Cluster
	at := make(map[topology.GPUID]int, len(seats))
	for r, id := range seats {
		at[id] = r
	}
	out := slices.Clone(seats)
	for r := range out {
		id := out[r]
		if k.holds[id] == k.part[r] {
			continue
		}
		node, class := c.Node(c.NodeOf(id))
		for g := range class.GPUs {
			to := node.First + topology.GPUID(g)
			o, taken := at[to]
			if !k.s.usable(to) || k.holds[to] != k.part[r] || taken && k.holds[to] == k.part[o] {
				continue
			}
			out[r] = to
			at[to] = r
			delete(at, id)
			if taken {
				out[o] = id
				at[id] = o
			}
			break
		}
	}
	return out
}
