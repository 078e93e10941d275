package topology

import (
	"strconv"
	"strings"

	"rankmap/internal/units"
)

// Map turns the description into what FromNodes merges with discovered nodes. A host's leaf is its switch, or its Slurm
// block where the file has blocks only; its rack is the block; its pod is the group of leaves that reach each other
// without a core switch, named by the group's first spine, where there are several groups. Adapters named "HCA-6" are
// device mlx5_5: drivers count them from 1 (in one real fabric both spellings of a rail hang on one row of leaves). The
// NIC rate is stated only where all ports agree.
func (d *FabricDesc) Map() *FabricMap {
	m := &FabricMap{Kind: d.Kind, Tiers: d.tiers()}
	pods := d.pods()
	rate := units.Bandwidth(-1)
	for i := range d.Hosts {
		h := &d.Hosts[i]
		fh := FabricHost{Host: h.Name, Leaf: h.Leaf, Pod: pods[h.Leaf], Rack: h.Block, Clique: h.Domain}
		if fh.Leaf == "" {
			fh.Leaf = h.Block
		}
		m.Hosts = append(m.Hosts, fh)
		for _, a := range h.HCAs {
			switch {
			case rate < 0:
				rate = a.Rate
			case rate != a.Rate:
				rate = 0
			}
			if a.Leaf != "" {
				m.Ports = append(m.Ports, FabricPort{Host: h.Name, Device: deviceName(a.Name), Leaf: a.Leaf, Rate: a.Rate})
			}
		}
	}
	m.NICRate = max(rate, 0)
	m.Facts = append(m.Facts, Fact{What: "network", Value: strconv.Itoa(len(d.Hosts)) + " hosts, " + strconv.Itoa(len(d.Switches)) + " switches", Source: d.Source})
	return m
}

// pods names the pod of each leaf; empty when all leaves are one group.
func (d *FabricDesc) pods() map[string]string {
	at := make(map[string]int, len(d.Switches))
	root := make([]int, len(d.Switches))
	for i, s := range d.Switches {
		at[s.Name], root[i] = i, i
	}
	find := func(i int) int {
		for root[i] != i {
			root[i] = root[root[i]]
			i = root[i]
		}
		return i
	}
	for _, l := range d.Links {
		a, okA := at[l.A]
		b, okB := at[l.B]
		if okA && okB && d.Switches[a].Tier < 2 && d.Switches[b].Tier < 2 {
			root[find(b)] = find(a)
		}
	}
	name := map[int]string{}
	for i, s := range d.Switches { // spines stand in the order of their names
		if r := find(i); s.Tier == 1 && name[r] == "" {
			name[r] = s.Name
		}
	}
	out := map[string]string{}
	for i, s := range d.Switches {
		if s.Tier == 0 && len(name) > 1 {
			out[s.Name] = name[find(i)]
		}
	}
	return out
}

// tiers sums the switches by tier; the oversubscription of a tier is all its downlinks over all its uplinks.
func (d *FabricDesc) tiers() []Tier {
	var out []Tier
	for _, name := range []string{"leaf", "spine", "core"} {
		t := Tier{Name: name}
		var down, up units.Bandwidth
		for _, s := range d.Switches {
			if min(s.Tier, 2) != len(out) {
				continue
			}
			t.Switches = append(t.Switches, s.Name)
			if s.Up > 0 {
				down, up = down+s.Down, up+s.Up
			}
		}
		if len(t.Switches) == 0 {
			break
		}
		if up > 0 {
			t.Oversubscription = float64(down) / float64(up)
		}
		out = append(out, t)
	}
	return out
}

// deviceName is the kernel's name for an adapter as a description names it.
func deviceName(hca string) string {
	n, ok := strings.CutPrefix(hca, "HCA-")
	if !ok {
		return hca
	}
	v, err := strconv.Atoi(n)
	if err != nil || v < 1 {
		return ""
	}
	return "mlx5_" + strconv.Itoa(v-1)
}
