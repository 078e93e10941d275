package planner

import (
	"context"
	"testing"

	"rankmap/internal/engine"
	"rankmap/internal/parallel"
	"rankmap/layout"
)

// 72 GPUs do not divide 256 experts; with 32 copies they divide 288, as DeepSeek's own deployments hold.
func TestCopiesOfExpertsFillARack(t *testing.T) {
	b := newBench(t)
	w := layout.Workload{Task: string(DecodeOnly), ISL: 4096, OSL: 1024, Batch: 4608}
	r := b.request(t, b.preset(t, "gb200-nvl72", 1), "deepseek-v3", w)
	r.GPUs = 72
	r.Freedom.Fix = map[parallel.Dim]int{parallel.EP: 72}
	p, err := Search(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	if p.Best.Strategy.RedundantExperts != 32 {
		t.Errorf("%s; want 32 copies beside 256 experts", p.Best.Strategy)
	}
	plain := p.Best.Memory.Weights
	r.RedundantExperts = -1
	if _, err := Search(context.Background(), r); err == nil {
		t.Error("ep 72 over 256 experts was planned without copies")
	}
	r.RedundantExperts = 104 // 360 = 5 x 72
	more, err := Search(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	if more.Best.Strategy.RedundantExperts != 104 || more.Best.Memory.Weights <= plain {
		t.Errorf("%s holds %v, with 32 copies %v", more.Best.Strategy, more.Best.Memory.Weights, plain)
	}
	r.RedundantExperts = 0
	meg, err := engine.Find("megatron")
	if err != nil {
		t.Fatal(err)
	}
	r.Engine = &meg
	if _, err := Search(context.Background(), r); err == nil {
		t.Error("megatron places no copies of experts")
	}
}

func TestFewestCopies(t *testing.T) {
	for _, c := range []struct {
		s     splitter
		ep    int
		extra int
		ok    bool
	}{
		{splitter{expert: 256, balanced: true}, 64, 0, true},
		{splitter{expert: 256, balanced: true}, 72, 32, true},
		{splitter{expert: 256}, 72, 0, false},
		{splitter{expert: 8, balanced: true}, 3, 1, true},
		{splitter{expert: 8, balanced: true}, 5, 2, false},
		{splitter{expert: 256, copies: 32}, 72, 32, true},
		{splitter{expert: 256, copies: 32}, 64, 32, false},
	} {
		extra, ok := c.s.copiesFor(c.ep)
		if ok != c.ok || ok && extra != c.extra {
			t.Errorf("%d experts over ep %d: %d, %v; want %d, %v", c.s.expert, c.ep, extra, ok, c.extra, c.ok)
		}
	}
}
