package model

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"rankmap/internal/parallel"
	"rankmap/internal/testdata"
	"rankmap/internal/units"
)

// gptSpec builds a network of the GPT line.
func gptSpec(t testing.TB, hidden, mlp, layers, heads, seq, vocab int) *Spec {
	t.Helper()
	s, err := Parse(strings.NewReader(fmt.Sprintf(`{"model_type":"gpt2","n_embd":%d,"n_inner":%d,"n_layer":%d,"n_head":%d,"n_positions":%d,"vocab_size":%d}`,
		hidden, mlp, layers, heads, seq, vocab)), "gpt.json", Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const gib = 1 << 30

// TestMegatronMemoryBars compares with figure 1 of Korthikanti et al. 2022. Its bars hold the layers alone: embeddings,
// positions and biases, which the first stage really holds, are the difference of the first figure.
func TestMegatronMemoryBars(t *testing.T) {
	f, err := os.Open(testdata.Dir(t, "measured", "public", "megatron_sp.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var state, middle, acts []float64
	for _, rec := range all[1:] {
		row := map[string]string{}
		for i, h := range all[0] {
			row[h] = rec[i]
		}
		n := func(k string) int {
			v, err := strconv.Atoi(row[k])
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		want, err := strconv.ParseFloat(row["params_optimizer_gib"], 64)
		if err != nil {
			continue
		}
		wantActs, _ := strconv.ParseFloat(row["activations_gib"], 64)
		s := gptSpec(t, n("hidden"), n("mlp"), n("layers"), n("heads"), n("seq"), n("vocab"))
		st := parallel.Strategy{TP: n("tp"), PP: n("pp"), DP: n("dp"), Interleave: n("interleave"), SequenceParallel: row["sequence_parallel"] == "yes"}
		if row["recompute"] == "attention only" {
			st.Recompute = "selective"
		}
		w := Work{Phase: Train, Batch: n("microbatch"), Tokens: n("seq"), Context: n("seq")}
		m := s.Memory(st.Normalize(), w, MemoryOptions{Training: Training{Unfused: true}})
		got := float64(m.Weights+m.Gradients+m.Optimizer) / gib
		state = append(state, math.Abs(got/want-1))
		// A stage without embedding, where there is one.
		x := s.shapeOf(&st, &w)
		dense, _ := s.rankParams(&x, min(1, n("pp")-1))
		if n("pp") == 1 {
			for i := range s.outer {
				dense -= float64(s.outer[i].Params()) * s.outer[i].share(x.degrees())
			}
		}
		middle = append(middle, math.Abs(dense*18/gib/want-1))
		a := float64(m.Activations) / gib
		acts = append(acts, math.Abs(a/wantActs-1))
		t.Logf("%-12s %-7s state %.2f GiB (layers %.2f), bar %.2f; activations %.3f, bar %.3f", row["model"], row["mode"], got, dense*18/gib, want, a, wantActs)
		if math.Abs(a/wantActs-1) > 1e-3 {
			t.Errorf("%s %s: activations %.4f GiB, want %.4f", row["model"], row["mode"], a, wantActs)
		}
		if math.Abs(dense*18/gib/want-1) > 2e-3 {
			t.Errorf("%s: layers' state %.3f GiB, want %.3f", row["model"], dense*18/gib, want)
		}
	}
	mean := func(v []float64) float64 {
		sum := 0.0
		for _, x := range v {
			sum += x
		}
		return 100 * sum / float64(max(len(v), 1))
	}
	t.Logf("mean error: state with embeddings %.2f %%, layers alone %.2f %%, activations %.3f %% (Calculon: 8.49 %% and 2.08 %%)", mean(state), mean(middle), mean(acts))
	if mean(state) > 8.49 || mean(acts) > 2.08 {
		t.Error("not better than Calculon's published error")
	}
}

func TestLlamaActivations(t *testing.T) {
	// 33.50 and 31.75 bytes x s b H/(t c) a layer with sequence parallelism.
	for _, c := range []struct {
		name string
		want float64
	}{{"llama-3.1-70b", 33.50}, {"llama-3.1-405b", 31.75}} {
		s := embedded(t, c.name)
		st := parallel.Strategy{TP: 8, CP: 2, SequenceParallel: true}.Normalize()
		w := Work{Phase: Train, Batch: 1, Tokens: 8192, Context: 8192}
		m := s.Memory(st, w, MemoryOptions{})
		per := float64(m.Activations) / float64(s.Layers()) / (8192 * float64(s.Hidden) / 16)
		near(t, c.name, per, c.want, 1e-3)
		if got, want := float64(m.Logits), 8192.0*128256/16*6; math.Abs(got-want) > 1 {
			t.Errorf("%s: logits %v, want %v", c.name, got, want)
		}
	}
}

func TestTrainingStateBytes(t *testing.T) {
	s := embedded(t, "llama-3.1-8b")
	n := float64(s.Params().Total)
	w := Work{Phase: Train, Batch: 1, Tokens: 4096, Context: 4096}
	for _, c := range []struct {
		zero, grad int
		per        float64
	}{{0, 4, 18}, {1, 4, 6 + 12.0/8}, {1, 2, 4 + 12.0/8}, {2, 4, 2 + 4.0/8 + 12.0/8}} {
		st := parallel.Strategy{DP: 8, ZeRO: c.zero}.Normalize()
		m := s.Memory(st, w, MemoryOptions{Training: Training{GradBytes: c.grad}})
		near(t, fmt.Sprintf("ZeRO-%d with %d-byte gradients", c.zero, c.grad), float64(m.Weights+m.Gradients+m.Optimizer)/n, c.per, 1e-6)
	}
	full := s.Memory(parallel.Strategy{DP: 8, ZeRO: 3}.Normalize(), w, MemoryOptions{})
	if full.Weights >= units.Bytes(2*n/4) {
		t.Errorf("ZeRO-3 holds %v of weights", full.Weights)
	}
	// Full recompute keeps the input of each layer, and everything of the layer at hand.
	none := float64(s.Memory(parallel.Strategy{}.Normalize(), w, MemoryOptions{}).Activations)
	m := s.Memory(parallel.Strategy{Recompute: "full"}.Normalize(), w, MemoryOptions{})
	near(t, "full recompute", float64(m.Activations), 2*4096*4096*32+none/32, 1e-9)
	m = s.Memory(parallel.Strategy{Recompute: "full", RecomputeLayers: 12}.Normalize(), w, MemoryOptions{})
	near(t, "12 of 32 layers", float64(m.Activations), 2*4096*4096*12+none*21/32, 1e-9)
}

func TestInferenceMemoryOfLlama70B(t *testing.T) {
	s := embedded(t, "llama-3.1-70b")
	w := Work{Phase: Decode, Batch: 64, Tokens: 1, Context: 4096}
	one := s.Memory(parallel.Strategy{}.Normalize(), w, MemoryOptions{})
	near(t, "weights", float64(one.Weights), 141.11e9, 1e-4)
	near(t, "cache", float64(one.KV), 85.90e9, 1e-4)
	m := s.Memory(parallel.Strategy{TP: 8}.Normalize(), w, MemoryOptions{})
	near(t, "read for a step on one of 8", float64(m.Weights+m.KV), 28.38e9, 1e-3)
	near(t, "decode floor on H100, ms", float64(m.Weights+m.KV)/3.35e12*1e3, 8.47, 1e-3)
}

func TestMemoryAddsUpAndLimitsHold(t *testing.T) {
	const capacity = 141e9
	for _, c := range []struct {
		name string
		st   parallel.Strategy
	}{{"llama-3.1-70b", parallel.Strategy{TP: 8}}, {"deepseek-v3", parallel.Strategy{DP: 16, EP: 16}}, {"gpt-oss-120b", parallel.Strategy{TP: 2}},
		{"qwen3-235b-a22b", parallel.Strategy{TP: 4, PP: 2, EP: 4}}} {
		s := embedded(t, c.name)
		st := c.st.Normalize()
		w := Work{Phase: Decode, Batch: 16, Tokens: 1, Context: 8192, KVDType: "fp8"}
		o := MemoryOptions{Capacity: capacity}
		m := s.Memory(st, w, o)
		if m.Total() != m.Weights+m.KV+m.Activations+m.Logits+m.Gradients+m.Optimizer+m.Overhead {
			t.Errorf("%s: parts do not add up", c.name)
		}
		if m.MaxBatch == 0 || m.MaxContext == 0 {
			t.Errorf("%s: nothing fits: %+v", c.name, m)
			continue
		}
		big := w
		big.Batch = m.MaxBatch
		if got := s.Memory(st, big, o).Total(); got > capacity {
			t.Errorf("%s: batch %d needs %v", c.name, m.MaxBatch, got)
		}
		big.Batch = m.MaxBatch + max(2, m.MaxBatch/50)
		if got := s.Memory(st, big, o).Total(); got <= capacity {
			t.Errorf("%s: batch %d fits with %v, the limit said %d", c.name, big.Batch, got, m.MaxBatch)
		}
		long := w
		long.Context = m.MaxContext
		if got := s.Memory(st, long, o).Total(); got > capacity {
			t.Errorf("%s: context %d needs %v", c.name, m.MaxContext, got)
		}
	}
}
