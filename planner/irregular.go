package planner

import (
	"cmp"
	"math"
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

// exhaust tries every seating of an outcome that is not a relabelling of one tried before: permuting the values of tp or of dp
// renames ranks and changes no group.
//
// The variant of a training split that is best on the seats that it was priced on need not be on better ones: each whose bound is
// below the best found gets every seating.
func (s *search) exhaust(o *Outcome) (*Outcome, error) {
	best := o
	for _, v := range s.variants(o) {
		if v.bound >= best.score {
			continue
		}
		for _, order := range cuts(v.st) {
			v.st.Order = order
			var err error
			if best, err = s.everySeat(v.st, o, best); err != nil {
				return best, err
			}
		}
	}
	return best, nil
}

// variants are the ways to run an outcome's split that fit memory, its own first; bounds are scores.
func (s *search) variants(o *Outcome) []trainOption {
	out := []trainOption{{st: o.Strategy, bound: math.Inf(-1)}}
	if s.Workload.Task != string(TrainStep) {
		return out
	}
	st := o.Strategy
	st.FirstStage, st.LastStage = 0, 0
	fit, _, _ := s.trainOptions(st)
	for _, v := range fit {
		var err error
		if v.bound, err = s.trainBound(v.st); err == nil {
			out = append(out, v)
		}
	}
	return out
}

// cuts lists the dimension orders in which experts cut the ranks of a stage otherwise. All orders of a dense model, and where pp
// stands, are seatings of each other.
func cuts(st parallel.Strategy) [][]parallel.Dim {
	if st.EP*st.ExpertTP < 2 {
		return [][]parallel.Dim{parallel.DefaultOrder}
	}
	var out [][]parallel.Dim
	var seen [][]parallel.Dim
	for _, order := range orders(st) {
		flat := slices.DeleteFunc(slices.Clone(order), func(d parallel.Dim) bool { return d == parallel.PP || d == parallel.EP })
		if !slices.ContainsFunc(seen, func(o []parallel.Dim) bool { return slices.Equal(o, flat) }) {
			seen = append(seen, flat)
			out = append(out, order)
		}
	}
	return out
}

// everySeat is exhaust in one order of the dimensions.
func (s *search) everySeat(st parallel.Strategy, o, best *Outcome) (*Outcome, error) {
	if s.Engine != nil && !s.Engine.Permits(st.Order, st) {
		return best, nil
	}
	base := o.seats
	perm := make([]topology.GPUID, 0, o.GPUs)
	used := make([]bool, len(base.gpus))
	var walk func() error
	walk = func() error {
		if s.cancelled() {
			return nil
		}
		if r := len(perm); r == o.GPUs {
			t := base.with(perm)
			c, err := s.evaluate(st, newComm(t, s.Pricer, graphLaunch, st).price, o.Batch, true)
			if err != nil {
				return err
			}
			if c.score < best.score-1e-9*abs(best.score) {
				c.seats = t
				best = c
			}
			return nil
		}
		r := len(perm)
		low := lowest(st, r, perm)
		for i, id := range base.gpus {
			if used[i] || id < low {
				continue
			}
			used[i] = true
			perm = append(perm, id)
			if err := walk(); err != nil {
				return err
			}
			perm = perm[:len(perm)-1]
			used[i] = false
		}
		return nil
	}
	err := walk()
	return best, err
}

// lowest returns the smallest GPU that rank r may take so that of all relabellings only one is tried: where all other
// coordinates are 0, GPUs ascend along tp and dp. Not along cp: keys and values go from neighbour to neighbour.
func lowest(st parallel.Strategy, r int, perm []topology.GPUID) topology.GPUID {
	experts := st.EP * st.ExpertTP
	if experts > 1 && (st.ExpertTP != 1 || st.EP%(st.TP*st.CP) != 0) && (st.EP != 1 || st.ExpertTP != st.TP) {
		return 0 // expert groups cut the tp group: its values are not interchangeable
	}
	c := st.CoordsOf(r)
	p := parallel.Coords{}
	switch {
	case c.PP == 0 && c.CP == 0 && c.DP == 0 && c.TP > 0:
		p.TP = c.TP - 1
	case c.PP == 0 && c.TP == 0 && c.DP == 0 && c.CP > 0 && st.CP == 2:
		p.CP = c.CP - 1
	case c.PP == 0 && c.TP == 0 && c.CP == 0 && c.DP > 0 && (experts <= 1 || st.EP == st.StageRanks()):
		p.DP = c.DP - 1
	default:
		return 0
	}
	return perm[st.RankOf(p)] + 1
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
