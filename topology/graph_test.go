package topology

import (
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"gonum.org/v1/gonum/graph/network"
	"gonum.org/v1/gonum/graph/simple"
	"pgregory.net/rapid"

	"rankmap/internal/units"
)

func TestWidestPathsOfADGX1(t *testing.T) {
	c := cluster(t, cubeMesh(), 1)
	g := c.Graph()
	for _, tt := range []struct {
		a, b GPUID
		want float64
		hops int
	}{{0, 3, 50, 1}, {0, 1, 25, 1}, {0, 5, 15.75, 3}} {
		p, ok, err := g.Widest(tt.a, tt.b)
		if err != nil || !ok || p.BW.GBps() != tt.want || len(p.Parts) != tt.hops+1 {
			t.Errorf("%d to %d: %v hops, %v %v %v", tt.a, tt.b, len(p.Parts)-1, p.BW, ok, err)
		}
	}
	p, a, b, err := g.Bottleneck(ids(0, 1, 8))
	if err != nil || p.BW.GBps() != 15.75 || a != 0 || b != 5 {
		t.Errorf("bottleneck %v %d-%d %v", p.BW, a, b, err)
	}
	// Quad to quad: 0-4 and 1-5 twice, 2-6 and 3-7 once: 6 links of 25, and the PCIe links of the four GPUs.
	if bw, _, err := g.MinCut(ids(0, 1, 4), ids(4, 1, 4)); err != nil || bw.GBps() != 150+4*15.75 {
		t.Errorf("cut %v %v", bw, err)
	}
}

func TestGraphAcrossNodesIsLimitedByNICsAndUplinks(t *testing.T) {
	c := cluster(t, hgx("h100_sxm", 8, 18, units.Gbps(400)), 4, func(c *Cluster) {
		c.Fabric.Tiers = []Tier{{Name: "leaf", Oversubscription: 4}, {Name: "spine"}}
		for i := range c.Nodes {
			c.Nodes[i].Leaf = []string{"a", "a", "b", "b"}[i]
		}
	})
	g := c.Graph()
	if p, ok, err := g.Widest(0, 8); err != nil || !ok || p.BW != units.GBps(50) {
		t.Errorf("%v %v %v", p.BW, ok, err)
	}
	if bw, _, err := g.MinCut(ids(0, 1, 8), ids(8, 1, 8)); err != nil || bw != units.GBps(400) {
		t.Errorf("one leaf: %v %v", bw, err)
	}
	if bw, _, err := g.MinCut(ids(0, 1, 16), ids(16, 1, 16)); err != nil || bw != units.GBps(200) {
		t.Errorf("two leaves, 16 NICs each, 4:1: %v %v", bw, err)
	}
	if _, _, err := g.MinCut(ids(0, 1, 4), ids(3, 1, 4)); err == nil {
		t.Error("a GPU in both halves was accepted")
	}
}

// dumbCut tries every cut: the parts that are neither in left nor in right take either side.
func dumbCut(g *Graph, left, right []GPUID) float64 {
	side := make([]int, len(g.Parts))
	for _, id := range left {
		side[g.GPUPart(id)] = 1
	}
	for _, id := range right {
		side[g.GPUPart(id)] = 2
	}
	var free []int
	for v := range g.Parts {
		if g.Parts[v].Kind != PartGPU {
			free = append(free, v)
		}
	}
	best := math.Inf(1)
	for set := range 1 << len(free) {
		for i, v := range free {
			side[v] = 1 + set>>i&1
		}
		sum := 0.0
		for _, w := range g.Wires {
			if side[w.A] > 0 && side[w.B] > 0 && side[w.A] != side[w.B] {
				sum += w.capacity()
			}
		}
		best = min(best, sum)
	}
	return best
}

// dumbWidest walks every simple path.
func dumbWidest(g *Graph, from, to int, seen map[int]bool, least float64) float64 {
	if from == to {
		return least
	}
	best := 0.0
	seen[from] = true
	for _, w := range g.Wires {
		o := -1
		if w.A == from {
			o = w.B
		} else if w.B == from {
			o = w.A
		}
		if o < 0 || seen[o] || o != to && g.Parts[o].Kind == PartGPU {
			continue
		}
		best = max(best, dumbWidest(g, o, to, seen, min(least, w.capacity())))
	}
	seen[from] = false
	return best
}

func TestCutsAndPathsAgreeWithTheirDumbTwins(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := drawCluster(t, rt)
		g := c.Graph()
		n := c.NumGPUs()
		if n < 2 {
			return
		}
		a := GPUID(rapid.IntRange(0, n-2).Draw(rt, "a"))
		b := GPUID(rapid.IntRange(int(a)+1, n-1).Draw(rt, "b"))
		p, ok, err := g.Widest(a, b)
		if err != nil {
			rt.Fatal(err)
		}
		want := dumbWidest(g, g.GPUPart(a), g.GPUPart(b), map[int]bool{}, math.Inf(1))
		if !ok && want > 0 || ok && p.Certain && math.Round(float64(p.BW)) != want {
			rt.Fatalf("widest %v %v, want %v", p.BW, ok, want)
		}
		free := 0
		for _, part := range g.Parts {
			if part.Kind != PartGPU {
				free++
			}
		}
		if free > 14 {
			return
		}
		half := int(a) + 1
		bw, unlimited, err := g.MinCut(ids(0, 1, half), ids(half, 1, n-half))
		if err != nil {
			rt.Fatal(err)
		}
		if want := dumbCut(g, ids(0, 1, half), ids(half, 1, n-half)); unlimited != math.IsInf(want, 1) || !unlimited && float64(bw) != want {
			rt.Fatalf("cut %v %v, want %v", bw, unlimited, want)
		}
	})
}

// drawCluster draws a small odd machine: few GPUs, random links, NICs, distances and leaves.
func drawCluster(t testing.TB, rt *rapid.T) *Cluster {
	n := rapid.IntRange(1, 5).Draw(rt, "gpus")
	m := rapid.IntRange(0, 3).Draw(rt, "nics")
	k := NodeClass{Name: "k", GPUPaths: newMatrix(n, n), NICPaths: newMatrix(n, m)}
	model := rapid.SampledFrom([]string{"h100_sxm", "v100_sxm2", "l40s", ""}).Draw(rt, "model")
	kinds := []PathKind{PathPIX, PathPXB, PathPHB, PathNODE, PathSYS, PathUnknown}
	for g := range n {
		k.GPUs = append(k.GPUs, GPU{Index: g, Model: model, NUMA: rapid.IntRange(-1, 1).Draw(rt, "numa"), GPUNUMA: -1})
		for o := range g {
			kind := rapid.SampledFrom(kinds).Draw(rt, "path")
			k.GPUPaths[g][o], k.GPUPaths[o][g] = kind, kind
			if rapid.IntRange(0, 2).Draw(rt, "linked") == 0 {
				k.NVLinks = append(k.NVLinks, NVLink{A: o, B: g, Count: rapid.IntRange(1, 4).Draw(rt, "links")})
			}
		}
	}
	for i := range m {
		k.NICs = append(k.NICs, NIC{Index: i, Name: "NIC" + itoa(i), NUMA: rapid.IntRange(-1, 1).Draw(rt, "nicnuma"), Rail: i,
			Rate: units.Gbps(float64(rapid.IntRange(0, 4).Draw(rt, "rate") * 100))})
		for g := range n {
			k.NICPaths[g][i] = rapid.SampledFrom(kinds).Draw(rt, "nicpath")
		}
	}
	k.Virtual = rapid.Bool().Draw(rt, "virtual")
	return cluster(t, k, rapid.IntRange(1, 3).Draw(rt, "nodes"), func(c *Cluster) {
		c.Fabric.Tiers = []Tier{{Name: "leaf", Oversubscription: float64(rapid.IntRange(0, 3).Draw(rt, "over")), RailOptimized: rapid.Bool().Draw(rt, "rails")}}
		for i := range c.Nodes {
			c.Nodes[i].Leaf = rapid.SampledFrom([]string{"a", "b", ""}).Draw(rt, "leaf")
		}
	})
}

// gonumCut is the same cut by gonum's solver.
func gonumCut(g *Graph, left, right []GPUID) (value, limit float64) {
	side := make([]int8, len(g.Parts))
	for _, id := range left {
		side[g.GPUPart(id)] = 1
	}
	for _, id := range right {
		side[g.GPUPart(id)] = 2
	}
	d := simple.NewWeightedDirectedGraph(0, 0)
	for i := range len(g.Parts) + 2 {
		d.AddNode(vertex(i))
	}
	g.eachArc(side, func(a, b int, capacity, back, most float64) {
		limit = most
		for _, e := range []simple.WeightedEdge{{F: vertex(a), T: vertex(b), W: capacity}, {F: vertex(b), T: vertex(a), W: back}} {
			if e.W > 0 {
				d.SetWeightedEdge(e)
			}
		}
	})
	return network.MaxFlowDinic(d, vertex(len(g.Parts)), vertex(len(g.Parts)+1), 0), limit
}

func TestCutsAgreeWithGonum(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := drawCluster(t, rt)
		n := c.NumGPUs()
		if n < 2 {
			return
		}
		g := c.Graph()
		half := rapid.IntRange(1, n-1).Draw(rt, "half")
		bw, unlimited, err := g.MinCut(ids(0, 1, half), ids(half, 1, n-half))
		want, limit := gonumCut(g, ids(0, 1, half), ids(half, 1, n-half))
		if err != nil || unlimited != (want >= limit) || !unlimited && float64(bw) != want {
			rt.Fatalf("%v %v %v, gonum %v of %v", bw, unlimited, err, want, limit)
		}
	})
}

func TestLoadsCountEveryGroupOnce(t *testing.T) {
	c := cluster(t, hgx("h100_sxm", 8, 18, units.Gbps(400)), 4)
	loads, err := c.Loads([][]GPUID{ids(0, 8, 4), ids(1, 8, 4), ids(0, 1, 8)})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range loads {
		if l.Name == "node0/mlx5_0 - network" && (l.Flows != 2 || l.Groups != 1) {
			t.Errorf("%+v", l)
		}
	}
	if len(loads) == 0 || loads[0].BW != units.GBps(50) {
		t.Errorf("busiest: %+v", loads[:min(3, len(loads))])
	}
}

func TestGraphsAreTheSameEachTime(t *testing.T) {
	c := cluster(t, hgx("h100_sxm", 8, 18, units.Gbps(400)), 8)
	first := c.Graph()
	for range 20 {
		g := c.Graph()
		for i := range g.Wires {
			if g.Wires[i] != first.Wires[i] {
				t.Fatal("wires differ")
			}
		}
	}
}

func TestHundredThousandGPUsFitInTheBudget(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	c := cluster(t, hgx("h100_sxm", 8, 18, units.Gbps(400)), 12500)
	s := c.NewShaper()
	runtime.GC()
	runtime.ReadMemStats(&after)
	if mib := float64(after.HeapAlloc-before.HeapAlloc) / (1 << 20); mib > 16 {
		t.Errorf("a cluster of 100,000 GPUs holds %.1f MiB, want at most 16", mib)
	}
	if sh, err := s.Shape(ids(0, 1, c.NumGPUs())); err != nil || sh.Nodes != 12500 {
		t.Error(sh.Nodes, err)
	}
	runtime.KeepAlive(c)
}

func BenchmarkMinCut64Nodes(b *testing.B) {
	c := cluster(b, hgx("h100_sxm", 8, 18, units.Gbps(400)), 64)
	g := c.Graph()
	for b.Loop() {
		if _, _, err := g.MinCut(ids(0, 1, 256), ids(256, 1, 256)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWidest64Nodes(b *testing.B) {
	c := cluster(b, hgx("h100_sxm", 8, 18, units.Gbps(400)), 64)
	g := c.Graph()
	r := rand.New(rand.NewPCG(1, 2))
	for b.Loop() {
		if _, _, err := g.Widest(GPUID(r.IntN(512)), GPUID(r.IntN(512))); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGraph100000GPUs(b *testing.B) {
	c := cluster(b, hgx("h100_sxm", 8, 18, units.Gbps(400)), 12500)
	b.ReportAllocs()
	for b.Loop() {
		if g := c.Graph(); len(g.Parts) == 0 {
			b.Fatal("empty")
		}
	}
}
