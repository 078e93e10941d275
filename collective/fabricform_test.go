package collective

import (
	"math"
	"testing"

	"rankmap/internal/hardware"
	"rankmap/internal/parallel"
)

// network is a group over nodes with round numbers: one-hop latencies of 4 us, NICs that bring their rate, no overlap.
func network(t *testing.T, system string, nodes, perNode int) networkForm {
	p := profiles(t).Collective(system)
	return networkForm{domainForm: domainOf(p), Nodes: nodes, PerNode: perNode, NICGBps: 50 * float64(perNode), BulkTree: p.Multicast,
		Fabric: &hardware.FabricParams{AT: 4, AR: 4, B0: 0.1, AS: 4, S: 2, E: 1, E1: 0.5, P: 1, BA: 50, PA: 1, EA: 1}}
}

// TestTwoNodesSendEveryByteOnceFromHopperOn: a tree on two nodes is twice as fast as a ring, where NCCL takes it.
func TestTwoNodesSendEveryByteOnceFromHopperOn(t *testing.T) {
	const b = 8 << 30
	for system, once := range map[string]bool{"b200_sxm": true, "a100_sxm": false} {
		nw := network(t, system, 2, 4)
		nw.NICGBps = 50 // the NICs bind
		sent := nw.Micros(parallel.AllReduce, b, false) * 1000 * nw.NICGBps / b
		if want := map[bool]float64{true: 1, false: 1.75}[once]; math.Abs(sent/want-1) > 0.03 {
			t.Errorf("%s: every byte leaves a node %.2f times, want %.2f", system, sent, want)
		}
		three := nw
		three.Nodes = 3
		if s := three.Micros(parallel.AllReduce, b, false) * 1000 * nw.NICGBps / b; s < 1.8 || s > 1.9 {
			t.Errorf("%s: three nodes send %.2f times", system, s)
		}
	}
}

// TestLatencyAcrossNodes: a small ring pays for all hops, those across nodes N of them; a tree for its levels.
func TestLatencyAcrossNodes(t *testing.T) {
	nw := network(t, "h100_sxm", 4, 8)
	p, slow := nw.Params, nw.Params.B/hostBase
	launch := p.B * (1 + 0.1/hostBase)
	if got, want := nw.Micros(parallel.AllGather, 8, false), launch+27*p.H+4*4*slow; math.Abs(got/want-1) > 0.01 {
		t.Errorf("all_gather: %.2f us, want %.2f", got, want)
	}
	if got, want := nw.Micros(parallel.AllReduce, 8, false), launch+14*p.H+4*4*slow; math.Abs(got/want-1) > 0.01 {
		t.Errorf("all_reduce: %.2f us, want %.2f", got, want)
	}
	// Once the bulk protocol has taken over, each hop across costs 1+4 times as much (in the part that is not the host's).
	small, large := nw.hopMicros(1, 4, 0), nw.hopMicros(1, 4, 1)
	if math.Abs(large-small-16) > 1e-9 {
		t.Errorf("a hop: %.2f and %.2f us", small, large)
	}
}

// TestOneRankANode uses its own share of the NIC.
func TestOneRankANode(t *testing.T) {
	nw := network(t, "h200_sxm", 2, 1)
	if got, want := nw.Micros(parallel.AllGather, 4<<30, false), (4<<30)/2/(50e3*0.5); math.Abs(got/want-1) > 0.01 {
		t.Errorf("%.0f us, want %.0f", got, want)
	}
}

// TestAcrossNodesMoreTakesLonger: bytes, then nodes, to 1,024 ranks and 16 GiB, on every shipped network.
func TestAcrossNodesMoreTakesLonger(t *testing.T) {
	ps := profiles(t)
	for _, fabric := range []string{"InfiniBand", "RoCE", "EFA", "Slingshot", "TCP"} {
		for _, system := range []string{"a100_sxm", "h100_sxm", "b200_sxm", "gb200"} {
			for _, g := range []int{1, 4, 8} {
				for _, op := range []parallel.Op{parallel.AllReduce, parallel.AllGather, parallel.ReduceScatter, parallel.AllToAll, parallel.Broadcast} {
					nw := network(t, system, 2, g)
					params := ps.Fabric(fabric).Params
					nw.Fabric = &params
					before := map[int]float64{}
					for nodes := 2; nodes <= 1024/g; nodes *= 2 {
						nw.Nodes = nodes
						last := 0.0
						for e := 3; e <= 34; e++ {
							us := nw.Micros(op, math.Exp2(float64(e)), false)
							if us < last || us < before[e] {
								t.Fatalf("%s %s %v on %d x %d: 2^%d bytes take %.2f us, half of them %.2f, half of the nodes %.2f", fabric, system, op, nodes, g, e, us, last, before[e])
							}
							last, before[e] = us, us
						}
					}
				}
			}
		}
	}
}
