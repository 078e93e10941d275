package planner

import (
	"context"
	"testing"

	"rankmap/layout"
)

// The fewest GPUs that hold a 70B model in bf16 with a limit on the time of a token: what the search finds with that
// number fixed, and nothing with one less.
func TestFewestGPUsThatKeepTheLimit(t *testing.T) {
	b := newBench(t)
	w := layout.Workload{Task: string(DecodeOnly), ISL: 1024, OSL: 512, Batch: 16, TPOTMs: 30, Objective: string(MinGPUs)}
	r := b.request(t, b.preset(t, "hgx-h100", 4), "llama-3.1-70b", w)
	p, err := Search(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	if p.Best.GPUs > 8 || p.Best.TPOT.Time.Millis() > 30 {
		t.Errorf("%s on %d GPUs, TPOT %v", p.Best.Strategy, p.Best.GPUs, p.Best.TPOT.Time)
	}
	for n := 1; n < p.Best.GPUs; n++ {
		r.GPUs = n
		if q, err := Search(context.Background(), r); err == nil {
			t.Errorf("%d GPUs keep the limit too (%s), the search took %d", n, q.Best.Strategy, p.Best.GPUs)
		}
	}
}
