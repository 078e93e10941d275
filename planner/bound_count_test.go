package planner

import (
	"context"
	"testing"

	"rankmap/internal/parallel"
	"rankmap/layout"
)

// On 1,023 GPUs of which two are slow, 1,016 need the slow ones: the bound counts that, and the plan is shown to be the best.
func TestBoundCountsTheGPUsThatAreLeft(t *testing.T) {
	b := newBench(t)
	c := irregular1024(t, b)
	r := b.request(t, c, "llama-3.1-70b", layout.Workload{Task: "serve", ISL: 4096, OSL: 1024})
	r.Skip = without(64*8 + 5)
	p, err := Search(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	if gap := float64(p.Best.Step.Time/p.Best.Bound) - 1; gap < -1e-9 || gap > 0.01 {
		t.Errorf("%s: %.1f %% over the bound, want at most 1", p.Best.Strategy, 100*gap)
	}
}

func TestTheWorstGroupGetsWhatIsLeft(t *testing.T) {
	b := newBench(t)
	c := b.preset(t, "hgx-h100", 2)
	s := &search{Request: Request{Cluster: c}, base: newSeating(c, without(3))} // domains of 7 and 8
	i := newIdeal(s)
	for _, x := range []struct {
		n, groups int
		tight     bool
	}{
		{4, 3, false}, // one in the box of seven, two in the other
		{4, 4, true},  // the fourth lies in both
		{8, 1, false},
		{7, 2, false},
		{8, 2, true},
		{2, 7, false}, // 3 + 4
		{9, 1, false}, // no domain holds it: another matter
	} {
		if got := i.spotsFor(x.n, x.groups); got.tight != x.tight {
			t.Errorf("%d groups of %d in 7 and 8 GPUs: tight %v, want %v", x.groups, x.n, got.tight, x.tight)
		}
	}
	for _, spot := range i.spotsFor(4, 4).spots {
		if c.DomainOf(spot[0]) == c.DomainOf(spot[3]) && c.DomainOf(spot[1]) == c.DomainOf(spot[0]) {
			t.Errorf("%v lies in one domain", spot)
		}
	}
	st := parallel.Strategy{TP: 4, DP: 3}.Normalize()
	if n := groupsOf(&st, parallel.TP); n != 3 {
		t.Errorf("%d tp groups of %s, want 3", n, st)
	}
}
