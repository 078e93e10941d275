package planner

import (
	"context"
	"strings"
	"testing"

	"rankmap/internal/parallel"
	"rankmap/layout"
	"rankmap/topology"
)

// running seats a strategy of mixtral-8x7b, or another model, on the first GPUs of HGX H100 boxes in their order.
func running(t *testing.T, nodes int, name string, st parallel.Strategy, w layout.Workload) (Request, Former) {
	t.Helper()
	b := newBench(t)
	r := b.request(t, b.preset(t, "hgx-h100", nodes), name, w)
	f := Former{Strategy: st.Normalize(), Batch: w.Batch}
	for id := range topology.GPUID(f.Strategy.World()) {
		f.Seats = append(f.Seats, id)
	}
	return r, f
}

// A replica that lost a GPU takes the rank of a replica that goes, which holds the same part of the model: nothing is loaded.
func TestALostRankIsTakenFromTheReplicaThatGoes(t *testing.T) {
	r, f := running(t, 2, "mixtral-8x7b", parallel.Strategy{TP: 4, DP: 4, EP: 4, ExpertTP: 2}, layout.Workload{Task: string(DecodeOnly), ISL: 1024, OSL: 512, Batch: 64})
	r.Skip = without(1, 6, 12)
	got, err := Replan(context.Background(), r, f)
	if err != nil {
		t.Fatal(err)
	}
	// One exchange inside a box costs a move and keeps a tp group together.
	if !got.Kept.Degrees || got.Kept.Moved > 1 || got.Kept.Moved == 1 && !strings.Contains(got.Kept.Alone, "must move (0)") {
		t.Errorf("%s: %+v; want the 8 ranks of one replica set and no move that must be", got.Best.Strategy, got.Kept)
	}
}

// Two replica sets of two boxes each that lose a box each, not the same half, become one.
func TestSurvivingHalvesBecomeOne(t *testing.T) {
	r, f := running(t, 4, "mixtral-8x7b", parallel.Strategy{TP: 8, DP: 4, EP: 8, ExpertTP: 2}, layout.Workload{Task: string(DecodeOnly), ISL: 1024, OSL: 512, Batch: 64})
	lost := map[topology.NodeID]bool{1: true, 2: true}
	r.Skip = func(id topology.GPUID) bool { return lost[r.Cluster.NodeOf(id)] }
	got, err := Replan(context.Background(), r, f)
	if err != nil {
		t.Fatal(err)
	}
	if !got.Kept.Degrees || got.Kept.Moved != 0 || got.Kept.Stay != 16 {
		t.Errorf("%s: %+v; want 16 ranks where they are", got.Best.Strategy, got.Kept)
	}
	if counts, _ := seatsOf(r.Cluster, got.Seats); len(counts) != 2 {
		t.Errorf("ranks a node %v, want two whole boxes", counts)
	}
}

// An expert group that lost a GPU moves whole where that is worth it, although no tensor-parallel group is split.
func TestAnExpertGroupMovesWhole(t *testing.T) {
	r, f := running(t, 3, "mixtral-8x7b", parallel.Strategy{TP: 1, DP: 16, EP: 8}, layout.Workload{Task: string(DecodeOnly), ISL: 1024, OSL: 512, Batch: 1024})
	r.Skip = without(3)
	got, err := Replan(context.Background(), r, f)
	if err != nil {
		t.Fatal(err)
	}
	if got.Best.Strategy.DP != 16 || got.Kept.Moved != 8 || got.Kept.Alone == "" || domainsOf(got, r.Cluster, parallel.EP) != 1 {
		t.Errorf("%s: %+v; want the experts' group of 8 in the idle box", got.Best.Strategy, got.Kept)
	}
}

// At equal moves the cheaper plan is taken, whether its degrees are the former ones or not.
func TestNoDearerPlanAtEqualMoves(t *testing.T) {
	r, f := running(t, 2, "llama-3.1-8b", parallel.Strategy{TP: 8, DP: 2}, layout.Workload{Task: string(DecodeOnly), ISL: 1024, OSL: 512, Batch: 4096})
	for _, lost := range [][]topology.GPUID{{0}, {0, 8}, {1, 2, 3, 9}} {
		r.Skip = without(lost...)
		got, err := Replan(context.Background(), r, f)
		if err != nil {
			t.Fatal(err)
		}
		anew, err := Search(context.Background(), r)
		if err != nil {
			t.Fatal(err)
		}
		if moved := f.compare(&search{Request: r}, anew).Moved; moved <= got.Kept.Moved && cheaper(anew.Best, got.Best) {
			t.Errorf("lost %v: %s moves %d, the new plan %s is cheaper and moves %d", lost, got.Best.Strategy, got.Kept.Moved, anew.Best.Strategy, moved)
		}
	}
}

// A new plan takes of the seats that cost the same those where most ranks are already: here stages on boxes in another order.
func TestANewPlanLeavesWhatItCan(t *testing.T) {
	r, f := running(t, 4, "llama-3.1-70b", parallel.Strategy{TP: 8, PP: 4}, layout.Workload{Task: string(DecodeOnly), ISL: 1024, OSL: 512, Batch: 1024})
	r.Freedom.Fix = map[parallel.Dim]int{parallel.TP: 8, parallel.PP: 4}
	for i := range f.Seats {
		f.Seats[i] = topology.GPUID((3-i/8)*8 + 7 - i%8)
	}
	p, err := Renew(context.Background(), r, f)
	if err != nil {
		t.Fatal(err)
	}
	if p.Kept.Moved != 0 || p.Kept.Stay != 32 {
		t.Errorf("%s: %+v; want every rank where it is", p.Best.Strategy, p.Kept)
	}
	// With other degrees after a loss nothing can stay, and nothing is said to.
	r.Freedom.Fix = map[parallel.Dim]int{parallel.TP: 4}
	if p, err = Renew(context.Background(), r, f); err != nil || p.Kept.Stay != 0 {
		t.Errorf("%v, %+v; want every share changed", err, p.Kept)
	}
	// The settled seats of a plan of other replicas cost what the search found.
	best, err := Search(context.Background(), r)
	if err != nil || p.Best.CostRatio(best.Best) > 1+sameCost {
		t.Errorf("%v: %.4f of the best", err, p.Best.CostRatio(best.Best))
	}
}
