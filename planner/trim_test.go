package planner

import (
	"context"
	"strings"
	"testing"

	"rankmap/configs"
	"rankmap/internal/parallel"
	"rankmap/layout"
	"rankmap/model"
	"rankmap/topology"
)

func TestTrimmedCountsAreWholeBlocksOfEveryDomain(t *testing.T) {
	b := newBench(t)
	for _, x := range []struct {
		preset      string
		count, most int
		lost        []topology.GPUID
		want, block int
	}{
		{"gb200-nvl72", 15, 0, nil, 960, 64},
		{"gb200-nvl72", 15, 1024, nil, 960, 64},
		{"gb200-nvl72", 15, 700, nil, 640, 64},
		{"gb200-nvl72", 2, 0, []topology.GPUID{3, 5, 7, 9, 11, 13, 15, 17, 19}, 64, 64}, // a rack of 63 gives none
		{"hgx-h100", 4, 0, nil, 0, 0},
		{"hgx-h100", 4, 0, []topology.GPUID{3}, 0, 0},
	} {
		r := Request{Cluster: b.preset(t, x.preset, x.count), Budget: x.most, Skip: without(x.lost...)}
		s := &search{Request: r, base: newSeating(r.Cluster, r.Skip)}
		if got := s.trimmed(s.most()); got != x.want || s.trim() != x.block {
			t.Errorf("%s:%d, %d usable: %d in blocks of %d, want %d in %d", x.preset, x.count, s.most(), got, s.trim(), x.want, x.block)
		}
	}
}

func TestTrimmedSeatsTakeTheSameOfEveryRack(t *testing.T) {
	b := newBench(t)
	c := b.preset(t, "gb200-nvl72", 3)
	s := &search{Request: Request{Cluster: c}, base: newSeating(c, nil)}
	lists := s.seatingsFor(parallel.Strategy{DP: 192, EP: 32}.Normalize())
	if len(lists) != 1 || lists[0].period != 64 {
		t.Fatalf("%d lists, the first repeats after %d; want one, after 64", len(lists), lists[0].period)
	}
	on := map[int]int{}
	for _, id := range lists[0].gpus[:192] {
		on[c.DomainOf(id)]++
	}
	for d, n := range on {
		if n != 64 {
			t.Errorf("%d GPUs of domain %d, want 64", n, d)
		}
	}
}

// Experts over 32 or 64 GPUs of a rack, the rest idle, against groups of 8 that any number of GPUs holds: with an exact number the plan
// says what idle GPUs would win, with an upper bound it leaves them idle.
func TestIdleGPUsOfADomainAreConsidered(t *testing.T) {
	b := newBench(t)
	spec, err := model.Load(configs.FS, "deepseek-v3")
	if err != nil {
		t.Fatal(err)
	}
	r := cheap(t, b.preset(t, "gb200-nvl72", 3), spec, layout.Workload{Task: "decode", ISL: 4096, OSL: 1024, Objective: string(Throughput)})
	r.Capacity, r.RedundantExperts = 180e9, -1
	r.GPUs = 200
	p, err := Search(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	if notes := strings.Join(p.Notes, "\n"); !strings.Contains(notes, "192 of the 200 GPUs, 64 of each NVLink domain") {
		t.Errorf("%s on 200 GPUs; notes %q", p.Best.Strategy, notes)
	}
	r.GPUs, r.Budget = 0, 200
	q, err := Search(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	if q.Best.GPUs != 192 || q.Best.CostRatio(p.Best) > 1 {
		t.Errorf("%s on %d of at most 200 GPUs, %.1f %% dearer than all of them", q.Best.Strategy, q.Best.GPUs, 100*(q.Best.CostRatio(p.Best)-1))
	}
}
