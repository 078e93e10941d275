package planner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"rankmap/layout"
)

// Dropping strategies by their bound loses no plan that keeps the limits: the best is that of all priced batches that keep them.
func TestBoundsOfLimitsLoseNothing(t *testing.T) {
	be := newBench(t)
	for _, c := range []struct {
		preset string
		boxes  int
		model  string
		task   Task
		batch  int
	}{
		{"hgx-h100", 3, "deepseek-v3", Serve, 0}, {"hgx-h100", 2, "llama-3.1-70b", Serve, 0}, {"hgx-h100", 2, "llama-3.1-70b", Serve, 24},
		{"pcie-l40s", 2, "mixtral-8x7b", DecodeOnly, 0}, {"dgx1-v100", 2, "llama-3.1-8b", PrefillOnly, 0}, {"gb200-nvl72", 1, "qwen3-235b-a22b", DecodeOnly, 0},
	} {
		t.Run(fmt.Sprintf("%s:%d %s %s %d", c.preset, c.boxes, c.model, c.task, c.batch), func(t *testing.T) {
			r := be.request(t, be.preset(t, c.preset, c.boxes), c.model, layout.Workload{Task: string(c.task), ISL: 2048, OSL: 256, Batch: c.batch, Objective: "throughput"})
			var points []*Outcome
			free := &search{Request: r, base: newSeating(r.Cluster, nil), points: &points}
			if err := free.run(context.Background(), r.Cluster.NumGPUs()); err != nil {
				t.Fatal(err)
			}
			for _, q := range []float64{0, 0.01, 0.1, 0.5} {
				w := r
				w.Workload.TTFTMs = quantile(points, q, func(o *Outcome) float64 { return o.TTFT.Time.Millis() })
				w.Workload.TPOTMs = quantile(points, q*0.9, func(o *Outcome) float64 { return o.TPOT.Time.Millis() })
				s := &search{Request: w, base: newSeating(w.Cluster, nil)}
				if err := s.run(context.Background(), w.Cluster.NumGPUs()); err != nil {
					t.Fatal(err)
				}
				rank(s.found)
				var want *Outcome
				for _, o := range points {
					if s.misses(o) == "" && (want == nil || o.score < want.score) {
						want = o
					}
				}
				switch {
				case want == nil && len(s.found) > 0:
					t.Errorf("limits %g and %g: found %s, which misses them", w.Workload.TTFTMs, w.Workload.TPOTMs, s.found[0].Strategy)
				case want != nil && (len(s.found) == 0 || s.found[0].score > want.score*(1-1e-12)+1e-12 && s.found[0].score != want.score):
					t.Errorf("limits %g and %g: %s at %d keeps them with score %g, found %d others", w.Workload.TTFTMs, w.Workload.TPOTMs, want.Strategy, want.Batch, want.score, len(s.found))
				}
			}
		})
	}
}

// quantile is a limit that a share of the outcomes keeps; 0 = none, where they have no such time.
func quantile(o []*Outcome, q float64, of func(*Outcome) float64) float64 {
	var all []float64
	for _, x := range o {
		all = append(all, of(x))
	}
	slices.Sort(all)
	return all[int(q*float64(len(all)-1))] * 1.0001
}

// A limit that nothing can keep is refused on a huge machine at one price a strategy at most, however many orders of dimensions and batches
// it has.
func TestImpossibleLimitsOnHugeMachines(t *testing.T) {
	be := newBench(t)
	for _, w := range []layout.Workload{
		{Task: "serve", ISL: 4096, OSL: 1024, TTFTMs: 1}, {Task: "decode", ISL: 4096, OSL: 1024, TPOTMs: 0.1},
		{Task: "serve", ISL: 4096, OSL: 1024, TTFTMs: 1, Batch: 4096},
	} {
		w.Objective = "throughput"
		_, err := Search(context.Background(), be.request(t, be.preset(t, "hgx-h100", 512), "deepseek-v3", w))
		var no *Infeasible
		if !errors.As(err, &no) {
			t.Fatalf("%+v: %v", w, err)
		}
		if no.Counts.Priced > no.Counts.ByLimit+100 {
			t.Errorf("%+v: %d priced steps for %d strategies that fit memory", w, no.Counts.Priced, no.Counts.ByLimit)
		}
	}
}
