package collective

import (
	"math"
	"strings"
	"testing"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/topology"
)

func price(t testing.TB, p Pricer, r Request) Estimate {
	t.Helper()
	e, err := p.Price(r)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestOwnTwoH200 predicts raw NCCL all_reduce times of a 2 x H200 machine, replayed from a CUDA graph (no fit
// saw them): within 15 % each. That machine has no multicast.
func TestOwnTwoH200(t *testing.T) {
	c := cluster(t, box("h200_sxm", 2, 18, 0), 1, "")
	m := New(c, profiles(t), Options{NoMulticast: true})
	for _, row := range []struct {
		bytes units.Bytes
		us    float64
	}{{8, 5.55}, {1 << 10, 5.73}, {64 << 10, 7.00}, {1 << 20, 13.9}, {16 << 20, 75.0}, {256 << 20, 886}, {1 << 30, 3245}} {
		e := price(t, m, Request{Op: parallel.AllReduce, Bytes: row.bytes, DType: "bf16", Launch: Graph, Members: ids(0, 1, 2)})
		off := e.Time.Micros()/row.us - 1
		t.Logf("%9v predicted %8.2f us, measured %8.2f, %+.1f %%  [%.2f %.2f] %v", row.bytes, e.Time.Micros(), row.us, 100*off, e.P10.Micros(), e.P90.Micros(), e.Provenance)
		if math.Abs(off) > 0.15 {
			t.Errorf("%v: off by %+.1f %%", row.bytes, 100*off)
		}
	}
}

func TestEagerNeverBeatsTheHost(t *testing.T) {
	m := New(cluster(t, box("h100_sxm", 8, 18, units.Gbps(400)), 1, topology.FabricInfiniBand), profiles(t), Options{})
	graph := price(t, m, Request{Op: parallel.AllReduce, Bytes: 8, Members: ids(0, 1, 2)})
	eager := price(t, m, Request{Op: parallel.AllReduce, Bytes: 8, Launch: Eager, Members: ids(0, 1, 2)})
	if floor := profiles(t).Host("h100_sxm").FloorUs; eager.Time.Micros() != floor || graph.Time >= eager.Time || eager.P10 > eager.Time {
		t.Errorf("graph %v, eager %v [%v %v], floor %v us", graph.Time, eager.Time, eager.P10, eager.P90, floor)
	}
	large := Request{Op: parallel.AllReduce, Bytes: 1 << 30, Launch: Eager, Members: ids(0, 1, 8)}
	a := price(t, m, large)
	large.Launch = Graph
	if b := price(t, m, large); a.Time != b.Time {
		t.Errorf("1 GiB: eager %v, graph %v", a.Time, b.Time)
	}
}

func TestOneRankTakesNoTime(t *testing.T) {
	m := New(cluster(t, box("h100_sxm", 8, 18, units.Gbps(400)), 1, topology.FabricInfiniBand), profiles(t), Options{})
	for _, op := range parallel.Ops() {
		if op == parallel.SendRecv {
			continue
		}
		if e := price(t, m, Request{Op: op, Bytes: 1 << 20, Launch: Eager, Members: ids(3, 1, 1)}); e.Time != 0 || e.P90 != 0 {
			t.Errorf("%v: %v", op, e.Time)
		}
	}
}

func TestBadRequestsAreRefused(t *testing.T) {
	m := New(cluster(t, box("h100_sxm", 8, 18, units.Gbps(400)), 1, topology.FabricInfiniBand), profiles(t), Options{})
	for want, r := range map[string]Request{
		"no members":   {Op: parallel.AllReduce, Bytes: 8},
		"want 0 or":    {Op: parallel.AllReduce, Bytes: -1, Members: ids(0, 1, 2)},
		"exist":        {Op: parallel.AllReduce, Bytes: 8, Members: ids(7, 1, 2)},
		"twice":        {Op: parallel.AllReduce, Bytes: 8, Members: []topology.GPUID{1, 1}},
		"exactly 2":    {Op: parallel.SendRecv, Bytes: 8, Members: ids(0, 1, 3)},
		"unknown coll": {Op: parallel.Op(99), Bytes: 8, Members: ids(0, 1, 3)},
	} {
		if _, err := m.Price(r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

func TestUnknownGPUIsRefusedOrAssumed(t *testing.T) {
	k := box("", 4, 12, 0)
	for i := range k.NVLinks {
		k.NVLinks[i].PerLink = units.GBps(25)
	}
	c := cluster(t, k, 1, "")
	r := Request{Op: parallel.AllReduce, Bytes: 1 << 20, Members: ids(0, 1, 4)}
	_, err := New(c, profiles(t), Options{}).Price(r)
	if err == nil || !strings.Contains(err.Error(), "known: a100_sxm") {
		t.Errorf("want a refusal with the known names, got %v", err)
	}
	e := price(t, New(c, profiles(t), Options{Assume: true}), r)
	if e.Provenance != Assumed || len(e.Flags) == 0 || e.P90/e.P10 < 4 {
		t.Errorf("want a wide band and a flag: %+v", e)
	}
}

func TestLibraryOutsideTheProfileIsFlagged(t *testing.T) {
	m := New(cluster(t, box("h100_sxm", 8, 18, units.Gbps(400)), 1, topology.FabricInfiniBand), profiles(t), Options{})
	r := Request{Op: parallel.AllReduce, Bytes: 1 << 20, Members: ids(0, 1, 8)}
	for lib, flagged := range map[string]bool{"": false, "2.27.3": false, "2.27.7": false, "2.31.0": true} {
		r.Library = lib
		e := price(t, m, r)
		if got := strings.Contains(strings.Join(e.Flags, "; "), "outside the profile"); got != flagged {
			t.Errorf("library %q: flags %v", lib, e.Flags)
		}
	}
}

func TestMisalignedAllToAllIsFlagged(t *testing.T) {
	m := New(cluster(t, box("a100_sxm", 8, 12, units.Gbps(200)), 1, topology.FabricInfiniBand), profiles(t), Options{})
	for n, flagged := range map[int]bool{5: true, 8: false} {
		e := price(t, m, Request{Op: parallel.AllToAll, Bytes: 1 << 20, Members: ids(0, 1, n)})
		if got := len(e.Flags) > 0; got != flagged {
			t.Errorf("n=%d: flags %v", n, e.Flags)
		}
	}
}

func TestAcrossNodesTheNICsAreTheBottleneck(t *testing.T) {
	c := cluster(t, box("h100_sxm", 8, 18, units.Gbps(400)), 4, topology.FabricInfiniBand)
	m := New(c, profiles(t), Options{})
	in := price(t, m, Request{Op: parallel.AllGather, Bytes: 256 << 20, Members: ids(0, 1, 8)})
	across := price(t, m, Request{Op: parallel.AllGather, Bytes: 256 << 20, Members: ids(0, 8, 4)})
	if in.Bottleneck != "NVLink 450 GB/s" || across.Bottleneck != "NIC 50 GB/s" || across.Provenance != Network || across.Time < 4*in.Time {
		t.Errorf("inside %v over %q, across %v over %q", in.Time, in.Bottleneck, across.Time, across.Bottleneck)
	}
	all := price(t, m, Request{Op: parallel.AllGather, Bytes: 256 << 20, Members: ids(0, 1, 32)})
	if all.Bottleneck != "NIC 50 GB/s x 8" && !strings.HasPrefix(all.Bottleneck, "NVLink") {
		t.Errorf("bottleneck %q", all.Bottleneck)
	}
}

func TestSiblingsOnOneNICShareIt(t *testing.T) {
	k := box("h100_sxm", 8, 18, units.Gbps(400))
	k.NICs = k.NICs[:1]
	for g := range k.NICPaths {
		k.NICPaths[g] = []topology.PathKind{topology.PathNODE}
	}
	c := cluster(t, k, 2, topology.FabricInfiniBand)
	m := New(c, profiles(t), Options{})
	r := Request{Op: parallel.AllGather, Bytes: 256 << 20, Members: []topology.GPUID{0, 8}}
	one := price(t, m, r)
	r.Siblings = [][]topology.GPUID{{1, 9}, {2, 10}, {3, 11}}
	four := price(t, m, r)
	if ratio := float64(four.Time / one.Time); ratio < 3 || ratio > 4.2 {
		t.Errorf("four groups on one NIC take %.2f times as long", ratio)
	}
}

func TestARackIsOneDomain(t *testing.T) {
	c := cluster(t, box("gb200", 4, 18, units.Gbps(400)), 18, topology.FabricInfiniBand, rack)
	m := New(c, profiles(t), Options{})
	e := price(t, m, Request{Op: parallel.AllReduce, Bytes: 1 << 30, Members: ids(0, 1, 72)})
	if e.Bottleneck != "NVLink 900 GB/s" || e.BusBW.GBps() < 600 || e.Algorithm != "nvls" {
		t.Errorf("%+v", e)
	}
}

func TestPCIeBoxWithoutMeasurementsGetsABandOfSeveralTimes(t *testing.T) {
	m := New(cluster(t, pcieBox("l40s", 8), 1, ""), profiles(t), Options{})
	e := price(t, m, Request{Op: parallel.AllReduce, Bytes: 1 << 20, Members: ids(0, 1, 8)})
	if e.P90/e.P10 < 5 || len(e.Flags) == 0 || !strings.HasPrefix(e.Bottleneck, "PCIe") {
		t.Errorf("%+v", e)
	}
}
