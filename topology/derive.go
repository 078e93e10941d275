package topology

import (
	"math"

	"rankmap/internal/hardware"
	"rankmap/internal/units"
)

// classInfo is what Finish derives once for all nodes of a class.
type classInfo struct {
	gpus    []gpuInfo
	nics    []units.Bandwidth // usable bandwidth of each NIC, 0 when unusable or unknown
	uplink  units.Bandwidth   // all usable NICs together
	usable  partSet           // NICs that are up
	islands []partSet         // GPUs that share a PCIe switch tree, as far as known
	parts   []partSet         // GPUs that NVLinks of this node join
	pair    []units.Bandwidth // [a*GPUs+b] NVLink rate between two GPUs; nil with NVSwitch
	split   bool              // fabric identities or states may part GPUs that links join
}

// gpuInfo is what Finish derives for one GPU of a class.
type gpuInfo struct {
	sheet   *hardware.GPU
	linksUp int
	linkBW  units.Bandwidth // one way over all links that are up; 0 unknown or none
	pcieBW  units.Bandwidth // one way to the host; 0 unknown
	peers   partSet         // GPUs of the node that NVLink reaches
	path    [numPathKinds]partSet
	nics    partSet  // the nearest usable NICs
	nicPath PathKind // how near they are
	rails   uint64   // rails of those NICs, bit by number
	island  int32    // index in classInfo.islands
	part    int32    // index in classInfo.parts
}

// domainInfo is what Finish derives for one NVLink domain.
type domainInfo struct {
	nodes int32 // how many nodes it spans
}

// nodeInfo is what Finish derives for one node.
type nodeInfo struct {
	domain int32 // the one domain of all its GPUs that spans nodes, -1 when there is none or several
	leaf   int32 // index in Cluster.leaves, -1 unknown
	nic    int32 // position of its first NIC in the cluster
}

// leafInfo is one leaf, or group of rail leaves.
type leafInfo struct {
	name string
	pod  string
	nics units.Bandwidth // all usable NICs below it
}

// lanes is the one-way rate of one PCIe lane by generation, after line coding (PCI-SIG base specifications: 2.5, 5, 8,
// 16, 32, 64 GT/s; 8b/10b for 1 and 2, 128b/130b for 3 to 5; 6 is counted as twice 5, as datasheets do).
var lanes = [...]units.Bandwidth{0, 0.25e9, 0.5e9, 0.984375e9, 1.96875e9, 3.9375e9, 7.875e9, 15.75e9}

// Bandwidth is the one-way rate that the slot allows: the current width at the highest generation, since GPUs drop
// the generation when idle but never the width. 0 when unknown.
func (l PCIeLink) Bandwidth() units.Bandwidth {
	gen, width := max(l.Gen, l.MaxGen), l.Width
	if width == 0 {
		width = l.MaxWidth
	}
	if gen <= 0 || gen >= len(lanes) || width <= 0 || width > 32 {
		return 0
	}
	return lanes[gen] * units.Bandwidth(width)
}

func (c *Cluster) derive(sheets [][]*hardware.GPU) {
	c.derived = make([]classInfo, len(c.Classes))
	for i := range c.Classes {
		c.derived[i] = deriveClass(&c.Classes[i], sheets[i], c.Fabric.NICRate)
	}
	c.domains = make([]domainInfo, len(c.Domains))
	for d, members := range c.Domains {
		last := NodeID(-1)
		for _, g := range members {
			if c.gpuNode[g] != last {
				last = c.gpuNode[g]
				c.domains[d].nodes++
			}
		}
	}
	c.deriveNodes()
}

func (c *Cluster) deriveNodes() {
	c.nodes = make([]nodeInfo, len(c.Nodes))
	c.leaves = nil
	leafAt := map[string]int32{}
	nic := int32(0)
	for i := range c.Nodes {
		n := &c.Nodes[i]
		info := nodeInfo{domain: -1, leaf: -1, nic: nic}
		nic += int32(len(c.Classes[n.Class].NICs))
		if c.domainOf != nil {
			info.domain = c.domainOf[n.First]
			for g := range c.Classes[n.Class].GPUs {
				if d := c.domainOf[int(n.First)+g]; d != info.domain {
					info.domain = -1
				}
			}
			if info.domain >= 0 && c.domains[info.domain].nodes < 2 {
				info.domain = -1
			}
		}
		if n.Leaf != "" {
			at, ok := leafAt[n.Leaf]
			if !ok {
				at = int32(len(c.leaves))
				leafAt[n.Leaf] = at
				c.leaves = append(c.leaves, leafInfo{name: n.Leaf, pod: n.Pod})
			}
			info.leaf = at
			c.leaves[at].nics += c.derived[n.Class].uplink
		}
		c.nodes[i] = info
	}
}

func deriveClass(k *NodeClass, sheets []*hardware.GPU, nicRate units.Bandwidth) classInfo {
	d := classInfo{gpus: make([]gpuInfo, len(k.GPUs)), nics: make([]units.Bandwidth, len(k.NICs))}
	for i := range k.NICs {
		n := &k.NICs[i]
		if !n.usable() {
			continue
		}
		d.usable.add(i)
		d.nics[i] = n.Rate
		if n.Rate == 0 {
			d.nics[i] = nicRate
		}
		d.uplink += d.nics[i]
	}
	for g := range k.GPUs {
		u := &d.gpus[g]
		u.sheet = sheets[g]
		u.pcieBW = k.GPUs[g].pcieBandwidth(u.sheet)
		for o := range k.GPUs {
			if o == g {
				continue
			}
			kind := k.PCIePath(g, o)
			if k.Virtual {
				kind = PathUnknown // what a hypervisor shows is no distance
			}
			u.path[kind].add(o)
		}
		u.nearNICs(k, g, &d)
	}
	k.deriveLinks(d.gpus)
	k.deriveIslands(&d)
	return d
}

// usable says whether traffic can pass: not marked bad, and up as far as stated.
func (n *NIC) usable() bool { return n.Bad == "" && !stateDown(n.State) }

// stateDown recognises the port states that carry no traffic, in the words of sysfs and ibv_devinfo.
func stateDown(s string) bool {
	switch s {
	case "DOWN", "down", "Down", "PORT_DOWN", "INIT", "ARMED", "Initializing", "Armed", "Polling", "Disabled", "1: DOWN", "2: INIT", "3: ARMED":
		return true
	}
	return false
}

func (g *GPU) pcieBandwidth(sheet *hardware.GPU) units.Bandwidth {
	slot := g.PCIe.Bandwidth()
	if sheet == nil || sheet.PCIeGBps == 0 {
		return slot
	}
	if most := units.GBps(sheet.PCIeGBps); slot == 0 || slot > most {
		return most
	}
	return slot
}

// nearNICs finds the nearest usable NICs of GPU g. Where no distance is known, the NICs of its NUMA node are taken,
// else all.
func (u *gpuInfo) nearNICs(k *NodeClass, g int, d *classInfo) {
	best := numPathKinds
	for i := range k.NICs {
		if kind := k.nicPath(g, i); d.usable.has(i) && kind != PathUnknown && kind < best {
			best = kind
		}
	}
	numa := k.GPUs[g].NUMA
	for pass := 0; pass < 2 && u.nics.empty(); pass++ {
		for i := range k.NICs {
			if !d.usable.has(i) {
				continue
			}
			near := best == numPathKinds && (pass == 1 || numa >= 0 && k.NICs[i].NUMA == numa)
			if near || best != numPathKinds && k.nicPath(g, i) == best {
				u.nics.add(i)
				if r := k.NICs[i].Rail; r >= 0 && r < 64 {
					u.rails |= 1 << r
				}
			}
		}
	}
	if best != numPathKinds {
		u.nicPath = best
	}
}

func (k *NodeClass) nicPath(g, n int) PathKind {
	if k.NICPaths == nil || k.Virtual && k.NICPaths[g][n] >= PathPHB {
		return PathUnknown
	}
	return k.NICPaths[g][n]
}

// PCIePath is how two GPUs of the node reach each other over PCIe, whether or not NVLink joins them too.
func (k *NodeClass) PCIePath(a, b int) PathKind {
	if a == b {
		return PathSelf
	}
	if k.PCIePaths != nil && k.PCIePaths[a][b] != PathUnknown {
		return k.PCIePaths[a][b]
	}
	if kind := k.GPUPaths[a][b]; kind.IsPCIe() {
		return kind
	}
	return PathUnknown
}

// deriveLinks counts each GPU's links and prices them by the datasheet; a link that reports less than the raw rate of
// its generation counts in proportion.
func (k *NodeClass) deriveLinks(gpus []gpuInfo) {
	single := len(k.GPUs) == 1 && len(k.NVLinks) == 0
	sum := make([]int, len(gpus))
	rate := make([]float64, len(gpus)) // of the slowest bundle, relative to nominal; 0 none
	for _, l := range k.NVLinks {
		if l.Count == 0 {
			continue
		}
		for _, ends := range [2][2]int{{l.A, l.B}, {l.B, l.A}} {
			g, o := ends[0], ends[1]
			gpus[g].peers.add(o)
			if k.Wiring == NVLinkSwitched {
				sum[g] = max(sum[g], l.Count)
			} else {
				sum[g] += l.Count
			}
			r := linkFactor(gpus[g].sheet, l.PerLink)
			if rate[g] == 0 || r < rate[g] && k.Wiring != NVLinkSwitched || r > rate[g] && k.Wiring == NVLinkSwitched {
				rate[g] = r
			}
		}
	}
	for g := range gpus {
		u := &gpus[g]
		u.linksUp = sum[g]
		if up := k.GPUs[g].NVLinksUp; up > 0 {
			u.linksUp = up
		} else if single && k.Wiring == NVLinkSwitched && u.sheet != nil {
			u.linksUp = u.sheet.NVLinks
		}
		if rate[g] == 0 {
			rate[g] = 1
		}
		u.linkBW = perLink(u.sheet, 0) * units.Bandwidth(float64(u.linksUp)*rate[g])
		if u.sheet == nil || u.sheet.NVLinkGBps == 0 {
			u.linkBW = k.statedRate(g) * units.Bandwidth(u.linksUp)
		}
		u.linkBW *= k.scale()
	}
}

// scale is the what-if factor on NVLink rates.
func (k *NodeClass) scale() units.Bandwidth {
	if k.LinkScale == 0 {
		return 1
	}
	return units.Bandwidth(k.LinkScale)
}

// bundle is the rate of all links of a bundle together; 0 unknown.
func (k *NodeClass) bundle(d *classInfo, l NVLink) units.Bandwidth {
	return min(perLink(d.gpus[l.A].sheet, l.PerLink), perLink(d.gpus[l.B].sheet, l.PerLink)) * units.Bandwidth(l.Count) * k.scale()
}

// statedRate is the slowest rate that a source states for one link of GPU g; 0 when none does.
func (k *NodeClass) statedRate(g int) units.Bandwidth {
	least := units.Bandwidth(math.Inf(1))
	for _, l := range k.NVLinks {
		if (l.A == g || l.B == g) && l.Count > 0 && l.PerLink > 0 {
			least = min(least, l.PerLink)
		}
	}
	if math.IsInf(float64(least), 1) {
		return 0
	}
	return least
}

// linkFactor is how much of a nominal link a stated rate is, at most 1. Drivers print the raw rate (26.562 GB/s for
// 25 nominal) or the nominal one; both count as whole.
func linkFactor(sheet *hardware.GPU, stated units.Bandwidth) float64 {
	if stated == 0 || sheet == nil || sheet.NVLinkGBps == 0 {
		return 1
	}
	f := stated.GBps() / sheet.NVLinkGBps
	if f >= 0.98 {
		return 1
	}
	return f
}

// perLink is one link's one-way rate: the datasheet's, lowered by what a source states.
func perLink(sheet *hardware.GPU, stated units.Bandwidth) units.Bandwidth {
	if sheet == nil || sheet.NVLinkGBps == 0 {
		return stated
	}
	return units.GBps(sheet.NVLinkGBps * linkFactor(sheet, stated))
}

// deriveIslands groups the GPUs below one PCIe switch tree (PIX or PXB between them), and those that NVLink joins.
func (k *NodeClass) deriveIslands(d *classInfo) {
	tree, link := newUnion(len(k.GPUs)), newUnion(len(k.GPUs))
	for a := range k.GPUs {
		d.split = d.split || k.GPUs[a].Clique != "" || !fabricReady(k.GPUs[a].FabricState)
		for b := range a {
			if kind := k.PCIePath(a, b); !k.Virtual && (kind == PathPIX || kind == PathPXB) {
				tree.join(a, b)
			}
		}
	}
	if k.Wiring != NVLinkSwitched {
		d.pair = make([]units.Bandwidth, len(k.GPUs)*len(k.GPUs))
	}
	for _, l := range k.NVLinks {
		if l.Count == 0 {
			continue
		}
		link.join(l.A, l.B)
		if d.pair != nil {
			bw := k.bundle(d, l)
			d.pair[l.A*len(k.GPUs)+l.B], d.pair[l.B*len(k.GPUs)+l.A] = bw, bw
		}
	}
	d.islands = tree.sets(func(g int, i int32) { d.gpus[g].island = i })
	d.parts = link.sets(func(g int, i int32) { d.gpus[g].part = i })
}

// sets lists the sets, ordered by smallest member, and tells each member its set.
func (u union) sets(tell func(member int, set int32)) []partSet {
	var all []partSet
	at := make([]int32, len(u))
	for g := range u {
		r := u.find(g)
		if r == g {
			at[g] = int32(len(all))
			all = append(all, partSet{})
		}
		all[at[r]].add(g)
		tell(g, at[r])
	}
	return all
}
