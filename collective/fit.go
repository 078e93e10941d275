package collective

import (
	"math"

	"rankmap/internal/hardware"
)

const (
	softScale   = 0.05  // residuals of ln(predicted/measured) beyond this count linearly
	priorWeight = 0.025 // weight of a prior of strength 1 against one point
)

// fitProblem is a set of measurements and the way to predict them.
type fitProblem[P, D any] struct {
	space    []param[P]
	points   []D
	micros   func(pt *D) float64       // measured, us
	predict  func(p *P, pt *D) float64 // us
	weight   []float64                 // of each point; nil = 1
	centre   P                         // prior centre
	strength float64                   // of the prior
	frozen   map[string]bool           // parameters that stay at their start
}

// fit minimises the soft-L1 log residuals with the priors, from start. It returns the parameters and which of them the
// data did not move by a tenth of their prior sigma although they were free, or could not tell.
func (f *fitProblem[P, D]) fit(start P) P {
	var free []int
	for i := range f.space {
		if !f.frozen[f.space[i].name] {
			free = append(free, i)
		}
	}
	n := len(free)
	x, lo, hi, mid := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	for j, i := range free {
		q := &f.space[i]
		x[j], mid[j] = q.toFit(*q.at(&start)), q.toFit(*q.at(&f.centre))
		lo[j], hi[j] = q.toFit(q.lo), q.toFit(q.hi)
	}
	logs := make([]float64, len(f.points))
	for i := range f.points {
		logs[i] = math.Log(f.micros(&f.points[i]))
	}
	p := start
	load := func(x []float64) {
		for j, i := range free {
			*f.space[i].at(&p) = f.space[i].fromFit(x[j])
		}
	}
	eval := func(x, r []float64) {
		load(x)
		for i := range f.points {
			d := softL1(math.Log(f.predict(&p, &f.points[i]))-logs[i], softScale)
			if f.weight != nil {
				d *= f.weight[i]
			}
			r[i] = d
		}
		for j, i := range free {
			r[len(f.points)+j] = f.strength * priorWeight / f.space[i].sigma * (x[j] - mid[j])
		}
	}
	levenberg(eval, len(f.points)+n, x, lo, hi, 200)
	load(x)
	return p
}

// unidentified names the parameters to which the predictions of the points do not react: moving one by half its prior
// sigma changes no prediction by more than 0.5 %.
func (f *fitProblem[P, D]) unidentified(at P) []string {
	var names []string
	for i := range f.space {
		q := &f.space[i]
		moved := at
		*q.at(&moved) = q.fromFit(q.toFit(*q.at(&at)) + q.sigma/2)
		most := 0.0
		for k := range f.points {
			d := math.Abs(math.Log(f.predict(&moved, &f.points[k]) / f.predict(&at, &f.points[k])))
			most = math.Max(most, d)
		}
		if most < 0.005 {
			names = append(names, q.name)
		}
	}
	return names
}

// pointMicros is a point's time, us.
func pointMicros(pt *Point) float64 { return pt.Time.Micros() }

// domainPredict predicts a point inside one domain, without launch floor.
func domainPredict(d domainForm) func(*hardware.DomainParams, *Point) float64 {
	return func(p *hardware.DomainParams, pt *Point) float64 {
		form := d
		form.Params = p
		return form.Micros(pt.Op, pt.Ranks, float64(pt.Bytes), OneByte(pt.DType))
	}
}
