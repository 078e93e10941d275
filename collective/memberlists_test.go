package collective

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/topology"
)

// Three cases in which "n ranks on k nodes" has one answer and the member list has two. Each pair has the same number of
// ranks; docs/member-lists.md prints what this test prints:
//
//	go test ./collective -run TestMemberLists -v

// hgx is two HGX H100 boxes, a NIC a GPU, on leaves that keep to a rail; the spine has half of the leaves' bandwidth.
//
//	node aa   GPU0..7 -- NIC0..7 --- leaf of rail 0 ... leaf of rail 7
//	node ab   GPU8..15 - NIC0..7 ---/        spine, 2:1
func hgx(t *testing.T) *topology.Cluster {
	return cluster(t, box("h100_sxm", 8, 18, units.Gbps(400)), 2, topology.FabricInfiniBand, func(c *topology.Cluster) {
		c.Fabric.Tiers = []topology.Tier{{Name: "leaf", Oversubscription: 2, RailOptimized: true}}
		for i := range c.Nodes {
			c.Nodes[i].Leaf = "leafgroup0"
		}
	})
}

// racks is two GB200 NVL72 racks: 18 trays of 4 GPUs each.
func racks(t *testing.T) *topology.Cluster {
	return cluster(t, box("gb200", 4, 18, units.Gbps(400)), 36, topology.FabricInfiniBand, func(c *topology.Cluster) {
		for i := range c.Nodes {
			c.Nodes[i].Clique = fmt.Sprintf("rack%d.1", i/18)
		}
	})
}

type memberCase struct {
	what    string
	model   *Model
	op      parallel.Op
	bytes   units.Bytes
	members []topology.GPUID
	beside  [][]topology.GPUID
}

// pairs are GPU g of node aa with the GPU shift places further of node ab, for every g but the first.
func pairs(shift int) (first []topology.GPUID, rest [][]topology.GPUID) {
	for g := range 8 {
		p := []topology.GPUID{topology.GPUID(g), topology.GPUID(8 + (g+shift)%8)}
		if g == 0 {
			first = p
		} else {
			rest = append(rest, p)
		}
	}
	return first, rest
}

func memberCases(t *testing.T) [3][2]memberCase {
	h, r := New(hgx(t), profiles(t), Options{}), New(racks(t), profiles(t), Options{})
	rail, rails := pairs(0)
	cross, crosses := pairs(1)
	const big = 256 << 20
	return [3][2]memberCase{
		{{"8 ranks, 4 + 4 on two nodes", h, parallel.AllGather, big, append(ids(0, 1, 4), ids(8, 1, 4)...), nil},
			{"8 ranks, 7 + 1 on two nodes", h, parallel.AllGather, big, append(ids(0, 1, 7), 8), nil}},
		{{"2 ranks on two nodes, eight such pairs, each on its rail", h, parallel.AllReduce, big, rail, rails},
			{"the same with the rails shifted by one", h, parallel.AllReduce, big, cross, crosses}},
		{{"8 ranks on two trays of one rack", r, parallel.AllReduce, big, ids(64, 1, 8), nil},
			{"8 ranks on two trays, the rack's last and the next one's first", r, parallel.AllReduce, big, ids(68, 1, 8), nil}},
	}
}

func TestMemberLists(t *testing.T) {
	cases := memberCases(t)
	var table strings.Builder
	fmt.Fprintf(&table, "%-64s  %-10s  %9s  %s\n", "group", "collective", "us", "slowest link")
	for _, c := range cases {
		var us [2]float64
		for i, m := range c {
			e := price(t, m.model, Request{Op: m.op, Bytes: m.bytes, Members: m.members, Siblings: m.beside})
			us[i] = e.Time.Micros()
			fmt.Fprintf(&table, "%-64s  %-10v  %9s  %s\n", m.what, m.op, units.Signif(us[i], 4), e.Bottleneck)
		}
		if us[1] < 1.3*us[0] {
			t.Errorf("%s takes %.0f us, %s %.0f: want the second much longer", c[0].what, us[0], c[1].what, us[1])
		}
	}
	t.Log("\n" + table.String())
	doc, err := os.ReadFile("../docs/member-lists.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(doc), table.String()) {
		t.Errorf("docs/member-lists.md has another table; this one is right:\n%s", table.String())
	}
}

// TestMemberListsOfOneShape: what the counts alone say is the same in each pair.
func TestMemberListsOfOneShape(t *testing.T) {
	cases := memberCases(t)
	for _, c := range cases {
		if len(c[0].members) != len(c[1].members) || nodesOf(c[0]) != nodesOf(c[1]) {
			t.Errorf("%s: %d ranks on %d nodes; %s: %d on %d", c[0].what, len(c[0].members), nodesOf(c[0]), c[1].what, len(c[1].members), nodesOf(c[1]))
		}
	}
}

func nodesOf(c memberCase) int {
	seen := map[topology.NodeID]bool{}
	for _, g := range c.members {
		seen[c.model.cluster.NodeOf(g)] = true
	}
	return len(seen)
}
