package step

import (
	"errors"
	"math"
	"testing"

	"rankmap/collective"
	"rankmap/configs"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/model"
)

// input is llama-3.1-8b with kernels of 1 us and collectives of 10 us, so that sums can be counted.
func input(t *testing.T, st parallel.Strategy, batch int) Input {
	t.Helper()
	spec, err := model.Load(configs.FS, "llama-3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	one := func(us float64) Band { return Band{units.Micros(us), units.Micros(us * 0.9), units.Micros(us * 1.2)} }
	return Input{
		Spec: spec, Strategy: st.Normalize(), Work: model.Work{Phase: model.Decode, Batch: batch, Tokens: 1, Context: 1024},
		Kernel: func(model.ComputeOp) (Band, string, error) { return one(1), "memory", nil },
		Comm: func(model.CollectiveOp) (collective.Estimate, error) {
			b := one(10)
			return collective.Estimate{Time: b.Time, P10: b.P10, P90: b.P90, Bottleneck: "link"}, nil
		},
	}
}

func TestPartsAddUpAndBriefAgrees(t *testing.T) {
	for _, st := range []parallel.Strategy{{TP: 1}, {TP: 8}, {TP: 2, PP: 4}, {PP: 32}} {
		in := input(t, st, 64)
		full, err := Forward(in)
		if err != nil {
			t.Fatal(err)
		}
		var sum Band
		for _, p := range full.Parts {
			sum = sum.Add(p.Band)
		}
		if d := math.Abs(float64(sum.Time/full.Time) - 1); d > 1e-9 {
			t.Errorf("%s: parts sum to %v of %v", in.Strategy, sum.Time, full.Time)
		}
		if !(full.P10 <= full.Time && full.Time <= full.P90) {
			t.Errorf("%s: band %v", in.Strategy, full.Band)
		}
		in.Brief, in.Scratch = true, new(Scratch)
		for range 2 { // the second call reads the scratch
			brief, err := Forward(in)
			if err != nil || math.Abs(float64(brief.Time/full.Time)-1) > 1e-9 || brief.Parts != nil {
				t.Errorf("%s: brief %v, full %v, %v", in.Strategy, brief.Time, full.Time, err)
			}
		}
	}
}

func TestErrorsNameTheOperation(t *testing.T) {
	in := input(t, parallel.Strategy{TP: 2}, 8)
	in.Comm = func(model.CollectiveOp) (collective.Estimate, error) {
		return collective.Estimate{}, errors.New("no NIC")
	}
	if _, err := Forward(in); err == nil || err.Error() == "no NIC" {
		t.Errorf("got %v, want the operation named", err)
	}
}

func TestBucketsKeepTheVolume(t *testing.T) {
	op := model.CollectiveOp{Bytes: 32 << 30, DType: "fp32", Times: 1}
	b := bucketed(op, 8)
	if total := float64(b.Bytes) * float64(b.Times); total < float64(op.Bytes) || total > 1.001*float64(op.Bytes) {
		t.Errorf("%d x %v of %v", b.Times, b.Bytes, op.Bytes)
	}
	if b.Bytes > units.Bytes(bucketElements(8)*4)+256 {
		t.Errorf("a bucket of %v", b.Bytes)
	}
}
