package source

import (
	"rankmap/internal/units"
	"rankmap/topology"
)

// partial is the machine-readable form of what is known where no source describes a GPU: the adapters of hosts, the
// network, the switches.
func (a *assembly) partial(bare []topology.DiscoveredNode) *topology.View {
	v := &topology.View{APIVersion: topology.APIVersion, Kind: "Topology", Nodes: []topology.ViewNode{}, Switches: []topology.ViewSwitch{},
		Links: []topology.ViewLink{}, Findings: []topology.Finding{}}
	for i := range bare {
		v.Nodes = append(v.Nodes, viewBare(&bare[i]))
		for _, f := range bare[i].Facts {
			v.Facts = append(v.Facts, topology.ViewFact(f))
		}
		if down := allDown(bare[i].Class.NICs); down {
			v.Findings = append(v.Findings, finding("ports-down", bare[i].Name, len(bare[i].Class.NICs)))
		}
	}
	for _, d := range a.fabrics {
		a.partialFabric(v, d)
	}
	return v
}

func allDown(nics []topology.NIC) bool {
	for i := range nics {
		if nics[i].State != "DOWN" && nics[i].State != "Down" {
			return false
		}
	}
	return len(nics) > 0
}

func viewBare(d *topology.DiscoveredNode) topology.ViewNode {
	n := topology.ViewNode{Name: d.Name, GPUs: []topology.ViewGPU{}, NICs: []topology.ViewNIC{}, Links: []topology.ViewPair{}, Wiring: topology.NVLinkUnknown,
		Clique: d.Clique, Leaf: d.Leaf, Pod: d.Pod, Rack: d.Rack}
	for i := range d.Class.NICs {
		x := &d.Class.NICs[i]
		nic := topology.ViewNIC{Name: x.Name, Device: x.Device, PCI: x.PCI, GBps: rate(x.Rate), LinkLayer: x.LinkLayer, State: x.State, Firmware: x.Firmware,
			GUID: x.GUID, NetDev: x.NetDev, Bad: x.Bad}
		if x.NUMA >= 0 {
			nic.NUMA = &x.NUMA
		}
		n.NICs = append(n.NICs, nic)
	}
	return n
}

func (a *assembly) partialFabric(v *topology.View, d *topology.FabricDesc) {
	m := d.Map()
	at := map[string]int{}
	for i := range v.Nodes {
		at[v.Nodes[i].Name] = i
	}
	port := 0 // the map lists the cabled adapters of all hosts in order
	for i, h := range m.Hosts {
		k, ok := at[h.Host]
		if !ok {
			k = len(v.Nodes)
			at[h.Host] = k
			v.Nodes = append(v.Nodes, viewBare(&topology.DiscoveredNode{Name: h.Host}))
		}
		n := &v.Nodes[k]
		n.Leaf, n.Pod, n.Rack, n.Clique = first(n.Leaf, h.Leaf), first(n.Pod, h.Pod), first(n.Rack, h.Rack), first(n.Clique, h.Clique)
		add := len(n.NICs) == 0
		for _, x := range d.Hosts[i].HCAs {
			device := x.Name
			if x.Leaf != "" {
				device = m.Ports[port].Device
				port++
			}
			if add {
				n.NICs = append(n.NICs, topology.ViewNIC{Name: x.Name, Device: device, GUID: x.GUID, GBps: rate(x.Rate), LinkLayer: string(d.Kind)})
			}
			if x.Leaf != "" {
				v.Links = append(v.Links, topology.ViewLink{A: h.Host + "/" + first(x.Name, x.GUID), B: x.Leaf, GBps: rate(x.Rate)})
			}
		}
		if len(d.Hosts[i].HCAs) == 0 && h.Leaf != "" {
			v.Links = append(v.Links, topology.ViewLink{A: h.Host, B: h.Leaf})
		}
	}
	for _, s := range d.Switches {
		v.Switches = append(v.Switches, topology.ViewSwitch{Name: s.Name, Kind: topology.TierKind(s.Tier), Tier: []string{"leaf", "spine", "core"}[min(max(s.Tier, 0), 2)]})
	}
	v.Links = append(v.Links, fabricLinks(d)...)
	if f := topology.NewDoc(&topology.Cluster{Fabric: topology.Fabric{Kind: m.Kind, NICRate: m.NICRate, Tiers: m.Tiers}}).Fabric; v.Fabric == nil {
		v.Fabric = f
	}
	for _, f := range m.Facts {
		v.Facts = append(v.Facts, topology.ViewFact(f))
	}
}

// fabricLinks lists the bundles between switches.
func fabricLinks(d *topology.FabricDesc) []topology.ViewLink {
	var out []topology.ViewLink
	for _, l := range d.Links {
		out = append(out, topology.ViewLink{A: l.A, B: l.B, GBps: rate(l.Rate * units.Bandwidth(max(l.Count, 1)))})
	}
	return out
}

func rate(b units.Bandwidth) *float64 {
	if b <= 0 {
		return nil
	}
	v := b.GBps()
	return &v
}
