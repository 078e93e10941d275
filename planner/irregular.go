package planner

import (
	"cmp"
	"slices"

	"rankmap/internal/parallel"
	"rankmap/topology"
)

// seatingsFor lists the ways to deal a strategy's ranks onto GPUs that are worth pricing before any improvement.
//
// On a machine that repeats there is one: the plain list; dimension orders do the rest. On others a block of ranks that
// talks (a TP group, an expert group, a whole replica) must not straddle two domains because one of them has an odd number
// of GPUs: for each block size the packed list takes whole blocks from every domain first and leaves the rest for last.
func (s *search) seatingsFor(st parallel.Strategy) []*seating {
	n := st.World()
	plain := s.seating(n)
	switch t := s.trimmedSeating(n); {
	case t != nil && plain.period < plain.n:
		return []*seating{plain, t}
	case t != nil:
		return []*seating{t}
	case plain.period < plain.n:
		return []*seating{plain}
	}
	out := []*seating{plain}
	for _, block := range blocks(st) {
		p := s.pack(n, block)
		if !slices.ContainsFunc(out, func(o *seating) bool { return slices.Equal(o.gpus[:n], p.gpus[:n]) }) {
			out = append(out, p)
		}
	}
	return out
}

// pack is the packed list for n ranks in blocks.
func (s *search) pack(n, block int) *seating {
	key := packKey{n, block}
	p, ok := s.packed[key]
	if !ok {
		p = s.base.pack(block).take(n)
		if s.packed == nil {
			s.packed = map[packKey]*seating{}
		}
		s.packed[key] = p
	}
	return p
}

type packKey struct{ n, block int }

// blocks lists the sizes of the runs of ranks that talk most, ascending.
func blocks(st parallel.Strategy) []int {
	var out []int
	for _, b := range []int{st.TP, st.TP * st.CP, st.EP * st.ExpertTP, st.StageRanks(), st.TP * st.PP} {
		if b > 1 && !slices.Contains(out, b) {
			out = append(out, b)
		}
	}
	slices.Sort(out)
	return out
}

// pack reorders the list: whole blocks of each domain, larger domains first, then what is left over.
func (s *seating) pack(block int) *seating {
	type run struct{ from, to int }
	var runs []run
	for i := 0; i < len(s.gpus); {
		j := i
		for j < len(s.gpus) && s.c.DomainOf(s.gpus[j]) == s.c.DomainOf(s.gpus[i]) {
			j++
		}
		runs = append(runs, run{i, j})
		i = j
	}
	slices.SortStableFunc(runs, func(a, b run) int { return cmp.Compare(b.to-b.from, a.to-a.from) })
	t := *s
	t.gpus = make([]topology.GPUID, 0, len(s.gpus))
	var rest []topology.GPUID
	for _, r := range runs {
		whole := r.from + (r.to-r.from)/block*block
		t.gpus = append(t.gpus, s.gpus[r.from:whole]...)
		rest = append(rest, s.gpus[whole:r.to]...)
	}
	t.gpus = append(t.gpus, rest...)
	return &t
}

// swapBudget bounds how many exchanges of two seats an improvement prices, seatBudget how many seats all exchanges of a
// search deal anew (a price takes time with the number of GPUs), and exactGPUs up to how many GPUs every seating is tried.
const (
	swapBudget = 4000
	seatBudget = 1 << 19
	exactGPUs  = 8
)

// needsImproving says whether seats beyond dimension orders can matter: the machine does not repeat, or GPUs of one domain
// are not all alike to each other.
func (s *search) needsImproving(n int) bool {
	if s.seating(n).period == n && (n < s.Cluster.NumGPUs() || s.Cluster.NumNodes() > 1) && s.trimmedSeating(n) == nil {
		return true
	}
	for i := range s.Cluster.Classes {
		switch s.Cluster.Classes[i].Wiring {
		case topology.NVLinkCubeMesh, topology.NVLinkDirect, topology.NVLinkNone:
			return true
		}
		for _, l := range s.Cluster.Classes[i].NVLinks {
			if l.Down > 0 {
				return true
			}
		}
	}
	return false
}

// improve looks for better seats of an outcome: all of them on up to eight GPUs, else exchanges of two seats (or of a seat
// and an idle GPU) as long as one helps. It returns the outcome with the seats it found.
func (s *search) improve(o *Outcome) (*Outcome, error) {
	if len(s.base.gpus) <= exactGPUs {
		return s.exhaust(o)
	}
	cur := o
	for budget := min(swapBudget, (seatBudget-s.swapped)/o.GPUs); budget > 0 && !s.cancelled(); {
		better, used, err := s.bestSwap(cur, budget)
		if err != nil {
			return nil, err
		}
		budget -= used
		s.swapped += used * o.GPUs
		if better == nil {
			break
		}
		cur = better
	}
	return cur, nil
}

// bestSwap prices exchanges until one helps; it returns nil when none does, and how many it priced.
func (s *search) bestSwap(o *Outcome, budget int) (*Outcome, int, error) {
	n, used := o.GPUs, 0
	gpus := o.seats.gpus
	for i := range n {
		for j := i + 1; j < len(gpus); j++ {
			if used >= budget || s.cancelled() {
				return nil, used, nil
			}
			if s.alike(gpus[i], gpus[j]) {
				continue
			}
			used++
			t := o.seats.swapped(i, j)
			c, err := s.evaluate(o.Strategy, newComm(t, s.Pricer, graphLaunch, o.Strategy).price, o.Batch, true)
			if err != nil {
				return nil, used, err
			}
			if c.score < o.score-1e-9*abs(o.score) {
				c.seats = t
				return c, used, nil
			}
		}
	}
	return nil, used, nil
}

// alike says that exchanging two GPUs changes nothing: same node, and every link of theirs the same.
func (s *search) alike(a, b topology.GPUID) bool {
	if s.Cluster.NodeOf(a) != s.Cluster.NodeOf(b) {
		return false
	}
	k, i := s.Cluster.GPU(a)
	_, j := s.Cluster.GPU(b)
	return k.Wiring == topology.NVLinkSwitched && s.Cluster.LinksUp(a) == s.Cluster.LinksUp(b) && sameNICs(k, i, j)
}

// sameNICs says that two GPUs of a node are equally far from every NIC.
func sameNICs(k *topology.NodeClass, i, j int) bool {
	return k.NICPaths == nil || slices.Equal(k.NICPaths[i], k.NICPaths[j])
}

// swapped returns the seating with two places exchanged. It repeats no more.
func (s *seating) swapped(i, j int) *seating {
	t := *s
	t.gpus = slices.Clone(s.gpus)
	t.gpus[i], t.gpus[j] = t.gpus[j], t.gpus[i]
	t.rankOf = slices.Clone(s.rankOf)
	for _, p := range []int{i, j} {
		t.rankOf[t.gpus[p]] = -1
		if p < t.n {
			t.rankOf[t.gpus[p]] = int32(p)
		}
	}
	t.period, t.known = t.n, nil
	return &t
}

// with returns the seating that seats ranks on exactly these GPUs, the others idle behind them.
func (s *seating) with(ids []topology.GPUID) *seating {
	t := *s
	t.gpus = slices.Clone(ids)
	for _, id := range s.gpus {
		if !slices.Contains(ids, id) {
			t.gpus = append(t.gpus, id)
		}
	}
	t.n = len(ids)
	t.rankOf = make([]int32, len(s.rankOf))
	for i := range t.rankOf {
		t.rankOf[i] = -1
	}
	for r, id := range ids {
		t.rankOf[id] = int32(r)
	}
	t.period, t.known = t.n, nil
	return &t
}

func abs(v float64) float64 {
	if v < 0 {
		return -v
	}
	return v
}
