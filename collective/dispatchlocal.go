package collective

import (
	"math"
	"slices"

	"rankmap/internal/hardware"
)

// What the forms of exchanges miss, locally: ln(measured/form) over the tokens of a rank, piecewise linear in log2, at each
// knot linear in the logarithms of what shapes the traffic. docs/collective-model.md, section 6.

// localTokens are the knots, log2 of a rank's tokens; those beyond what was measured drop out.
var localTokens = []float64{0, 2, 4, 6, 8, 10, 13, 17}

// localFactor is what the correction may depend on, as log2 of a ratio to a middling value; false for a name that is not known.
func localFactor(name string, x *Exchange) (float64, bool) {
	switch name {
	case "sms":
		return math.Log2(float64(max(x.SMs, 1)) / 12), true
	case "copies":
		return math.Log2(x.copies() / 4), true
	case "topk":
		return math.Log2(float64(max(x.TopK, 1)) / 4), true
	case "hidden":
		return math.Log2(float64(max(x.Hidden, 1)) / 4096), true
	}
	return 0, false
}

// localOf lists the factors of a mode: those that the tables vary independently.
var localOf = map[string][]string{
	"normal":                    {"sms", "copies", "hidden"},
	"low_latency":               {"topk", "hidden"},
	"normal" + acrossNodes:      {"sms"},
	"low_latency" + acrossNodes: nil,
	"nvlink":                    nil,
}

const (
	localMost  = 0.5 // ln: no correction is larger
	localReach = 1   // log2: a factor counts to twice beyond what was measured
	localRidge = 5   // prior weight of a coefficient, in samples of which each has a spread of one octave
	localFree  = 0.2 // the same of a knot's mean, relative
)

// maxFactors bounds the factors of a correction that count.
const maxFactors = 4

// local is a correction made ready for one shape.
type local struct {
	c *hardware.LocalCorrection
	u [maxFactors]float64 // of each factor
}

func localFor(c *hardware.LocalCorrection, x *Exchange) local {
	l := local{c: c}
	for k := range c.Factors[:min(len(c.Factors), maxFactors)] {
		q := &c.Factors[k]
		if u, ok := localFactor(q.Name, x); ok {
			l.u[k] = math.Min(math.Max(u, q.Low-localReach), q.High+localReach)
		}
	}
	return l
}

// at is the correction, ln, at a number of tokens, log2.
func (l *local) at(tokens float64) float64 {
	i, f := localKnot(l.c.Log2, tokens)
	j := min(i+1, len(l.c.Mean)-1)
	r := (1-f)*l.c.Mean[i] + f*l.c.Mean[j]
	for k := range l.c.Factors[:min(len(l.c.Factors), maxFactors)] {
		s := l.c.Factors[k].Slope
		r += l.u[k] * ((1-f)*s[i] + f*s[j])
	}
	return math.Min(math.Max(r, -localMost), localMost)
}

// localKnot finds the segment and the place in it; constant beyond the ends.
func localKnot(knots []float64, at float64) (i int, f float64) {
	last := len(knots) - 1
	for i < last-1 && at >= knots[i+1] {
		i++
	}
	if last < 1 {
		return 0, 0
	}
	return i, math.Min(math.Max((at-knots[i])/(knots[i+1]-knots[i]), 0), 1)
}

// fitLocal fits the correction to what the form k leaves of the samples, by ridge regression with soft-L1 weights.
func fitLocal(k *hardware.DispatchKernel, samples []ExchangeSample, form func(*Exchange) float64) *hardware.LocalCorrection {
	names, known := localOf[k.Mode]
	if !known || len(samples) < 50 {
		return nil
	}
	lo, hi := math.Inf(1), math.Inf(-1)
	for i := range samples {
		t := math.Log2(float64(max(samples[i].Tokens, 1)))
		lo, hi = math.Min(lo, t), math.Max(hi, t)
	}
	c := &hardware.LocalCorrection{Log2: slices.DeleteFunc(slices.Clone(localTokens), func(t float64) bool { return t < lo-2 || t > hi+1 })}
	if len(c.Log2) < 2 {
		return nil
	}
	for _, name := range names {
		q := hardware.LocalFactor{Name: name, Low: math.Inf(1), High: math.Inf(-1), Slope: make([]float64, len(c.Log2))}
		for i := range samples {
			u, _ := localFactor(name, &samples[i].Exchange)
			q.Low, q.High = math.Min(q.Low, u), math.Max(q.High, u)
		}
		if q.High > q.Low {
			q.Low, q.High = decimals(q.Low, 2), decimals(q.High, 2)
			c.Factors = append(c.Factors, q)
		}
	}
	coef := localSolve(c, samples, form)
	width := 1 + len(c.Factors)
	c.Mean = make([]float64, len(c.Log2))
	for j := range c.Log2 {
		c.Mean[j] = decimals(coef[j*width], 3)
		for q := range c.Factors {
			c.Factors[q].Slope[j] = decimals(coef[j*width+1+q], 3)
		}
	}
	return c
}

// localSolve returns the coefficients: for each knot the mean, then the slopes.
func localSolve(c *hardware.LocalCorrection, samples []ExchangeSample, form func(*Exchange) float64) []float64 {
	width := 1 + len(c.Factors)
	n := len(c.Log2) * width
	type row struct {
		at     int // first of the 2 x width coefficients
		value  []float64
		target float64
	}
	rows := make([]row, len(samples))
	for i := range samples {
		x := &samples[i].Exchange
		j, f := localKnot(c.Log2, math.Log2(float64(max(x.Tokens, 1))))
		v := make([]float64, 2*width)
		v[0], v[width] = 1-f, f
		for q := range c.Factors {
			u, _ := localFactor(c.Factors[q].Name, x)
			v[1+q], v[width+1+q] = u*(1-f), u*f
		}
		rows[i] = row{j * width, v, math.Log(samples[i].Time.Micros() / form(x))}
	}
	coef := make([]float64, n)
	for range 8 {
		a, b := make([]float64, n*n), make([]float64, n)
		for i := range rows {
			r := &rows[i]
			left := r.target
			for p, v := range r.value {
				left -= v * coef[r.at+p]
			}
			w := 1 / math.Sqrt(1+(left/softScale)*(left/softScale))
			for p, v := range r.value {
				b[r.at+p] += w * v * r.target
				for q, u := range r.value {
					a[(r.at+p)*n+r.at+q] += w * v * u
				}
			}
		}
		for p := range n {
			ridge := float64(localRidge)
			if p%width == 0 {
				ridge *= localFree
			}
			a[p*n+p] += ridge
		}
		if !solveCholesky(a, b, n) {
			return coef
		}
		copy(coef, b)
	}
	return coef
}

// risingMicros is the form with its correction, and with what the model promises: more tokens never take less.
func risingMicros(k *hardware.DispatchKernel, x *Exchange, link float64, sms int) float64 {
	us := formMicros(k, x, link, sms)
	if k.Local == nil {
		return us
	}
	l := localFor(k.Local, x)
	here := l.at(math.Log2(float64(max(x.Tokens, 1))))
	us *= math.Exp(here)
	fewer := *x
	for _, t := range k.Local.Log2 { // between knots the time rises: a form's own growth is steeper there than the correction
		fewer.Tokens = int(math.Exp2(t))
		if fewer.Tokens >= x.Tokens {
			break
		}
		if at := l.at(t); at > here { // the form itself rises with the tokens
			us = math.Max(us, formMicros(k, &fewer, link, sms)*math.Exp(at))
		}
	}
	return us
}
