package planner

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"rankmap/configs"
	"rankmap/internal/parallel"
	"rankmap/layout"
	"rankmap/model"
	"rankmap/topology"
)

// domainsOf lists how many NVLink domains each group of a kind touches, at most.
func domainsOf(p *Plan, c *topology.Cluster, kind parallel.Dim) int {
	most := 0
	for _, ranks := range p.Best.Strategy.Groups(kind) {
		seen := map[int]bool{}
		for _, r := range ranks {
			seen[c.DomainOf(p.Seats[r])] = true
		}
		most = max(most, len(seen))
	}
	return most
}

// The rule must come out of the prices where throughput counts. Where latency counts at a small fixed batch it may not:
// TestLatencyMayCrossNodes.
func TestTPAndEPStayInsideNVLinkOnHGX(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		preset string
		nodes  int
		model  string
		w      layout.Workload
	}{
		{"hgx-h100", 2, "llama-3.1-70b", layout.Workload{Task: "decode", ISL: 1024, OSL: 512, Batch: 64}},
		{"hgx-h100", 2, "llama-3.1-405b", layout.Workload{Task: "decode", ISL: 1024, OSL: 512}},
		{"hgx-h200", 4, "deepseek-v3", layout.Workload{Task: "serve", ISL: 4096, OSL: 1024}},
		{"hgx-b200", 2, "mixtral-8x7b", layout.Workload{Task: "serve", ISL: 2048, OSL: 512}},
		{"hgx-a100", 4, "llama-3.1-70b", layout.Workload{Task: "train", SeqLen: 4096, Batch: 256}},
		{"hgx-h100", 4, "llama-3.1-405b", layout.Workload{Task: "prefill", ISL: 8192, Batch: 4}},
	} {
		t.Run(c.preset+"/"+c.model+"/"+c.w.Task, func(t *testing.T) {
			cl := b.preset(t, c.preset, c.nodes)
			p, _ := b.plan(t, cl, c.model, c.w)
			for _, kind := range []parallel.Dim{parallel.TP, parallel.EP, parallel.ExpertTP} {
				if n := domainsOf(p, cl, kind); n > 1 {
					t.Errorf("%s order %v: %s groups cross %d NVLink domains", p.Best.Strategy, p.Best.Strategy.Order, kind, n)
				}
			}
			if p.Best.Strategy.PP*p.Best.Strategy.DP < c.nodes {
				t.Errorf("%s: neither pp nor dp crosses the %d nodes", p.Best.Strategy, c.nodes)
			}
		})
	}
}

// With few sequences a decode step reads weights more than it communicates, so spreading a 405B model's weights over 16
// GPUs can beat two pipeline stages although every all-reduce crosses nodes. The planner follows the numbers; what must
// hold is that it says so.
func TestLatencyMayCrossNodes(t *testing.T) {
	b := newBench(t)
	cl := b.preset(t, "hgx-h100", 2)
	p, _ := b.plan(t, cl, "llama-3.1-405b", layout.Workload{Task: "decode", ISL: 1024, OSL: 512, Batch: 8, Objective: string(Latency)})
	crosses := domainsOf(p, cl, parallel.TP) > 1
	says := strings.Contains(strings.Join(p.Explained, "\n"), "NIC")
	if crosses != says {
		t.Errorf("%s: tp crosses nodes: %v; the explanation names the NIC: %v\n%s", p.Best.Strategy, crosses, says, strings.Join(p.Explained, "\n"))
	}
}

// On a rack the same search spreads experts far beyond a node: nothing in the planner knows the number 8.
func TestEPTakesAnNVL72(t *testing.T) {
	b := newBench(t)
	cl := b.preset(t, "gb200-nvl72", 1)
	p, _ := b.plan(t, cl, "deepseek-v3", layout.Workload{Task: "decode", ISL: 4096, OSL: 1024, TPOTMs: 30})
	if p.Best.Strategy.EP <= 8 {
		t.Errorf("%s: want experts over more than 8 GPUs of the rack", p.Best.Strategy)
	}
	if n := domainsOf(p, cl, parallel.EP); n != 1 {
		t.Errorf("ep groups touch %d domains", n)
	}
}

// A PCIe box has no cliff at 8 and no NVLink: the numbers must be followed there too, and small models want no split.
func TestTinyModelIsNotSplit(t *testing.T) {
	b := newBench(t)
	cl := b.preset(t, "hgx-h100", 1)
	p, _ := b.plan(t, cl, "llama-3.1-8b", layout.Workload{Task: "decode", ISL: 512, OSL: 128, Objective: string(Throughput)})
	if p.Best.Strategy.DP < 4 {
		t.Errorf("%s: an 8B model for throughput wants replicas", p.Best.Strategy)
	}
}

func TestSeatsAreAPermutation(t *testing.T) {
	b := newBench(t)
	cl := b.preset(t, "gb200-nvl72", 1)
	p, _ := b.plan(t, cl, "llama-3.1-70b", layout.Workload{Task: "decode", ISL: 1024, OSL: 512, Batch: 256})
	seen := map[topology.GPUID]bool{}
	for _, id := range append(append([]topology.GPUID{}, p.Seats...), p.Idle...) {
		if seen[id] {
			t.Errorf("GPU %s has two uses", cl.GPUName(id))
		}
		seen[id] = true
	}
	if len(seen) != cl.NumGPUs() || len(p.Seats) != p.Best.Strategy.World() {
		t.Errorf("%d GPUs seated or idle, %d in the cluster, %d seats, world %d", len(seen), cl.NumGPUs(), len(p.Seats), p.Best.Strategy.World())
	}
}

func TestExplainsAndKeepsFiveLosers(t *testing.T) {
	b := newBench(t)
	cl := b.preset(t, "hgx-h100", 2)
	p, _ := b.plan(t, cl, "llama-3.1-70b", layout.Workload{Task: "decode", ISL: 1024, OSL: 512, Batch: 64})
	if len(p.Losers) != 5 {
		t.Fatalf("%d losers, want 5", len(p.Losers))
	}
	last := p.Best.score
	for _, l := range p.Losers {
		if l.Why == "" {
			t.Errorf("%s lost without a reason", l.Strategy)
		}
		if l.Outcome != nil {
			if l.Outcome.score < last {
				t.Errorf("%s is listed behind a worse one", l.Strategy)
			}
			last = l.Outcome.score
		}
	}
	text := strings.Join(p.Explained, "\n")
	for _, want := range []string{"binds", "seated worst", "NIC", "searched"} {
		if !strings.Contains(text, want) {
			t.Errorf("the explanation does not say %q:\n%s", want, text)
		}
	}
}

func TestInfeasibleNamesBindingAndNearest(t *testing.T) {
	b := newBench(t)
	for name, c := range map[string]struct {
		preset  string
		nodes   int
		model   string
		w       layout.Workload
		free    Freedom
		gpus    int
		binding string
		nearest string
	}{
		"too large":        {"hgx-h100", 1, "deepseek-v3", layout.Workload{Task: "decode", ISL: 4096, OSL: 1024}, Freedom{}, 0, "memory", "GPUs"},
		"limit":            {"hgx-h100", 1, "llama-3.1-70b", layout.Workload{Task: "decode", ISL: 1024, OSL: 512, TPOTMs: 0.01}, Freedom{}, 0, "TPOT", "limit"},
		"fixed impossible": {"hgx-h100", 1, "llama-3.1-70b", layout.Workload{Task: "decode", ISL: 1024, OSL: 512}, Freedom{Fix: map[parallel.Dim]int{parallel.TP: 3}}, 8, "tp=3", ""},
		"more than all":    {"hgx-h100", 1, "llama-3.1-8b", layout.Workload{Task: "decode", ISL: 1024, OSL: 512}, Freedom{}, 9, "9 GPUs", "--gpus 8"},
		"batch too large":  {"hgx-h100", 1, "llama-3.1-70b", layout.Workload{Task: "decode", ISL: 100000, OSL: 512, Batch: 4096}, Freedom{}, 0, "memory", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := b.request(t, b.preset(t, c.preset, c.nodes), c.model, c.w)
			r.Freedom, r.GPUs = c.free, c.gpus
			_, err := Search(context.Background(), r)
			var no *Infeasible
			if !errors.As(err, &no) {
				t.Fatalf("got %v, want *Infeasible", err)
			}
			if !strings.Contains(no.Binding, c.binding) || !strings.Contains(no.Nearest, c.nearest) || no.Nearest == "" {
				t.Errorf("binding %q nearest %q, want them to say %q and %q", no.Binding, no.Nearest, c.binding, c.nearest)
			}
		})
	}
}

func TestIdleGPUsWhenNothingFitsExactly(t *testing.T) {
	b := newBench(t)
	cl := b.preset(t, "hgx-h100", 1)
	r := b.request(t, cl, "llama-3.1-70b", layout.Workload{Task: "decode", ISL: 1024, OSL: 512, Batch: 8})
	r.Skip = func(id topology.GPUID) bool { return id == 3 } // seven GPUs: 64 heads and a prime
	p, err := Search(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Idle) < 2 || p.Best.GPUs > 6 {
		t.Errorf("%s uses %d GPUs, idle %v; a 70B model cannot be replicated on 7 single GPUs", p.Best.Strategy, p.Best.GPUs, p.Idle)
	}
	for _, id := range p.Seats {
		if id == 3 {
			t.Error("a rank sits on the GPU that must stay idle")
		}
	}
}

func TestSameBytesEveryTime(t *testing.T) {
	b := newBench(t)
	var first []byte
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for i := range 20 {
		runtime.GOMAXPROCS([]int{1, 8}[i%2])
		cl := b.preset(t, "hgx-h200", 2)
		p, r := b.plan(t, cl, "mixtral-8x7b", layout.Workload{Task: "serve", ISL: 1024, OSL: 256})
		doc, err := p.Document(r, layout.Inputs{Workload: r.Workload}, topology.NewDoc(cl))
		if err != nil {
			t.Fatal(err)
		}
		var w bytes.Buffer
		if err := doc.WriteYAML(&w); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = w.Bytes()
		} else if !bytes.Equal(first, w.Bytes()) {
			t.Fatalf("run %d differs", i)
		}
	}
}

func TestCancelled(t *testing.T) {
	b := newBench(t)
	r := b.request(t, b.preset(t, "hgx-h100", 1), "llama-3.1-8b", layout.Workload{Task: "decode", ISL: 512, OSL: 128, Batch: 8})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Search(ctx, r); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before the first plan: %v", err)
	}
}

// The search equals a dumb one that tries every permutation of GPUs for the chosen degrees, on four GPUs in two domains.
func TestOrderEqualsBruteForce(t *testing.T) {
	b := newBench(t)
	spec, err := model.Load(configs.FS, "llama-3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	cl := b.preset(t, "dgx1-v100", 1) // any four GPUs will do; domainPricer only looks at domains
	two, err := topology.Replicate(cl.Classes[0], 2, cl.Fabric, b.cat)
	if err != nil {
		t.Fatal(err)
	}
	use := map[topology.GPUID]bool{0: true, 1: true, 8: true, 9: true}
	r := cheap(t, two, spec, layout.Workload{Task: "decode", ISL: 512, OSL: 128, Batch: 8, Objective: "latency"})
	r.Skip = func(id topology.GPUID) bool { return !use[id] }
	r.Freedom.Fix = map[parallel.Dim]int{parallel.TP: 2}
	p, err := Search(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	s := &search{Request: r, base: newSeating(two, r.Skip)}
	best := p.Best.TPOT.Time
	seats := s.base.take(4)
	perm := seats.gpus
	st := p.Best.Strategy
	st.Order = parallel.DefaultOrder
	var walk func(int)
	walk = func(i int) {
		if i == len(perm) {
			o, err := s.evaluate(st, newComm(permuted(seats), r.Pricer, graphLaunch, st).price, 8, true)
			if err != nil {
				t.Fatal(err)
			}
			if o.TPOT.Time < best*(1-1e-9) {
				t.Errorf("seating %v takes %v, the search found %v", perm, o.TPOT.Time, best)
			}
			return
		}
		for j := i; j < len(perm); j++ {
			perm[i], perm[j] = perm[j], perm[i]
			walk(i + 1)
			perm[i], perm[j] = perm[j], perm[i]
		}
	}
	walk(0)
}

// permuted recomputes what a seating derives from its list.
func permuted(s *seating) *seating {
	t := *s
	t.rankOf = make([]int32, s.c.NumGPUs())
	for i := range t.rankOf {
		t.rankOf[i] = -1
	}
	for r, id := range t.gpus {
		t.rankOf[id] = int32(r)
	}
	t.period, t.known = t.n, nil
	return &t
}
