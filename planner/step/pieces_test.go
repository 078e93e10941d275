package step

import (
	"math"
	"testing"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/model"
)

// byWaves prices a product of n rows at a microsecond for every 100 rows begun.
func byWaves(op model.ComputeOp) (Band, string, error) {
	return band(math.Ceil(float64(op.M) / 100)), "", nil
}

func TestProductsLoseHalfOfTheirIdleTails(t *testing.T) {
	for _, c := range []struct {
		rows, tp int
		want     float64 // us
	}{
		{800, 4, 0},  // four full pieces
		{1000, 4, 1}, // 250 rows take three waves each: 12 us for 10
		{1000, 8, 1}, // four pieces at most
		{400, 2, 0},  // 200 rows
		{300, 2, .5}, // 150 rows take two: 4 us for 3
	} {
		in := Input{Strategy: parallel.Strategy{TP: c.tp}}
		op := model.ComputeOp{Kind: model.GEMM, Name: "mlp_up", M: c.rows, Times: 1}
		whole, _, _ := byWaves(op)
		var sw stageWork
		if err := sw.pieces(&in, byWaves, &op, whole); err != nil {
			t.Fatal(err)
		}
		if got := sw.cut.Time.Micros(); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%d rows in %d pieces lose %v us, want %v", c.rows, c.tp, got, c.want)
		}
	}
}

func TestWhatIsCutInPieces(t *testing.T) {
	in := Input{Strategy: parallel.Strategy{TP: 4, SequenceParallel: true}, Work: model.Work{Phase: model.Train}, OverlapTP: true}
	for _, c := range []struct {
		op   model.ComputeOp
		want bool
	}{
		{model.ComputeOp{Name: "qkv_proj"}, true},
		{model.ComputeOp{Name: "mlp_up", Backward: true}, false},
		{model.ComputeOp{Name: "mlp_down"}, true},
		{model.ComputeOp{Name: "mlp_down", Backward: true}, true},
		{model.ComputeOp{Name: "mlp_down", Backward: true, OutBytes: 8}, false},
		{model.ComputeOp{Name: "logits"}, false},
	} {
		c.op.Kind = model.GEMM
		if got := in.inPieces(&c.op); got != c.want {
			t.Errorf("%s, backward %v: %v", c.op.Name, c.op.Backward, got)
		}
	}
	in.OverlapTP = false
	if in.inPieces(&model.ComputeOp{Kind: model.GEMM, Name: "qkv_proj"}) {
		t.Error("nothing is cut where tensor parallelism is exposed")
	}
}

// Overlapped traffic costs one piece of tp and copyCost of the others while products cover it, and never more than exposed.
func TestCopiesBesideProductsAreNotFree(t *testing.T) {
	train := func(overlap bool, us float64) units.Duration {
		in := TrainInput{Input: input(t, parallel.Strategy{TP: 8, SequenceParallel: true}, 1), MicroBatches: 1}
		in.Work.Phase, in.Work.Tokens, in.Work.Context, in.OverlapTP = model.Train, 4096, 4096, overlap
		in.Comm = gathers(us)
		r, err := Train(in)
		if err != nil {
			t.Fatal(err)
		}
		return r.Time
	}
	cost := func(overlap bool, us float64) float64 { return (train(overlap, us) - train(overlap, 1e-3)).Micros() }
	if hidden, exposed := cost(true, 10), cost(false, 10); hidden <= 0 || hidden > exposed {
		t.Errorf("overlapped traffic costs %v us where it takes %v", hidden, exposed)
	}
	if share, want := cost(true, 0.1)/cost(false, 0.1), 1.0/8+copyCost*7/8; math.Abs(share-want) > 0.05 {
		t.Errorf("little traffic costs %v of what it takes, want about %v", share, want)
	}
}

func TestPiecesWithoutAPartner(t *testing.T) {
	for _, c := range []struct{ pp, v, m, want int }{
		{1, 1, 8, 1}, {4, 1, 8, 3}, {4, 1, 2, 2}, {8, 4, 64, 38}, {8, 12, 8, 96}, {2, 2, 1, 2},
	} {
		st := parallel.Strategy{PP: c.pp, Interleave: c.v}
		if got := alonePieces(&st, c.m); got != c.want {
			t.Errorf("pp %d, %d virtual stages, %d micro-batches: %d, want %d", c.pp, c.v, c.m, got, c.want)
		}
	}
}

func TestExchangesWithoutAPartnerAreExposed(t *testing.T) {
	var p paired
	p.add(&model.CollectiveOp{Name: "moe combine"}, band(60))
	r := Result{experts: units.Micros(300)}
	r.pair(&Input{unpaired: 0.5}, &p, &hidden{}, band(900))
	if got, want := r.Time.Micros(), 30+30*exchangeSMs; math.Abs(got-want) > 1e-6 {
		t.Errorf("%v us are left, want %v", got, want)
	}
}
