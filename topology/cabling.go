package topology

import "strings"

// cabledNet places hosts on a described network: leaves, pods, NVLink domains, rails and rates of NICs.
type cabledNet struct {
	desc          *FabricMap
	hosts         map[string]*FabricHost // by name, and by short name in lower case
	ports         map[string][]FabricPort
	rail          map[string]int // by leaf
	railOptimised bool
	met           map[string]bool
}

func newCabledNet(desc *FabricMap, nodes []DiscoveredNode) *cabledNet {
	n := &cabledNet{desc: desc, hosts: map[string]*FabricHost{}, ports: map[string][]FabricPort{}, rail: map[string]int{}, met: map[string]bool{}}
	if desc == nil {
		return n
	}
	for i := range desc.Hosts {
		h := &desc.Hosts[i]
		if short := shortHost(h.Host); n.hosts[short] == nil {
			n.hosts[short] = h
		}
	}
	for i := range desc.Hosts {
		n.hosts[desc.Hosts[i].Host] = &desc.Hosts[i]
	}
	for _, p := range desc.Ports {
		n.ports[p.Host] = append(n.ports[p.Host], p)
	}
	n.findRails(nodes)
	return n
}

// shortHost is a host name without its domain, in lower case: sources disagree on both.
func shortHost(name string) string {
	short, _, _ := strings.Cut(strings.ToLower(name), ".")
	return short
}

func (n *cabledNet) host(name string) *FabricHost {
	if h := n.hosts[name]; h != nil {
		return h
	}
	return n.hosts[shortHost(name)]
}

// findRails tells from the cabling which rail each leaf carries: the lowest NIC position at which any host reaches it.
// The network is rail-optimised when every host with several cabled NICs reaches a leaf of its own with each.
func (n *cabledNet) findRails(nodes []DiscoveredNode) {
	apart, together := 0, 0
	for i := range nodes {
		h := n.host(nodes[i].Name)
		if h == nil {
			continue
		}
		leaves, cabled := map[string]bool{}, 0
		for at, p := range cabling(&nodes[i].Class, n.ports[h.Host]) {
			if p == nil || p.Leaf == "" {
				continue
			}
			cabled++
			leaves[p.Leaf] = true
			if was, ok := n.rail[p.Leaf]; !ok || at < was {
				n.rail[p.Leaf] = at
			}
		}
		switch {
		case cabled > 1 && len(leaves) == cabled:
			apart++
		case cabled > 1:
			together++
		}
	}
	n.railOptimised = apart > 0 && together == 0
}

// cabling finds each NIC of the class among the host's ports: by device, or, where the description names no device, in
// order when they are as many. nil where it is not described.
func cabling(k *NodeClass, ports []FabricPort) []*FabricPort {
	out := make([]*FabricPort, len(k.NICs))
	named := false
	for i := range ports {
		p := &ports[i]
		if p.Device == "" {
			continue
		}
		named = true
		for x := range k.NICs {
			if nic := &k.NICs[x]; nic.Device == p.Device || nic.Device == "" && nic.Name == p.Device {
				out[x] = p
			}
		}
	}
	if !named && len(ports) == len(k.NICs) {
		for i := range ports {
			out[i] = &ports[i]
		}
	}
	return out
}

// place fills in what the description knows of a host and its NICs. In a rail-optimised network the lowest of a
// host's leaves stands for the group of leaves.
func (n *cabledNet) place(d *DiscoveredNode) {
	h := n.host(d.Name)
	if h == nil {
		return
	}
	n.met[h.Host] = true
	leaf := h.Leaf
	for i, p := range cabling(&d.Class, n.ports[h.Host]) {
		if p == nil {
			continue
		}
		nic := &d.Class.NICs[i]
		if nic.Rate == 0 {
			nic.Rate = p.Rate
		}
		if p.Leaf == "" {
			continue
		}
		if n.railOptimised && nic.Rail < 0 {
			nic.Rail = n.rail[p.Leaf]
		}
		if leaf == "" || n.railOptimised && CompareNames(p.Leaf, leaf) < 0 {
			leaf = p.Leaf
		}
	}
	d.Leaf, d.Pod = first(d.Leaf, leaf), first(d.Pod, h.Pod)
	d.Rack, d.Clique = first(d.Rack, h.Rack), first(d.Clique, h.Clique)
}

// strangers lists the described hosts that nobody discovered.
func (n *cabledNet) strangers() []Fact {
	var facts []Fact
	for i := 0; n.desc != nil && i < len(n.desc.Hosts); i++ {
		if h := n.desc.Hosts[i].Host; !n.met[h] {
			facts = append(facts, Fact{What: h, Value: "on the network, not discovered", Source: "network description"})
		}
	}
	return facts
}
