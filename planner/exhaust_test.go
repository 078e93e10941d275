package planner

import (
	"context"
	"testing"

	"rankmap/internal/parallel"
	"rankmap/layout"
	"rankmap/topology"
)

// Seatings that make the same groups share a key, others do not: 8 GPUs make 105 sets of pairs and 1,680 of pipelines of two.
func TestSeatingsOfTheSameGroupsShareAKey(t *testing.T) {
	for _, c := range []struct {
		st   parallel.Strategy
		want int
	}{
		{parallel.Strategy{TP: 2, DP: 4}, 105 * 8}, // pairs, and who of each goes to which of the two dp groups
		{parallel.Strategy{TP: 8}, 1}, {parallel.Strategy{DP: 8, EP: 8}, 1}, {parallel.Strategy{PP: 2, DP: 4}, 1680}, {parallel.Strategy{PP: 8}, 40320},
	} {
		st := c.st.Normalize()
		sets, seen := newGroupSets(st), map[string]bool{}
		used := make([]bool, 8)
		var walk func(p []byte)
		walk = func(p []byte) {
			if len(p) == 8 {
				seen[string(sets.keys(p))] = true
				return
			}
			for i := range byte(8) {
				if !used[i] {
					used[i] = true
					walk(append(p, i))
					used[i] = false
				}
			}
		}
		walk(nil)
		if len(seen) != c.want {
			t.Errorf("%s: %d sets of groups, want %d", st, len(seen), c.want)
		}
	}
}

// Prices that seatings share are those of each seating alone.
func TestSharedGroupsCostTheSame(t *testing.T) {
	be := newBench(t)
	c := be.preset(t, "pcie-rtx-pro-6000", 1)
	r := be.request(t, c, "deepseek-v3", layout.Workload{Task: "prefill", ISL: 4096, OSL: 1024, Objective: "throughput"})
	p, err := Search(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	s := &search{Request: r, base: newSeating(c, nil)}
	for _, o := range p.found[:min(len(p.found), 6)] {
		sets := newGroupSets(o.Strategy)
		for _, perm := range [][]topology.GPUID{{0, 1, 2, 3, 4, 5, 6, 7}, {1, 0, 2, 3, 4, 5, 6, 7}, {0, 4, 1, 5, 2, 6, 3, 7}, {2, 3, 0, 1, 4, 5, 6, 7}, {7, 6, 5, 4, 3, 2, 1, 0}, {4, 0, 5, 1, 6, 2, 7, 3}} {
			places := make([]byte, len(perm))
			for i, id := range perm {
				places[i] = byte(id)
			}
			sets.keys(places)
			got, err := s.evaluate(o.Strategy, s.commOf(o.seats, perm, o.Strategy, sets).price, o.Batch, true)
			if err != nil {
				t.Fatal(err)
			}
			want, err := s.evaluate(o.Strategy, newComm(o.seats.with(perm), r.Pricer, graphLaunch, o.Strategy).price, o.Batch, true)
			if err != nil {
				t.Fatal(err)
			}
			if abs(got.score-want.score) > 1e-9*abs(want.score) {
				t.Errorf("%s on %v: score %g, alone %g", o.Strategy, perm, got.score, want.score)
			}
		}
	}
}
