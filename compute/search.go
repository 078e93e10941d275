package compute

import (
	"math"
	"sort"
)

// param is one fitted number with its bounds; times and rates are searched on a logarithmic scale.
type param struct {
	name   string
	lo, hi float64
	start  float64
	linear bool
}

func (p param) encode(v float64) float64 {
	v = math.Min(math.Max(v, p.lo), p.hi)
	if p.linear {
		return (v - p.lo) / (p.hi - p.lo)
	}
	return math.Log(v/p.lo) / math.Log(p.hi/p.lo)
}

// decode maps the real line onto the bounds by reflection, so that a simplex never leaves them and does not stick.
func (p param) decode(u float64) float64 {
	u = math.Abs(u)
	u -= 2 * math.Floor(u/2)
	if u > 1 {
		u = 2 - u
	}
	if p.linear {
		return p.lo + u*(p.hi-p.lo)
	}
	return p.lo * math.Pow(p.hi/p.lo, u)
}

// search minimises loss over the parameters: Nelder-Mead (Computer Journal 7, 1965) from the given start and from two
// displaced ones, each restarted around its best until a restart gains less than a thousandth. Deterministic.
func search(ps []param, loss func([]float64) float64) ([]float64, float64) {
	n := len(ps)
	v := make([]float64, n)
	eval := func(u []float64) float64 {
		for i, p := range ps {
			v[i] = p.decode(u[i])
		}
		if l := loss(v); !math.IsNaN(l) {
			return l
		}
		return math.Inf(1)
	}
	best, bestLoss := []float64(nil), math.Inf(1)
	for _, shift := range []float64{0, 0.17, -0.17} {
		u := make([]float64, n)
		for i, p := range ps {
			u[i] = math.Min(math.Max(p.encode(p.start)+shift*float64(1-2*(i%2)), 0.02), 0.98)
		}
		l := math.Inf(1)
		for size := 0.2; ; size = 0.1 {
			next, nl := simplex(u, size, eval)
			gain := l - nl
			if nl < l {
				u, l = next, nl
			}
			if !(gain > 1e-3*l) && !math.IsInf(gain, 1) {
				break
			}
		}
		if l < bestLoss {
			best, bestLoss = u, l
		}
	}
	out := make([]float64, n)
	for i, p := range ps {
		out[i] = p.decode(best[i])
	}
	return out, bestLoss
}

// simplex is one Nelder-Mead run with at most 120 evaluations a dimension.
func simplex(start []float64, size float64, f func([]float64) float64) ([]float64, float64) {
	n := len(start)
	type point struct {
		x []float64
		f float64
	}
	pts := make([]point, n+1)
	for i := range pts {
		x := append([]float64(nil), start...)
		if i > 0 {
			if x[i-1] > 0.5 {
				x[i-1] -= size
			} else {
				x[i-1] += size
			}
		}
		pts[i] = point{x, f(x)}
	}
	center, try := make([]float64, n), make([]float64, n)
	at := func(t float64) ([]float64, float64) { // center + t (center - worst)
		for i := range try {
			try[i] = center[i] + t*(center[i]-pts[n].x[i])
		}
		return try, f(try)
	}
	set := func(x []float64, v float64) {
		copy(pts[n].x, x)
		pts[n].f = v
	}
	for evals := n + 1; evals < 120*n; {
		sort.SliceStable(pts, func(i, j int) bool { return pts[i].f < pts[j].f })
		if pts[n].f-pts[0].f < 1e-6*(1e-6+math.Abs(pts[0].f)) {
			break
		}
		for i := range center {
			center[i] = 0
			for _, p := range pts[:n] {
				center[i] += p.x[i] / float64(n)
			}
		}
		x, v := at(1)
		evals++
		switch {
		case v < pts[0].f:
			keep := append([]float64(nil), x...)
			x2, v2 := at(2)
			evals++
			if v2 < v {
				set(x2, v2)
			} else {
				set(keep, v)
			}
		case v < pts[n-1].f:
			set(x, v)
		default:
			t := -0.5
			if v < pts[n].f {
				t = 0.5
			}
			x, v2 := at(t)
			evals++
			if v2 < math.Min(v, pts[n].f) {
				set(x, v2)
				break
			}
			for i := 1; i <= n; i++ {
				for j := range pts[i].x {
					pts[i].x[j] = pts[0].x[j] + 0.5*(pts[i].x[j]-pts[0].x[j])
				}
				pts[i].f = f(pts[i].x)
			}
			evals += n
		}
	}
	sort.SliceStable(pts, func(i, j int) bool { return pts[i].f < pts[j].f })
	return pts[0].x, pts[0].f
}
