package topology

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"rankmap/internal/units"
)

// dumbShape works out the parts of a shape that do not depend on the order of evaluation, by the definitions and with
// maps: domains, nodes, NVLink inside direct wirings by trying every ring, PCIe by every pair, NICs by set union.
func dumbShape(c *Cluster, members []GPUID) Shape {
	sh := Shape{Ranks: len(members), DomainsKnown: true, NVLink: true, NICPerGPU: units.Bandwidth(math.Inf(1)), NICBW: units.Bandwidth(math.Inf(1))}
	byNode, byDomain, byEnd := map[NodeID][]GPUID{}, map[int][]GPUID{}, map[string][]GPUID{}
	for _, g := range members {
		byNode[c.NodeOf(g)] = append(byNode[c.NodeOf(g)], g)
		byDomain[c.DomainOf(g)] = append(byDomain[c.DomainOf(g)], g)
		end := c.Nodes[c.NodeOf(g)].Name
		if c.DomainNodes(c.DomainOf(g)) > 1 {
			end = "domain" + itoa(c.DomainOf(g))
		}
		byEnd[end] = append(byEnd[end], g)
	}
	sh.Nodes, sh.Domains = len(byNode), len(byDomain)
	ringOf := map[int]bool{}
	for d, list := range byDomain {
		k, _ := c.GPU(list[0])
		ringOf[d] = len(list) < 2 || k.Wiring == NVLinkSwitched || ringExists(c, list)
		sh.NVLink = sh.NVLink && ringOf[d]
	}
	for _, list := range byNode {
		for _, a := range list {
			for _, b := range list {
				d := c.DomainOf(a)
				k, x := c.GPU(a)
				_, y := c.GPU(b)
				if a == b || d == c.DomainOf(b) && (ringOf[d] || direct(k, x, y)) {
					continue
				}
				sh.PCIeUsed = true
				if p := k.PCIePath(x, y); !k.Virtual && p.IsPCIe() {
					sh.PCIe = max(sh.PCIe, p)
				}
			}
		}
	}
	sh.Network = len(byNode) > 1 && len(byEnd) > 1
	for _, list := range byEnd {
		nics := map[[2]int]units.Bandwidth{}
		unknown := false
		host := units.Bandwidth(0)
		for _, g := range list {
			near, _ := c.NearNICs(g)
			for _, i := range near {
				bw := c.NICBandwidth(c.NodeOf(g), i)
				unknown = unknown || bw == 0
				nics[[2]int{int(c.NodeOf(g)), i}] = bw
			}
			if c.PCIeBandwidth(g) == 0 {
				host = units.Bandwidth(math.Inf(1))
			}
			host += c.PCIeBandwidth(g)
		}
		sum := units.Bandwidth(0)
		for _, bw := range nics {
			sum += bw
		}
		if sum = min(sum, host); unknown {
			sum = 0
		}
		sh.NICBW = min(sh.NICBW, sum)
		sh.NICPerGPU = min(sh.NICPerGPU, sum/units.Bandwidth(len(list)))
	}
	return sh
}

func direct(k *NodeClass, a, b int) bool {
	return slices.ContainsFunc(k.NVLinks, func(l NVLink) bool { return l.Count > 0 && (l.A == a && l.B == b || l.A == b && l.B == a) })
}

func ringExists(c *Cluster, list []GPUID) bool {
	var walk func(path []GPUID) bool
	walk = func(path []GPUID) bool {
		k, x := c.GPU(path[len(path)-1])
		if len(path) == len(list) {
			_, y := c.GPU(path[0])
			return direct(k, x, y)
		}
		for _, g := range list {
			if _, y := c.GPU(g); !slices.Contains(path, g) && direct(k, x, y) && walk(append(path, g)) {
				return true
			}
		}
		return false
	}
	return walk(list[:1:1])
}

func TestShapesAgreeWithTheDumbTwin(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := drawCluster(t, rt)
		c.Fabric.Tiers = nil // uplinks are tested by hand
		s := c.NewShaper()
		for range 3 {
			members := drawMembers(rt, c)
			got, err := s.Shape(members)
			if err != nil {
				rt.Fatal(err)
			}
			want := dumbShape(c, members)
			if !got.Network {
				want.NICBW, want.NICPerGPU = 0, 0
			}
			if got.Nodes != want.Nodes || got.Domains != want.Domains || got.NVLink != want.NVLink || got.PCIeUsed != want.PCIeUsed || got.PCIe != want.PCIe || got.Network != want.Network {
				rt.Fatalf("members %v\n got %+v\nwant %+v", members, got, want)
			}
			if near := func(a, b units.Bandwidth) bool { return math.Abs(float64(a-b)) <= 1e-6*math.Abs(float64(b)) }; !near(got.NICBW, want.NICBW) || !near(got.NICPerGPU, want.NICPerGPU) {
				rt.Fatalf("members %v\n got %v %v\nwant %v %v", members, got.NICBW, got.NICPerGPU, want.NICBW, want.NICPerGPU)
			}
			slices.Sort(members)
			if sorted, _ := s.Shape(members); !sameFirst(got, sorted) {
				rt.Fatalf("order matters:\n%+v\n%+v", got, sorted)
			}
		}
	})
}

// sameFirst compares shapes but for what names a part: the limit.
func sameFirst(a, b Shape) bool {
	a.Limit, b.Limit = Limit{}, Limit{}
	return a == b
}

func TestAloneAndBesideNobodyAreTheSame(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := drawCluster(t, rt)
		s := c.NewShaper()
		a, b := drawMembers(rt, c), drawMembers(rt, c)
		alone, err := s.Shape(a)
		if err != nil {
			rt.Fatal(err)
		}
		if err := s.Load([][]GPUID{a}); err != nil {
			rt.Fatal(err)
		}
		loaded, err := s.ShapeLoaded(a)
		loaded.PortShare = alone.PortShare
		if err != nil || !sameFirst(alone, loaded) {
			rt.Fatalf("%+v\n%+v", alone, loaded)
		}
		with, err := s.ShapeWith(a, [][]GPUID{b})
		if err != nil || with.NICBW > alone.NICBW || with.NICPerGPU > alone.NICPerGPU || with.NICShare > 2 || with.PCIeShare > 2 {
			rt.Fatalf("a sibling helps:\n%+v\n%+v", alone, with)
		}
	})
}

func TestShapesOfBadMemberLists(t *testing.T) {
	c := cluster(t, pcieBox("l40s", 4), 1)
	s := c.NewShaper()
	for _, m := range [][]GPUID{nil, {-1}, {4}, {1, 1}} {
		if _, err := s.Shape(m); err == nil {
			t.Errorf("%v was accepted", m)
		}
	}
	if sh, err := s.Shape([]GPUID{3}); err != nil || sh.Ranks != 1 || sh.PCIeUsed || sh.Network || c.LimitName(sh.Limit) != "none" {
		t.Errorf("%+v %v", sh, err)
	}
}

func TestOversubscribedUplinksAreShared(t *testing.T) {
	c := cluster(t, hgx("h100_sxm", 8, 18, units.Gbps(400)), 4, func(c *Cluster) {
		c.Fabric.Tiers = []Tier{{Name: "leaf", Oversubscription: 2}, {Name: "spine", Oversubscription: 1}}
		for i := range c.Nodes {
			c.Nodes[i].Leaf = []string{"a", "a", "b", "b"}[i]
		}
	})
	s := c.NewShaper()
	one := []GPUID{0, 16} // one GPU in each leaf: one of 16 NICs, half of the leaf's NIC rate fits the uplinks
	if sh, _ := s.Shape(one); sh.NICPerGPU != units.GBps(50) || !sh.CrossLeaf || sh.UplinksLimit {
		t.Errorf("alone: %+v", sh)
	}
	var groups [][]GPUID
	for i := range 16 {
		groups = append(groups, []GPUID{GPUID(i), GPUID(16 + i)})
	}
	if err := s.Load(groups); err != nil {
		t.Fatal(err)
	}
	sh, _ := s.ShapeLoaded(one)
	if sh.NICPerGPU != units.GBps(25) || !sh.UplinksLimit || sh.LeafShare != 16 || c.LimitName(sh.Limit) != "leaf a uplinks 400 GB/s" {
		t.Errorf("all at once: %v %+v", c.LimitName(sh.Limit), sh)
	}
	if sh, _ := s.Shape(ids(0, 1, 32)); sh.NICPerGPU != units.GBps(25) {
		t.Errorf("one large group: %+v", sh)
	}
}
