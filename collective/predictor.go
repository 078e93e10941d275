package collective

import (
	"math"

	"rankmap/internal/hardware"
	"rankmap/internal/parallel"
)

// predictor is a profile ready for use.
type predictor struct {
	form  domainForm
	grid  *grid
	minor float64 // of the newest library measured; NaN unknown
}

func newPredictor(p *hardware.CollectiveProfile) *predictor {
	pr := &predictor{form: domainOf(p), grid: newGrid(p.Curves), minor: math.NaN()}
	if m, ok := minorVersion(newest(p.Libraries)); ok {
		pr.minor = float64(m)
	}
	return pr
}

// minorOf is the version at which the correction is asked; an unknown one counts as the newest measured.
func (pr *predictor) minorOf(library string) float64 {
	if m, ok := minorVersion(library); ok {
		return float64(m)
	}
	return pr.minor
}

// physical is the form alone, us.
func (pr *predictor) physical(op parallel.Op, n int, bytes float64, oneByte bool) float64 {
	return pr.form.Micros(op, n, bytes, oneByte)
}

// hybrid is the form with the correction, us.
func (pr *predictor) hybrid(op parallel.Op, n int, bytes float64, oneByte bool, minor float64) float64 {
	t := pr.form.Micros(op, n, bytes, oneByte)
	if t <= 0 || bytes <= 0 {
		return t
	}
	return t * math.Exp(pr.grid.at(gridKey{op, oneByte}, n, math.Log2(bytes), minor))
}
