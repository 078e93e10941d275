package planner

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"rankmap/collective"
	"rankmap/configs"
	"rankmap/internal/units"
	"rankmap/layout"
	"rankmap/model"
	"rankmap/topology"
)

// pairPricer prices a group by its slowest pair of a random bandwidth matrix, so that nothing about the machine is regular.
type pairPricer struct{ gbps [][]float64 }

func (p pairPricer) Price(r collective.Request) (collective.Estimate, error) {
	slow := math.Inf(1)
	for i, a := range r.Members {
		for _, b := range r.Members[:i] {
			slow = min(slow, p.gbps[a][b])
		}
	}
	d := units.Duration(3e-6 + float64(r.Bytes)*r.Op.BusFactor(len(r.Members))/(slow*1e9))
	return collective.Estimate{Time: d, P10: d, P90: d}, nil
}

// box is one node of n GPUs without NVLink.
func box(t testing.TB, b *bench, n int) *topology.Cluster {
	t.Helper()
	k := topology.NodeClass{Name: "box", Wiring: topology.NVLinkNone}
	for i := range n {
		k.GPUs = append(k.GPUs, topology.GPU{Index: i, Model: "l40s", NUMA: -1, GPUNUMA: -1})
	}
	c, err := topology.Replicate(k, 1, topology.Fabric{}, b.cat)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// On 200 random machines of up to eight GPUs the search equals brute force over every seating of every strategy, and its
// lower bound holds.
func TestEqualsBruteForceOnSmallMachines(t *testing.T) {
	b := newBench(t)
	spec, err := model.Load(configs.FS, "llama-3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(7, 2026))
	for trial := range 200 {
		n := 2 + rng.IntN(4)
		if trial%100 == 99 {
			n = 6
		}
		if trial == 57 && !testing.Short() {
			n = 8
		}
		c := box(t, b, n)
		p := pairPricer{make([][]float64, n)}
		for i := range n {
			p.gbps[i] = make([]float64, n)
			for j := range i {
				v := []float64{5, 12, 25, 50, 450}[rng.IntN(5)] * (1 + rng.Float64()/10)
				p.gbps[i][j], p.gbps[j][i] = v, v
			}
		}
		r := cheap(t, c, spec, layout.Workload{Task: "decode", ISL: 512, OSL: 128, Batch: 8, Objective: string(Latency)})
		r.Pricer = p
		r.GPUs = n
		plan, err := Search(context.Background(), r)
		if err != nil {
			t.Fatal(err)
		}
		s := &search{Request: r, base: newSeating(c, nil)}
		best := math.Inf(1)
		for _, o := range everyStrategy(t, s, n) {
			best = min(best, bruteForce(t, s, o))
		}
		got := plan.Best.TPOT.Time.Seconds()
		if got > best*(1+1e-9) {
			t.Errorf("machine %d of %d GPUs: the search found %v, brute force %v (%s)", trial, n, got, best, plan.Best.Strategy)
		}
		if bound := plan.Best.Bound.Seconds(); bound > best*(1+1e-9) && plan.Best.Strategy.World() == n && bound > got*(1+1e-9) {
			t.Errorf("machine %d: the bound %v is above the optimum %v", trial, bound, best)
		}
	}
}

// everyStrategy evaluates each strategy once in the plain seating.
func everyStrategy(t testing.TB, s *search, n int) []*Outcome {
	t.Helper()
	var out []*Outcome
	sp := splitter{gpus: n, layers: s.Spec.Layers()}
	for _, st := range sp.strategies(s.Freedom) {
		st = st.Normalize()
		if len(s.Spec.Check(st)) > 0 || s.memory(st, s.Workload.Batch).Total() > s.Capacity {
			continue
		}
		seats := s.seating(n)
		o, err := s.evaluate(st, newComm(seats, s.Pricer, graphLaunch, st).price, s.Workload.Batch, true)
		if err != nil {
			t.Fatal(err)
		}
		o.seats = seats
		out = append(out, o)
	}
	return out
}

// bruteForce tries every permutation of the GPUs, without any thought of symmetry.
func bruteForce(t testing.TB, s *search, o *Outcome) float64 {
	t.Helper()
	ids := append([]topology.GPUID{}, o.seats.gpus...)
	best := math.Inf(1)
	var walk func(int)
	walk = func(i int) {
		if i == len(ids) {
			c, err := s.evaluate(o.Strategy, newComm(o.seats.with(ids), s.Pricer, graphLaunch, o.Strategy).price, o.Batch, true)
			if err != nil {
				t.Fatal(err)
			}
			best = min(best, c.score)
			return
		}
		for j := i; j < len(ids); j++ {
			ids[i], ids[j] = ids[j], ids[i]
			walk(i + 1)
			ids[i], ids[j] = ids[j], ids[i]
		}
	}
	walk(0)
	return best
}

// irregular drops one GPU of the second node: 15 GPUs, domains of 8 and 7.
func irregular(t testing.TB, b *bench) (Request, *topology.Cluster) {
	t.Helper()
	c := b.preset(t, "hgx-h100", 2)
	r := b.request(t, c, "llama-3.1-70b", layout.Workload{Task: "decode", ISL: 1024, OSL: 512, Batch: 48, Objective: string(Latency)})
	r.Skip = func(id topology.GPUID) bool { return id == 11 }
	return r, c
}

func TestNoGroupStraddlesTheGapOfADeadGPU(t *testing.T) {
	b := newBench(t)
	r, c := irregular(t, b)
	r.GPUs = 12
	p, err := Search(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	if p.Best.Strategy.TP > 1 && p.Best.Strategy.TP <= 4 {
		for _, ranks := range p.Best.Strategy.Groups(0) {
			seen := map[int]bool{}
			for _, rk := range ranks {
				seen[c.DomainOf(p.Seats[rk])] = true
			}
			if len(seen) > 1 {
				t.Errorf("%s: tp group %v straddles two NVLink domains", p.Best.Strategy, ranks)
			}
		}
	}
	if p.Best.Bound <= 0 || p.Best.Bound > p.Best.Step.Time {
		t.Errorf("bound %v of a step of %v", p.Best.Bound, p.Best.Step.Time)
	}
}

// Relabelling equal nodes or GPUs, and removing or adding what is not used, never changes the cost.
func TestCostIgnoresLabels(t *testing.T) {
	b := newBench(t)
	w := layout.Workload{Task: "decode", ISL: 1024, OSL: 512, Batch: 48}
	c := b.preset(t, "hgx-h100", 2)
	p1, _ := b.plan(t, c, "llama-3.1-70b", w)
	k := c.Classes[0]
	k.Name = "renamed"
	k.GPUs = append([]topology.GPU{}, k.GPUs...)
	d, err := topology.Replicate(k, 2, c.Fabric, b.cat)
	if err != nil {
		t.Fatal(err)
	}
	for i := range d.Nodes {
		d.Nodes[i].Name = fmt.Sprintf("other%d", 9-i)
	}
	if err := d.Finish(b.cat); err != nil {
		t.Fatal(err)
	}
	p2, _ := b.plan(t, d, "llama-3.1-70b", w)
	if p1.Best.Step.Time != p2.Best.Step.Time || p1.Best.Strategy.String() != p2.Best.Strategy.String() {
		t.Errorf("%s %v, relabelled %s %v", p1.Best.Strategy, p1.Best.Step.Time, p2.Best.Strategy, p2.Best.Step.Time)
	}
}

// A faster network never makes the plan slower.
func TestMoreBandwidthNeverHurts(t *testing.T) {
	b := newBench(t)
	last := math.Inf(1)
	for _, gbps := range []float64{100, 200, 400, 800} {
		c, err := b.preset(t, "hgx-h100", 2).WithNICRate(units.Gbps(gbps), "test", b.cat)
		if err != nil {
			t.Fatal(err)
		}
		p, _ := b.plan(t, c, "llama-3.1-405b", layout.Workload{Task: "decode", ISL: 1024, OSL: 512, Batch: 8, Objective: string(Latency)})
		if got := p.Best.TPOT.Time.Seconds(); got > last*(1+1e-9) {
			t.Errorf("%v Gb/s: %v, slower than with less", gbps, got)
		} else {
			last = got
		}
	}
}

func TestSupersetIsNeverWorse(t *testing.T) {
	b := newBench(t)
	c := b.preset(t, "hgx-h200", 2)
	w := layout.Workload{Task: "decode", ISL: 1024, OSL: 512, Batch: 64, Objective: string(Latency)}
	free, _ := b.plan(t, c, "mixtral-8x7b", w)
	for _, fix := range []string{"tp=8", "pp=2", "ep=8", "dp=4"} {
		r := b.request(t, c, "mixtral-8x7b", w)
		d, n, _ := strings.Cut(fix, "=")
		r.Freedom = mustFix(t, d, n)
		p, err := Search(context.Background(), r)
		if err != nil {
			t.Fatalf("%s: %v", fix, err)
		}
		if p.Best.score < free.Best.score*(1-1e-9) {
			t.Errorf("%s is better (%v) than the free search (%v)", fix, p.Best.score, free.Best.score)
		}
	}
}

// Nodes without NVLink hold as many domains as GPUs: the bound of a group over several such nodes names no GPU twice.
func TestBoundOverPCIeNodes(t *testing.T) {
	b := newBench(t)
	c := b.preset(t, "pcie-rtx-pro-6000", 2)
	p, _ := b.plan(t, c, "qwen3-32b", layout.Workload{Task: "decode", ISL: 1024, OSL: 256, Batch: 32})
	if p.Best.Bound <= 0 || p.Best.Bound > p.Best.Step.Time {
		t.Errorf("bound %v of a step of %v", p.Best.Bound, p.Best.Step.Time)
	}
}
