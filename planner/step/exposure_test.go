package step

import (
	"math"
	"testing"

	"rankmap/collective"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/model"
)

func flat(t float64) Band {
	d := units.Duration(t)
	return Band{d, d, d}
}

func priced(t float64, bottleneck string) *collective.Estimate {
	d := units.Duration(t)
	return &collective.Estimate{Time: d, P10: d, P90: d, Bottleneck: bottleneck}
}

func TestGradientsHideBesideTheLastBackwardPass(t *testing.T) {
	grads := model.CollectiveOp{Op: parallel.ReduceScatter, Overlappable: true, Times: 10}
	params := model.CollectiveOp{Name: model.ParameterGather, Op: parallel.AllGather, Overlappable: true, Times: 5}
	tied := model.CollectiveOp{Op: parallel.AllReduce, Times: 1}
	for _, c := range []struct {
		name   string
		bound  string
		pace   float64
		serial bool
		want   float64
	}{
		{"all hidden but the last bucket of each, and what cannot hide", "NIC 50 GB/s x 8", 9, false, 0.1 + 0.2 + 3},
		{"gradients longer than the backward pass", "NIC 50 GB/s x 8", 0.9, false, (1 - 0.6) + (1 - 0.3) + 3},
		{"NVLink copies slowly beside products", "NVLink 450 GB/s", 0.9, false, (1 - 0.6*besideRate) + (1 - 0.3*besideRate) + 3},
		{"nothing hides where gradients come after", "NIC 50 GB/s x 8", 9, true, 1 + 1 + 3},
	} {
		var e exposure
		e.add(&grads, priced(0.1, c.bound))
		e.add(&params, priced(0.2, c.bound))
		e.add(&tied, priced(3, c.bound))
		in := &TrainInput{Serial: c.serial}
		if got := e.exposed(in, flat(c.pace)).Time.Seconds(); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %g s exposed, want %g", c.name, got, c.want)
		}
	}
}

func TestAStageWaitsForTheHost(t *testing.T) {
	r := Result{Band: flat(0.01), launches: 100}
	r.waitForHost(units.Duration(50e-6), false)
	if r.Time.Seconds() != 0.01 || len(r.Parts) != 0 {
		t.Errorf("a stage longer than its launches takes %v", r.Time)
	}
	r.waitForHost(units.Duration(200e-6), false)
	if got := r.Time.Seconds(); math.Abs(got-0.02) > 1e-12 || len(r.Parts) != 1 || r.Parts[0].Kind != "overhead" {
		t.Errorf("100 launches of 200 us: %g s, %+v", got, r.Parts)
	}
}

func TestLaunchesFromALoopCostLess(t *testing.T) {
	op := model.ComputeOp{Kind: model.GEMM, Times: 70}
	one := hostOps(&op)
	op.Looped = true
	if loop := hostOps(&op); one != 70 || loop != 20 {
		t.Errorf("70 products: %d operations, %d in a loop; want 70 and 20", one, loop)
	}
}
