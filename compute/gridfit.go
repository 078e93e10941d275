package compute

import (
	"math"
	"slices"
)

// gridPoint is one residual of a form: ln(measured/form) at the coordinates of the grid, with the weight of its row.
type gridPoint struct {
	x [4]float64
	r float64
	w float64
}

// gridPenalty says how stiff a fitted grid is: bend penalises second differences along each axis, shrink the values
// themselves, so that cells without rows go to no correction.
type gridPenalty struct{ bend, shrink float64 }

// fitGrid finds the values of a grid by weighted least squares, reweighted five times towards least absolute
// deviations so that outliers do not drag their neighbours. The knots are given. The normal equations are sparse and
// well conditioned by the penalty, so conjugate gradients solve them without a matrix.
func fitGrid(knots [][]float64, pts []gridPoint, pen gridPenalty) *Grid {
	g := &Grid{knots: knots}
	n := 1
	for _, k := range knots {
		n *= len(k)
	}
	g.vals = make([]float64, n)
	dims := len(knots)
	eq := equations{n: n, shrink: pen.shrink, rows: stiffness(knots, pen.bend)}
	fixed := len(eq.rows)
	for range 5 {
		eq.rows = eq.rows[:fixed]
		b := make([]float64, n)
		for i := range pts {
			p := &pts[i]
			w := p.w / math.Max(math.Abs(p.r-g.at(&p.x, dims)), 0.03)
			r := row{w: w}
			r.n, r.at, r.v = g.corners(&p.x, dims)
			for i := range r.n {
				b[r.at[i]] += w * r.v[i] * p.r
			}
			eq.rows = append(eq.rows, r)
		}
		eq.solve(g.vals, b)
	}
	return g
}

// corners lists the knots around x with their weights.
func (g *Grid) corners(x *[4]float64, dims int) (n int, at [16]int, w [16]float64) {
	stride := 1
	n, w[0] = 1, 1
	for d := dims - 1; d >= 0; d-- {
		i, f := locate(g.knots[d], x[d])
		if f == 0 || len(g.knots[d]) == 1 {
			for c := range n {
				at[c] += i * stride
			}
		} else {
			for c := range n {
				at[c+n], w[c+n] = at[c]+(i+1)*stride, w[c]*f
				at[c] += i * stride
				w[c] *= 1 - f
			}
			n *= 2
		}
		stride *= len(g.knots[d])
	}
	return n, at, w
}

// gridFor fits the correction of a form to the rows that it was fitted on.
func gridFor(axes [][]float64, fit []Sample, price func(*Sample) float64) *Grid {
	pts := make([]gridPoint, len(fit))
	for i := range fit {
		pts[i] = gridPoint{coordsOf(&fit[i]), math.Log(fit[i].Time / price(&fit[i])), 1}
	}
	g := fitGrid(axes, pts, stiff)
	for i, v := range g.vals { // as stored
		g.vals[i] = math.Round(math.Max(-127, math.Min(127, v/unit))) * unit
	}
	return g
}

// on adds the correction of an earlier grid with the same knots, the text form of which is old; any other is left out.
func (g *Grid) on(old string, dims int) *Grid {
	before, err := gridOf(old, dims)
	if err != nil || before == nil || !slices.EqualFunc(before.knots, g.knots, slices.Equal[[]float64]) {
		return g
	}
	sum := &Grid{knots: g.knots, vals: slices.Clone(g.vals)}
	for i, v := range before.vals {
		sum.vals[i] += v
	}
	return sum
}

// row is one squared term w (v.x[at])^2 of the objective.
type row struct {
	n  int
	at [16]int
	v  [16]float64
	w  float64
}

// stiffness lists the squared terms that penalise bending along each axis.
func stiffness(knots [][]float64, bend float64) []row {
	n := 1
	for _, k := range knots {
		n *= len(k)
	}
	var out []row
	stride := 1
	for d := len(knots) - 1; d >= 0; d-- {
		k := knots[d]
		for i := range n {
			j := i / stride % len(k)
			var r row
			switch {
			case len(k) > 1 && j == 0: // first difference at the edge, weakly
				r = row{n: 2, w: 0.2 * bend}
				r.at[0], r.at[1], r.v[0], r.v[1] = i, i+stride, -1, 1
			case j+1 < len(k) && j > 0:
				h1, h2 := k[j]-k[j-1], k[j+1]-k[j]
				r = row{n: 3, w: 4 * bend}
				r.at[0], r.at[1], r.at[2] = i-stride, i, i+stride
				r.v[0], r.v[1], r.v[2] = h2/(h1+h2), -1, h1/(h1+h2)
			default:
				continue
			}
			out = append(out, r)
		}
		stride *= len(k)
	}
	return out
}

// equations are the normal equations (sum of w v v' + shrink I) x = b.
type equations struct {
	n      int
	shrink float64
	rows   []row
}

func (e *equations) apply(x, y []float64) {
	for i := range y {
		y[i] = e.shrink * x[i]
	}
	for i := range e.rows {
		r := &e.rows[i]
		dot := 0.0
		for j := range r.n {
			dot += r.v[j] * x[r.at[j]]
		}
		dot *= r.w
		for j := range r.n {
			y[r.at[j]] += dot * r.v[j]
		}
	}
}

// solve improves x by conjugate gradients (Hestenes and Stiefel 1952) with the diagonal as preconditioner, until the
// residual has fallen to a millionth or for 400 rounds.
func (e *equations) solve(x, b []float64) {
	n := e.n
	diag := make([]float64, n)
	for i := range diag {
		diag[i] = e.shrink
	}
	for i := range e.rows {
		r := &e.rows[i]
		for j := range r.n {
			diag[r.at[j]] += r.w * r.v[j] * r.v[j]
		}
	}
	r, p, ap := make([]float64, n), make([]float64, n), make([]float64, n)
	e.apply(x, r)
	rz, start := 0.0, 0.0
	for i := range r {
		r[i] = b[i] - r[i]
		p[i] = r[i] / diag[i]
		rz += r[i] * p[i]
		start += b[i] * b[i] / diag[i]
	}
	for range 400 {
		if rz <= 1e-12*start {
			return
		}
		e.apply(p, ap)
		pap := 0.0
		for i := range p {
			pap += p[i] * ap[i]
		}
		alpha, next := rz/pap, 0.0
		for i := range x {
			x[i] += alpha * p[i]
			r[i] -= alpha * ap[i]
			next += r[i] * r[i] / diag[i]
		}
		for i := range p {
			p[i] = r[i]/diag[i] + next/rz*p[i]
		}
		rz = next
	}
}
