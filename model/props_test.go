package model

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"rankmap/internal/parallel"
)

var propertyModels = []string{"llama-3.1-8b", "llama-3.1-405b", "mixtral-8x7b", "deepseek-v3", "gpt-oss-120b", "qwen3-235b-a22b"}

// TestStagesTogetherAreTheNetwork: over all stages, with and without interleaving, every layer is on one stage.
func TestStagesTogetherAreTheNetwork(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := embedded(t, rapid.SampledFrom(propertyModels).Draw(r, "model"))
		pp := rapid.IntRange(1, s.Layers()).Draw(r, "pp")
		v := rapid.IntRange(1, max(1, s.Layers()/pp)).Draw(r, "v")
		sum := make([]int, len(s.Kinds))
		for stage := range pp {
			for k := range s.Kinds {
				sum[k] += s.kindsOn(k, cut{pp: pp, v: v}, stage)
			}
		}
		for k := range s.Kinds {
			want := 0
			for i := range s.Layers() {
				if s.Layer(i) == &s.Kinds[k] {
					want++
				}
			}
			if sum[k] != want {
				r.Fatalf("pp %d v %d: %d layers of kind %d, want %d", pp, v, sum[k], k, want)
			}
		}
		next := 0
		for stage := range pp {
			first, n := s.StageLayers(pp, stage)
			if first != next || n < s.Layers()/pp || n > ceilDiv(s.Layers(), pp) {
				r.Fatalf("pp %d stage %d: layers %d to %d, want to start at %d", pp, stage, first, first+n, next)
			}
			next = first + n
		}
		if next != s.Layers() {
			r.Fatalf("pp %d: stages end at layer %d of %d", pp, next, s.Layers())
		}
		if _, n := s.StageLayers(pp, pp-1); n != s.Layers()/pp {
			r.Fatalf("pp %d: the last stage has %d layers, which also holds the head", pp, n)
		}
	})
}

// TestShardsTogetherAreTheWeights: where degrees divide, the ranks' shares add up to the network, copies counted once.
func TestShardsTogetherAreTheWeights(t *testing.T) {
	for _, name := range propertyModels {
		s := embedded(t, name)
		for _, st := range []parallel.Strategy{{TP: 2}, {TP: 4, EP: 4}, {DP: 8, EP: 8}, {TP: 2, DP: 2, EP: 4}, {TP: 8, ExpertTP: 8}} {
			st = st.Normalize()
			if len(s.Check(st)) > 0 {
				continue
			}
			w := Work{Phase: Decode, Batch: 1, Tokens: 1, Context: 1}
			x := s.shapeOf(&st, &w)
			d := x.degrees()
			for i := range s.Kinds {
				for _, ts := range s.Kinds[i].Tensors {
					n := 1.0
					switch ts.Split {
					case TensorSplit, VocabSplit:
						n = float64(d.tp)
					case KVSplit:
						n = math.Min(float64(d.tp), float64(ts.units()))
					case ExpertSplit:
						n = float64(d.ep)
						if ts.In > 0 || ts.Units != 1 {
							n *= float64(d.etp)
						}
					case SharedSplit:
						n = float64(d.shared)
					}
					near(t, name+" "+st.String()+" "+ts.Module, ts.share(d)*n, 1, 1e-9)
				}
			}
		}
	}
}

// TestWorkIsDividedNotLost: the FLOPs of GEMMs and experts over all ranks are those of one GPU, but for what every rank
// repeats (MLA's down-projections, routers, key and value copies).
func TestWorkIsDividedNotLost(t *testing.T) {
	sum := func(s *Spec, st parallel.Strategy, w Work) float64 {
		total := 0.0
		for stage := range st.PP {
			for _, op := range s.StepOps(st, w, stage) {
				if (op.Kind == GEMM || op.Kind == MoE || op.Kind == AttnPrefill || op.Kind == AttnDecode || op.Kind == MLAPrefill || op.Kind == MLADecode) && op.Name != "router" && op.Name != "qkv_a_proj" {
					total += op.FLOPs * float64(op.Times) * float64(st.TP*st.CP)
				}
			}
		}
		return total
	}
	for _, name := range propertyModels {
		s := embedded(t, name)
		for phase := Prefill; phase <= Train; phase++ {
			w := Work{Phase: phase, Batch: 8, Tokens: 1024, Context: 1024}
			if phase == Decode {
				w.Tokens = 1
			}
			one := sum(s, parallel.Strategy{}.Normalize(), w)
			for _, st := range []parallel.Strategy{{TP: 4, ExpertTP: 4}, {TP: 4, EP: 4}, {PP: 4}, {TP: 2, PP: 2, ExpertTP: 2}, {TP: 2, CP: 2, ExpertTP: 2, EP: 2}} {
				st = st.Normalize()
				if phase == Decode && st.CP > 1 {
					continue // weights are repeated over cp
				}
				if !s.MoE() {
					st.EP, st.ExpertTP = 1, 1
				}
				if st.ExpertTP > 1 && s.paddedExperts(st.ExpertTP) != nil {
					continue // zeros are multiplied too
				}
				got := sum(s, st, w)
				if math.Abs(got-one) > 0.01*one {
					t.Errorf("%s %s %s: %.4g FLOPs over all ranks, one GPU has %.4g", name, st, phase, got, one)
				}
			}
		}
	}
}

// slowOps lists the operations layer by layer, without merging: the dumb twin of StepOps.
func slowOps(s *Spec, st parallel.Strategy, w Work, stage int) (times map[ComputeOp]int) {
	times = map[ComputeOp]int{}
	x := s.shapeOf(&st, &w)
	first, n := s.StageLayers(st.PP, stage)
	for i := first; i < first+n; i++ {
		l := opList{w: &w, x: x, s: s, st: &st, d: x.degrees(), train: w.Phase == Train, n: 1, norm: x.tokens}
		if l.train && st.Recompute == "full" {
			l.redo = 1
		}
		if x.seqPar {
			l.norm = ceilDiv(x.tokens, x.tp)
		}
		l.layer(s.Layer(i))
		for _, op := range l.ops {
			t := op.Times
			op.Times = 0
			times[op] += t
		}
	}
	return times
}

func TestMergedLayersEqualLayersOneByOne(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := embedded(t, rapid.SampledFrom(propertyModels).Draw(r, "model"))
		st := parallel.Strategy{TP: rapid.SampledFrom([]int{1, 2, 4}).Draw(r, "tp"), PP: rapid.IntRange(1, 5).Draw(r, "pp"), SequenceParallel: rapid.Bool().Draw(r, "sp"),
			Recompute: rapid.SampledFrom([]string{"", "selective", "full"}).Draw(r, "recompute")}.Normalize()
		phase := rapid.SampledFrom([]Phase{Prefill, Decode, Train}).Draw(r, "phase")
		w := Work{Phase: phase, Batch: rapid.IntRange(1, 64).Draw(r, "batch"), Tokens: 1, Context: rapid.IntRange(1, 9000).Draw(r, "context")}
		if phase != Decode {
			w.Tokens = w.Context
		}
		stage := rapid.IntRange(0, st.PP-1).Draw(r, "stage")
		got := map[ComputeOp]int{}
		for _, op := range s.StepOps(st, w, stage) {
			n := op.Times
			op.Times = 0
			got[op] += n
		}
		want := slowOps(s, st, w, stage)
		for op, n := range want {
			if got[op] < n { // the head may repeat a layer's shape
				r.Fatalf("%+v: %d times, want %d", op, got[op], n)
			}
		}
		extra := 0
		for op := range got {
			if _, ok := want[op]; !ok && !slices.Contains([]string{"embedding", "final_norm", "logits", "sampling", "loss"}, op.Name) {
				extra++
			}
		}
		if extra > 0 {
			r.Fatalf("%d operations that no layer has", extra)
		}
	})
}

func TestUnfusedAttentionGoesThroughMemory(t *testing.T) {
	s := gptSpec(t, 12288, 49152, 96, 96, 2048, 51200)
	st := parallel.Strategy{TP: 8, PP: 8, Recompute: "selective"}.Normalize()
	w := Work{Phase: Train, Batch: 1, Tokens: 2048, Context: 2048, Unfused: true}
	scores := 12.0 * 2048 * 2048 // heads on a GPU times pairs
	seen := 0
	for _, op := range s.StepOps(st, w, 3) {
		switch {
		case op.Kind == AttnPrefill:
			t.Errorf("a fused operation: %+v", op)
		case op.Name == "attention_scores" && !op.Backward:
			seen++
			near(t, "products", op.FLOPs, 4*128*scores, 1e-9)
			if op.Times != 24 { // forward and recomputation of 12 layers
				t.Errorf("%d times, want 24", op.Times)
			}
		case op.Name == "attention_softmax" && op.Backward:
			seen++
			near(t, "softmax and dropout backward", float64(op.Bytes), 11*scores, 1e-9)
		}
	}
	if seen != 2 {
		t.Errorf("%d of 2 operations", seen)
	}
}

func TestListingDoesNotAllocate(t *testing.T) {
	s := embedded(t, "deepseek-v3")
	st := parallel.Strategy{TP: 8, PP: 2, ExpertTP: 8}.Normalize()
	w := Work{Phase: Decode, Batch: 64, Tokens: 1, Context: 4096, WeightDType: "fp8"}
	ops, colls := make([]ComputeOp, 0, 64), make([]CollectiveOp, 0, 64)
	if n := testing.AllocsPerRun(100, func() {
		ops = s.AppendStepOps(ops[:0], &st, &w, 0)
		colls = s.AppendStepCollectives(colls[:0], &st, &w, 1)
		_ = s.Memory(st, w, MemoryOptions{Capacity: 80e9})
		_ = s.Check(st)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestRulesOfTheNetwork(t *testing.T) {
	for _, c := range []struct {
		name, rule string
		st         parallel.Strategy
	}{
		{"llama-3.1-8b", "heads % tp", parallel.Strategy{TP: 6}}, {"llama-3.1-8b", "kv heads and tp", parallel.Strategy{TP: 6}},
		{"llama-3.1-8b", "mlp width % tp", parallel.Strategy{TP: 3}}, {"llama-3.1-8b", "layers >= pp", parallel.Strategy{PP: 33}},
		{"llama-3.1-8b", "experts", parallel.Strategy{EP: 2, DP: 2}}, {"deepseek-v3", "experts % ep", parallel.Strategy{DP: 24, EP: 24}},
		{"deepseek-v3", "quantisation block", parallel.Strategy{TP: 32, ExpertTP: 1, EP: 32}},
		{"mixtral-8x7b", "expert width % expert-tp", parallel.Strategy{TP: 8, ExpertTP: 3}},
	} {
		found := false
		for _, v := range embedded(t, c.name).Check(c.st.Normalize()) {
			found = found || v.Rule == c.rule
		}
		if !found {
			t.Errorf("%s %s: %q is not reported: %v", c.name, c.st.Normalize(), c.rule, embedded(t, c.name).Check(c.st.Normalize()))
		}
	}
	for name, st := range map[string]parallel.Strategy{"llama-3.1-70b": {TP: 16}, "deepseek-v3": {TP: 16, ExpertTP: 16}, "gpt-oss-120b": {TP: 8, EP: 8}, "qwen3-235b-a22b": {TP: 8, EP: 8}, "llama-3.1-405b": {TP: 8, PP: 9}} {
		if v := embedded(t, name).Check(st.Normalize()); v != nil {
			t.Errorf("%s %s: %v", name, st.Normalize(), v)
		}
	}
	notes := embedded(t, "qwen3-235b-a22b").Notes(parallel.Strategy{TP: 8, EP: 8, PP: 4}.Normalize())
	if len(notes) != 2 {
		t.Errorf("notes: %v", notes)
	}
}
