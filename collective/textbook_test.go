package collective

import (
	"strings"
	"testing"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/topology"
)

func TestTextbookInsideANode(t *testing.T) {
	m := NewTextbook(cluster(t, box("h100_sxm", 8, 18, units.Gbps(400)), 2, topology.FabricInfiniBand))
	ab := AlphaBeta{Alpha: units.Micros(2), Beta: units.GBps(450)}
	for _, s := range []units.Bytes{8, 64 << 10, 1 << 30} {
		e := price(t, m, Request{Op: parallel.AllReduce, Bytes: s, Members: ids(0, 1, 8)})
		want, algo := ab.Ring(parallel.AllReduce, 8, s), "ring"
		if tree := ab.Tree(8, s); tree < want {
			want, algo = tree, "tree"
		}
		almost(t, s.String(), e.Time.Micros(), want.Micros())
		if e.Algorithm != algo || e.Provenance != Textbook || e.Bottleneck != "NVLink 450 GB/s" || e.P10 >= e.P90 {
			t.Errorf("%v: %+v", s, e)
		}
	}
	m.RingOnly = true
	e := price(t, m, Request{Op: parallel.AllReduce, Bytes: 8, Members: ids(0, 1, 8)})
	almost(t, "ring only", e.Time.Micros(), 28+8*1.75/450e3)
}

func TestTextbookAcrossNodes(t *testing.T) {
	m := NewTextbook(cluster(t, box("h100_sxm", 8, 18, units.Gbps(400)), 4, topology.FabricInfiniBand))
	m.RingOnly = true
	// 4 nodes, one GPU each: 3 network hops of 5 us and 3/4 of the buffer over one NIC of 50 GB/s.
	e := price(t, m, Request{Op: parallel.AllGather, Bytes: 200e6, Members: ids(0, 8, 4)})
	almost(t, "all_gather", e.Time.Micros(), 15+150e6/50e3)
	// All 32: 28 hops inside, 3 across; the ring leaves a node over all 8 NICs.
	e = price(t, m, Request{Op: parallel.AllGather, Bytes: 320e6, Members: ids(0, 1, 32)})
	almost(t, "all_gather of 32", e.Time.Micros(), 28*2+15+310e6/400e3)
	if e.Bottleneck != "NIC 400 GB/s" {
		t.Error(e.Bottleneck)
	}
	e = price(t, m, Request{Op: parallel.AllToAll, Bytes: 320e6, Members: ids(0, 1, 32)})
	almost(t, "all_to_all of 32", e.Time.Micros(), 5+310e6/50e3)
}

func TestTextbookEdges(t *testing.T) {
	m := NewTextbook(cluster(t, box("h100_sxm", 8, 18, 0), 2, ""))
	if e := price(t, m, Request{Op: parallel.AllReduce, Bytes: 8, Members: ids(0, 1, 1)}); e.Time != 0 {
		t.Error(e.Time)
	}
	if _, err := m.Price(Request{Op: parallel.AllReduce, Bytes: 8, Members: ids(0, 8, 2)}); err == nil || !strings.Contains(err.Error(), "--nic-rate") {
		t.Errorf("NICs without a rate: %v", err)
	}
	if _, err := NewTextbook(nil).Price(Request{}); err == nil {
		t.Error("no cluster")
	}
	if _, err := m.Price(Request{Op: parallel.AllReduce, Bytes: -8, Members: ids(0, 1, 2)}); err == nil {
		t.Error("negative size")
	}
	pcie := NewTextbook(cluster(t, pcieBox("l40s", 8), 1, ""))
	if e := price(t, pcie, Request{Op: parallel.AllReduce, Bytes: 1 << 20, Members: ids(0, 1, 8)}); !strings.HasPrefix(e.Bottleneck, "PCIe") {
		t.Error(e.Bottleneck)
	}
}
