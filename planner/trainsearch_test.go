package planner

import (
	"context"
	"math"
	"testing"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/layout"
)

// exhaustive prices every option of every split in every order: the dumb twin of the search for training.
func exhaustive(t *testing.T, r Request) float64 {
	t.Helper()
	k, err := NewRanking(r)
	if err != nil {
		t.Fatal(err)
	}
	s := k.s
	best := math.Inf(1)
	for _, st := range s.splitter(r.GPUs).strategies(r.Freedom) {
		st = st.Normalize()
		if len(s.spec(st).Check(st)) > 0 {
			continue
		}
		fit, _, _ := s.trainOptions(st)
		for _, o := range fit {
			for _, order := range orders(o.st) {
				x := o.st
				x.Order = order
				out, err := s.evaluate(x, newComm(s.seating(x.World()), s.Pricer, graphLaunch, x).price, r.Workload.Batch, true)
				if err != nil {
					t.Fatal(err)
				}
				best = min(best, out.score)
			}
		}
	}
	return best
}

func TestBoundsDropNoBetterTrainingPlan(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		preset string
		nodes  int
		model  string
		w      layout.Workload
	}{
		{"hgx-h100", 2, "llama-3.1-70b", layout.Workload{Task: "train", SeqLen: 4096, Batch: 64}},
		{"hgx-a100", 1, "llama-3.1-8b", layout.Workload{Task: "train", SeqLen: 8192, Batch: 32}},
		{"hgx-h200", 2, "mixtral-8x7b", layout.Workload{Task: "train", SeqLen: 4096, Batch: 64}},
	} {
		t.Run(c.preset+"/"+c.model, func(t *testing.T) {
			cl := b.preset(t, c.preset, c.nodes)
			r := b.request(t, cl, c.model, c.w)
			r.GPUs = cl.NumGPUs()
			p, err := Search(context.Background(), r)
			if err != nil {
				t.Fatal(err)
			}
			want := exhaustive(t, r)
			if got := p.Best.Step.Time.Seconds(); got > want*(1+1e-9) {
				t.Errorf("the search found %g s (%s), exhaustion %g s", got, p.Best.Strategy, want)
			}
			if p.Searched.Bounded == 0 {
				t.Error("nothing was ruled out by a bound")
			}
		})
	}
}

// What fits without recomputation recomputes nothing; what does not recomputes as few layers as memory needs.
func TestRecomputesAsFewLayersAsMemoryNeeds(t *testing.T) {
	b := newBench(t)
	cl := b.preset(t, "hgx-h100", 1)
	r := b.request(t, cl, "llama-3.1-8b", layout.Workload{Task: "train", SeqLen: 8192, Batch: 32})
	r.GPUs, r.Held.MicroBatch, r.Held.ZeRO, r.Held.Interleave = 8, 2, 1, 1
	k, err := NewRanking(r)
	if err != nil {
		t.Fatal(err)
	}
	s := k.s
	st := parallel.Strategy{TP: 2, DP: 4}.Normalize()
	need := func(mode string, layers int) units.Bytes {
		x := st
		x.SequenceParallel, x.ZeRO, x.MicroBatch, x.Recompute, x.RecomputeLayers = true, 1, 2, mode, layers
		return s.Spec.Memory(x, s.trainWork(x), s.memoryOptions()).Total()
	}
	none, all := need("", 0), need("full", 0)
	s.Capacity = none
	fit, _, _ := s.trainOptions(st)
	if len(fit) != 1 || fit[0].st.Recompute != "" {
		t.Fatalf("with room for everything: %+v", fit)
	}
	s.Capacity = (none + all) / 2
	fit, _, _ = s.trainOptions(st)
	if len(fit) != 1 || fit[0].st.Recompute != "full" || fit[0].st.RecomputeLayers < 1 || fit[0].st.RecomputeLayers >= s.Spec.Layers() {
		t.Fatalf("with half the room: %+v", fit)
	}
	n := fit[0].st.RecomputeLayers
	if need("full", n) > s.Capacity || need("full", n-1) <= s.Capacity && n > 1 {
		t.Errorf("%d layers are recomputed; %d need %v of %v", n, n-1, need("full", n-1), s.Capacity)
	}
	s.Capacity = all / 2
	if fit, large, _ := s.trainOptions(st); len(fit) != 0 || len(large) == 0 {
		t.Errorf("without room: %d fit, %d too large", len(fit), len(large))
	}
}

// A head that costs several layers takes them off the last stage, and the record keeps it.
func TestStagesAreLevelled(t *testing.T) {
	b := newBench(t)
	cl := b.preset(t, "hgx-h100", 1)
	r := b.request(t, cl, "llama-3.1-8b", layout.Workload{Task: "train", SeqLen: 4096, Batch: 64})
	r.GPUs, r.Held.Interleave, r.Freedom.Fix = 8, 1, map[parallel.Dim]int{parallel.PP: 8}
	plan := func() *Plan {
		p, err := Search(context.Background(), r)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	level := plan()
	r.Held.EvenStages = true
	even := plan()
	if level.Best.Strategy.LastStage == 0 || level.Best.score >= even.Best.score {
		t.Fatalf("levelled %+v takes %v, even stages %v", level.Best.Strategy, level.Best.Step.Time, even.Best.Step.Time)
	}
	if v := r.Spec.Check(level.Best.Strategy); len(v) > 0 {
		t.Error(v)
	}
	if back := layout.Of(level.Best.Strategy).Parallel(); back.LastStage != level.Best.Strategy.LastStage || back.FirstStage != level.Best.Strategy.FirstStage {
		t.Errorf("the layout keeps %d and %d of %d and %d", back.FirstStage, back.LastStage, level.Best.Strategy.FirstStage, level.Best.Strategy.LastStage)
	}
}
