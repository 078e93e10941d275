package step

import (
	"math"
	"testing"

	"rankmap/collective"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/model"
)

// training is two micro-batches of llama-3.1-8b on a GPU, every kernel 1 us, every collective 10 us.
func training(t *testing.T, st parallel.Strategy) TrainInput {
	t.Helper()
	in := input(t, st, 1)
	in.Work = model.Work{Phase: model.Train, Batch: 1, Tokens: 4096, Context: 4096}
	return TrainInput{Input: in, MicroBatches: 2}
}

func partOf(r Result, kind string) (t float64) {
	for _, p := range r.Parts {
		if p.Kind == kind {
			t += p.Band.Time.Seconds()
		}
	}
	return t
}

func TestABlockingHostAddsItsTime(t *testing.T) {
	in := training(t, parallel.Strategy{TP: 1})
	free, err := Train(in)
	if err != nil {
		t.Fatal(err)
	}
	in.HostOp, in.Scratch = units.Micros(0.01), nil // far less than the kernels
	hidden, err := Train(in)
	if err != nil || hidden.Time != free.Time {
		t.Errorf("%v with a fast host, %v without, %v", hidden.Time, free.Time, err)
	}
	in.Blocking, in.Scratch = true, nil
	blocked, err := Train(in)
	if err != nil {
		t.Fatal(err)
	}
	if host := partOf(blocked, "overhead"); host <= 0 || math.Abs((blocked.Time-free.Time).Seconds()-host) > 1e-12 {
		t.Errorf("blocking adds %v, its host part is %g s", blocked.Time-free.Time, host)
	}
	if blocked.P10 > blocked.Time || blocked.P90 < blocked.Time {
		t.Errorf("band %v", blocked.Band)
	}
}

func TestSerialCodeWaitsForItsGathers(t *testing.T) {
	in := training(t, parallel.Strategy{DP: 8, ZeRO: 3})
	in.Kernel = func(model.ComputeOp) (Band, string, error) { return flat(1), "", nil } // longer than any gather
	beside, err := Train(in)
	if err != nil {
		t.Fatal(err)
	}
	in.Serial, in.Scratch = true, nil
	apart, err := Train(in)
	if err != nil {
		t.Fatal(err)
	}
	if partOf(beside, "dp") != 0 {
		t.Errorf("gathers beside long kernels leave %g s", partOf(beside, "dp"))
	}
	// 32 layers twice and their gradients once, embedding and head the same: 3 x 34 collectives of 10 us in each of 2 micro-batches.
	if got, want := (apart.Time - beside.Time).Seconds(), 2*3*34*10e-6; math.Abs(got-want) > 1e-9 {
		t.Errorf("serial code adds %g s, want %g", got, want)
	}
}

func TestZeRO3HasNoGradientsOfItsOwnAtTheEnd(t *testing.T) {
	in := training(t, parallel.Strategy{DP: 8, ZeRO: 3})
	names := map[string]bool{}
	in.Comm = func(op model.CollectiveOp) (collective.Estimate, error) {
		names[op.Name] = true
		return collective.Estimate{}, nil
	}
	if _, err := Train(in); err != nil {
		t.Fatal(err)
	}
	if names["gradients"] || !names["layer gradients"] {
		t.Errorf("collectives %v, want the gradients of layers alone", names)
	}
}
