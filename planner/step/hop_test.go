package step

import (
	"math"
	"testing"

	"rankmap/collective"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/model"
)

func st8() parallel.Strategy { return parallel.Strategy{TP: 8} }

// hops prices boundary b at prices[b] microseconds and everything else at nothing.
func hops(prices ...float64) Comm {
	return func(op model.CollectiveOp) (collective.Estimate, error) {
		us := 0.0
		if op.Group == parallel.PP && op.Op == parallel.SendRecv {
			us = prices[op.Hop-1]
		}
		return collective.Estimate{Time: units.Micros(us), P10: units.Micros(us), P90: units.Micros(us), Bottleneck: "link"}, nil
	}
}

func TestEachBoundaryHasItsPrice(t *testing.T) {
	in := input(t, parallel.Strategy{PP: 4}, 1) // one sequence: it passes every stage
	in.Comm = hops(0, 0, 0, 1e6)
	free, err := Forward(in)
	if err != nil {
		t.Fatal(err)
	}
	in.Comm = hops(1, 100, 1, 1e6)
	r, err := Forward(in)
	if err != nil {
		t.Fatal(err)
	}
	if d := (r.Time - free.Time).Micros(); math.Abs(d-102) > 1e-6 {
		t.Errorf("three boundaries cost %v us, want 102", d)
	}
	for _, u := range r.Comms {
		if u.Op.Group == parallel.PP && math.Abs(u.Est.Time.Micros()-100) > 1e-6 {
			t.Errorf("listed at %v, want the dearest", u.Est.Time)
		}
	}
}

func TestAFullPipelinePacesByItsWorstStage(t *testing.T) {
	in := input(t, parallel.Strategy{PP: 4}, 64)
	in.Comm = hops(0, 0, 0, 0)
	free, err := Forward(in)
	if err != nil {
		t.Fatal(err)
	}
	in.Comm = hops(1, 100, 1, 0)
	r, err := Forward(in)
	if err != nil {
		t.Fatal(err)
	}
	if d := (r.Time - free.Time).Micros(); d <= 0 || d > 4*100+1e-6 {
		t.Errorf("the transfer adds %v us to 4 turns of the slowest stage", d)
	}
}

func TestGradientsGoDown(t *testing.T) {
	in := Input{Strategy: parallel.Strategy{PP: 4}.Normalize()}
	for _, c := range []struct {
		stage int
		name  string
		want  int
	}{{0, model.ActivationHop, 0}, {2, model.ActivationHop, 2}, {3, model.ActivationHop, 3}, {1, model.GradientHop, 0}, {0, model.GradientHop, 3}} {
		if got := in.boundaryOf(c.stage, &model.CollectiveOp{Name: c.name}); got != c.want {
			t.Errorf("stage %d, %s: boundary %d, want %d", c.stage, c.name, got, c.want)
		}
	}
}

// gathers prices collectives of tensor parallelism inside a node and everything else at nothing.
func gathers(us float64) Comm {
	return func(op model.CollectiveOp) (collective.Estimate, error) {
		t := 0.0
		if op.Group == parallel.TP && op.Op != parallel.AllReduce {
			t = us
		}
		return collective.Estimate{Time: units.Micros(t), P10: units.Micros(t), P90: units.Micros(t), Bottleneck: "NVLink 450 GB/s"}, nil
	}
}
