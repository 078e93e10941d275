package topology

import (
	"strconv"

	"rankmap/internal/hardware"
	"rankmap/internal/units"
)

// NumGPUs is the number of GPUs.
func (c *Cluster) NumGPUs() int { return len(c.gpuNode) }

// NumNodes is the number of nodes.
func (c *Cluster) NumNodes() int { return len(c.Nodes) }

// Valid says whether id is a GPU of the cluster.
func (c *Cluster) Valid(id GPUID) bool { return id >= 0 && int(id) < len(c.gpuNode) }

// GPU returns the class of the GPU's node and the GPU's position in it. It panics on an id that is not Valid.
func (c *Cluster) GPU(id GPUID) (*NodeClass, int) {
	n := &c.Nodes[c.gpuNode[id]]
	return &c.Classes[n.Class], int(id - n.First)
}

// NodeOf returns the GPU's node.
func (c *Cluster) NodeOf(id GPUID) NodeID { return c.gpuNode[id] }

// Node returns a node and its class.
func (c *Cluster) Node(id NodeID) (*Node, *NodeClass) {
	n := &c.Nodes[id]
	return n, &c.Classes[n.Class]
}

// DomainOf returns the index in Domains of the GPU's NVLink domain, -1 when domains are unknown.
func (c *Cluster) DomainOf(id GPUID) int {
	if c.domainOf == nil {
		return -1
	}
	return int(c.domainOf[id])
}

// DomainNodes is how many nodes a domain spans.
func (c *Cluster) DomainNodes(domain int) int { return int(c.domains[domain].nodes) }

// GPUName names a GPU by host and position in the node, "node3/5".
func (c *Cluster) GPUName(id GPUID) string {
	n := c.gpuNode[id]
	return gpuName(c.Nodes[n].Name, int(id-c.Nodes[n].First))
}

func gpuName(host string, g int) string { return host + "/" + strconv.Itoa(g) }

// FindGPU is the inverse of GPUName.
func (c *Cluster) FindGPU(name string) (GPUID, bool) {
	for i := len(name) - 1; i > 0; i-- {
		if name[i] == '/' {
			n, ok := c.FindNode(name[:i])
			g, err := strconv.Atoi(name[i+1:])
			if !ok || err != nil || g < 0 || g >= len(c.Classes[c.Nodes[n].Class].GPUs) || strconv.Itoa(g) != name[i+1:] {
				return 0, false
			}
			return c.Nodes[n].First + GPUID(g), true
		}
	}
	return 0, false
}

// FindNode finds a node by host name. Cost: log of the nodes.
func (c *Cluster) FindNode(host string) (NodeID, bool) {
	lo, hi := 0, len(c.Nodes)
	for lo < hi {
		mid := (lo + hi) / 2
		if CompareNames(c.Nodes[mid].Name, host) < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(c.Nodes) && c.Nodes[lo].Name == host {
		return NodeID(lo), true
	}
	return 0, false
}

// GPUIdent returns what identifies the GPU on its host.
func (c *Cluster) GPUIdent(id GPUID) Ident {
	n := &c.Nodes[c.gpuNode[id]]
	g := int(id - n.First)
	if n.GPUIdents != nil {
		return n.GPUIdents[g]
	}
	u := &c.Classes[n.Class].GPUs[g]
	return Ident{Index: u.Index, PCI: u.PCI, UUID: u.UUID, NUMA: u.NUMA, CPUAffinity: u.CPUAffinity}
}

// NICIdent returns what identifies a NIC on its host.
func (c *Cluster) NICIdent(node NodeID, nic int) Ident {
	n := &c.Nodes[node]
	if n.NICIdents != nil {
		return n.NICIdents[nic]
	}
	x := &c.Classes[n.Class].NICs[nic]
	return Ident{Index: x.Index, Name: x.Name, Device: x.Device, PCI: x.PCI, UUID: x.GUID, NetDev: x.NetDev, NUMA: x.NUMA}
}

// Label is the NIC's device name where known, else its column name.
func (i Ident) Label() string {
	if i.Device != "" {
		return i.Device
	}
	return i.Name
}

// Datasheet returns the GPU's datasheet, nil when its model is not known.
func (c *Cluster) Datasheet(id GPUID) *hardware.GPU { return c.gpuInfo(id).sheet }

// LinksUp is how many NVLinks of the GPU are up.
func (c *Cluster) LinksUp(id GPUID) int { return c.gpuInfo(id).linksUp }

// LinkBandwidth is the GPU's NVLink rate, one way over all its links that are up; 0 when none or unknown.
func (c *Cluster) LinkBandwidth(id GPUID) units.Bandwidth { return c.gpuInfo(id).linkBW }

// PCIeBandwidth is the GPU's rate to its host, one way; 0 when unknown.
func (c *Cluster) PCIeBandwidth(id GPUID) units.Bandwidth { return c.gpuInfo(id).pcieBW }

// NearNICs returns the positions of the GPU's nearest usable NICs in its node and how near they are.
func (c *Cluster) NearNICs(id GPUID) ([]int, PathKind) {
	u := c.gpuInfo(id)
	var near []int
	for i := u.nics.next(0); i >= 0; i = u.nics.next(i + 1) {
		near = append(near, i)
	}
	return near, u.nicPath
}

// NICBandwidth is the usable rate of a NIC: its own, else the fabric's; 0 when it is down, bad or unknown.
func (c *Cluster) NICBandwidth(node NodeID, nic int) units.Bandwidth {
	return c.derived[c.Nodes[node].Class].nics[nic]
}

// GPUBad says why a GPU must be avoided: its own fault or its node's; empty when healthy.
func (c *Cluster) GPUBad(id GPUID) string {
	n := &c.Nodes[c.gpuNode[id]]
	if n.Bad != "" {
		return n.Bad
	}
	return c.Classes[n.Class].GPUs[id-n.First].Bad
}

// Leaves lists the leaf names that nodes state, in node order.
func (c *Cluster) Leaves() []string {
	names := make([]string, len(c.leaves))
	for i := range c.leaves {
		names[i] = c.leaves[i].name
	}
	return names
}

// LeafOf returns the index in Leaves of the node's leaf, -1 when unknown.
func (c *Cluster) LeafOf(node NodeID) int { return int(c.nodes[node].leaf) }

func (c *Cluster) gpuInfo(id GPUID) *gpuInfo {
	n := &c.Nodes[c.gpuNode[id]]
	return &c.derived[n.Class].gpus[id-n.First]
}
