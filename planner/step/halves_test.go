package step

import (
	"math"
	"testing"

	"rankmap/collective"
	"rankmap/configs"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/model"
)

func experts(t *testing.T, kernelUs, exchangeUs float64) Input {
	t.Helper()
	spec, err := model.Load(configs.FS, "deepseek-v3")
	if err != nil {
		t.Fatal(err)
	}
	one := func(us float64) Band { return Band{units.Micros(us), units.Micros(us), units.Micros(us)} }
	st := parallel.Strategy{DP: 64, EP: 64}
	return Input{
		Spec: spec, Strategy: st.Normalize(), Work: model.Work{Phase: model.Decode, Batch: 64, Tokens: 1, Context: 1024},
		// Half of a kernel's time is for its tokens, half is not: what halving reads twice.
		Kernel: func(op model.ComputeOp) (Band, string, error) {
			n := float64(max(op.M, op.Batch, op.MoETokens/64)) / 64
			return one(kernelUs * (0.5 + 0.5*n)), "", nil
		},
		Comm: func(op model.CollectiveOp) (collective.Estimate, error) {
			b := one(0)
			if exchanges(&op) {
				b = one(exchangeUs * float64(op.Exchange.TokensPerRank) / 64)
			}
			return collective.Estimate{Time: b.Time, P10: b.P10, P90: b.P90}, nil
		},
	}
}

func TestHalvesHideTheExchange(t *testing.T) {
	in := experts(t, 10, 200)
	plain, err := Forward(in)
	if err != nil {
		t.Fatal(err)
	}
	in.Halves = true
	r, err := Forward(in)
	if err != nil {
		t.Fatal(err)
	}
	if !(r.Time < plain.Time) || r.Time < plain.Time/2 {
		t.Errorf("%v in halves, %v whole", r.Time, plain.Time)
	}
	var sum units.Duration
	for _, p := range r.Parts {
		sum += p.Band.Time
	}
	if math.Abs(float64(sum/r.Time)-1) > 1e-9 {
		t.Errorf("parts sum to %v of %v", sum, r.Time)
	}
	in.Brief, in.Scratch = true, new(Scratch)
	for range 2 {
		if b, err := Forward(in); err != nil || math.Abs(float64(b.Time/r.Time)-1) > 1e-9 {
			t.Errorf("brief %v, full %v, %v", b.Time, r.Time, err)
		}
	}
}

func TestHalvesAreLeftWhereTheyCostMore(t *testing.T) {
	in := experts(t, 100, 1) // nothing to hide, and weights read twice
	plain, err := Forward(in)
	if err != nil {
		t.Fatal(err)
	}
	in.Halves = true
	if r, err := Forward(in); err != nil || r.Time != plain.Time {
		t.Errorf("%v, without halves %v, %v", r.Time, plain.Time, err)
	}
	in.Work.Batch = 1
	if _, err := Forward(in); err != nil {
		t.Error(err)
	}
}

func TestTwiceIsTheFormula(t *testing.T) {
	b := func(ms float64) Band { return Band{units.Millis(ms), units.Millis(ms), units.Millis(ms)} }
	for _, c := range []struct{ compute, exchange, want float64 }{{10, 4, 20.4}, {4, 10, 20.4}, {5, 5, 10.5}} {
		r := Result{Band: b(c.compute + c.exchange), exchange: b(c.exchange), exchanges: 10}
		if got := r.twice(0).Time.Millis(); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("compute %v, exchange %v: %v, want %v", c.compute, c.exchange, got, c.want)
		}
	}
	r := Result{Band: b(14), exchange: b(4), exchanges: 10}
	if got := r.twice(0.25).Time.Millis(); math.Abs(got-22.4) > 1e-9 {
		t.Errorf("with a quarter of the GPU held for 4 of 10: %v, want 22.4", got)
	}
}

// Two halves start twice as many kernels: where the host takes longer to start them than they hide, the step stays whole.
func TestHalvesThatTheHostBinds(t *testing.T) {
	in := experts(t, 10, 200)
	in.Launch = units.Micros(60)
	plain, err := Forward(in)
	if err != nil {
		t.Fatal(err)
	}
	in.Halves = true
	if r, err := Forward(in); err != nil || r.Time > plain.Time {
		t.Errorf("%v, without halves %v, %v", r.Time, plain.Time, err)
	}
}
