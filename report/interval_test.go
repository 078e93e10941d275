package report

import (
	"testing"

	"rankmap/layout"
)

// The interval of a collective stands in the unit of the time beside it.
func TestTheIntervalHasTheUnitOfItsTime(t *testing.T) {
	for _, c := range []struct {
		us, p10, p90 float64
		want         string
	}{
		{19.6, 18.1, 21.2, "18.1..21.2"},
		{980, 900, 1200, "900..1200"},
		{8560, 5740, 51800, "5.74..51.8"},
		{2.5e6, 1.9e6, 3e6, "1.9..3"},
	} {
		if got := groupInterval(&layout.Collective{Us: c.us, P10Us: c.p10, P90Us: c.p90}); got != c.want {
			t.Errorf("%v us: %s, want %s", c.us, got, c.want)
		}
	}
}
