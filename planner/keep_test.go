package planner

import (
	"slices"
	"strings"
	"testing"

	"rankmap/layout"
	"rankmap/topology"
)

func TestAPlanKeptOnItsOwnSeatsCostsTheSame(t *testing.T) {
	b := newBench(t)
	r := b.request(t, b.preset(t, "hgx-h100", 2), "llama-3.1-70b", layout.Workload{Task: "decode", ISL: 1024, OSL: 512})
	p, err := Search(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	k, err := Keep(r, p.Best.Strategy, p.Seats, p.Best.Batch)
	if err != nil {
		t.Fatal(err)
	}
	if d := float64(k.Best.Step.Time/p.Best.Step.Time) - 1; abs(d) > 1e-9 || k.Best.Memory != p.Best.Memory {
		t.Errorf("kept %v, planned %v", k.Best.Step.Time, p.Best.Step.Time)
	}
	twice := slices.Clone(p.Seats)
	twice[1] = twice[0]
	skip := r
	skip.Skip = func(id topology.GPUID) bool { return id == p.Seats[3] }
	tiny := r
	tiny.Capacity = 1e9
	for want, err := range map[string]error{
		"ranks 0 and 1 are both on": second(Keep(r, p.Best.Strategy, twice, 8)),
		"seats for the":             second(Keep(r, p.Best.Strategy, p.Seats[1:], 8)),
		"cannot be used":            second(Keep(skip, p.Best.Strategy, p.Seats, 8)),
		"memory":                    second(Keep(tiny, p.Best.Strategy, p.Seats, 8)),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func second(_ *Plan, err error) error { return err }
