package collective

import (
	"math"

	"rankmap/internal/hardware"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
)

// Predictor is a profile ready for use on one domain; it knows no topology. Model builds on it.
type Predictor struct {
	form  domainForm
	grid  *grid
	minor float64 // of the newest library measured; NaN unknown
}

// NewPredictor makes a profile ready. Its siblings are not looked up: Resolve does.
func NewPredictor(p *hardware.CollectiveProfile) *Predictor {
	pr := &Predictor{form: domainOf(p), grid: newGrid(p.Curves), minor: math.NaN()}
	if m, ok := minorVersion(newest(p.Libraries)); ok {
		pr.minor = float64(m)
	}
	return pr
}

// minorOf is the version at which the correction is asked; an unknown one counts as the newest measured.
func (pr *Predictor) minorOf(library string) float64 {
	if m, ok := minorVersion(library); ok {
		return float64(m)
	}
	return pr.minor
}

// physical is the form alone, us.
func (pr *Predictor) physical(op parallel.Op, n int, bytes float64, oneByte bool) float64 {
	return pr.form.Micros(op, n, bytes, oneByte)
}

// hybrid is the form with the correction, us.
func (pr *Predictor) hybrid(op parallel.Op, n int, bytes float64, oneByte bool, minor float64) float64 {
	t := pr.form.Micros(op, n, bytes, oneByte)
	if t <= 0 {
		return t
	}
	bytes = math.Max(bytes, 1) // an empty buffer costs what a byte does
	if op == parallel.SendRecv && !pr.grid.covers(gridKey{op, oneByte}, n) {
		if pr.form.LinkGBps >= pcieBelowGBps {
			return t
		}
		op, n, bytes = parallel.AllToAll, 2, 2*bytes // what it is made of
	}
	return t * math.Exp(pr.grid.at(gridKey{op, oneByte}, n, math.Log2(bytes), minor))
}

// Predict is the time of a point's collective inside one domain, without launch floor: the form with its correction.
func (pr *Predictor) Predict(pt *Point) units.Duration {
	return units.Micros(pr.hybrid(pt.Op, pt.Ranks, float64(pt.Bytes), OneByte(pt.DType), pr.minorOf(pt.Library)))
}

// Physical is the same from the form alone.
func (pr *Predictor) Physical(pt *Point) units.Duration {
	return units.Micros(pr.physical(pt.Op, pt.Ranks, float64(pt.Bytes), OneByte(pt.DType)))
}

// Provenance says what a prediction of the point rests on, for a profile of the point's own system.
func (pr *Predictor) Provenance(pt *Point) Provenance {
	return opProvenance(Measured, pr.grid, pt.Op, pt.Ranks, OneByte(pt.DType))
}
