package planner

import (
	"context"
	"strings"
	"testing"

	"rankmap/internal/engine"
	"rankmap/internal/parallel"
	"rankmap/layout"
)

// priced is one strategy of a model on HGX H100 nodes, as a serving request with changes.
func priced(t *testing.T, nodes int, name string, st parallel.Strategy, w layout.Workload, change func(*Request)) *Outcome {
	t.Helper()
	be := newBench(t)
	w.Task, w.Objective = string(Serve), string(Throughput)
	r := be.request(t, be.preset(t, "hgx-h100", nodes), name, w)
	if change != nil {
		change(&r)
	}
	k, err := NewRanking(r)
	if err != nil {
		t.Fatal(err)
	}
	o, err := k.Price(st, Held{}, w.Batch)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestServingSettingsChangeThePrices(t *testing.T) {
	st := parallel.Strategy{TP: 8}
	w := layout.Workload{ISL: 8192, OSL: 1024, Batch: 64}
	base := priced(t, 1, "llama-3.1-70b", st, w, nil)
	with := func(change func(*layout.Workload)) *Outcome {
		x := w
		change(&x)
		return priced(t, 1, "llama-3.1-70b", st, x, nil)
	}
	if o := with(func(w *layout.Workload) { w.Chunk = 1024 }); o.Service.Chunks <= base.Service.Chunks || o.Service.Prompt.Time >= base.Service.Prompt.Time {
		t.Errorf("a smaller budget: %d pieces of %v, was %d of %v", o.Service.Chunks, o.Service.Prompt.Time, base.Service.Chunks, base.Service.Prompt.Time)
	}
	if o := with(func(w *layout.Workload) { w.Eager = true }); o.TPOT.Time <= base.TPOT.Time {
		t.Errorf("without graphs %v, with %v", o.TPOT.Time, base.TPOT.Time)
	}
	burst := priced(t, 1, "llama-3.1-70b", st, w, func(r *Request) { r.Burst = 0.1 })
	if burst.TTFT.Time <= base.TTFT.Time || burst.TPOT.Time != base.TPOT.Time {
		t.Errorf("a burst: TTFT %v, was %v", burst.TTFT.Time, base.TTFT.Time)
	}
	trt := priced(t, 1, "llama-3.1-70b", st, w, func(r *Request) { r.Engine = &engine.Engine{Name: "sglang"} })
	if trt.TPOT.Time == base.TPOT.Time {
		t.Error("engines that schedule differently have the same TPOT")
	}
}

// Replicas of a dense model are instances of their own: two of them with twice the clients serve each as one does.
func TestReplicasOfADenseModelDoNotWaitForEachOther(t *testing.T) {
	one := priced(t, 1, "llama-3.1-8b", parallel.Strategy{TP: 4}, layout.Workload{ISL: 1024, OSL: 256, Batch: 32}, func(r *Request) { r.GPUs = 4 })
	two := priced(t, 1, "llama-3.1-8b", parallel.Strategy{TP: 4, DP: 2}, layout.Workload{ISL: 1024, OSL: 256, Batch: 64}, nil)
	if one.TPOT.Time != two.TPOT.Time || one.TTFT.Time != two.TTFT.Time {
		t.Errorf("one %v and %v, two %v and %v", one.TTFT.Time, one.TPOT.Time, two.TTFT.Time, two.TPOT.Time)
	}
	if r := two.Service.Rate / one.Service.Rate; r < 1.999 || r > 2.001 {
		t.Errorf("two pass %v times as many requests", r)
	}
}

func TestOverlapHelpsWideExpertParallelism(t *testing.T) {
	st := parallel.Strategy{DP: 32, EP: 32}
	w := layout.Workload{ISL: 2048, OSL: 512, Batch: 32 * 128}
	plain := priced(t, 4, "deepseek-v3", st, w, nil)
	w.Overlap = true
	if o := priced(t, 4, "deepseek-v3", st, w, nil); o.TPOT.Time >= plain.TPOT.Time {
		t.Errorf("%v with overlap, %v without", o.TPOT.Time, plain.TPOT.Time)
	}
}

func TestPlansSayWhatTheyAssumeOfTheEngine(t *testing.T) {
	be := newBench(t)
	r := be.request(t, be.preset(t, "hgx-h100", 1), "llama-3.1-8b", layout.Workload{Task: "serve", Objective: "throughput", ISL: 1024, OSL: 256, Batch: 16, Chunk: 2048})
	p, err := Search(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	if notes := strings.Join(p.Notes, "\n"); !strings.Contains(notes, "2048 tokens a step") || !strings.Contains(notes, "assumed of the engine") {
		t.Errorf("notes: %s", notes)
	}
}

func TestServingApartPricesBothSides(t *testing.T) {
	be := newBench(t)
	side := func(task Task, n int) *Side {
		r := be.request(t, be.preset(t, "hgx-h100", 1), "llama-3.1-70b", layout.Workload{Task: string(task), Objective: string(Throughput), ISL: 4096, OSL: 512, Batch: 1})
		r.GPUs = 4
		k, err := NewRanking(r)
		if err != nil {
			t.Fatal(err)
		}
		return &Side{Ranking: k, Strategy: parallel.Strategy{TP: 4}, Instances: n}
	}
	few, err := ServeApart(side(PrefillOnly, 1), side(DecodeOnly, 1), 64)
	if err != nil {
		t.Fatal(err)
	}
	more, err := ServeApart(side(PrefillOnly, 4), side(DecodeOnly, 1), 64)
	if err != nil {
		t.Fatal(err)
	}
	if !(more.TTFT.Time < few.TTFT.Time && more.Rate > few.Rate) {
		t.Errorf("one prefill instance %v at %v/s, four %v at %v/s", few.TTFT.Time, few.Rate, more.TTFT.Time, more.Rate)
	}
}
