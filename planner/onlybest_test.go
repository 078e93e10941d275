package planner

import (
	"testing"

	"rankmap/layout"
)

// Dropping by bound finds the plan that pricing everything finds.
func TestOnlyBestFindsTheSamePlan(t *testing.T) {
	b := newBench(t)
	for _, tt := range []struct {
		preset string
		count  int
		gpus   int
		model  string
		w      layout.Workload
	}{
		{"hgx-h100", 3, 0, "llama-3.1-70b", layout.Workload{Task: "serve", ISL: 2048, OSL: 256, Objective: "throughput", TPOTMs: 40}},
		{"hgx-h100", 8, 0, "deepseek-v3", layout.Workload{Task: "decode", ISL: 4096, OSL: 1024, Objective: "throughput", TPOTMs: 60}},
		{"hgx-h100", 8, 60, "deepseek-v3", layout.Workload{Task: "decode", ISL: 4096, OSL: 1024, Objective: "latency"}},
		{"gb200-nvl72", 2, 0, "qwen3-235b-a22b", layout.Workload{Task: "prefill", ISL: 4096, Objective: "throughput", TTFTMs: 900}},
		{"gb200-nvl72", 2, 96, "deepseek-v3", layout.Workload{Task: "prefill", ISL: 4096, Objective: "latency"}},
		{"dgx1-v100", 2, 0, "llama-3.1-8b", layout.Workload{Task: "decode", ISL: 512, OSL: 64, Objective: "throughput"}},
		{"pcie-l40s", 2, 0, "mixtral-8x7b", layout.Workload{Task: "decode", ISL: 1024, OSL: 64, Objective: "throughput"}},
	} {
		r := b.request(t, b.preset(t, tt.preset, tt.count), tt.model, tt.w)
		r.GPUs, r.Top = tt.gpus, 1
		want, err := Search(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		r.BestOnly = true
		got, err := Search(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := want.Best, got.Best; a.Strategy.String() != b.Strategy.String() || a.Batch != b.Batch || a.Step.Time != b.Step.Time {
			t.Errorf("%s:%d %s %s: %s batch %d (%v), want %s batch %d (%v)", tt.preset, tt.count, tt.model, tt.w.Task,
				b.Strategy, b.Batch, b.Step.Time, a.Strategy, a.Batch, a.Step.Time)
		}
		t.Logf("%s:%d %s %s: %d priced of %d", tt.preset, tt.count, tt.model, tt.w.Task, got.Searched.Priced, want.Searched.Priced)
	}
}

// Limits that nothing keeps are given up after the counts that replicas of round sizes fill.
func TestFewerGPUsAreTriedWhereLimitsBind(t *testing.T) {
	s := &search{counts: Counts{ByLimit: 1, ByRule: 1}}
	var tried []int
	for n := 20; n > 0; n = s.fewer(n, 20) {
		tried = append(tried, n)
	}
	if want := []int{20, 18, 16, 12}; len(tried) != len(want) || tried[1] != 18 || tried[3] != 12 {
		t.Errorf("tried %v, want %v", tried, want)
	}
	s.counts = Counts{ByRule: 1}
	if n := s.fewer(7, 8); n != 6 {
		t.Errorf("after 7 comes %d, want 6: no limit binds", n)
	}
	s.counts = Counts{ByMemory: 1}
	if n := s.fewer(8, 8); n != 0 {
		t.Errorf("after 8 comes %d, want none: fewer GPUs hold less", n)
	}
}
