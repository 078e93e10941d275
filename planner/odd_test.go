package planner

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"rankmap/configs"
	"rankmap/internal/parallel"
	"rankmap/layout"
	"rankmap/model"
	"rankmap/topology"
)

// sixteen is a small model on two boxes, and its ranks in order.
func sixteen(t *testing.T, w layout.Workload) (Request, []topology.GPUID) {
	t.Helper()
	b := newBench(t)
	spec, err := model.Load(configs.FS, "llama-3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	c := b.preset(t, "hgx-h100", 2)
	return cheap(t, c, spec, w), slices.Clone(newSeating(c, nil).gpus)
}

// A layout of a training run need not name the micro-batch, or names one that does not divide the batch.
func TestKeptTrainingNeedsWholeMicroBatches(t *testing.T) {
	r, seats := sixteen(t, layout.Workload{Task: "train", SeqLen: 1024, Batch: 64})
	st := parallel.Strategy{TP: 8, DP: 2, ZeRO: 1, Recompute: "full"}
	for _, mb := range []int{0, -1} {
		st.MicroBatch = mb
		p, err := Keep(r, st, seats, 64)
		if err != nil {
			t.Fatal(err)
		}
		if p.Best.Step.Time <= 0 || p.Best.Strategy.MicroBatch != 1 {
			t.Errorf("micro-batch %d: %s a step, micro-batch %d", mb, p.Best.Step.Time, p.Best.Strategy.MicroBatch)
		}
		p, err = Replan(context.Background(), r, Former{Strategy: st, Seats: seats, Batch: 64})
		if err != nil || !p.Kept.Degrees || p.Kept.Moved != 0 {
			t.Errorf("micro-batch %d: %v, %+v", mb, err, p.Kept)
		}
	}
	for _, x := range [][2]int{{64, 3}, {64, 1000}, {1, 1}, {0, 1}} {
		r.Workload.Batch, st.MicroBatch = x[0], x[1]
		_, err := Keep(r, st, seats, x[0])
		var no *Infeasible
		if !errors.As(err, &no) || !strings.Contains(no.Binding, "not a multiple") {
			t.Errorf("batch %d, micro-batch %d: %v", x[0], x[1], err)
		}
	}
}

func TestStagesOfNegativeSizeAreRefused(t *testing.T) {
	r, seats := sixteen(t, layout.Workload{Task: "train", SeqLen: 1024, Batch: 64})
	st := parallel.Strategy{TP: 8, PP: 2, ZeRO: 1, MicroBatch: 1, FirstStage: -5, LastStage: -5}
	var no *Infeasible
	if _, err := Keep(r, st, seats, 64); !errors.As(err, &no) {
		t.Errorf("%v, want a rule that is broken", err)
	}
}

func TestServingWithoutPromptsOrAnswersIsPriced(t *testing.T) {
	for _, w := range [][2]int{{0, 0}, {0, 1}, {1, 0}, {1, 1}} {
		r, _ := sixteen(t, layout.Workload{Task: "serve", ISL: w[0], OSL: w[1]})
		p, err := Search(context.Background(), r)
		if err != nil {
			t.Fatal(err)
		}
		if !(p.Best.TPOT.Time > 0) || !(p.Best.TTFT.Time > 0) {
			t.Errorf("isl %d, osl %d: TPOT %s, TTFT %s", w[0], w[1], p.Best.TPOT.Time, p.Best.TTFT.Time)
		}
	}
}

// A rank at the same place of the pipeline holds other layers when the network is cut otherwise.
func TestAnotherCutOfTheLayersMovesEveryRank(t *testing.T) {
	r, seats := sixteen(t, layout.Workload{Task: "train", SeqLen: 1024, Batch: 64})
	s := &search{Request: r, base: newSeating(r.Cluster, nil)}
	st := parallel.Strategy{TP: 4, PP: 4, MicroBatch: 1}.Normalize()
	f := Former{Strategy: st, Seats: seats, Batch: 64}
	same := &Plan{Best: &Outcome{Strategy: st}, Seats: seats}
	if k := f.compare(s, same); k.Stay != 16 || k.Moved != 0 {
		t.Errorf("the same plan: %+v", k)
	}
	for _, edit := range []func(*parallel.Strategy){
		func(x *parallel.Strategy) { x.Interleave = 2 },
		func(x *parallel.Strategy) { x.FirstStage, x.LastStage = 7, 7 },
	} {
		x := st
		edit(&x)
		if k := f.compare(s, &Plan{Best: &Outcome{Strategy: x}, Seats: seats}); k.Moved != 16 {
			t.Errorf("%+v: %d of 16 ranks load other layers", x, k.Moved)
		}
	}
}
