package collective

import (
	"testing"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/topology"
)

// BenchmarkPrice is one price in steady state. Budget: 2 us and no allocation on 8 members, 100 us on 1,024.
func BenchmarkPrice(b *testing.B) {
	c := cluster(b, box("h100_sxm", 8, 18, units.Gbps(400)), 128, topology.FabricInfiniBand)
	m := New(c, profiles(b), Options{})
	siblings := make([][]topology.GPUID, 7)
	for i := range siblings {
		siblings[i] = ids(i+1, 8, 128)
	}
	for _, bc := range []struct {
		name     string
		members  []topology.GPUID
		siblings [][]topology.GPUID
	}{
		{"8 in a node", ids(0, 1, 8), nil}, {"16 over two nodes", ids(0, 1, 16), nil}, {"1024", ids(0, 1, 1024), nil},
		{"128 beside 7 siblings", ids(0, 8, 128), siblings},
	} {
		b.Run(bc.name, func(b *testing.B) {
			r := Request{Op: parallel.AllReduce, Bytes: 1 << 20, DType: "bf16", Members: bc.members, Siblings: bc.siblings}
			price(b, m, r)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := m.Price(r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestPricesAllocateNothing(t *testing.T) {
	c := cluster(t, box("h100_sxm", 8, 18, units.Gbps(400)), 4, topology.FabricInfiniBand)
	m := New(c, profiles(t), Options{})
	for _, members := range [][]topology.GPUID{ids(0, 1, 8), ids(0, 1, 32)} {
		for _, op := range []parallel.Op{parallel.AllReduce, parallel.AllToAll, parallel.AllGather} {
			r := Request{Op: op, Bytes: 12345, DType: "bf16", Launch: Eager, Members: members, Library: "2.31"}
			price(t, m, r)
			if n := testing.AllocsPerRun(200, func() { _, _ = m.Price(r) }); n > 0 {
				t.Errorf("%v on %d: %v allocations", op, len(members), n)
			}
		}
	}
}
