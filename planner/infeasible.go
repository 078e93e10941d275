package planner

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
)

// infeasible explains why n GPUs hold no plan and what nearest change would help.
func (s *search) infeasible(ctx context.Context, n int, exact bool) *Infeasible {
	e := &Infeasible{Counts: s.counts, Losers: s.firstLosers()}
	switch {
	case s.counts.ByLimit > 0:
		e.Binding = s.limitText()
		e.Nearest = "a smaller --batch, a looser limit, or more GPUs"
	case s.counts.ByMemory > 0:
		e.Binding = fmt.Sprintf("memory: the smallest need is %s a GPU (%s), a GPU has %s", s.minNeed.Decimal(), s.minAt, s.Capacity.Decimal())
		e.Nearest = s.moreGPUs(ctx, n)
	case s.counts.Strategies == 0:
		e.Binding = fmt.Sprintf("no split of %d GPUs keeps what is fixed (%s)", n, s.fixedText())
		e.Nearest = s.nearestCount(ctx, n)
	default:
		e.Binding = "every split breaks a rule of the model; the nearest: " + e.Losers[0].Why
		e.Nearest = s.nearestCount(ctx, n)
	}
	if exact && e.Nearest == "" {
		e.Nearest = "another number of GPUs"
	}
	return e
}

func (s *search) firstLosers() []Loser {
	return slices.Clone(s.losers[:min(len(s.losers), s.Top)])
}

func (s *search) limitText() string {
	for _, l := range s.losers {
		if strings.Contains(l.Why, "limit") {
			return fmt.Sprintf("every plan that fits memory misses a limit; for example %s: %s", l.Strategy, l.Why)
		}
	}
	return "every plan that fits memory misses a limit"
}

func (s *search) fixedText() string {
	var b []string
	for _, d := range []parallel.Dim{parallel.TP, parallel.CP, parallel.EP, parallel.ExpertTP, parallel.DP, parallel.PP} {
		if v, ok := s.Freedom.Fix[d]; ok {
			b = append(b, fmt.Sprintf("%s=%d", d, v))
		}
		if s.Freedom.Forbid[d] {
			b = append(b, "no "+d.String())
		}
	}
	if len(b) == 0 {
		return "nothing is fixed"
	}
	return strings.Join(b, ", ")
}

// fits says whether any strategy of n GPUs passes the rules and holds the smallest (or the given) batch.
func (s *search) fits(n int) (parallel.Strategy, bool) {
	sp := s.splitter(n)
	sp.cp = false
	for _, st := range sp.strategies(s.Freedom) {
		st = st.Normalize()
		b := s.Workload.Batch
		if b == 0 {
			b = st.DP
		}
		if len(s.spec(st).Check(st)) == 0 && s.memory(st, b).Total() <= s.Capacity {
			return st, true
		}
	}
	return parallel.Strategy{}, false
}

// moreGPUs looks for the number of GPUs, doubling and then bisecting by multiples of n, from which the model fits.
func (s *search) moreGPUs(ctx context.Context, n int) string {
	for f := 2; f <= 64 && ctx.Err() == nil; f++ {
		if st, ok := s.fits(n * f); ok {
			return fmt.Sprintf("%d GPUs (%s), or a smaller weight type (--weights fp8)", n*f, st)
		}
	}
	if need := s.minNeed - s.Capacity; need > 0 {
		return fmt.Sprintf("a smaller weight type (--weights fp8), a shorter context or a smaller batch: %s a GPU are missing", units.Bytes(need).Decimal())
	}
	return "a smaller weight type or batch"
}

// nearestCount names the nearest number of GPUs that fits, smaller or larger.
func (s *search) nearestCount(ctx context.Context, n int) string {
	for d := 1; d <= max(n, 64) && ctx.Err() == nil; d++ {
		var hits []string
		for _, m := range []int{n - d, n + d} {
			if m < 1 {
				continue
			}
			if st, ok := s.fits(m); ok {
				hits = append(hits, fmt.Sprintf("--gpus %d (%s)", m, st))
			}
		}
		if len(hits) > 0 {
			return strings.Join(hits, " or ")
		}
	}
	return "other degrees than the fixed ones"
}
