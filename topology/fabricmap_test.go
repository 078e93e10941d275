package topology

import (
	"slices"
	"testing"

	"rankmap/internal/units"
)

// twoPods is a fabric of two pods of two leaves with two parallel links to a spine each, under one core:
//
//	          core1
//	        /       \
//	    spine1     spine2
//	    /    \     /    \
//	leaf1 leaf2  leaf3 leaf4     one host a leaf, two adapters of 50 GB/s
func twoPods() *FabricDesc {
	d := &FabricDesc{Source: "test", Kind: FabricInfiniBand}
	for i, n := range []string{"leaf1", "leaf2", "leaf3", "leaf4"} {
		d.Hosts = append(d.Hosts, DescHost{Name: "node" + n[4:], Leaf: n, HCAs: []DescHCA{{Name: "HCA-1", Rate: units.Gbps(400), Leaf: n}, {Name: "mlx5_1", Rate: units.Gbps(400), Leaf: n}}})
		d.Switches = append(d.Switches, DescSwitch{Name: n, Hosts: 2, Down: units.Gbps(800), Up: units.Gbps(400)})
		d.Links = append(d.Links, DescLink{A: n, B: []string{"spine1", "spine2"}[i/2], Count: 2, Rate: units.Gbps(200)})
	}
	for _, n := range []string{"spine1", "spine2"} {
		d.Switches = append(d.Switches, DescSwitch{Name: n, Tier: 1})
		d.Links = append(d.Links, DescLink{A: n, B: "core1", Count: 1})
	}
	d.Switches = append(d.Switches, DescSwitch{Name: "core1", Tier: 2})
	return d
}

func TestFabricDescMap(t *testing.T) {
	m := twoPods().Map()
	if m.Kind != FabricInfiniBand || m.NICRate != units.Gbps(400) {
		t.Errorf("kind %q, rate %v; want InfiniBand, 50 GB/s", m.Kind, m.NICRate)
	}
	if len(m.Tiers) != 3 || m.Tiers[0].Oversubscription != 2 || m.Tiers[1].Oversubscription != 0 || !slices.Equal(m.Tiers[1].Switches, []string{"spine1", "spine2"}) {
		t.Errorf("tiers %+v", m.Tiers)
	}
	var pods []string
	for _, h := range m.Hosts {
		pods = append(pods, h.Pod)
	}
	if !slices.Equal(pods, []string{"spine1", "spine1", "spine2", "spine2"}) {
		t.Errorf("pods %v", pods)
	}
	if len(m.Ports) != 8 || m.Ports[0].Device != "mlx5_0" || m.Ports[1].Device != "mlx5_1" || m.Ports[2].Leaf != "leaf2" {
		t.Errorf("ports %+v", m.Ports)
	}
}

func TestFabricDescMapUnknownStaysUnknown(t *testing.T) {
	d := twoPods()
	d.Hosts[3].HCAs[0].Rate = units.Gbps(200)
	d.Links = d.Links[:4] // no core
	d.Links = append(d.Links, DescLink{A: "leaf1", B: "spine2", Count: 1})
	m := d.Map()
	if m.NICRate != 0 {
		t.Errorf("rate %v where ports differ, want unknown", m.NICRate)
	}
	if m.Hosts[0].Pod != "" {
		t.Errorf("pod %q where all leaves reach each other, want none", m.Hosts[0].Pod)
	}
	blocks := &FabricDesc{Hosts: []DescHost{{Name: "n1", Block: "b1", Domain: "nvl1"}}}
	if h := blocks.Map().Hosts[0]; h.Leaf != "b1" || h.Rack != "b1" || h.Clique != "nvl1" {
		t.Errorf("host of a block file %+v", h)
	}
}
