package planner

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"rankmap/internal/engine"
	"rankmap/internal/parallel"
	"rankmap/layout"
)

// no runs a search that must find nothing.
func no(t *testing.T, r Request) *Infeasible {
	t.Helper()
	_, err := Search(context.Background(), r)
	var e *Infeasible
	if !errors.As(err, &e) {
		t.Fatalf("%v, want no plan", err)
	}
	return e
}

func TestWhyNothingKeepsWhatIsFixed(t *testing.T) {
	be := newBench(t)
	type fix = map[parallel.Dim]int
	const tp, pp, cp, dp, ep, etp = parallel.TP, parallel.PP, parallel.CP, parallel.DP, parallel.EP, parallel.ExpertTP
	for _, c := range []struct {
		model, task string
		fix         fix
		forbid      []parallel.Dim
		gpus        int
		want        string
	}{
		{"llama-3.1-8b", "decode", fix{ep: 4}, nil, 0, "no routed experts"},
		{"llama-3.1-8b", "decode", fix{etp: 2}, nil, 0, "no routed experts"},
		{"llama-3.1-8b", "decode", fix{cp: 2}, nil, 0, "cp is searched for prefill and training alone"},
		{"llama-3.1-8b", "decode", fix{tp: 4}, []parallel.Dim{tp}, 0, "tp is fixed at 4 and forbidden"},
		{"llama-3.1-8b", "decode", fix{pp: 64}, nil, 0, "pp 64 is more than the 32 layers"},
		{"llama-3.1-8b", "decode", fix{tp: 4, pp: 4}, nil, 8, "tp 4 x pp 4 do not divide 8 GPUs"},
		{"llama-3.1-8b", "decode", fix{tp: 2, pp: 2, dp: 1}, nil, 8, "tp 2 x pp 2 make 4 GPUs, not 8"},
		{"mixtral-8x7b", "decode", fix{tp: 8, ep: 4, etp: 1}, nil, 8, "must be a multiple of tp x cp = 8"},
		{"mixtral-8x7b", "decode", fix{ep: 8, etp: 2}, nil, 8, "ep 8 x expert-tp 2 do not divide the 8 GPUs of a stage"},
		{"mixtral-8x7b", "train", fix{ep: 3}, nil, 8, "8 experts are not a multiple of ep 3"},
	} {
		w := layout.Workload{Task: c.task, ISL: 1024, OSL: 256, SeqLen: 4096, Objective: "throughput"}
		if c.task == "train" {
			w.Batch = 64
		}
		r := be.request(t, be.preset(t, "hgx-h100", 1), c.model, w)
		r.GPUs, r.Freedom.Fix, r.Freedom.Forbid = c.gpus, c.fix, map[parallel.Dim]bool{}
		for _, d := range c.forbid {
			r.Freedom.Forbid[d] = true
		}
		if e := no(t, r); !strings.Contains(e.Binding, c.want) {
			t.Errorf("%s %s %v: %q, want %q", c.model, c.task, c.fix, e.Binding, c.want)
		}
	}
}

// What is proposed where memory is short was tried: with it there is a plan.
func TestProposalsForMemoryFit(t *testing.T) {
	be := newBench(t)
	grown := regexp.MustCompile(`^(\d+) GPUs`)
	flag := regexp.MustCompile(`--(weights|kv-cache|batch|seq-len) (\S+)`)
	for _, c := range []struct {
		model string
		w     layout.Workload
	}{
		{"llama-3.1-405b", layout.Workload{Task: "decode", ISL: 1024, OSL: 256}},
		{"deepseek-v3", layout.Workload{Task: "serve", ISL: 4096, OSL: 1024}},
		{"llama-3.1-8b", layout.Workload{Task: "decode", ISL: 4096, OSL: 1024, Batch: 4096}},
		{"llama-3.1-70b", layout.Workload{Task: "train", SeqLen: 4096, Batch: 128}},
	} {
		c.w.Objective = "throughput"
		r := be.request(t, be.preset(t, "hgx-h100", 1), c.model, c.w)
		r.GPUs = 8
		e := no(t, r)
		if !strings.HasPrefix(e.Binding, "memory: the smallest need is") {
			t.Errorf("%s: %q", c.model, e.Binding)
		}
		if m := grown.FindStringSubmatch(e.Nearest); m == nil {
			t.Errorf("%s: no number of GPUs in %q", c.model, e.Nearest)
		} else {
			n, _ := strconv.Atoi(m[1])
			more := be.request(t, be.preset(t, "hgx-h100", (n+7)/8), c.model, c.w)
			more.GPUs = n
			if _, err := Search(context.Background(), more); err != nil {
				t.Errorf("%s on %d GPUs: %v", c.model, n, err)
			}
		}
		for _, m := range flag.FindAllStringSubmatch(e.Nearest, -1) {
			try := r
			switch m[1] {
			case "weights":
				try.Workload.Weights = m[2]
			case "kv-cache":
				try.Workload.KVCache = m[2]
			case "batch":
				try.Workload.Batch, _ = strconv.Atoi(m[2])
			case "seq-len":
				try.Workload.SeqLen, _ = strconv.Atoi(m[2])
			}
			if _, err := Search(context.Background(), try); err != nil {
				t.Errorf("%s with %s: %v", c.model, m[0], err)
			}
		}
	}
}

// Without a micro-batch the reason is the batch, or the engine's rule.
func TestWhyThereIsNoMicroBatch(t *testing.T) {
	be := newBench(t)
	w := layout.Workload{Task: "train", SeqLen: 4096, Batch: 7, Objective: "step-time"}
	r := be.request(t, be.preset(t, "hgx-h100", 1), "llama-3.1-8b", w)
	r.Freedom.Fix = map[parallel.Dim]int{parallel.DP: 2}
	if e := no(t, r); !strings.Contains(e.Binding, "7 sequences are not a multiple of dp 2") || e.Nearest != "--batch 6 or --batch 8" {
		t.Errorf("%q, %q", e.Binding, e.Nearest)
	}
	old, err := engine.Find("megatron@0.12")
	if err != nil {
		t.Fatal(err)
	}
	r.Workload.Batch, r.Engine, r.GPUs = 64, &old, 7
	r.Freedom.Fix = map[parallel.Dim]int{parallel.PP: 7}
	if e := no(t, r); !strings.Contains(e.Binding, "megatron@0.12: layers % (pp x virtual stages)") {
		t.Errorf("%q", e.Binding)
	}
}

// Of the plans that miss a limit the one that misses it by least is named.
func TestTheNearestMissIsNamed(t *testing.T) {
	be := newBench(t)
	w := layout.Workload{Task: "decode", ISL: 1024, OSL: 256, Objective: "throughput", TPOTMs: 1}
	r := be.request(t, be.preset(t, "hgx-h100", 1), "llama-3.1-8b", w)
	e := no(t, r)
	m := regexp.MustCompile(`the nearest is (\S+): TPOT (\S+) ms is over the limit of 1 ms`).FindStringSubmatch(e.Binding)
	if m == nil {
		t.Fatalf("%q", e.Binding)
	}
	got, _ := strconv.ParseFloat(m[2], 64)
	r.Workload.TPOTMs, r.Workload.Objective = 0, "latency"
	p, err := Search(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	if best := p.Best.TPOT.Time.Millis(); got > best*1.01 {
		t.Errorf("%s at %g ms, the fastest plan takes %g ms", m[1], got, best)
	}
}

// What does not fit a machine in all does not fit fewer GPUs of it: they are not searched.
func TestFewerGPUsAreNotTriedWhereTheWholeIsTooLarge(t *testing.T) {
	be := newBench(t)
	for _, c := range []struct {
		model string
		w     layout.Workload
	}{
		{"deepseek-v3", layout.Workload{Task: "serve", ISL: 4096, OSL: 1024, Batch: 10_000_000, Objective: "throughput"}},
		{"llama-3.1-405b", layout.Workload{Task: "train", SeqLen: 4096, Batch: 1 << 20, Objective: "step-time"}},
	} {
		nodes := 64
		if c.w.Task == "train" {
			nodes = 2
		}
		r := be.request(t, be.preset(t, "hgx-h100", nodes), c.model, c.w)
		s := &search{Request: r}
		all := len(s.splitter(8 * nodes).strategies(r.Freedom))
		if e := no(t, r); e.Counts.Strategies != all {
			t.Errorf("%s: %d strategies, %d GPUs have %d", c.model, e.Counts.Strategies, 8*nodes, all)
		}
	}
}
