package collective

import (
	"math"
	"slices"
	"testing"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/topology"
)

// networkSweep makes points over 2 and 4 nodes of 8 H100 that a network with other latencies would show.
func networkSweep(t *testing.T, change func(f *networkForm)) []Point {
	t.Helper()
	ps := profiles(t)
	ib := *ps.Fabric("InfiniBand")
	var out []Point
	for _, op := range []parallel.Op{parallel.AllReduce, parallel.AllGather} {
		for _, nodes := range []int{2, 4} {
			for e := 10; e <= 30; e += 2 {
				params := ib.Params
				nw := networkForm{domainForm: domainOf(ps.Collective("h100_sxm")), Fabric: &params, Nodes: nodes, PerNode: 8, NICGBps: 400, BulkTree: true}
				change(&nw)
				out = append(out, Point{Op: op, DType: "bf16", Ranks: 8 * nodes, Nodes: nodes, Bytes: 1 << e, NIC: units.GBps(400), Fabric: "InfiniBand",
					Time: units.Micros(nw.Micros(op, float64(int64(1)<<e), false))})
			}
		}
	}
	return out
}

func TestPointsOverSeveralNodesAdaptTheNetwork(t *testing.T) {
	ps := profiles(t)
	base := Resolve(ps, ps.Collective("h100_sxm"))
	slow := networkSweep(t, func(f *networkForm) { f.Fabric.B0 += 25; f.Fabric.E *= 0.7 })
	p, rep, err := Calibrate(base, slow, CalibrationOptions{Relation: Measured, Profiles: ps})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(rep.Fabrics, []string{"infiniband"}) || len(p.Fabrics) != 1 || rep.Refitted || *p.Domain != *base.Domain {
		t.Fatalf("%+v", rep)
	}
	c := cluster(t, box("h100_sxm", 8, 18, units.Gbps(400)), 4, topology.FabricInfiniBand)
	before, after := New(c, ps, Options{}), New(c, ps.With(p), Options{})
	for i := range slow {
		r := Request{Op: slow[i].Op, Bytes: slow[i].Bytes, Members: ids(0, 1, slow[i].Ranks)}
		off := func(m *Model) float64 { return math.Abs(math.Log(float64(price(t, m, r).Time / slow[i].Time))) }
		if off(after) > 0.08 && off(after) > off(before) {
			t.Errorf("%v of %v on %d: off by %.3f before, %.3f after", r.Op, r.Bytes, len(r.Members), off(before), off(after))
		}
	}
	e := price(t, after, Request{Op: parallel.AllReduce, Bytes: 1 << 20, Members: ids(0, 1, 16)})
	if w := math.Log(float64(e.P90 / e.P10)); w > 0.3 {
		t.Errorf("the interval must follow the points: %.2f wide", w)
	}
}

func TestANetworkThatFitsIsKept(t *testing.T) {
	ps := profiles(t)
	base := Resolve(ps, ps.Collective("h100_sxm"))
	p, rep, err := Calibrate(base, networkSweep(t, func(*networkForm) {}), CalibrationOptions{Relation: Measured, Profiles: ps})
	if err != nil || len(p.Fabrics) != 0 || len(rep.Fabrics) != 0 {
		t.Errorf("%+v %v", rep, err)
	}
	few := networkSweep(t, func(f *networkForm) { f.Fabric.B0 += 50 })[:5]
	if p, rep, err = Calibrate(base, few, CalibrationOptions{Relation: Measured, Profiles: ps}); err != nil || len(p.Fabrics) != 0 || len(rep.Notes) == 0 {
		t.Errorf("five points: %+v %v", rep, err)
	}
	if _, _, err = Calibrate(base, few, CalibrationOptions{Relation: Measured}); err == nil {
		t.Error("without network profiles such points are of no use")
	}
}
