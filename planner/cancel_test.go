package planner

import (
	"context"
	"testing"

	"rankmap/collective"
	"rankmap/internal/parallel"
	"rankmap/layout"
	"rankmap/topology"
)

// givingUp cancels a context after some prices and counts those that are asked for afterwards.
type givingUp struct {
	p      collective.Pricer
	cancel context.CancelFunc
	left   int
	after  int
}

func (g *givingUp) Price(r collective.Request) (collective.Estimate, error) {
	if g.left--; g.left == 0 {
		g.cancel()
	} else if g.left < 0 {
		g.after++
	}
	return g.p.Price(r)
}

// Whatever a search is at when its caller gives up, it stops there: what it still prices is one strategy and the answer, whether it
// ranks, plans, plans again, or improves seats.
func TestGivingUpIsHeededEverywhere(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		name, preset, model string
		nodes               int
		w                   layout.Workload
		skip                []topology.GPUID
	}{
		{"serving", "hgx-h200", "deepseek-v3", 4, layout.Workload{Task: "serve", ISL: 4096, OSL: 1024}, nil},
		{"training", "hgx-h100", "llama-3.1-70b", 8, layout.Workload{Task: "train", SeqLen: 4096, Batch: 512}, nil},
		{"irregular", "hgx-h200", "deepseek-v3", 2, layout.Workload{Task: "decode", ISL: 4096, OSL: 1024}, []topology.GPUID{3, 9}},
		{"cube mesh", "dgx1-v100", "llama-3.1-8b", 1, layout.Workload{Task: "prefill", ISL: 2048, Batch: 4}, nil},
	} {
		plain := b.request(t, b.preset(t, c.preset, c.nodes), c.model, c.w)
		if c.skip != nil {
			plain.Skip = without(c.skip...)
		}
		f := Former{Strategy: parallel.Strategy{TP: 8, DP: plain.Cluster.NumGPUs() / 8}.Normalize(), Batch: 64}
		for id := range plain.Cluster.NumGPUs() {
			f.Seats = append(f.Seats, topology.GPUID(id))
		}
		for mode, run := range map[string]func(context.Context, Request) error{
			"search": func(ctx context.Context, r Request) error { _, err := Search(ctx, r); return err },
			"rank":   func(ctx context.Context, r Request) error { _, err := Rank(ctx, r); return err },
			"replan": func(ctx context.Context, r Request) error { _, err := Replan(ctx, r, f); return err },
		} {
			count := &givingUp{p: plain.Pricer, cancel: func() {}}
			r := plain
			r.Pricer = count
			if err := run(context.Background(), r); err != nil {
				continue // nothing fits there
			}
			for _, part := range []int{1, 4, 7} {
				ctx, cancel := context.WithCancel(context.Background())
				g := &givingUp{p: plain.Pricer, cancel: cancel, left: count.after * part / 8}
				r.Pricer = g
				err := run(ctx, r)
				if mode == "rank" && err == nil {
					t.Errorf("%s: a ranking that was given up is no error", c.name)
				}
				if most := max(1000, count.after/10); g.after > most {
					t.Errorf("%s, %s: %d prices after the caller gave up at %d of %d", c.name, mode, g.after, count.after*part/8, count.after)
				}
				cancel()
			}
		}
	}
}
