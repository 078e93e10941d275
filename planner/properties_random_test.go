package planner

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/layout"
	"rankmap/topology"
)

// propertyCases is how many random cases a property is tried on; PROPERTY_CASES and PROPERTY_SEED run others by hand.
func propertyCases(usual int) (int, *rand.Rand) {
	seed := uint64(4)
	if v, err := strconv.Atoi(os.Getenv("PROPERTY_SEED")); err == nil {
		seed = uint64(v)
	}
	if v, err := strconv.Atoi(os.Getenv("PROPERTY_CASES")); err == nil {
		usual = v
	}
	return usual, rand.New(rand.NewPCG(seed, 77))
}

// aCase draws a machine, a model and a workload: serving and training, dense and mixtures.
func aCase(t *testing.T, b *bench, rng *rand.Rand) (*topology.Cluster, string, layout.Workload) {
	t.Helper()
	machines := []struct {
		preset string
		nodes  int
	}{{"hgx-h100", 2}, {"hgx-a100", 2}, {"dgx1-v100", 1}, {"hgx-h200", 3}, {"hgx-b200", 2}}
	m := machines[rng.IntN(len(machines))]
	works := []layout.Workload{
		{Task: "decode", ISL: 1024, OSL: 256, Batch: 32, Objective: string(Latency)},
		{Task: "prefill", ISL: 2048, Batch: 8, Objective: string(Latency)},
		{Task: "serve", ISL: 1024, OSL: 256, Batch: 64, Objective: string(Throughput)},
		{Task: "train", SeqLen: 2048, Batch: 48, Objective: string(StepTime)},
	}
	return b.preset(t, m.preset, m.nodes), []string{"llama-3.1-8b", "mixtral-8x7b", "qwen3-32b", "gpt-oss-120b"}[rng.IntN(4)], works[rng.IntN(len(works))]
}

// bestOn plans on the GPUs of a cluster that are not bad; ok is false when nothing fits.
func bestOn(t *testing.T, b *bench, c *topology.Cluster, name string, w layout.Workload) (p *Plan, ok bool) {
	t.Helper()
	r := b.request(t, c, name, w)
	r.Skip = func(id topology.GPUID) bool { return c.GPUBad(id) != "" }
	p, err := Search(context.Background(), r)
	var no *Infeasible
	if errors.As(err, &no) {
		return nil, false
	}
	if err != nil {
		t.Fatal(err)
	}
	return p, true
}

// A random part less never helps.
func TestLosingAPartNeverHelps(t *testing.T) {
	b := newBench(t)
	n, rng := propertyCases(3)
	for i := range n {
		c, name, w := aCase(t, b, rng)
		e := topology.Edit{Node: c.Nodes[rng.IntN(len(c.Nodes))].Name, GPU: rng.IntN(8), Peer: -1, NIC: -1, Rail: -1}
		k := &c.Classes[0]
		switch kind := rng.IntN(4); {
		case kind == 0 && k.Wiring == topology.NVLinkSwitched:
			e.Kind, e.Links = topology.SetLinks, 1+rng.IntN(11)
		case kind == 0:
			l := k.NVLinks[rng.IntN(len(k.NVLinks))]
			e.Kind, e.GPU, e.Peer = topology.DropNVLink, l.A, l.B
		case kind == 1:
			e.Kind, e.NIC = topology.DropNIC, rng.IntN(len(k.NICs))
		case kind == 2:
			e.Kind, e.NIC, e.Rate = topology.SetNICRate, rng.IntN(len(k.NICs)), units.Gbps(50)
		default:
			e.Kind = topology.DropGPU
		}
		hurt, _, err := c.Edit(e, b.cat)
		if err != nil {
			t.Fatalf("%+v: %v", e, err)
		}
		before, ok := bestOn(t, b, c, name, w)
		if !ok {
			continue
		}
		after, ok := bestOn(t, b, hurt, name, w)
		if ok && after.Best.score < before.Best.score-1e-9*abs(before.Best.score) {
			t.Errorf("%d, %s, %s %s, %+v: %v (%s), whole %v (%s)", i, c.Name, name, w.Task, e, after.Best.score, after.Best.Strategy, before.Best.score, before.Best.Strategy)
		}
	}
}

// A faster network or NVLink never hurts.
func TestFasterLinksNeverHurt(t *testing.T) {
	b := newBench(t)
	n, rng := propertyCases(2)
	for i := range n {
		c, name, w := aCase(t, b, rng)
		links, nics := 1+rng.Float64(), 1.0
		if rng.IntN(2) == 0 {
			links, nics = 1, links
		}
		fast, ok := c.Scaled(links, nics)
		if !ok {
			continue
		}
		if err := fast.Finish(b.cat); err != nil {
			t.Fatal(err)
		}
		before, ok := bestOn(t, b, c, name, w)
		if !ok {
			continue
		}
		after, ok := bestOn(t, b, fast, name, w)
		if !ok || after.Best.score > before.Best.score+1e-9*abs(before.Best.score) {
			t.Errorf("%d, %s, %s %s, NVLink x %.2f, NICs x %.2f: %v (%s), before %v (%s)", i, c.Name, name, w.Task, links, nics,
				after.Best.score, after.Best.Strategy, before.Best.score, before.Best.Strategy)
		}
	}
}

// Nodes in another order under other names cost the same, and a fixed degree is never better than the free search.
func TestNamesAndFreedomInAnyCase(t *testing.T) {
	b := newBench(t)
	n, rng := propertyCases(2)
	for i := range n {
		c, name, w := aCase(t, b, rng)
		free, ok := bestOn(t, b, c, name, w)
		if !ok {
			continue
		}
		d := c.Clone()
		for j := range d.Nodes {
			d.Nodes[j].Name = "x" + strconv.Itoa(1000-j)
		}
		if err := d.Finish(b.cat); err != nil {
			t.Fatal(err)
		}
		if again, _ := bestOn(t, b, d, name, w); again.Best.score != free.Best.score || again.Best.Strategy.String() != free.Best.Strategy.String() {
			t.Errorf("%d, %s, %s %s: %v (%s), renamed %v (%s)", i, c.Name, name, w.Task, free.Best.score, free.Best.Strategy, again.Best.score, again.Best.Strategy)
		}
		r := b.request(t, c, name, w)
		dim := []parallel.Dim{parallel.TP, parallel.PP, parallel.DP, parallel.EP}[rng.IntN(4)]
		r.Freedom = Freedom{Fix: map[parallel.Dim]int{dim: 1 << rng.IntN(4)}}
		p, err := Search(context.Background(), r)
		var no *Infeasible
		if errors.As(err, &no) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if p.Best.score < free.Best.score-1e-9*abs(free.Best.score) {
			t.Errorf("%d, %s, %s %s, %v: %v (%s) is better than the free %v (%s)", i, c.Name, name, w.Task, r.Freedom.Fix, p.Best.score, p.Best.Strategy, free.Best.score, free.Best.Strategy)
		}
	}
}
