package planner

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/model"
)

// infeasible explains why n GPUs hold no plan and what nearest change would help.
func (s *search) infeasible(ctx context.Context, n int, exact bool) *Infeasible {
	e := &Infeasible{Counts: s.counts, Losers: s.firstLosers()}
	switch {
	case s.counts.ByLimit > 0:
		e.Binding = s.limitText()
		e.Nearest = "a looser limit, or more GPUs"
		if s.Workload.Batch > 0 {
			e.Nearest = "a smaller --batch, a looser limit, or more GPUs"
		}
		if s.missed.chunk > 0 {
			e.Nearest = s.moreTokens()
		}
	case s.counts.ByMemory > 0:
		e.Binding = fmt.Sprintf("memory: the smallest need is %s a GPU (%s), a GPU has %s", s.minNeed.Decimal(), s.minAt, s.Capacity.Decimal())
		e.Nearest = s.lessMemory(ctx, n)
	case s.counts.Strategies == 0:
		e.Binding = fmt.Sprintf("no split of %d GPUs keeps what is fixed (%s)%s", n, s.fixedText(), s.contradiction(n))
		e.Nearest = s.nearestCount(ctx, n)
	default:
		e.Binding = "every split breaks a rule of the model; the nearest: " + e.Losers[0].Why
		if s.Engine != nil {
			e.Binding = "every split breaks a rule of the model or of the engine; the nearest: " + e.Losers[0].Why
		}
		e.Nearest = s.nearestCount(ctx, n)
		if b := s.nearestBatch(); b != "" {
			e.Nearest = b
		}
	}
	if exact && e.Nearest == "" {
		e.Nearest = "another number of GPUs"
	}
	return e
}

func (s *search) firstLosers() []Loser {
	out := slices.Clone(s.losers[:min(len(s.losers), s.Top)])
	for i := range out {
		out[i] = s.seated(out[i])
	}
	return out
}

// nearMiss is the plan that breaks its limits by least.
type nearMiss struct {
	Loser
	over  float64 // time over limit, the larger of both
	chunk int     // the least --chunk that would do, where that is the limit
}

// near keeps the plan that breaks its limits by least; l says how.
func (s *search) near(o *Outcome, l Loser) {
	over := 0.0
	if l := s.Workload.TTFTMs; l > 0 {
		over = max(over, o.TTFT.Time.Millis()/l)
	}
	if l := s.Workload.TPOTMs; l > 0 {
		over = max(over, o.TPOT.Time.Millis()/l)
	}
	if s.missed.Why == "" || over < s.missed.over {
		s.missed = nearMiss{Loser: l, over: over}
	}
}

// moreTokens names the budget of a step that would do, and the batch that the given one holds.
func (s *search) moreTokens() string {
	e := s.scheduler()
	if e.Whole && s.Workload.ISL > e.Budget {
		return fmt.Sprintf("--chunk %d", s.Workload.ISL)
	}
	out := fmt.Sprintf("--chunk %d", s.missed.chunk)
	b := e.Budget
	for b > 0 && s.leastBudget(b) > e.Budget {
		b--
	}
	if s.Workload.Batch > 0 && b > 0 {
		out += fmt.Sprintf(", --batch %d", b*s.missed.Strategy.DP)
	}
	return out + ", or more GPUs"
}

// limitText names the plan that misses a limit by least.
func (s *search) limitText() string {
	if s.missed.Why == "" {
		return "every plan that fits memory misses a limit"
	}
	return fmt.Sprintf("every plan that fits memory misses a limit; the nearest is %s: %s", s.missed.Strategy, s.seated(s.missed.Loser).Why)
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

// fits says whether any strategy of n GPUs passes the rules and holds the smallest (or the given) batch; in training,
// whether some micro-batch and recomputation does.
func (s *search) fits(n int) (parallel.Strategy, bool) {
	sp := s.splitter(n)
	sp.cp = sp.cp && s.Freedom.Fix[parallel.CP] > 1
	for _, st := range sp.strategies(s.Freedom) {
		st = st.Normalize()
		if len(s.violations(st)) > 0 || s.refused(st) != "" {
			continue
		}
		if s.Workload.Task == string(TrainStep) {
			if fit, _, _ := s.trainOptions(st); len(fit) > 0 {
				return st, true
			}
			continue
		}
		b := s.Workload.Batch
		if b == 0 {
			b = st.DP
		}
		if s.memory(st, b).Total() <= s.Capacity {
			return st, true
		}
	}
	return parallel.Strategy{}, false
}

// growth are the multiples of the GPUs that are tried where memory is short.
var growth = []int{2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64}

// maxGrown bounds the GPUs of a machine that is proposed.
const maxGrown = 1 << 17

// lessMemory names the nearest changes that make the model fit: more GPUs, smaller weights, a smaller cache, a smaller
// batch. Each is tried before it is named.
func (s *search) lessMemory(ctx context.Context, n int) string {
	var hits []string
	for _, f := range growth {
		if ctx.Err() != nil || n*f > maxGrown {
			break
		}
		if st, ok := s.fits(n * f); ok {
			hits = append(hits, fmt.Sprintf("%d GPUs (%s)", n*f, st))
			break
		}
	}
	for _, x := range s.smaller(n) {
		if ctx.Err() != nil {
			break
		}
		if st, ok := x.search.fits(n); ok {
			hits = append(hits, fmt.Sprintf("%s (%s)", x.flag, st))
		}
	}
	if len(hits) > 0 {
		return strings.Join(hits, ", or ")
	}
	short := "a smaller model"
	if need := s.minNeed - s.Capacity; need > 0 {
		short += fmt.Sprintf(": %s a GPU are missing", units.Bytes(need).Decimal())
	}
	return short
}

// variant is the same search with one flag different.
type variant struct {
	flag   string
	search *search
}

// smaller lists what would need less memory.
func (s *search) smaller(n int) []variant {
	var out []variant
	add := func(flag string, change func(*search)) {
		x := &search{Request: s.Request, base: s.base, ctx: s.ctx}
		change(x)
		out = append(out, variant{flag, x})
	}
	if s.Workload.Task == string(TrainStep) {
		if short := s.Workload.SeqLen / 2; short >= 512 {
			add(fmt.Sprintf("--seq-len %d", short), func(x *search) { x.Workload.SeqLen = short })
		}
		return out
	}
	for _, w := range []string{"fp8", "int4"} {
		if s.Workload.Weights != w && s.Workload.Weights != "int4" {
			add("--weights "+w, func(x *search) { x.Workload.Weights = w })
		}
	}
	if s.Workload.KVCache != "fp8" {
		add("--kv-cache fp8", func(x *search) { x.Workload.KVCache = "fp8" })
	}
	if most := s.largestBatch(n); s.Workload.Batch > 0 && most > 0 {
		add(fmt.Sprintf("--batch %d", most), func(x *search) { x.Workload.Batch = most })
	}
	return out
}

// largestBatch is the most sequences that any strategy of n GPUs holds.
func (s *search) largestBatch(n int) int {
	most := 0
	for _, st := range s.splitter(n).strategies(s.Freedom) {
		st = st.Normalize()
		if len(s.violations(st)) > 0 || s.refused(st) != "" {
			continue
		}
		w := s.work(st, model.Decode, 1)
		w.Context = s.Workload.ISL + s.Workload.OSL
		m := s.spec(st).Memory(st, w, model.MemoryOptions{Capacity: s.Capacity})
		for b := m.MaxBatch * st.DP; b > most; b -= st.DP { // transient buffers grow with the batch too
			if s.memory(st, b).Total() <= s.Capacity {
				most = b
				break
			}
			b -= b / 16 / st.DP * st.DP
		}
	}
	return most
}

// exceeds says that what n GPUs have to hold in all, spread over them without a copy, is more than they have: then fewer
// cannot help either.
func (s *search) exceeds(n int) bool {
	one := parallel.Strategy{MicroBatch: 1}.Normalize()
	var all units.Bytes
	if s.Workload.Task == string(TrainStep) {
		m := s.Spec.Memory(one, s.trainWork(one), s.memoryOptions())
		all = m.Weights + m.Gradients + m.Optimizer
	} else {
		m := s.memory(one, max(1, s.Workload.Batch))
		all = m.Weights + m.KV
	}
	return float64(all) > float64(s.Capacity)*float64(n)
}

// nearestBatch names the global batches next to one that the fixed dp does not divide; empty where that is not the reason.
func (s *search) nearestBatch() string {
	dp, b := s.Freedom.Fix[parallel.DP], s.Workload.Batch
	if s.Workload.Task != string(TrainStep) || dp < 2 || b%dp == 0 {
		return ""
	}
	up := fmt.Sprintf("--batch %d", (b/dp+1)*dp)
	if b < dp {
		return up
	}
	return fmt.Sprintf("--batch %d or %s", b/dp*dp, up)
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
