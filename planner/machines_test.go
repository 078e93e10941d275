package planner

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"rankmap/collective"
	"rankmap/configs"
	"rankmap/internal/units"
	"rankmap/layout"
	"rankmap/model"
	"rankmap/topology"
)

// oddMachine draws a machine on which nothing is regular: what it is, and the few GPUs of it that are free.
//
//	dead links     two HGX boxes, GPUs with fewer NVLinks, NICs lost or slow
//	seven GPUs     two boxes of seven and eight, a GPU marked bad
//	generations    a box of A100 beside a box of H100
//	leaves         boxes over two leaves that share an oversubscribed uplink, names alternating
//	bridges        one node of GPU pairs with NVLink bridges
//	cube mesh      a DGX-1 with bundles lost
func oddMachine(t testing.TB, b *bench, rng *rand.Rand) (string, *topology.Cluster, []topology.GPUID) {
	t.Helper()
	kinds := []string{"dead links", "seven GPUs", "generations", "leaves", "bridges", "cube mesh"}
	kind := kinds[rng.IntN(len(kinds))]
	var c *topology.Cluster
	edit := func(e topology.Edit) {
		after, _, err := c.Edit(e, b.cat)
		if err != nil {
			t.Fatalf("%s: %+v: %v", kind, e, err)
		}
		c = after
	}
	node := func() string { return c.Nodes[rng.IntN(len(c.Nodes))].Name }
	finish := func() {
		if err := c.Finish(b.cat); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
	}
	switch kind {
	case "dead links":
		c = b.preset(t, "hgx-h100", 2)
		for range 1 + rng.IntN(3) {
			edit(topology.Edit{Kind: topology.SetLinks, Node: node(), GPU: rng.IntN(8), Links: 4 + rng.IntN(14)})
		}
		edit(topology.Edit{Kind: topology.DropNIC, Node: node(), NIC: rng.IntN(8)})
		edit(topology.Edit{Kind: topology.SetNICRate, Node: node(), NIC: rng.IntN(8), GPU: -1, Peer: -1, Rail: -1, Rate: units.Gbps(100)})
	case "seven GPUs":
		c = b.preset(t, "hgx-a100", 2+rng.IntN(2))
		edit(topology.Edit{Kind: topology.DropGPU, Node: node(), GPU: rng.IntN(8)})
	case "generations":
		c = b.preset(t, "hgx-h100", 1).Clone()
		old := b.preset(t, "hgx-a100", 1).Clone()
		k := old.Classes[0]
		c.Classes = append(c.Classes, k)
		c.Nodes = append(c.Nodes, topology.Node{Name: "old0", Class: 1, First: 8})
		finish()
	case "leaves":
		c = b.preset(t, "hgx-h100", 3+rng.IntN(2)).Clone()
		for i := range c.Nodes {
			c.Nodes[i].Leaf = "leaf" + strconv.Itoa(rng.IntN(2))
		}
		c.Fabric.Tiers = []topology.Tier{{Name: "leaf", Oversubscription: float64(int(2) << rng.IntN(3))}}
		finish()
	case "bridges", "cube mesh":
		c = b.preset(t, "dgx1-v100", 1)
		for _, l := range slices.Clone(c.Classes[0].NVLinks) {
			if kind == "bridges" && l.A/2 != l.B/2 || rng.IntN(6) == 0 {
				edit(topology.Edit{Kind: topology.DropNVLink, Node: "node0", GPU: l.A, Peer: l.B})
			}
		}
	}
	n := 2 + rng.IntN(4)
	if rng.IntN(40) == 0 {
		n = 6
	}
	ids := rng.Perm(c.NumGPUs())
	var free []topology.GPUID
	for _, id := range ids {
		if c.GPUBad(topology.GPUID(id)) == "" && len(free) < n {
			free = append(free, topology.GPUID(id))
		}
	}
	slices.Sort(free)
	return kind, c, free
}

// oddRequest asks for something small on the free GPUs of an odd machine, with real prices of collectives.
func oddRequest(t testing.TB, b *bench, rng *rand.Rand, c *topology.Cluster, free []topology.GPUID) Request {
	t.Helper()
	w := []layout.Workload{
		{Task: "decode", ISL: 512, OSL: 128, Batch: 8, Objective: string(Latency)},
		{Task: "prefill", ISL: 2048, Batch: 4, Objective: string(Latency)},
		{Task: "decode", ISL: 512, OSL: 128, Batch: 60, Objective: string(Throughput)},
		{Task: "train", SeqLen: 1024, Batch: 60, Objective: string(StepTime)},
	}[rng.IntN(4)]
	spec := mustLoad(t, []string{"llama-3.1-8b", "mixtral-8x7b"}[rng.IntN(2)])
	r := cheap(t, c, spec, w)
	r.Capacity = 1e13
	r.Pricer = collective.New(c, b.profiles, collective.Options{Assume: true})
	r.Skip = func(id topology.GPUID) bool { return !slices.Contains(free, id) }
	r.GPUs = len(free)
	return r
}

var loaded = map[string]*model.Spec{}

func mustLoad(t testing.TB, name string) *model.Spec {
	t.Helper()
	if loaded[name] == nil {
		spec, err := model.Load(configs.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		loaded[name] = spec
	}
	return loaded[name]
}

// bruteBest prices every strategy in every order on every seating, and of training every variant, in no clever way.
func bruteBest(t testing.TB, r Request) (float64, string) {
	t.Helper()
	s := &search{Request: r, base: newSeating(r.Cluster, r.Skip)}
	best, name := math.Inf(1), ""
	for _, st := range s.splitter(r.GPUs).strategies(r.Freedom) {
		st = st.Normalize()
		if len(s.violations(st)) > 0 || s.refused(st) != "" {
			continue
		}
		variants := []trainOption{{st: st}}
		if r.Workload.Task == string(TrainStep) {
			variants, _, _ = s.trainOptions(st)
		} else if s.memory(st, r.Workload.Batch).Total() > r.Capacity {
			continue
		}
		for _, v := range variants {
			for _, o := range orders(v.st) {
				x := v.st
				x.Order = o
				ids := slices.Clone(s.base.gpus)
				var walk func(int)
				walk = func(i int) {
					if i == len(ids) {
						c, err := s.evaluate(x, newComm(s.base.with(ids), s.Pricer, graphLaunch, x).price, r.Workload.Batch, true)
						if err != nil {
							t.Fatal(err)
						}
						if c.score < best {
							best, name = c.score, fmt.Sprint(x, x.Order, x.MicroBatch, x.Interleave, x.Recompute, ids)
						}
						return
					}
					for j := i; j < len(ids); j++ {
						ids[i], ids[j] = ids[j], ids[i]
						walk(i + 1)
						ids[i], ids[j] = ids[j], ids[i]
					}
				}
				walk(0)
			}
		}
	}
	return best, name
}

// On machines with dead links, seven GPUs, two generations, several leaves, bridges or a cube mesh, of which a few GPUs are free, the
// search equals brute force, and no plan is below its bound. ODD_MACHINES and ODD_SEED run others by hand.
func TestEqualsBruteForceOnOddMachines(t *testing.T) {
	b := newBench(t)
	n, seed := 60, uint64(11)
	if v, err := strconv.Atoi(os.Getenv("ODD_MACHINES")); err == nil {
		n = v
	}
	if v, err := strconv.Atoi(os.Getenv("ODD_SEED")); err == nil {
		seed = uint64(v)
	}
	rng := rand.New(rand.NewPCG(seed, 30))
	bad := map[string]int{}
	for trial := range n {
		kind, c, free := oddMachine(t, b, rng)
		r := oddRequest(t, b, rng, c, free)
		p, err := Search(context.Background(), r)
		var no *Infeasible
		if errors.As(err, &no) {
			continue
		}
		if err != nil {
			t.Fatalf("%d, %s: %v", trial, kind, err)
		}
		want, how := bruteBest(t, r)
		if p.Best.score > want+1e-9*abs(want) {
			bad[kind]++
			t.Errorf("%d, %s, %d GPUs %v, %s %s: found %v (%s %v), brute force %v (%s): %.3f %%", trial, kind, len(free), free, r.Spec.Name, r.Workload.Task,
				p.Best.score, p.Best.Strategy, p.Best.Strategy.Order, want, how, 100*(p.Best.score-want)/abs(want))
		}
		if p.Best.Bound > p.Best.Step.Time*(1+1e-9) {
			t.Errorf("%d, %s: the bound %v is above the step %v", trial, kind, p.Best.Bound, p.Best.Step.Time)
		}
	}
	if len(bad) > 0 {
		t.Logf("missed: %v of %d", bad, n)
	}
}
