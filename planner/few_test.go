package planner

import (
	"testing"

	"rankmap/internal/parallel"
	"rankmap/layout"
)

// Fewer requests than instances leave instances idle: no more tokens come than the requests in flight can take.
func TestFewRequestsGetNoMoreTokensThanTheyTake(t *testing.T) {
	for _, c := range []struct {
		about string
		st    parallel.Strategy
		batch int
	}{
		{"one request, eight instances", parallel.Strategy{DP: 8}, 1},
		{"seven requests, eight instances", parallel.Strategy{DP: 8}, 7},
		{"nine requests, eight instances", parallel.Strategy{DP: 8}, 9},
		{"eight requests, eight instances", parallel.Strategy{DP: 8}, 8},
	} {
		o := priced(t, 1, "llama-3.1-8b", c.st, layout.Workload{ISL: 1024, OSL: 256, Batch: c.batch}, nil)
		most := float64(c.batch) / o.TPOT.Time.Seconds()
		if o.Tokens > most || o.Tokens < 0.5*most {
			t.Errorf("%s: %.4g tokens/s, want below %.4g, and near it", c.about, o.Tokens, most)
		}
		if o.Service.Running > c.batch {
			t.Errorf("%s: %d decode at a time", c.about, o.Service.Running)
		}
	}
}
