package planner

import (
	"context"
	"strings"
	"testing"

	"rankmap/internal/parallel"
	"rankmap/layout"
	"rankmap/topology"
)

// runningPlan plans Llama-3.1-70B decode on HGX H100 boxes with tp fixed, on so many GPUs.
func runningPlan(t *testing.T, nodes, tp, gpus int) (*bench, Request, *Plan, Former) {
	t.Helper()
	b := newBench(t)
	r := b.request(t, b.preset(t, "hgx-h100", nodes), "llama-3.1-70b", layout.Workload{Task: string(DecodeOnly), ISL: 1024, OSL: 512})
	r.Freedom.Fix = map[parallel.Dim]int{parallel.TP: tp}
	r.GPUs = gpus
	p, err := Search(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	r.Freedom, r.GPUs = Freedom{}, 0
	return b, r, p, Former{Strategy: p.Best.Strategy, Seats: p.Seats, Batch: p.Best.Batch}
}

func without(ids ...topology.GPUID) func(topology.GPUID) bool {
	return func(id topology.GPUID) bool {
		for _, x := range ids {
			if x == id {
				return true
			}
		}
		return false
	}
}

func TestNothingLostNothingMoves(t *testing.T) {
	_, r, p, f := runningPlan(t, 2, 8, 16)
	got, err := Replan(context.Background(), r, f)
	if err != nil {
		t.Fatal(err)
	}
	if got.Kept.Stay != 16 || got.Kept.Moved != 0 || got.Kept.Gone != 0 || got.Best.Step.Time != p.Best.Step.Time {
		t.Errorf("%+v, step %v, was %v", got.Kept, got.Best.Step.Time, p.Best.Step.Time)
	}
}

func TestALostReplicaGoesAndTheOthersStay(t *testing.T) {
	_, r, _, f := runningPlan(t, 3, 8, 24)
	r.Skip = without(f.Seats[11])
	got, err := Replan(context.Background(), r, f)
	if err != nil {
		t.Fatal(err)
	}
	k := got.Kept
	if !k.Degrees || k.Moved != 0 || k.Stay != 16 || k.Gone != 8 || got.Best.Strategy.DP != f.Strategy.DP-1 {
		t.Errorf("%s: %+v; want the replica of the lost GPU gone and 16 ranks where they are", got.Best.Strategy, k)
	}
	for _, id := range got.Seats {
		if r.Skip(id) {
			t.Error("a rank sits on the lost GPU")
		}
	}
	if k.Anew == "" || !strings.Contains(strings.Join(got.Notes, "\n"), "16 ranks stay, 0 move, 8 are gone") {
		t.Errorf("notes %q", got.Notes)
	}
}

func TestASpareTakesOneRankOrAWholeGroup(t *testing.T) {
	_, r, _, f := runningPlan(t, 4, 4, 28)
	spare := topology.GPUID(28)
	for id := range topology.GPUID(32) {
		if !contains(f.Seats, id) {
			spare = id
			break
		}
	}
	r.Skip = without(f.Seats[5])
	got, err := Replan(context.Background(), r, f)
	if err != nil {
		t.Fatal(err)
	}
	if got.Kept.Moved != 4 || got.Kept.Stay != 24 || got.Kept.Alone == "" {
		t.Errorf("%+v; want the group of 4 to move as one into the free half of a box", got.Kept)
	}
	r.Skip = without(f.Seats[5], spare) // the free half has three GPUs left: no room for a group
	if got, err = Replan(context.Background(), r, f); err != nil {
		t.Fatal(err)
	}
	if got.Kept.Moved > 1 {
		t.Errorf("%+v; want no more than the rank that lost its GPU", got.Kept)
	}
}

// Where the batch makes several replicas go, the neighbours of the lost one go with it: whole boxes stay.
func TestReplicasBesideTheLostOneGoFirst(t *testing.T) {
	b := newBench(t)
	r := b.request(t, b.preset(t, "hgx-h100", 4), "llama-3.1-8b", layout.Workload{Task: string(TrainStep), SeqLen: 4096, Batch: 96})
	f := Former{Strategy: parallel.Strategy{TP: 2, DP: 16, MicroBatch: 1, SequenceParallel: true, ZeRO: 1}.Normalize()}
	for id := range topology.GPUID(32) {
		f.Seats = append(f.Seats, id)
	}
	r.Workload.Batch = 144 // of 15, 14, 13 and 12 replicas only 12 divide it
	r.Skip = without(13)
	got, err := Replan(context.Background(), r, f)
	if err != nil {
		t.Fatal(err)
	}
	if got.Best.Strategy.DP != 12 || got.Kept.Moved != 0 {
		t.Fatalf("%s: %+v; want 12 of 16 replicas and no move", got.Best.Strategy, got.Kept)
	}
	if counts, _ := seatsOf(r.Cluster, got.Seats); len(counts) != 3 || counts[0] != 8 || counts[1] != 8 || counts[2] != 8 {
		t.Errorf("ranks a node %v, want three whole boxes", counts)
	}
}

func contains(ids []topology.GPUID, id topology.GPUID) bool {
	for _, x := range ids {
		if x == id {
			return true
		}
	}
	return false
}

func TestDegreesThatNoLongerFitAreGivenUp(t *testing.T) {
	_, r, _, f := runningPlan(t, 1, 8, 8)
	r.Skip = without(f.Seats[0])
	got, err := Replan(context.Background(), r, f)
	if err != nil {
		t.Fatal(err)
	}
	if got.Kept.Degrees || got.Best.Strategy.TP == 8 || got.Kept.Stay+got.Kept.Moved != len(got.Seats) {
		t.Errorf("%s: %+v; want other degrees", got.Best.Strategy, got.Kept)
	}
	r.Freedom.Fix = map[parallel.Dim]int{parallel.TP: 8}
	if _, err := Replan(context.Background(), r, f); err == nil {
		t.Error("tp 8 on seven GPUs was planned")
	}
}

// With experts over all ranks no replica can go: every share changes, and the plan says so.
func TestSpreadExpertsAreDealtAnew(t *testing.T) {
	b := newBench(t)
	r := b.request(t, b.preset(t, "hgx-h200", 2), "deepseek-v3", layout.Workload{Task: string(DecodeOnly), ISL: 1024, OSL: 512, Batch: 256})
	r.Freedom.Fix = map[parallel.Dim]int{parallel.EP: 16}
	p, err := Search(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	r.Freedom = Freedom{}
	r.Skip = without(p.Seats[3])
	got, err := Replan(context.Background(), r, Former{p.Best.Strategy, p.Seats, p.Best.Batch})
	if err != nil {
		t.Fatal(err)
	}
	if got.Kept.Degrees || got.Kept.Stay != 0 {
		t.Errorf("%s after %s: %+v; want every share changed", got.Best.Strategy, p.Best.Strategy, got.Kept)
	}
}

func TestFormerRanksAreFoundByHostIndexAndUUID(t *testing.T) {
	b := newBench(t)
	c := b.preset(t, "hgx-h100", 2)
	l := &layout.Layout{Strategy: layout.Of(parallel.Strategy{TP: 2, DP: 2}.Normalize()), Ranks: []layout.Rank{
		{Host: "node1", GPU: 3}, {Host: "node0", GPU: 7}, {Host: "elsewhere", GPU: 0}, {Host: "node0", GPU: 0},
	}}
	f, err := FormerOf(l, c, "l.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if want := []topology.GPUID{11, 7, Gone, 0}; !equalIDs(f.Seats, want) {
		t.Errorf("seats %v, want %v", f.Seats, want)
	}
	for i := range l.Ranks {
		l.Ranks[i].Host = "elsewhere"
	}
	if _, err := FormerOf(l, c, "l.yaml"); err == nil || !strings.Contains(err.Error(), "l.yaml") {
		t.Errorf("a layout of other hosts: %v", err)
	}
	if _, err := Replan(context.Background(), Request{Cluster: c}, Former{Strategy: parallel.Strategy{TP: 2}}); err == nil {
		t.Error("no seats for two ranks: want an error")
	}
}

func equalIDs(a, b []topology.GPUID) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
