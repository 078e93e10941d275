package nccltune

import (
	"bufio"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"rankmap/internal/hardware"
	"rankmap/internal/parallel"
	"rankmap/internal/testdata"
	"rankmap/internal/units"
	"rankmap/topology"
)

// Machines, by NCCL's link counts.
var (
	h100     = Group{SM: 90, Ranks: 8, Nodes: 1, NVLinkGBps: 18 * 20.6, NVSwitch: true, Multicast: true, PCIeGBps: 48}
	a100     = Group{SM: 80, Ranks: 8, Nodes: 1, NVLinkGBps: 12 * 20, NVSwitch: true, PCIeGBps: 24}
	b200     = Group{SM: 100, Ranks: 8, Nodes: 1, NVLinkGBps: 18 * 40.1, NVSwitch: true, Multicast: true, PCIeGBps: 48}
	h200pair = Group{SM: 90, Ranks: 2, Nodes: 1, NVLinkGBps: 18 * 20.6, PCIeGBps: 48}
)

func over(g Group, nodes, nics int, gbps float64) Group {
	g.Ranks *= nodes
	g.Nodes, g.NICs, g.NICGBps = nodes, nics, gbps
	return g
}

func mustNew(t testing.TB, g Group) *Tuner {
	t.Helper()
	tu, err := New(g)
	if err != nil {
		t.Fatal(err)
	}
	return tu
}

// The channels that the graph search found on real machines: our own two H200 (nccl.log: ring 12 x 30, tree 12 x 60), two
// bridged A100 (ring 12 x 20, tree 12 x 40), and the counts that COLLECTIVES.md gives for HGX boxes.
func TestChannelsOfKnownMachines(t *testing.T) {
	bridged := Group{SM: 80, Ranks: 2, Nodes: 1, NVLinkGBps: 240, PCIeGBps: 24}
	for _, c := range []struct {
		name  string
		g     Group
		ring  channels
		other channels
		of    func(*Group, channels) channels
	}{
		{"2 x H200, tree", h200pair, channels{12, 30, 30}, channels{12, 60, 30}, (*Group).tree},
		{"2 x A100 bridged, tree", bridged, channels{12, 20, 20}, channels{12, 40, 20}, (*Group).tree},
		{"8 x H100, NVLS", h100, channels{12, 30, 30}, channels{8, 50, 50}, func(g *Group, _ channels) channels { return g.nvls() }},
		{"8 x A100, tree", a100, channels{12, 20, 20}, channels{12, 20, 20}, (*Group).tree},
		{"8 x B200, NVLS", b200, channels{16, 45, 45}, channels{8, 90, 90}, func(g *Group, _ channels) channels { return g.nvls() }},
	} {
		r := c.g.ring()
		if r != c.ring {
			t.Errorf("%s: ring %+v, want %+v", c.name, r, c.ring)
		}
		if o := c.of(&c.g, r); o != c.other {
			t.Errorf("%s: %+v, want %+v", c.name, o, c.other)
		}
	}
}

// What NCCL itself printed, or what users saw it do.
func TestChoicesOfKnownMachines(t *testing.T) {
	for _, c := range []struct {
		name  string
		g     Group
		op    parallel.Op
		bytes units.Bytes
		a     Algorithm
		p     Protocol
		us    float64 // 0 = not known
	}{
		{"2 x H200, nccl.log: 1 MiB goes over the ring with LL", h200pair, parallel.AllReduce, 1 << 20, Ring, LL, 0},
		{"2 x 8 H100 small: 25.2 us (NVIDIA/nccl#1453)", over(h100, 2, 8, 50), parallel.AllReduce, 8, Tree, LL, 25.2},
		{"8 x H100 below 2 MiB: ring (NVIDIA/nccl-tests#309)", h100, parallel.AllReduce, 1 << 20, Ring, LL, 0},
		{"8 x H100 from 2 MiB: NVLS", h100, parallel.AllReduce, 2 << 20, NVLS, Simple, 0},
		{"8 x H100 gathers stay on the ring", h100, parallel.AllGather, 256 << 20, Ring, Simple, 0},
		{"2 x 8 H100 large: the NVLS tree", over(h100, 2, 8, 50), parallel.AllReduce, 1 << 30, NVLSTree, Simple, 0},
		{"one GPU a node gathers with PAT", over(Group{SM: 90, Ranks: 1, Nodes: 1, PCIeGBps: 48}, 16, 1, 50), parallel.AllGather, 64 << 10, PAT, Simple, 0},
	} {
		got, ok := mustNew(t, c.g).Choose(c.op, c.bytes)
		if !ok || got.Algorithm != c.a || got.Protocol != c.p {
			t.Errorf("%s: %v %v (%v), want %v %v", c.name, got.Algorithm, got.Protocol, ok, c.a, c.p)
		}
		if c.us > 0 && math.Abs(got.Time.Micros()/c.us-1) > .01 {
			t.Errorf("%s: %v, want %v us", c.name, got.Time, c.us)
		}
	}
}

// Large all-reduces by NCCL's own account, as bus bandwidth: COLLECTIVES.md section (b), checks.
func TestPeaksByNCCLsAccount(t *testing.T) {
	for _, c := range []struct {
		name string
		g    Group
		want float64
	}{
		{"8 x H100", h100, 594},
		{"8 x B200", b200, 931},
		{"2 x 8 H100, 8 x 400G", over(h100, 2, 8, 50), 461},
	} {
		const size = 16 << 30
		got, _ := mustNew(t, c.g).Choose(parallel.AllReduce, size)
		n := float64(c.g.Ranks)
		bus := got.Bandwidth.GBps() * 2 * (n - 1) / n
		if math.Abs(bus/c.want-1) > .02 {
			t.Errorf("%s: %v %v %.0f GB/s, want %.0f", c.name, got.Algorithm, got.Protocol, bus, c.want)
		}
	}
}

func TestUnmodelledOperations(t *testing.T) {
	tu := mustNew(t, h100)
	for _, op := range []parallel.Op{parallel.AllToAll, parallel.SendRecv} {
		if _, ok := tu.Choose(op, 1<<20); ok {
			t.Errorf("%s: NCCL has no model of it", op)
		}
		if why := tu.Why(op, 1<<20); !strings.Contains(why, "no choice") {
			t.Errorf("%s: %q", op, why)
		}
	}
	one := mustNew(t, Group{SM: 90, Ranks: 1, Nodes: 1})
	if _, ok := one.Choose(parallel.AllReduce, 8); ok {
		t.Error("one rank has nothing to choose")
	}
}

func TestVersionsLackAlgorithms(t *testing.T) {
	g := h100
	g.Minor = 16
	if c, _ := mustNew(t, g).Choose(parallel.AllReduce, 1<<30); c.Algorithm == NVLS {
		t.Error("NVLS came with 2.17")
	}
	if _, ok := mustNew(t, over(g, 2, 8, 50)).Predict(parallel.AllReduce, NVLSTree, Simple, 8); ok {
		t.Error("the NVLS tree came with 2.18")
	}
}

func TestBadGroups(t *testing.T) {
	for _, g := range []Group{
		{SM: 90, Ranks: 0, Nodes: 1}, {SM: 90, Ranks: 8, Nodes: 1}, {SM: 0, Ranks: 2, Nodes: 1, PCIeGBps: 24},
		{SM: 90, Ranks: 4, Nodes: 8, PCIeGBps: 48}, {SM: 90, Ranks: 16, Nodes: 2, NVLinkGBps: 370},
	} {
		if _, err := New(g); err == nil {
			t.Errorf("%+v: want an error", g)
		}
	}
}

func TestWhyNamesTheRunnerUp(t *testing.T) {
	why := mustNew(t, h100).Why(parallel.AllReduce, 1<<20)
	if !strings.HasPrefix(why, "ring LL: ") || !strings.Contains(why, "; next ") {
		t.Error(why)
	}
}

// The choice is the least of the predictions, positive and finite, whatever the group.
func TestChoiceIsTheLeast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := Group{
			SM: rapid.SampledFrom([]int{70, 80, 86, 89, 90, 100, 103, 120}).Draw(t, "sm"), Nodes: rapid.IntRange(1, 64).Draw(t, "nodes"),
			NVLinkGBps: rapid.SampledFrom([]float64{0, 60, 240, 370.8, 721.8}).Draw(t, "nvlink"), NVSwitch: rapid.Bool().Draw(t, "switch"),
			Multicast: rapid.Bool().Draw(t, "multicast"), PCIeGBps: 24, NICs: rapid.IntRange(1, 32).Draw(t, "nics"),
			NICGBps: rapid.Float64Range(.1, 120).Draw(t, "nic"), CollNet: rapid.Bool().Draw(t, "collnet"), AMD: rapid.Bool().Draw(t, "amd"),
		}
		g.Ranks = g.Nodes * rapid.IntRange(1, 16).Draw(t, "per node")
		tu, err := New(g)
		if err != nil {
			t.Fatal(err)
		}
		op := rapid.SampledFrom(tuned[:]).Draw(t, "op")
		bytes := units.Bytes(rapid.Int64Range(1, 1<<36).Draw(t, "bytes"))
		c, ok := tu.Choose(op, bytes)
		if !ok {
			if g.Ranks > 1 {
				t.Fatalf("no choice for %+v", g)
			}
			return
		}
		if !(c.Time > 0) || math.IsInf(float64(c.Time), 0) {
			t.Fatalf("time %v", c.Time)
		}
		for a := range numAlgorithms {
			for p := range numProtocols {
				if d, ok := tu.Predict(op, a, p, bytes); ok && d < c.Time {
					t.Fatalf("%v %v takes %v, chosen %v %v %v", a, p, d, c.Algorithm, c.Protocol, c.Time)
				}
			}
		}
	})
}

// What NCCL's own log says it took: our two H200 (2.28.9), and two A100 with a bridge of which the topology file hides all
// but one link (2.27).
func TestAgainstNCCLLog(t *testing.T) {
	for _, c := range []struct {
		file []string
		g    Group
	}{
		{[]string{"measured", "h200-x2", "nccl.log"}, h200pair},
		{[]string{"topology", "dev", "nccllog", "013-2xa100-pcie-broken-bridge-2.27.log"}, Group{SM: 80, Ranks: 2, Nodes: 1, NVLinkGBps: 20, PCIeGBps: 24, Minor: 27}},
	} {
		f, err := os.Open(testdata.Dir(t, c.file...))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		line := regexp.MustCompile(`AllReduce: (\d+) Bytes -> Algo (\w+) proto (\w+) `)
		tu, seen := mustNew(t, c.g), 0
		for sc := bufio.NewScanner(f); sc.Scan(); {
			m := line.FindStringSubmatch(sc.Text())
			if m == nil {
				continue
			}
			seen++
			n, _ := strconv.ParseInt(m[1], 10, 64)
			got, _ := tu.Choose(parallel.AllReduce, units.Bytes(n))
			if !strings.EqualFold(got.Algorithm.String(), m[2]) || !strings.EqualFold(got.Protocol.String(), m[3]) {
				t.Errorf("%s: %d bytes: %v %v, the log says %s %s", f.Name(), n, got.Algorithm, got.Protocol, m[2], m[3])
			}
		}
		if seen == 0 {
			t.Errorf("%s has no choice", f.Name())
		}
	}
}

func BenchmarkChoose(b *testing.B) {
	tu := mustNew(b, over(h100, 4, 8, 50))
	b.ReportAllocs()
	for b.Loop() {
		tu.Choose(parallel.AllReduce, 4<<20)
	}
}

// A member list's shape becomes a group in NCCL's own counts: 18 links of 20.6 GB/s, not the datasheet's 450.
func TestGroupOfShape(t *testing.T) {
	h100 := &hardware.GPU{System: "h100_sxm", SM: 90, NVLinks: 18, NVLinkGBps: 25, PCIeGen: 5}
	s := topology.Shape{Ranks: 16, Endpoints: 2, NVLink: true, LinkBW: units.GBps(450), Wiring: topology.NVLinkSwitched, Multicast: true,
		Network: true, NICs: 8, NICBW: units.GBps(400)}
	g, err := GroupOf(s, h100, 28)
	if err != nil {
		t.Fatal(err)
	}
	want := Group{SM: 90, Ranks: 16, Nodes: 2, NVLinkGBps: 18 * 20.6, NVSwitch: true, Multicast: true, PCIeGBps: 48, NICs: 8, NICGBps: 50, Minor: 28}
	if g.NVLinkGBps = math.Round(g.NVLinkGBps*10) / 10; g != want {
		t.Errorf("%+v, want %+v", g, want)
	}
	s.NVLink, s.LinkBW, s.Network, s.Endpoints = false, 0, false, 1
	if g, err := GroupOf(s, h100, 0); err != nil || g.NVLinkGBps != 0 || g.NICs != 0 || g.Nodes != 1 {
		t.Errorf("PCIe in one node: %+v %v", g, err)
	}
	if _, err := GroupOf(s, nil, 0); err == nil {
		t.Error("an unknown GPU has no tuner")
	}
}
