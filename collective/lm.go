package collective

import "math"

// residuals fills r (length fixed) with the residuals at x.
type residuals func(x, r []float64)

// levenberg minimises half the sum of squares of m residuals over x within [lo, hi], by Levenberg-Marquardt with a
// forward-difference Jacobian and Marquardt's scaling. It returns the cost reached. Deterministic; x is updated in place.
//
// Why not gonum/optimize: it has no bounded least squares, and a quasi-Newton method on the summed cost needs many
// times more evaluations on these 20-odd badly scaled unknowns.
func levenberg(f residuals, m int, x, lo, hi []float64, maxIter int) float64 {
	n := len(x)
	r, trial := make([]float64, m), make([]float64, m)
	jac := make([]float64, m*n)
	a, g, step := make([]float64, n*n), make([]float64, n), make([]float64, n)
	chol, xt := make([]float64, n*n), make([]float64, n)
	clampAll(x, lo, hi)
	f(x, r)
	cost := halfSquares(r)
	lambda, stale := 1e-3, true
	for iter := 0; iter < maxIter; iter++ {
		if stale {
			jacobian(f, x, lo, hi, r, trial, jac)
			normalEquations(jac, r, a, g, n)
			stale = false
		}
		copy(chol, a)
		for i := 0; i < n; i++ {
			chol[i*n+i] += lambda * math.Max(a[i*n+i], 1e-9)
		}
		// A parameter that sits at a bound and would leave it stays where it is.
		for i := 0; i < n; i++ {
			if (x[i] <= lo[i] && g[i] > 0) || (x[i] >= hi[i] && g[i] < 0) {
				for j := 0; j < n; j++ {
					chol[i*n+j], chol[j*n+i] = 0, 0
				}
				chol[i*n+i] = 1
				step[i] = 0
				continue
			}
			step[i] = -g[i]
		}
		if !solveCholesky(chol, step, n) {
			lambda *= 10
			continue
		}
		copy(xt, x)
		for i := range xt {
			xt[i] += step[i]
		}
		clampAll(xt, lo, hi)
		f(xt, trial)
		c := halfSquares(trial)
		if c < cost {
			gain := (cost - c) / math.Max(cost, 1e-300)
			copy(x, xt)
			r, trial = trial, r
			cost, stale = c, true
			lambda = math.Max(lambda/5, 1e-9)
			if gain < 1e-7 {
				break
			}
			continue
		}
		lambda *= 4
		if lambda > 1e9 {
			break
		}
	}
	return cost
}

func clampAll(x, lo, hi []float64) {
	for i := range x {
		x[i] = math.Min(math.Max(x[i], lo[i]), hi[i])
	}
}

func halfSquares(r []float64) float64 {
	s := 0.0
	for _, v := range r {
		s += v * v
	}
	if math.IsNaN(s) {
		return math.Inf(1)
	}
	return s / 2
}

// jacobian fills jac, row by residual; tmp is scratch.
func jacobian(f residuals, x, lo, hi, r, tmp, jac []float64) {
	n := len(x)
	for j := range x {
		old := x[j]
		h := 1e-5 * math.Max(1, math.Abs(old))
		if old+h > hi[j] {
			h = -h
		}
		x[j] = old + h
		f(x, tmp)
		x[j] = old
		for i := range r {
			jac[i*n+j] = (tmp[i] - r[i]) / h
		}
	}
}

// normalEquations fills a = J'J and g = J'r.
func normalEquations(jac, r, a, g []float64, n int) {
	clear(a)
	clear(g)
	for i := range r {
		row := jac[i*n : i*n+n]
		for p, v := range row {
			if v == 0 {
				continue
			}
			g[p] += v * r[i]
			for q := 0; q <= p; q++ {
				a[p*n+q] += v * row[q]
			}
		}
	}
	for p := 0; p < n; p++ {
		for q := 0; q < p; q++ {
			a[q*n+p] = a[p*n+q]
		}
	}
}

// solveCholesky solves a b = b in place for a symmetric positive definite a; false if it is not.
func solveCholesky(a, b []float64, n int) bool {
	for j := 0; j < n; j++ {
		for k := 0; k < j; k++ {
			for i := j; i < n; i++ {
				a[i*n+j] -= a[i*n+k] * a[j*n+k]
			}
		}
		d := a[j*n+j]
		if !(d > 0) {
			return false
		}
		d = math.Sqrt(d)
		for i := j; i < n; i++ {
			a[i*n+j] /= d
		}
	}
	for i := 0; i < n; i++ {
		for k := 0; k < i; k++ {
			b[i] -= a[i*n+k] * b[k]
		}
		b[i] /= a[i*n+i]
	}
	for i := n - 1; i >= 0; i-- {
		for k := i + 1; k < n; k++ {
			b[i] -= a[k*n+i] * b[k]
		}
		b[i] /= a[i*n+i]
	}
	return true
}

// softL1 maps a residual so that its square is the soft-L1 loss at the given scale: quadratic near zero, linear far out.
func softL1(r, scale float64) float64 {
	z := r / scale
	v := scale * math.Sqrt(2*(math.Sqrt(1+z*z)-1))
	if r < 0 {
		return -v
	}
	return v
}
