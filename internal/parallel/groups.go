package parallel

import "iter"

// Size is the number of ranks in a group of a kind.
func (s Strategy) Size(kind Dim) int {
	switch kind {
	case EP:
		return s.EP
	case ExpertTP:
		return s.ExpertTP
	case ExpertDP:
		return s.ExpertDP()
	default:
		return s.degree(kind)
	}
}

// stride is the distance between neighbours of an attention-side dimension.
func (s Strategy) stride(kind Dim) int {
	n := 1
	for _, d := range s.Order {
		if d == kind {
			return n
		}
		n *= s.degree(d)
	}
	return n
}

// rankAt returns the rank at position q of a pipeline stage, in the order of the attention side.
func (s Strategy) rankAt(q, stage int) int {
	r, stride := 0, 1
	for _, d := range s.Order {
		n := s.degree(d)
		switch d {
		case EP:
			continue
		case PP:
			r += stage * stride
		default:
			r += q % n * stride
			q /= n
		}
		stride *= n
	}
	return r
}

// expertStride is the distance between neighbours of an expert-side kind, in positions of the stage.
func (s Strategy) expertStride(kind Dim) int {
	switch kind {
	case EP:
		return s.ExpertTP
	case ExpertDP:
		return s.ExpertTP * s.EP
	default:
		return 1
	}
}

// Arithmetic returns the stride of a kind's groups when they are the ranks that differ in one digit of a mixed-radix
// number: first, first + stride, ... for every first whose digit is 0. Always so on the attention side; on the expert side
// when pipeline stages are contiguous. ok is false otherwise.
func (s Strategy) Arithmetic(kind Dim) (stride int, ok bool) {
	switch kind {
	case EP, ExpertTP, ExpertDP:
		if s.PP > 1 && s.stride(PP) != s.StageRanks() {
			return 0, false
		}
		return s.expertStride(kind), true
	default:
		return s.stride(kind), true
	}
}

// Group identifies one group of a kind: its members follow by arithmetic.
type Group struct {
	Kind  Dim
	First int // attention side: the first rank; expert side: the first position in the stage
	Stage int // expert side only
}

// AppendGroup appends the ranks of a group, in order of the coordinate of its kind. Without allocation if dst is large
// enough.
func (s Strategy) AppendGroup(dst []int, g Group) []int {
	n := s.Size(g.Kind)
	switch g.Kind {
	case EP, ExpertTP, ExpertDP:
		step := s.expertStride(g.Kind)
		for i := range n {
			dst = append(dst, s.rankAt(g.First+i*step, g.Stage))
		}
	default:
		step := s.stride(g.Kind)
		for i := range n {
			dst = append(dst, g.First+i*step)
		}
	}
	return dst
}

// FirstRank is the first rank of a group.
func (s Strategy) FirstRank(g Group) int {
	switch g.Kind {
	case EP, ExpertTP, ExpertDP:
		return s.rankAt(g.First, g.Stage)
	default:
		return g.First
	}
}

// EachGroup lists the groups of a kind; none when its size is 1. Attention side: by first rank ascending.
func (s Strategy) EachGroup(kind Dim) iter.Seq[Group] {
	return func(yield func(Group) bool) {
		n := s.Size(kind)
		if n < 2 {
			return
		}
		total, step, stages := s.World(), s.stride(kind), 1
		expert := kind == EP || kind == ExpertTP || kind == ExpertDP
		if expert {
			total, step, stages = s.StageRanks(), s.expertStride(kind), s.PP
		}
		for stage := range stages {
			for hi := 0; hi < total; hi += step * n {
				for lo := range step {
					if !yield(Group{kind, hi + lo, stage}) {
						return
					}
				}
			}
		}
	}
}

// Groups returns the rank groups of a kind, each in the order of its coordinate. TP, CP, DP, PP are the attention side;
// EP, ExpertTP and ExpertDP the expert side. A kind of degree 1 has no groups.
func (s Strategy) Groups(kind Dim) [][]int {
	n := s.Size(kind)
	if n < 2 {
		return nil
	}
	all := make([]int, 0, s.World())
	groups := make([][]int, 0, s.World()/n)
	for g := range s.EachGroup(kind) {
		all = s.AppendGroup(all, g)
		groups = append(groups, all[len(all)-n:len(all):len(all)])
	}
	return groups
}

// GroupOf returns the group of a kind that a rank belongs to.
func (s Strategy) GroupOf(kind Dim, rank int) Group {
	c := s.CoordsOf(rank)
	switch kind {
	case EP, ExpertTP, ExpertDP:
		i := c.EP
		switch kind {
		case ExpertTP:
			i = c.ExpertTP
		case ExpertDP:
			i = c.ExpertDP
		}
		q := c.ExpertTP + s.ExpertTP*(c.EP+s.EP*c.ExpertDP)
		return Group{kind, q - i*s.expertStride(kind), c.PP}
	default:
		i := rank / s.stride(kind) % s.degree(kind)
		return Group{kind, rank - i*s.stride(kind), 0}
	}
}
