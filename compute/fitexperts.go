package compute

import (
	"math"
	"sort"

	"rankmap/internal/hardware"
	"rankmap/model"
)

// fused says whether the tables of a GPU hold a second, fused kernel for a type under the same name: nvfp4 on compute
// capability 10.x.
func fused(g *hardware.GPU, t dtype) bool { return t == nvfp4 && g.SM/10 == 10 }

// mixtureRounds is how often rows change sides at most; they settle after four or five.
const mixtureRounds = 8

// fitTwoKernels fits a table that mixes two kernels under one name: rows that only one of them can have run go to it, the
// others to the kernel whose form is nearer, in turns (hard assignment, as k-means), starting from the rows above and below
// one common form. The two differ by a factor of two, so few rows are in doubt: with held-out rows given to the nearer
// kernel, medians are 10 to 12 % where one common form has 14 to 23. The fused kernel's record carries its error that way. ok is
// false when too few rows are of either kernel.
func fitTwoKernels(g *hardware.GPU, t dtype, in, out []Sample, say func(hardware.Fit)) (own, fast hardware.MoE, ok bool) {
	one := newMoE(g, t, fitMoE(g, t, in), 1)
	slow, quick := divideKernels(in, func(s *Sample) float64 { return timeMoE(&one, s) }, nil)
	var a, b moe
	price := func(x *moe) func(*Sample) float64 { return func(s *Sample) float64 { return timeMoE(x, s) } }
	for round := range mixtureRounds {
		if len(slow) < ownRows || len(quick) < ownRows {
			return own, fast, false
		}
		own, fast = fitMoE(g, t, slow), fitMoE(g, t, quick)
		a, b = newMoE(g, t, own, 1), newMoE(g, t, fast, 1)
		if round >= mixtureRounds/2 { // once the forms stand, their grids sharpen the border
			a.grid, b.grid = gridFor(moeAxes, slow, price(&a)), gridFor(moeAxes, quick, price(&b))
		}
		n := len(quick)
		slow, quick = divideKernels(in, price(&a), price(&b))
		if len(quick) == n && round > mixtureRounds/2 {
			break
		}
	}
	own.Grid, fast.Grid = a.grid.String(), b.grid.String()
	_, mine := divideKernels(out, price(&a), price(&b))
	fast.Fit = rounded(score(mine, price(&b)))
	say(fast.Fit)
	return own, fast, true
}

// divideKernels gives each sample to the kernel whose price is nearer; without fast to the fused one when it is below slow.
func divideKernels(all []Sample, slow, fast func(*Sample) float64) (of, offast []Sample) {
	for i := range all {
		s := &all[i]
		quick := false
		if twoKernels(&s.Op) {
			at := math.Log(s.Time / slow(s))
			quick = fast == nil && at < 0 || fast != nil && math.Abs(math.Log(s.Time/fast(s))) < math.Abs(at)
		}
		if quick {
			offast = append(offast, *s)
		} else {
			of = append(of, *s)
		}
	}
	return of, offast
}

// mixedPrice prices a row that may be of either kernel: the fused kernel's time with a grid, fitted to least absolute errors
// as all grids are, that carries how much the other kernel's rows weigh at each size. On fitted rows this is as good as
// starting from any mean of the two. The grid goes to fast.Mix.
func mixedPrice(g *hardware.GPU, t dtype, own hardware.MoE, fast *hardware.MoE, in []Sample) func(*Sample) float64 {
	a, b := newMoE(g, t, own, 1), newMoE(g, t, *fast, 1)
	a.grid, _ = gridOf(own.Grid, 4)  // written by fitTwoKernels: no error
	b.grid, _ = gridOf(fast.Grid, 4) // likewise
	var both []Sample
	for i := range in {
		if twoKernels(&in[i].Op) {
			both = append(both, in[i])
		}
	}
	b.mix = gridFor(moeAxes, both, func(s *Sample) float64 { return timeMoE(&b, s) })
	fast.Mix = b.mix.String()
	return func(s *Sample) float64 {
		if !twoKernels(&s.Op) {
			return timeMoE(&a, s)
		}
		return timeMoE(&b, s) * b.mix.factor(coordsOf(s))
	}
}

// minOdd is the least factor on three-fold local experts that counts as another kernel, and oddRows how many rows must show
// it.
const (
	minOdd  = 1.5
	oddRows = 6
)

// oddFactor is the median of measured/form over the rows with 3, 6 or 12 local experts; 0 when they run like the others.
func oddFactor(g *hardware.GPU, t dtype, rec hardware.MoE, in []Sample) float64 {
	x := newMoE(g, t, rec, 1)
	var r []float64
	for i := range in {
		if threefold(localExperts(&in[i].Op)) {
			r = append(r, in[i].Time/timeMoE(&x, &in[i]))
		}
	}
	if len(r) < oddRows {
		return 0
	}
	sort.Float64s(r)
	if f := quantile(r, 0.5); f >= minOdd {
		return f
	}
	return 0
}

// without drops the rows with 3, 6 or 12 local experts.
func without(in []Sample) []Sample {
	var out []Sample
	for i := range in {
		if !threefold(localExperts(&in[i].Op)) {
			out = append(out, in[i])
		}
	}
	return out
}

func localExperts(o *model.ComputeOp) float64 { return float64((o.Experts + o.EP - 1) / o.EP) }
