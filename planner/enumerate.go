package planner

import (
	"slices"

	"rankmap/internal/parallel"
)

// Freedom is what the user left open.
type Freedom struct {
	Fix    map[parallel.Dim]int  // degrees that must hold, expert-tp included
	Forbid map[parallel.Dim]bool // degrees that must be 1
	MaxTP  int                   // upper bound of tp; 0 = none
}

// allows says whether a degree is permitted.
func (f Freedom) allows(d parallel.Dim, n int) bool {
	if v, ok := f.Fix[d]; ok && v != n {
		return false
	}
	return !f.Forbid[d] || n == 1
}

// splitter lists the degrees that a model can take at all; the planner asks the model for the rules afterwards.
type splitter struct {
	gpus     int
	layers   int
	heads    int // 0 = unknown
	expert   int // routed experts, 0 = dense
	cp       bool
	training bool
	copies   int  // redundant experts that every strategy has
	balanced bool // redundant experts may be added where ep does not divide the experts
}

// strategies lists every candidate with exactly n GPUs, in a fixed order. Expert degrees: for a dense model none; for
// a mixture every ep that divides both the experts and the ranks of a stage, with expertTp filling the ranks that share
// one batch (tp x cp x attention-dp).
func (s splitter) strategies(f Freedom) []parallel.Strategy {
	var out []parallel.Strategy
	for _, pp := range divisors(s.gpus) {
		if pp > s.layers || !f.allows(parallel.PP, pp) {
			continue
		}
		stage := s.gpus / pp
		for _, tp := range divisors(stage) {
			if !f.allows(parallel.TP, tp) || (f.MaxTP > 0 && tp > f.MaxTP) || (s.heads > 0 && s.heads%tp != 0) {
				continue
			}
			for _, cp := range divisors(stage / tp) {
				if !f.allows(parallel.CP, cp) || (cp > 1 && !s.cp) {
					continue
				}
				dp := stage / tp / cp
				if !f.allows(parallel.DP, dp) {
					continue
				}
				base := parallel.Strategy{TP: tp, PP: pp, DP: dp, CP: cp, EP: 1, ExpertTP: 1}
				out = append(out, s.expertSides(base, f)...)
			}
		}
	}
	return out
}

// expertSides completes the expert side of an attention split. Replica ranks r = tp x cp hold one batch; ep spreads over
// the replica alone or over attention replicas too.
func (s splitter) expertSides(b parallel.Strategy, f Freedom) []parallel.Strategy {
	if s.expert == 0 {
		if !f.allows(parallel.EP, 1) || !f.allows(parallel.ExpertTP, 1) {
			return nil
		}
		return []parallel.Strategy{b}
	}
	var out []parallel.Strategy
	replica := b.TP * b.CP
	for _, adp := range divisors(b.DP) {
		ranks := replica * adp
		for _, ep := range divisors(ranks) {
			copies, ok := s.copiesFor(ep)
			if !ok || !f.allows(parallel.EP, ep) || !f.allows(parallel.ExpertTP, ranks/ep) {
				continue
			}
			etp := ranks / ep
			if adp > 1 && etp > b.TP && (ep > 1 || s.training) {
				continue // expert matrices are cut at most as finely as attention's; engines cut them over all ranks or not
			}
			st := b
			st.EP, st.ExpertTP, st.RedundantExperts = ep, etp, copies
			out = append(out, st)
		}
	}
	return out
}

// divisors lists the divisors of n, ascending.
func divisors(n int) []int {
	var lo, hi []int
	for d := 1; d*d <= n; d++ {
		if n%d == 0 {
			lo = append(lo, d)
			if d != n/d {
				hi = append(hi, n/d)
			}
		}
	}
	slices.Reverse(hi)
	return append(lo, hi...)
}

// orders lists the distinct dimension orders of a strategy, fastest varying first; dimensions of degree 1 stand last in
// the default order, since they change nothing. Megatron's default comes first, so that it wins ties.
func orders(st parallel.Strategy) [][]parallel.Dim {
	var live, rest []parallel.Dim
	for _, d := range []parallel.Dim{parallel.TP, parallel.CP, parallel.DP, parallel.PP} {
		if degreeOf(st, d) > 1 {
			live = append(live, d)
		} else {
			rest = append(rest, d)
		}
	}
	var out [][]parallel.Dim
	permute(live, 0, func(p []parallel.Dim) {
		out = append(out, withEP(append(slices.Clone(p), rest...)))
	})
	return out
}

// withEP puts ep, which is carved out of the others, behind cp's place for the reader: before dp, else at the end.
func withEP(o []parallel.Dim) []parallel.Dim {
	i := slices.Index(o, parallel.DP)
	return slices.Insert(o, i, parallel.EP)
}

func permute(d []parallel.Dim, i int, f func([]parallel.Dim)) {
	if i >= len(d)-1 {
		f(d)
		return
	}
	for j := i; j < len(d); j++ {
		// rotate d[i..j] so that permutations come in lexicographic order of the input
		v := d[j]
		copy(d[i+1:j+1], d[i:j])
		d[i] = v
		permute(d, i+1, f)
		copy(d[i:j], d[i+1:j+1])
		d[j] = v
	}
}

func degreeOf(st parallel.Strategy, d parallel.Dim) int {
	switch d {
	case parallel.TP:
		return st.TP
	case parallel.CP:
		return st.CP
	case parallel.DP:
		return st.DP
	case parallel.PP:
		return st.PP
	case parallel.EP:
		return st.EP
	case parallel.ExpertTP:
		return st.ExpertTP
	case parallel.ExpertDP:
		return st.ExpertDP()
	}
	return 1
}
