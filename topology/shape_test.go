package topology

import (
	"testing"

	"rankmap/internal/units"
)

func shapeOf(t *testing.T, c *Cluster, members []GPUID) Shape {
	t.Helper()
	sh, err := c.NewShaper().Shape(members)
	if err != nil {
		t.Fatal(err)
	}
	return sh
}

func TestShapeInsideAnHGXBoxIsOneDomainAtTheFullLinkRate(t *testing.T) {
	c := cluster(t, hgx("h100_sxm", 8, 18, units.Gbps(400)), 2)
	sh := shapeOf(t, c, ids(0, 1, 8))
	if sh.Domains != 1 || sh.Wiring != NVLinkSwitched || !sh.NVLink || !sh.Multicast || sh.Network || sh.PCIeUsed || sh.LinkBW != units.GBps(450) {
		t.Errorf("%+v", sh)
	}
	if got := c.LimitName(sh.Limit); got != "node0 NVSwitch 450 GB/s" {
		t.Error(got)
	}
}

func TestShapeAcrossNodesCountsTheNICsOfTheMembers(t *testing.T) {
	c := cluster(t, hgx("h100_sxm", 8, 18, units.Gbps(400)), 12)
	sh := shapeOf(t, c, ids(0, 1, 16))
	if sh.Domains != 2 || !sh.Network || sh.NICBW != units.GBps(400) || sh.NICPerGPU != units.GBps(50) || !sh.RailAligned || sh.OneRail {
		t.Errorf("%+v", sh)
	}
	sh = shapeOf(t, c, ids(1, 8, 12))
	if !sh.OneRail || !sh.RailAligned || sh.NICs != 1 || sh.NICBW != units.GBps(50) {
		t.Errorf("%+v", sh)
	}
	if got := c.LimitName(sh.Limit); got != "node0 NIC mlx5_1 50 GB/s" {
		t.Error(got)
	}
	if sh = shapeOf(t, c, []GPUID{0, 9}); sh.OneRail || sh.RailAligned {
		t.Errorf("members on rails 0 and 1: %+v", sh)
	}
}

func TestShapeOfACubeMesh(t *testing.T) {
	c := cluster(t, cubeMesh(), 1)
	if c.Classes[0].Wiring != NVLinkCubeMesh || len(c.Domains) != 1 {
		t.Fatal(c.Classes[0].Wiring, c.Domains)
	}
	sh := shapeOf(t, c, ids(0, 1, 8))
	if sh.LinkBW != units.GBps(150) || sh.PairBW != 0 || sh.RingBW != units.GBps(50) || !sh.NVLink {
		t.Errorf("%+v", sh)
	}
	if sh = shapeOf(t, c, []GPUID{0, 3}); sh.PairBW != units.GBps(50) {
		t.Errorf("NV2 pair: %+v", sh)
	}
	if sh = shapeOf(t, c, []GPUID{0, 5}); sh.NVLink || !sh.PCIeUsed {
		t.Errorf("pair without a link: %+v", sh)
	}
}

func TestShapeOfAPCIeBox(t *testing.T) {
	c := cluster(t, pcieBox("l40s", 8), 1)
	sh := shapeOf(t, c, []GPUID{0, 1})
	if sh.Domains != 2 || sh.PCIe != PathPIX || sh.LeavesHostBridge || sh.PCIeBW != units.GBps(31.5) {
		t.Errorf("%+v", sh)
	}
	sh = shapeOf(t, c, ids(0, 1, 8))
	if sh.PCIe != PathSYS || !sh.LeavesHostBridge || sh.PCIeIslandMax != 2 || sh.Network {
		t.Errorf("%+v", sh)
	}
	s := c.NewShaper()
	if sh, _ = s.ShapeWith([]GPUID{0, 2}, [][]GPUID{{1, 3}}); sh.PCIeShare != 2 || sh.Limit.BW != units.GBps(31.5/2) {
		t.Errorf("two groups leave each switch: %+v", sh)
	}
}

func TestSiblingsShareANIC(t *testing.T) {
	k := hgx("h100_sxm", 8, 18, units.Gbps(400))
	k.NICs = k.NICs[:4]
	for g := range 8 {
		k.NICPaths[g] = k.NICPaths[g][:4]
		for n := range 4 {
			k.NICPaths[g][n] = PathNODE
		}
		k.NICPaths[g][g/2] = PathPIX
	}
	c := cluster(t, k, 2)
	s := c.NewShaper()
	sh, err := s.ShapeWith([]GPUID{0, 8}, [][]GPUID{{1, 9}, {2, 10}})
	if err != nil || sh.NICShare != 2 || sh.NICBW != units.GBps(25) {
		t.Errorf("%+v %v", sh, err)
	}
	if sh, _ = s.Shape([]GPUID{0, 8}); sh.NICBW != units.GBps(50) {
		t.Errorf("alone: %+v", sh)
	}
}

func benchShape(b *testing.B, n int) {
	c := cluster(b, hgx("h100_sxm", 8, 18, units.Gbps(400)), 12500)
	s := c.NewShaper()
	g := ids(8*77, 1, n)
	if _, err := s.Shape(g); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Shape(g); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkShape8(b *testing.B)    { benchShape(b, 8) }
func BenchmarkShape1024(b *testing.B) { benchShape(b, 1024) }

func BenchmarkShapeWith8Siblings(b *testing.B) {
	c := cluster(b, hgx("h100_sxm", 8, 18, units.Gbps(400)), 16)
	s := c.NewShaper()
	var groups [][]GPUID
	for r := range 8 {
		groups = append(groups, ids(r, 8, 16))
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.ShapeWith(groups[0], groups[1:]); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLoad100000 notes 12,500 groups of 8 inside nodes and 8 groups of 12,500 across them at once.
func BenchmarkLoad100000(b *testing.B) {
	c := cluster(b, hgx("h100_sxm", 8, 18, units.Gbps(400)), 12500)
	s := c.NewShaper()
	var groups [][]GPUID
	for i := range 12500 {
		groups = append(groups, ids(8*i, 1, 8))
	}
	for r := range 8 {
		groups = append(groups, ids(r, 8, 12500))
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Load(groups); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkShape100000(b *testing.B) { benchAll(b, 12500) }

func benchAll(b *testing.B, nodes int) {
	c := cluster(b, hgx("h100_sxm", 8, 18, units.Gbps(400)), nodes)
	s := c.NewShaper()
	all := ids(0, 1, c.NumGPUs())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Shape(all); err != nil {
			b.Fatal(err)
		}
	}
}
