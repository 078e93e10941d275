package collective

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/topology"
)

// machines are one cluster of each kind, with models that are made once.
type machine struct {
	name  string
	gpus  int
	model *Model
}

func machines(t testing.TB) []machine {
	ps := profiles(t)
	var out []machine
	add := func(name string, c *topology.Cluster) {
		out = append(out, machine{name, c.NumGPUs(), New(c, ps, Options{})})
	}
	for _, g := range []struct {
		model string
		links int
	}{{"a100_sxm", 12}, {"h100_sxm", 18}, {"h200_sxm", 18}, {"b200_sxm", 18}, {"b300_sxm", 18}, {"h800_sxm", 8}} {
		add(g.model, cluster(t, box(g.model, 8, g.links, units.Gbps(400)), 4, topology.FabricInfiniBand))
	}
	add("gb200 rack", cluster(t, box("gb200", 4, 18, units.Gbps(400)), 36, topology.FabricInfiniBand, rackOf18))
	add("h100 RoCE", cluster(t, box("h100_sxm", 8, 18, units.Gbps(400)), 4, topology.FabricRoCE))
	add("pcie", cluster(t, pcieBox("rtx_pro_6000", 8), 1, ""))
	add("l40s", cluster(t, pcieBox("l40s", 8), 1, ""))
	return out
}

// rackOf18 makes NVLink domains of 18 nodes.
func rackOf18(c *topology.Cluster) {
	for i := range c.Nodes {
		c.Nodes[i].Clique = "rack" + string(rune('0'+i/18)) + ".1"
	}
}

// TestMoreBytesNeverTakeLess draws machines, groups and sizes.
func TestMoreBytesNeverTakeLess(t *testing.T) {
	ms := machines(t)
	rapid.Check(t, func(rt *rapid.T) {
		m := ms[rapid.IntRange(0, len(ms)-1).Draw(rt, "machine")]
		op := parallel.Op(rapid.IntRange(0, int(parallel.Reduce)).Draw(rt, "op"))
		n := rapid.IntRange(2, m.gpus).Draw(rt, "n")
		members := ids(0, 1, m.gpus)
		members = rapid.Permutation(members).Draw(rt, "order")[:n]
		dtype := rapid.SampledFrom([]string{"bf16", "int8", "fp32"}).Draw(rt, "dtype")
		launch := Launch(rapid.IntRange(0, 1).Draw(rt, "launch"))
		library := rapid.SampledFrom([]string{"", "2.21.5", "2.27.3", "2.40"}).Draw(rt, "library")
		last := Estimate{}
		for e := 0.0; e <= 37; e += rapid.Float64Range(0.01, 1.5).Draw(rt, "step") {
			b := units.Bytes(math.Exp2(e))
			got, err := m.model.Price(Request{Op: op, Bytes: b, DType: dtype, Members: members, Launch: launch, Library: library})
			if err != nil {
				rt.Fatal(err)
			}
			if !(got.Time > 0) || !(got.P10 > 0) || got.P10 > got.Time*1.5 || got.P90 < got.P10 || math.IsInf(float64(got.P90), 0) {
				rt.Fatalf("%s %v on %d, %v: %v [%v %v]", m.name, op, n, b, got.Time, got.P10, got.P90)
			}
			if got.Time < last.Time*(1-1e-9) {
				rt.Fatalf("%s %v on %d, %s: %v takes %v, fewer bytes took %v", m.name, op, n, dtype, b, got.Time, last.Time)
			}
			last = got
		}
	})
}

// TestMoreBandwidthIsNeverSlower takes NVLinks away, then NICs' rate.
func TestMoreBandwidthIsNeverSlower(t *testing.T) {
	ps := profiles(t)
	rapid.Check(t, func(rt *rapid.T) {
		model := rapid.SampledFrom([]string{"h100_sxm", "b200_sxm", "gb200", "h200_sxm"}).Draw(rt, "gpu")
		op := parallel.Op(rapid.IntRange(0, int(parallel.Reduce)).Draw(rt, "op"))
		n := rapid.IntRange(2, 8).Draw(rt, "n")
		b := units.Bytes(math.Exp2(rapid.Float64Range(3, 34).Draw(rt, "log2 bytes")))
		sh := topology.Shape{Ranks: n, Nodes: 1, GPU: model, DomainsKnown: true, Domains: 1, RanksPerDomainMax: n, NVLink: true,
			Wiring: topology.NVLinkSwitched, Multicast: true, Endpoints: 1, RanksPerEndpointMin: n, RanksPerEndpointMax: n}
		m := New(nil, ps, Options{})
		last := units.Duration(math.Inf(1))
		for links := 4; links <= 18; links++ {
			sh.LinkBW = units.GBps(float64(links) * 25)
			if model == "b200_sxm" || model == "gb200" {
				sh.LinkBW *= 2
			}
			e, err := m.PriceShape(sh, Request{Op: op, Bytes: b})
			if err != nil {
				rt.Fatal(err)
			}
			if e.Time > last*(1+1e-9) {
				rt.Fatalf("%s %v on %d, %v: %d links take %v, one fewer %v", model, op, n, b, links, e.Time, last)
			}
			last = min(last, e.Time)
		}
		sh.LinkBW = units.GBps(450)
		sh.Network, sh.Endpoints, sh.Ranks, sh.Nodes, sh.NICs, sh.Fabric = true, 4, 4*n, 4, n, topology.FabricInfiniBand
		last = units.Duration(math.Inf(1))
		for gbps := 100.0; gbps <= 1600; gbps *= 1.3 {
			sh.NICBW = units.Gbps(gbps * float64(n))
			sh.NICPerGPU = units.Gbps(gbps)
			e, err := m.PriceShape(sh, Request{Op: op, Bytes: b})
			if err != nil {
				rt.Fatal(err)
			}
			if e.Time > last {
				rt.Fatalf("%v on 4 x %d, %v: %.0f Gb/s NICs take %v, slower ones %v", op, n, b, gbps, e.Time, last)
			}
			last = e.Time
		}
	})
}

// TestOrderOfMembersDoesNotMatter shuffles a group.
func TestOrderOfMembersDoesNotMatter(t *testing.T) {
	ms := machines(t)
	rapid.Check(t, func(rt *rapid.T) {
		m := ms[rapid.IntRange(0, len(ms)-1).Draw(rt, "machine")]
		n := rapid.IntRange(2, m.gpus).Draw(rt, "n")
		members := ids(0, 1, n)
		r := Request{Op: parallel.AllReduce, Bytes: 1 << 20, Members: members}
		a, err := m.model.Price(r)
		if err != nil {
			rt.Fatal(err)
		}
		r.Members = rapid.Permutation(members).Draw(rt, "order")
		if b, err := m.model.Price(r); err != nil || a.Time != b.Time || a.P90 != b.P90 {
			rt.Fatalf("%v and %v (%v)", a.Time, b.Time, err)
		}
	})
}
