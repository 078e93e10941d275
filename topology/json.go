package topology

import (
	"encoding/json"
	"io"
	"strconv"

	"rankmap/internal/units"
)

// View is the machine-readable form of a cluster, as discover prints it: every node spelled out. gbps is GB/s, 1e9
// bytes a second, one way, and absent when unknown. Doc is the compact form that reads back.
type View struct {
	APIVersion    string       `json:"apiVersion"`
	Kind          string       `json:"kind"`
	Name          string       `json:"name,omitempty"`
	Nodes         []ViewNode   `json:"nodes"`
	NVLinkDomains [][]string   `json:"nvlinkDomains"` // null when no source can tell
	Switches      []ViewSwitch `json:"switches"`
	Links         []ViewLink   `json:"links"` // from NICs to leaf switches
	Fabric        *FabricDoc   `json:"fabric,omitempty"`
	Findings      []Finding    `json:"findings"`
	Facts         []ViewFact   `json:"facts,omitempty"`
}

// ViewNode is one host. Links lists every pair of its GPUs.
type ViewNode struct {
	Name     string       `json:"name"`
	Class    string       `json:"class,omitempty"`
	GPUs     []ViewGPU    `json:"gpus"`
	NICs     []ViewNIC    `json:"nics"`
	Links    []ViewPair   `json:"links"`
	Switches []ViewSwitch `json:"switches,omitempty"`
	Wiring   NVLinkKind   `json:"wiring"`
	Clique   string       `json:"clique,omitempty"`
	Leaf     string       `json:"leaf,omitempty"`
	Pod      string       `json:"pod,omitempty"`
	Rack     string       `json:"rack,omitempty"`
	Virtual  bool         `json:"virtual,omitempty"`
	Bad      string       `json:"bad,omitempty"`
}

// ViewGPU is one GPU. Name is the driver's, or GPU with its index where the source states none. NUMA is null when the
// GPU belongs to no single node; NUMARange then holds what the source printed.
type ViewGPU struct {
	Index          int      `json:"index"`
	Name           string   `json:"name"`
	Model          string   `json:"model,omitempty"`
	UUID           string   `json:"uuid,omitempty"`
	PCI            string   `json:"pci,omitempty"`
	NUMA           *int     `json:"numa"`
	NUMARange      string   `json:"numaRange,omitempty"`
	GPUNUMA        *int     `json:"gpuNuma,omitempty"`
	CPUAffinity    string   `json:"cpuAffinity"`
	NearestNICs    []string `json:"nearestNics"`
	NearestNICPath *string  `json:"nearestNicPath"`
	MemoryBytes    int64    `json:"memoryBytes,omitempty"`
	Compute        *Version `json:"computeCapability,omitempty"`
	MIG            bool     `json:"mig,omitempty"`
	Clique         string   `json:"clique,omitempty"`
	FabricState    string   `json:"fabricState,omitempty"`
	PCIe           *PCIeDoc `json:"pcie,omitempty"`
	NVLinksUp      int      `json:"nvlinksUp,omitempty"`
	Bad            string   `json:"bad,omitempty"`
}

// ViewNIC is one NIC port.
type ViewNIC struct {
	Name      string   `json:"name"`
	Device    string   `json:"device"`
	PCI       string   `json:"pci,omitempty"`
	NUMA      *int     `json:"numa,omitempty"`
	GBps      *float64 `json:"gbps,omitempty"`
	LinkLayer string   `json:"linkLayer,omitempty"`
	State     string   `json:"state,omitempty"`
	Firmware  string   `json:"firmware,omitempty"`
	GUID      string   `json:"guid,omitempty"`
	NetDev    string   `json:"netdev,omitempty"`
	Rail      *int     `json:"rail,omitempty"`
	PCIe      *PCIeDoc `json:"pcie,omitempty"`
	Bad       string   `json:"bad,omitempty"`
}

// ViewPair relates two GPUs of a node by position, a < b. Kind is NV, or the PCIe distance where no NVLink joins them.
type ViewPair struct {
	A     int      `json:"a"`
	B     int      `json:"b"`
	Kind  string   `json:"kind"`
	Count int      `json:"count,omitempty"`
	Down  int      `json:"down,omitempty"`
	GBps  *float64 `json:"gbps,omitempty"`
	PCIe  string   `json:"pcie,omitempty"` // the PCIe distance besides NVLink, where stated
}

// ViewSwitch is a switch of a node or of the network.
type ViewSwitch struct {
	Name string     `json:"name"`
	Kind SwitchKind `json:"kind"`
	Tier string     `json:"tier,omitempty"`
	PCI  string     `json:"pci,omitempty"`
}

// ViewLink is a link between a NIC, "node0/NIC0", and a leaf.
type ViewLink struct {
	A    string   `json:"a"`
	B    string   `json:"b"`
	GBps *float64 `json:"gbps,omitempty"`
}

// ViewFact is where a statement comes from.
type ViewFact struct {
	What   string `json:"what"`
	Value  string `json:"value,omitempty"`
	Source string `json:"source"`
}

// WriteJSON writes the machine-readable form, indented, with a final newline.
func WriteJSON(w io.Writer, c *Cluster) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(NewView(c))
}

// NewView builds the machine-readable form of a finished cluster.
func NewView(c *Cluster) *View {
	v := &View{APIVersion: APIVersion, Kind: "Topology", Name: c.Name, Nodes: make([]ViewNode, len(c.Nodes)), Switches: []ViewSwitch{}, Links: []ViewLink{},
		Fabric: NewDoc(&Cluster{Fabric: c.Fabric}).Fabric, Findings: c.Findings()}
	if v.Findings == nil {
		v.Findings = []Finding{}
	}
	pairs := make([][]ViewPair, len(c.Classes))
	for i := range c.Classes {
		pairs[i] = c.viewPairs(i)
	}
	for i := range c.Nodes {
		v.Nodes[i] = c.viewNode(NodeID(i), pairs[c.Nodes[i].Class])
	}
	if c.Domains != nil {
		v.NVLinkDomains = make([][]string, len(c.Domains))
		for d, members := range c.Domains {
			for _, g := range members {
				v.NVLinkDomains[d] = append(v.NVLinkDomains[d], c.GPUName(g))
			}
		}
	}
	for _, s := range c.Fabric.NVSwitches {
		v.Switches = append(v.Switches, ViewSwitch{Name: s, Kind: NVSwitch, Tier: "rack"})
	}
	for i, t := range c.Fabric.Tiers {
		for _, s := range t.Switches {
			v.Switches = append(v.Switches, ViewSwitch{Name: s, Kind: TierKind(i), Tier: t.Name})
		}
	}
	c.viewLinks(v)
	for _, f := range c.Facts {
		v.Facts = append(v.Facts, ViewFact(f))
	}
	return v
}

func (c *Cluster) viewLinks(v *View) {
	for i := range c.Nodes {
		n := &c.Nodes[i]
		if n.Leaf == "" {
			continue
		}
		for x := range c.Classes[n.Class].NICs {
			v.Links = append(v.Links, ViewLink{A: n.Name + "/" + c.NICIdent(NodeID(i), x).Name, B: n.Leaf, GBps: gbps(c.NICBandwidth(NodeID(i), x))})
		}
	}
}

// gbps is nil for an unknown bandwidth.
func gbps(b units.Bandwidth) *float64 {
	if b <= 0 {
		return nil
	}
	v := exactGBps(b)
	return &v
}

func (c *Cluster) viewPairs(class int) []ViewPair {
	k, d := &c.Classes[class], &c.derived[class]
	out := []ViewPair{}
	next := 0
	for a := range k.GPUs {
		for b := a + 1; b < len(k.GPUs); b++ {
			p := ViewPair{A: a, B: b, Kind: k.GPUPaths[a][b].String()}
			if p.Kind == "?" {
				p.Kind = "unknown"
			}
			for next < len(k.NVLinks) && comparePairs(k.NVLinks[next], NVLink{A: a, B: b}) < 0 {
				next++
			}
			if next < len(k.NVLinks) && k.NVLinks[next].A == a && k.NVLinks[next].B == b {
				l := k.NVLinks[next]
				p.Count, p.Down = l.Count, l.Down
				if l.Count > 0 {
					p.GBps = gbps(k.bundle(d, l))
					if x := k.PCIePath(a, b); x.IsPCIe() {
						p.PCIe = x.String()
					}
				}
			}
			if x := k.GPUPaths[a][b]; x == PathPIX || x == PathPXB { // beyond a host bridge the rate is the bridge's, which no source states
				p.GBps = gbps(min(d.gpus[a].pcieBW, d.gpus[b].pcieBW))
			}
			out = append(out, p)
		}
	}
	return out
}

func (c *Cluster) viewNode(id NodeID, pairs []ViewPair) ViewNode {
	n, k := c.Node(id)
	v := ViewNode{Name: n.Name, Class: k.Name, GPUs: make([]ViewGPU, len(k.GPUs)), NICs: make([]ViewNIC, len(k.NICs)), Links: pairs, Wiring: k.Wiring,
		Clique: n.Clique, Leaf: n.Leaf, Pod: n.Pod, Rack: n.Rack, Virtual: k.Virtual, Bad: n.Bad}
	for _, s := range k.Switches {
		v.Switches = append(v.Switches, ViewSwitch{Name: s.Name, Kind: s.Kind, PCI: s.PCI})
	}
	for i := range k.NICs {
		x, ident := k.NICs[i], c.NICIdent(id, i)
		v.NICs[i] = ViewNIC{Name: ident.Name, Device: ident.Device, PCI: ident.PCI, NUMA: known(ident.NUMA), GBps: gbps(x.Rate), LinkLayer: x.LinkLayer,
			State: x.State, Firmware: x.Firmware, GUID: ident.UUID, NetDev: ident.NetDev, Rail: known(x.Rail), PCIe: newPCIeDoc(x.PCIe), Bad: x.Bad}
	}
	for g := range k.GPUs {
		u, ident := &k.GPUs[g], c.GPUIdent(n.First+GPUID(g))
		w := ViewGPU{Index: ident.Index, Name: u.Name, Model: u.Model, UUID: ident.UUID, PCI: ident.PCI, NUMA: known(ident.NUMA), NUMARange: u.NUMARange,
			GPUNUMA: known(u.GPUNUMA), CPUAffinity: ident.CPUAffinity, MemoryBytes: int64(u.Memory), MIG: u.MIG, Clique: n.clique(u),
			FabricState: u.FabricState, PCIe: newPCIeDoc(u.PCIe), NVLinksUp: c.derived[n.Class].gpus[g].linksUp, Bad: u.Bad, NearestNICs: []string{}}
		if w.Name == "" {
			w.Name = "GPU" + strconv.Itoa(ident.Index)
		}
		if u.ComputeMajor > 0 {
			w.Compute = &Version{u.ComputeMajor, u.ComputeMinor}
		}
		if near, kind := k.nearest(g); kind != PathUnknown {
			s := kind.String()
			w.NearestNICPath = &s
			for _, i := range near {
				w.NearestNICs = append(w.NearestNICs, c.NICIdent(id, i).Name)
			}
		}
		v.GPUs[g] = w
	}
	return v
}

// nearest is what the sources say of a GPU's NICs, also on virtual machines, where Cluster.NearNICs does not believe
// them.
func (k *NodeClass) nearest(g int) (near []int, kind PathKind) {
	for i := range k.NICs {
		if k.NICPaths == nil || !k.NICs[i].usable() {
			continue
		}
		switch p := k.NICPaths[g][i]; {
		case p == PathUnknown:
		case kind == PathUnknown || p < kind:
			near, kind = append(near[:0], i), p
		case p == kind:
			near = append(near, i)
		}
	}
	return near, kind
}
