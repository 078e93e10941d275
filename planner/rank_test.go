package planner

import (
	"context"
	"math"
	"strings"
	"testing"

	"rankmap/internal/engine"
	"rankmap/internal/parallel"
	"rankmap/layout"
)

// trainingRequest trains Llama-3.1-8B on one box.
func trainingRequest(t *testing.T) Request {
	t.Helper()
	b := newBench(t)
	return b.request(t, b.preset(t, "hgx-h100", 1), "llama-3.1-8b", layout.Workload{Task: string(TrainStep), SeqLen: 4096, Batch: 64})
}

func TestRankHoldsEverythingThatFitsInOrder(t *testing.T) {
	r := trainingRequest(t)
	k, err := Rank(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	if len(k.Outcomes) < 10 {
		t.Fatalf("%d outcomes, want every split that fits", len(k.Outcomes))
	}
	for i := 1; i < len(k.Outcomes); i++ {
		if k.Outcomes[i].Score() < k.Outcomes[i-1].Score() {
			t.Fatalf("outcome %d is better than the one before it", i)
		}
	}
	plan, err := Search(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := k.Outcomes[0].Strategy.String(), plan.Best.Strategy.String(); got != want {
		t.Errorf("Rank's first is %s, Search's best %s", got, want)
	}
}

func TestPriceIsThatOfTheRanking(t *testing.T) {
	r := trainingRequest(t)
	k, err := Rank(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range k.Outcomes[:5] {
		st := o.Strategy
		held := Held{MicroBatch: st.MicroBatch, Interleave: st.Interleave, ZeRO: st.ZeRO, Recompute: st.Recompute}
		if held.Recompute == "" {
			held.Recompute = "none"
		}
		p, err := k.Price(st, held, 0)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(p.CostRatio(o)-1) > 1e-9 || len(p.Step.Parts) == 0 {
			t.Errorf("%s: priced alone at %v of its price in the ranking, %d parts", st, p.CostRatio(o), len(p.Step.Parts))
		}
	}
	if _, err := k.Price(parallel.Strategy{TP: 3, PP: 1, DP: 1}, Held{}, 0); err == nil || !strings.Contains(err.Error(), "heads") {
		t.Errorf("tp 3: %v, want the rule on heads", err)
	}
}

func TestTargetRestrictsTheSearch(t *testing.T) {
	b := newBench(t)
	r := b.request(t, b.preset(t, "hgx-h200", 2), "deepseek-v3", layout.Workload{Task: string(DecodeOnly), ISL: 1024, OSL: 512, Batch: 256})
	e, err := engine.Find("vllm@0.24")
	if err != nil {
		t.Fatal(err)
	}
	r.Engine = &e
	k, err := Rank(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	if len(k.Outcomes) == 0 {
		t.Fatal("nothing that vLLM runs")
	}
	for _, o := range k.Outcomes {
		if st := o.Strategy; st.EP > 1 && st.ExpertTP > 1 || !e.Permits(st.Order, st) {
			t.Errorf("%s order %v is not vLLM's", st, st.Order)
		}
	}
	named := false
	for _, l := range k.Losers {
		named = named || strings.HasPrefix(l.Why, "vllm@0.24: ep = tp x dp: ")
	}
	if !named {
		t.Error("no loser names vLLM's rule on experts")
	}
}
