package step

import (
	"math"
	"testing"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/model"
)

func band(us float64) Band { return Band{units.Micros(us), units.Micros(us), units.Micros(us)} }

// Kernels of 900 us, a third of them experts: pieces of 200 (experts, backward), 400 (attention, backward), 200 (attention,
// forward) and 100 (experts, forward). Exchanges of 60 us take 100 beside kernels; what stays is the share of the
// multiprocessors until an exchange outgrows its piece.
func TestEachExchangeHidesBehindItsPiece(t *testing.T) {
	names := []string{"moe dispatch", "moe combine", "moe combine gradient", "moe dispatch gradient"}
	left := func(us ...float64) float64 {
		var p paired
		for i, v := range us {
			p.add(&model.CollectiveOp{Name: names[i]}, band(v))
		}
		r := Result{experts: units.Micros(300)}
		r.pair(&Input{}, &p, &hidden{}, band(900))
		return r.Time.Micros()
	}
	for _, c := range []struct {
		name string
		us   []float64
		want float64
	}{
		{"nothing", nil, 0},
		{"all fit", []float64{60, 60, 60, 60}, 240 * exchangeSMs},
		{"a dispatch of 240 us takes 400 beside experts of 200", []float64{240}, 120},
		{"a combine of 240 us fits beside attention of 400", []float64{0, 240}, 240 * exchangeSMs},
		{"the gradient of a combine goes beside the forward pass of attention", []float64{0, 0, 240}, 120},
		{"the gradient of a dispatch beside the forward pass of experts", []float64{0, 0, 0, 120}, 60},
	} {
		if got := left(c.us...); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%s: %v us are left, want %v", c.name, got, c.want)
		}
	}
}

func TestCombinedNeedsVirtualStages(t *testing.T) {
	for _, c := range []struct {
		st   parallel.Strategy
		want bool
	}{
		{parallel.Strategy{PP: 1}, true},
		{parallel.Strategy{PP: 4, Interleave: 1}, false},
		{parallel.Strategy{PP: 4, Interleave: 2}, true},
		{parallel.Strategy{PP: 4, Interleave: 2, Recompute: "full"}, false},
	} {
		in := Input{Strategy: c.st, Work: model.Work{Phase: model.Train}, OverlapEP: true}
		if in.combined() != c.want {
			t.Errorf("%+v: %v, want %v", c.st, in.combined(), c.want)
		}
	}
}

// Interleaved stages hand over beside their kernels: of hops that these cover, those are left that the filling and draining
// pipeline waits for.
func TestInterleavedStagesHandOverBesideTheirKernels(t *testing.T) {
	train := func(v int, blocking bool, us float64) units.Duration {
		in := TrainInput{Input: input(t, parallel.Strategy{PP: 4, Interleave: v}, 1), MicroBatches: 16}
		in.Work.Phase, in.Work.Tokens, in.Work.Context, in.BlockingHops = model.Train, 4096, 4096, blocking
		in.Comm = hops(us, us, us, us)
		r, err := Train(in)
		if err != nil {
			t.Fatal(err)
		}
		return r.Time
	}
	const us = 10
	beside := (train(2, false, us) - train(2, false, 0)).Micros()
	waited := (train(2, true, us) - train(2, true, 0)).Micros()
	if want := float64(2*3+4) * 2 * us; math.Abs(beside-want) > 1e-6 { // ten virtual stages up and ten down
		t.Errorf("hops beside kernels cost %v us, want %v", beside, want)
	}
	if waited < 16*2*us {
		t.Errorf("hops that are waited for cost %v us in 16 micro-batches", waited)
	}
	if one := (train(1, false, us) - train(1, false, 0)).Micros(); one < 16*us {
		t.Errorf("without virtual stages hops cost %v us", one)
	}
}
