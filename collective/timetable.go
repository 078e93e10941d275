package collective

import (
	"math"
	"sync/atomic"

	"rankmap/internal/parallel"
)

// A time table holds one group's time of one operation over the buffer size, so that a price is a look-up and never falls
// as the buffer grows: the correction may bend the form down between two measured sizes, the table does not follow.

const (
	tableSteps  = 4  // knots an octave; sizes that tables measure (powers of two) are knots
	tableOctave = 40 // to 1 TiB
	tableKnots  = tableSteps*tableOctave + 1
)

// timeTable is ln(us) at each knot, non-decreasing.
type timeTable [tableKnots]float64

// timeTables are made when first asked for.
type timeTables [numGridOps]atomic.Pointer[timeTable]

// micros looks the time up; f computes it where the table has to be made.
func (t *timeTables) micros(op parallel.Op, bytes float64, f func(op parallel.Op, bytes float64) float64) float64 {
	if bytes <= 1 {
		return f(op, math.Min(bytes, 1))
	}
	tab := t[op].Load()
	if tab == nil {
		tab = makeTable(op, f)
		t[op].Store(tab)
	}
	x := math.Log2(bytes) * tableSteps
	i := int(x)
	if i >= tableKnots-1 {
		return math.Max(math.Exp(tab[tableKnots-1]), f(op, bytes))
	}
	v := tab[i]
	if d := x - float64(i); d > 0 {
		v += d * (tab[i+1] - v)
	}
	return math.Exp(v)
}

func makeTable(op parallel.Op, f func(op parallel.Op, bytes float64) float64) *timeTable {
	tab := new(timeTable)
	most := math.Log(f(op, 0))
	for i := range tab {
		most = math.Max(most, math.Log(f(op, math.Exp2(float64(i)/tableSteps))))
		tab[i] = most
	}
	return tab
}
