package planner

import (
	"bytes"
	"math"
	"slices"

	"rankmap/internal/parallel"
	"rankmap/topology"
)

// exhaust tries every seating of an outcome that is not a relabelling of one tried before: permuting the values of tp or of dp
// renames ranks and changes no group.
//
// The variant of a training split that is best on the seats that it was priced on need not be on better ones: each whose bound is
// below the best found gets every seating. Of seatings that make the same groups one is priced, and a kind's groups are priced once
// for all seatings that make them: 8! seatings of pairs make 105 sets of pairs.
func (s *search) exhaust(o *Outcome) (*Outcome, error) {
	best := o
	for _, v := range s.variants(o) {
		if v.bound >= best.score {
			continue
		}
		seen := map[string]bool{}
		for _, order := range cuts(v.st) {
			v.st.Order = order
			var err error
			if best, err = s.everySeat(v.st, o, best, seen); err != nil {
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

// everySeat is exhaust in one order of the dimensions. seen are the groups of seatings that were priced before.
func (s *search) everySeat(st parallel.Strategy, o, best *Outcome, seen map[string]bool) (*Outcome, error) {
	if s.Engine != nil && !s.Engine.Permits(st.Order, st) {
		return best, nil
	}
	base := o.seats
	perm := make([]topology.GPUID, 0, o.GPUs)
	places := make([]byte, 0, o.GPUs)
	used := make([]bool, len(base.gpus))
	sets := newGroupSets(st)
	twins := s.twins()
	byTwins := len(twins) > relabellings(st) // of both ways to skip seatings that cost the same the one that skips more
	var walk func(twins [][]byte) error
	walk = func(twins [][]byte) error {
		if s.cancelled() {
			return nil
		}
		if r := len(perm); r == o.GPUs {
			keys := sets.keys(places)
			if seen[string(keys)] {
				return nil
			}
			seen[string(keys)] = true
			c, err := s.evaluate(st, s.commOf(base, perm, st, sets).price, o.Batch, true)
			if err != nil {
				return err
			}
			if c.score < best.score-1e-9*abs(best.score) {
				c.seats = base.with(perm)
				best = c
			}
			return nil
		}
		r := len(perm)
		low, left := topology.GPUID(0), [][]byte(nil)
		if !byTwins {
			low = lowest(st, r, perm)
		}
		for i, id := range base.gpus {
			if used[i] || id < low {
				continue
			}
			place := int(s.base.rankOf[id])
			if byTwins {
				var first bool
				if left, first = fixing(twins, place); !first {
					continue
				}
			}
			used[i] = true
			perm, places = append(perm, id), append(places, byte(place))
			if err := walk(left); err != nil {
				return err
			}
			perm, places = perm[:len(perm)-1], places[:len(places)-1]
			used[i] = false
		}
		return nil
	}
	err := walk(twins)
	return best, err
}

// commOf prices the groups of a seating; those of a kind that another seating made too are known.
func (s *search) commOf(base *seating, perm []topology.GPUID, st parallel.Strategy, sets *groupSets) *comm {
	cm := newComm(nil, s.Pricer, graphLaunch, st)
	for i := range sets.kinds {
		k := &sets.kinds[i]
		known := s.sets[string(k.key)]
		if known == nil {
			if cm.seats == nil {
				cm.seats = base.with(perm)
			}
			known = &knownGroups{groups: cm.seats.distinct(st, k.kind)}
			if k.kind == parallel.PP {
				known.ends = cm.seats.ends(st)
			}
			if s.sets == nil {
				s.sets = map[string]*knownGroups{}
			}
			s.sets[string(k.key)] = known
		}
		cm.kinds[k.kind] = known.groups
		if k.kind == parallel.PP {
			cm.ends = known.ends
		}
	}
	if cm.seats == nil {
		cm.seats = base // of which the cluster alone is asked for
	}
	return cm
}

// knownGroups are the groups of a kind with their prices.
type knownGroups struct{ groups, ends *kindComm }

// groupSets are the groups of a strategy by rank, and what seats make of them.
type groupSets struct {
	kinds []groupSet
	all   []byte
}

// groupSet are the groups of a kind. Its key names them by the places of their members: in any order where a collective does not
// care about it, in rank order where neighbours talk (pipelines, context parallelism).
type groupSet struct {
	kind    parallel.Dim
	ordered bool
	ranks   [][]int
	lists   [][]byte // by group: places of the members
	key     []byte
}

func newGroupSets(st parallel.Strategy) *groupSets {
	out := &groupSets{}
	for kind := range parallel.Dim(numKinds) {
		g := groupSet{kind: kind, ordered: kind == parallel.PP || kind == parallel.CP}
		for x := range st.EachGroup(kind) {
			g.ranks = append(g.ranks, st.AppendGroup(nil, x))
			g.lists = append(g.lists, make([]byte, len(g.ranks[0])))
		}
		if len(g.ranks) > 0 {
			out.kinds = append(out.kinds, g)
		}
	}
	return out
}

// keys writes the key of each kind and returns all of them together. The bytes are the caller's until the next call.
func (g *groupSets) keys(places []byte) []byte {
	g.all = g.all[:0]
	for i := range g.kinds {
		k := &g.kinds[i]
		for j, ranks := range k.ranks {
			for m, r := range ranks {
				k.lists[j][m] = places[r]
			}
			if !k.ordered {
				slices.Sort(k.lists[j])
			}
		}
		slices.SortFunc(k.lists, bytes.Compare)
		k.key = append(k.key[:0], byte(k.kind), byte(len(k.lists[0])))
		for _, l := range k.lists {
			k.key = append(k.key, l...)
		}
		g.all = append(g.all, k.key...)
	}
	return g.all
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
