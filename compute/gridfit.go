package compute

import "math"

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
// deviations so that outliers do not drag their neighbours. The knots are given.
func fitGrid(knots [][]float64, pts []gridPoint, pen gridPenalty) *Grid {
	g := &Grid{knots: knots}
	n := 1
	for _, k := range knots {
		n *= len(k)
	}
	g.vals = make([]float64, n)
	dims := len(knots)
	base := penalty(knots, pen)
	for range 5 {
		a := append([]float64(nil), base...)
		b := make([]float64, n)
		for i := range pts {
			p := &pts[i]
			w := p.w / math.Max(math.Abs(p.r-g.at(&p.x, dims)), 0.03)
			corners, at, cw := g.corners(&p.x, dims)
			for i := range corners {
				b[at[i]] += w * cw[i] * p.r
				for j := range corners {
					if at[j] <= at[i] {
						a[at[i]*n+at[j]] += w * cw[i] * cw[j]
					}
				}
			}
		}
		cholesky(a, n)
		solve(a, b, n)
		copy(g.vals, b)
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

// penalty is the matrix of the stiffness terms, row major, lower triangle.
func penalty(knots [][]float64, pen gridPenalty) []float64 {
	n := 1
	for _, k := range knots {
		n *= len(k)
	}
	a := make([]float64, n*n)
	for i := range n {
		a[i*n+i] = pen.shrink
	}
	stride := 1
	for d := len(knots) - 1; d >= 0; d-- {
		k := knots[d]
		for i := range n {
			j := i / stride % len(k)
			switch {
			case len(k) > 1 && j == 0: // first difference at the edge, weakly
				add(a, n, []int{i, i + stride}, []float64{-1, 1}, 0.2*pen.bend)
			case j+1 < len(k) && j > 0:
				h1, h2 := k[j]-k[j-1], k[j+1]-k[j]
				add(a, n, []int{i - stride, i, i + stride}, []float64{h2 / (h1 + h2), -1, h1 / (h1 + h2)}, 4*pen.bend)
			}
		}
		stride *= len(k)
	}
	return a
}

// add adds w v v' at the given indices.
func add(a []float64, n int, at []int, v []float64, w float64) {
	for i := range at {
		for j := range at {
			if at[j] <= at[i] {
				a[at[i]*n+at[j]] += w * v[i] * v[j]
			}
		}
	}
}

// cholesky factors the lower triangle of a in place.
func cholesky(a []float64, n int) {
	for j := range n {
		rj := a[j*n : j*n+j+1]
		for i := j; i < n; i++ {
			ri := a[i*n : i*n+j+1]
			s := ri[j]
			for k := range j {
				s -= ri[k] * rj[k]
			}
			if i == j {
				rj[j] = math.Sqrt(math.Max(s, 1e-12))
			} else {
				ri[j] = s / rj[j]
			}
		}
	}
}

// solve replaces b by the solution of L L' x = b.
func solve(a, b []float64, n int) {
	for i := range n {
		s := b[i]
		for k := range i {
			s -= a[i*n+k] * b[k]
		}
		b[i] = s / a[i*n+i]
	}
	for i := n - 1; i >= 0; i-- {
		s := b[i]
		for k := i + 1; k < n; k++ {
			s -= a[k*n+i] * b[k]
		}
		b[i] = s / a[i*n+i]
	}
}
