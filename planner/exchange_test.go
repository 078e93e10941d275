package planner

import (
	"math"
	"testing"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/layout"
	"rankmap/model"
	"rankmap/topology"
)

func TestMergedExchangesCountDomains(t *testing.T) {
	b := newBench(t)
	c := b.preset(t, "hgx-h100", 4)
	var inside, across []topology.GPUID
	for i := range topology.GPUID(32) {
		across = append(across, i)
		if i < 8 {
			inside = append(inside, i)
		}
	}
	op := model.CollectiveOp{Op: parallel.AllToAll, Group: parallel.EP, Bytes: 8 * 1000 * 100,
		Exchange: &model.Exchange{TokensPerRank: 1000, TopK: 8, Experts: 256, BytesPerCopy: 100, Merged: true}}
	if got := wireBytes(c, inside, &op); got != op.Bytes {
		t.Errorf("inside one domain %v, want what the model gives, %v", got, op.Bytes)
	}
	want := 1000 * 100 * model.ExpectedDestinations(4, 256, 8)
	if got := wireBytes(c, across, &op); math.Abs(float64(got)-want) > 1 {
		t.Errorf("over four domains %v, want %v", got, want)
	}
	op.Exchange.TopGroups = 2 // routing to at most two groups
	if got := wireBytes(c, across, &op); got != units.Bytes(1000*100*2) {
		t.Errorf("node-limited %v, want two copies a token", got)
	}
	op.Exchange.Merged = false
	if got := wireBytes(c, across, &op); got != op.Bytes {
		t.Errorf("not merged: %v, want %v", got, op.Bytes)
	}
}

// A prefill step sends a token once to each rank with some of its experts; decode kernels once an expert.
func TestPrefillMergesCopies(t *testing.T) {
	b := newBench(t)
	r := b.request(t, b.preset(t, "hgx-h200", 2), "deepseek-v3", layout.Workload{Task: string(PrefillOnly), ISL: 1024})
	s := &search{Request: r, base: newSeating(r.Cluster, nil)}
	st := parallel.Strategy{TP: 1, DP: 8, EP: 8}.Normalize()
	if w := s.work(st, model.Prefill, 8); !w.Merged {
		t.Error("prefill does not merge")
	}
	if w := s.work(st, model.Decode, 8); w.Merged {
		t.Error("decode merges")
	}
	bytes := func(merged bool) units.Bytes {
		w := s.work(st, model.Prefill, 8)
		w.Merged = merged
		for _, c := range r.Spec.StepCollectives(st, w, 0) {
			if c.Exchange != nil && c.Exchange.Combine {
				return c.Bytes
			}
		}
		return 0
	}
	if got, want := float64(bytes(true))/float64(bytes(false)), model.ExpectedDestinations(8, 256, 8)/8; math.Abs(got-want) > 16*8/float64(bytes(false)) { // shares are whole
		t.Errorf("merged copies are %v of all, want %v", got, want)
	}
}
