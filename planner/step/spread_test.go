package step

import (
	"testing"

	"rankmap/internal/units"
)

func TestAStepsIntervalIsNoNarrowerThanPublishedSteps(t *testing.T) {
	b := flat(10)
	b.widen(spread{0.9, 1.5})
	if b.Time != 10 || b.P10 != units.Duration(9) || b.P90 != units.Duration(15) {
		t.Errorf("a time without error of its own: %v", b)
	}
	wide := Band{10, 5, 20}
	wide.widen(spread{0.9, 1.5})
	if wide != (Band{10, 5, 20}) {
		t.Errorf("a wider interval changed: %v", wide)
	}
	for _, s := range []spread{denseSpread, expertSpread, recurrentSpread, serialSpread} {
		if s.low > 1 || s.high < 1 {
			t.Errorf("%v leaves the prediction out", s)
		}
	}
}
