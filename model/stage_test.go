package model

import (
	"slices"
	"testing"

	"rankmap/internal/parallel"
)

func piecesOf(s *Spec, st parallel.Strategy) []int {
	c := cutOf(&st)
	var out []int
	next := 0
	for i := range c.pp * c.v {
		first, n := c.piece(s.Layers(), i)
		if first != next {
			return nil
		}
		next += n
		out = append(out, n)
	}
	if next != s.Layers() {
		return nil
	}
	return out
}

func TestFirstAndLastStageOfTheirOwnSize(t *testing.T) {
	s := embedded(t, "llama-3.1-8b") // 32 layers
	for _, c := range []struct {
		st   parallel.Strategy
		want []int
	}{
		{parallel.Strategy{PP: 4}, []int{8, 8, 8, 8}},
		{parallel.Strategy{PP: 4, LastStage: 5}, []int{9, 9, 9, 5}},
		{parallel.Strategy{PP: 4, FirstStage: 7, LastStage: 5}, []int{7, 10, 10, 5}},
		{parallel.Strategy{PP: 4, FirstStage: 5}, []int{5, 9, 9, 9}},
		{parallel.Strategy{PP: 2, Interleave: 2, LastStage: 2}, []int{10, 10, 10, 2}},
		{parallel.Strategy{PP: 2, FirstStage: 18, LastStage: 14}, []int{18, 14}},
	} {
		st := c.st.Normalize()
		if got := piecesOf(s, st); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.st, got, c.want)
		}
		if v := s.Check(st); len(v) > 0 {
			t.Errorf("%+v: %v", c.st, v)
		}
		sum := 0
		for stage := range st.PP {
			sum += s.LayersOn(st, stage)
		}
		if sum != s.Layers() {
			t.Errorf("%+v: stages hold %d layers", c.st, sum)
		}
	}
	for _, st := range []parallel.Strategy{{PP: 4, LastStage: 32}, {PP: 2, FirstStage: 10, LastStage: 10}, {PP: 1, LastStage: 3}, {PP: 4, FirstStage: -1, LastStage: 1}, {PP: 4, FirstStage: -1, LastStage: -1}, {PP: 4, LastStage: -5}} {
		if len(s.Check(st.Normalize())) == 0 {
			t.Errorf("%+v is accepted", st)
		}
	}
}

// Recomputing all layers of every virtual stage is full recomputation; the time of n layers lies between none and all.
func TestRecomputingSomeLayers(t *testing.T) {
	s := embedded(t, "deepseek-v3") // 3 dense and 58 expert layers
	w := Work{Phase: Train, Batch: 1, Tokens: 4096, Context: 4096}
	flops := func(st parallel.Strategy) float64 {
		sum := 0.0
		for _, op := range s.StepOps(st.Normalize(), w, 0) {
			sum += op.FLOPs * float64(op.Times)
		}
		return sum
	}
	base := parallel.Strategy{PP: 4, DP: 8, EP: 8}
	last := flops(base)
	for _, n := range []int{1, 3, 8, 15} {
		st := base
		st.Recompute, st.RecomputeLayers = "full", n
		f := flops(st)
		if f <= last {
			t.Errorf("%d layers: %g FLOPs, not above %g", n, f, last)
		}
		last = f
	}
	full := base
	full.Recompute = "full"
	st := full
	st.RecomputeLayers = s.LargestPiece(full.Normalize())
	if flops(st) != flops(full) {
		t.Error("recomputing every layer of a stage is not full recomputation")
	}
}
