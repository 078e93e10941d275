package planner

import (
	"context"
	"errors"
	"strings"
	"testing"

	"rankmap/layout"
)

func TestFrontIsTheUndominated(t *testing.T) {
	b := newBench(t)
	w := layout.Workload{Task: string(Serve), ISL: 1024, OSL: 256}
	r := b.request(t, b.preset(t, "hgx-h100", 1), "llama-3.1-70b", w)
	f, err := Pareto(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Points) < 3 || f.Of <= len(f.Points) {
		t.Fatalf("%d points of %d", len(f.Points), f.Of)
	}
	for i, o := range f.Points[1:] {
		if last := f.Points[i]; o.TPOT.Time <= last.TPOT.Time || o.PerGPU <= last.PerGPU {
			t.Errorf("point %d (%v, %.0f) does not trade against the one before (%v, %.0f)", i+1, o.TPOT.Time, o.PerGPU, last.TPOT.Time, last.PerGPU)
		}
	}
	best, err := Search(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	if end := f.Points[len(f.Points)-1]; end.PerGPU < best.Best.PerGPU*(1-1e-9) {
		t.Errorf("the front ends at %.0f tokens/s/GPU, the best plan for throughput has %.0f", end.PerGPU, best.Best.PerGPU)
	}
	r.Workload.Objective, r.Workload.TPOTMs = string(Throughput), f.Points[1].TPOT.Time.Millis()*1.0001
	limited, err := Pareto(context.Background(), r)
	if err != nil || len(limited.Points) != 2 {
		t.Errorf("with the TPOT of the second point as the limit: %v, %v; want two points", limited, err)
	}
}

func TestFrontsThatMakeNoSense(t *testing.T) {
	b := newBench(t)
	c := b.preset(t, "hgx-h100", 1)
	for want, w := range map[string]layout.Workload{
		"leave the batch out": {Task: string(Serve), ISL: 1024, OSL: 256, Batch: 8},
		"training":            {Task: string(TrainStep), SeqLen: 4096, Batch: 8},
	} {
		if _, err := Pareto(context.Background(), b.request(t, c, "llama-3.1-8b", w)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	_, err := Pareto(context.Background(), b.request(t, c, "deepseek-v3", layout.Workload{Task: string(DecodeOnly), ISL: 4096, OSL: 1024}))
	var no *Infeasible
	if !errors.As(err, &no) {
		t.Errorf("too large a model: %v", err)
	}
}
