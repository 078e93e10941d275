package topology

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"rankmap/internal/units"
)

// PartKind is a kind of vertex of the bandwidth graph.
type PartKind uint8

// The kinds of part.
const (
	PartGPU PartKind = iota
	PartNIC
	PartNVSwitch // all NVSwitches of one domain together: every GPU spreads its links over all of them
	PartPCIeSwitch
	PartSocket
	PartLeaf
	PartSpine
	numPartKinds
)

var partNames = [numPartKinds]string{"gpu", "nic", "nvswitch", "pcie switch", "socket", "leaf", "spine"}

// String returns the kind's name.
func (k PartKind) String() string {
	if k < numPartKinds {
		return partNames[k]
	}
	return "part(" + strconv.Itoa(int(k)) + ")"
}

// Part is a vertex.
type Part struct {
	Kind  PartKind
	Node  NodeID // -1 for parts outside nodes
	Index int    // position in the node, number of the domain, or 0
	Name  string // "node0/3", "node0/mlx5_1", "leaf su0 rail 2"
}

// Wire is an edge: all parallel links between two parts together.
type Wire struct {
	A, B    int             // positions in Graph.Parts, A < B
	BW      units.Bandwidth // each way; 0 when Unknown
	Unknown bool            // no source states the rate: it is taken as no limit
}

// capacity is the rate for algorithms, in whole bytes a second: sums of whole numbers are exact, so that results do not
// depend on the order of summation.
func (w Wire) capacity() float64 {
	if w.Unknown {
		return math.Inf(1)
	}
	return math.Round(float64(w.BW))
}

// Graph is the bandwidth graph of some nodes and the network between them. GPUs send and receive but do not forward.
type Graph struct {
	c     *Cluster
	Parts []Part
	Wires []Wire // by A, then B
	adj   [][]int32
	gpuAt map[NodeID]int // part of the node's first GPU; the others follow
}

// Graph builds the bandwidth graph of the nodes given, or of all. It instantiates one template for each node class.
// Cost: the parts; a usual node has about 30.
func (c *Cluster) Graph(nodes ...NodeID) *Graph {
	if len(nodes) == 0 {
		for i := range c.Nodes {
			nodes = append(nodes, NodeID(i))
		}
	}
	nodes = slices.Compact(slices.Sorted(slices.Values(nodes)))
	g := &graphBuilder{Graph: &Graph{c: c, gpuAt: map[NodeID]int{}}, sum: map[[2]int]Wire{}, outside: map[string]int{}, templates: map[int]*template{}}
	for _, n := range nodes {
		g.addNode(n)
	}
	g.addUplinks()
	return g.finish()
}

// graphBuilder sums parallel links.
type graphBuilder struct {
	*Graph
	sum       map[[2]int]Wire
	outside   map[string]int
	templates map[int]*template
	ports     []port
}

// port is a leaf in use.
type port struct {
	part int
	leaf int32
	rail int
}

// template is the inside of a node class: parts in the order GPUs, NICs, PCIe switches, sockets.
type template struct {
	parts []Part
	wires []Wire
}

func (b *graphBuilder) part(p Part) int {
	b.Parts = append(b.Parts, p)
	return len(b.Parts) - 1
}

// wire adds a link; parallel ones are summed, a link to itself is none.
func (b *graphBuilder) wire(x, y int, bw units.Bandwidth) {
	if x == y {
		return
	}
	key := [2]int{min(x, y), max(x, y)}
	w := b.sum[key]
	w.A, w.B = key[0], key[1]
	w.BW += bw
	w.Unknown = w.Unknown || bw == 0
	b.sum[key] = w
}

// shared finds or adds a part outside nodes.
func (b *graphBuilder) shared(kind PartKind, index int, name string) int {
	if at, ok := b.outside[name]; ok {
		return at
	}
	at := b.part(Part{Kind: kind, Node: -1, Index: index, Name: name})
	b.outside[name] = at
	return at
}

func (b *graphBuilder) addNode(id NodeID) {
	c := b.c
	n, k := c.Node(id)
	d := &c.derived[n.Class]
	t := b.templates[n.Class]
	if t == nil {
		t = k.template(d)
		b.templates[n.Class] = t
	}
	base := len(b.Parts)
	b.gpuAt[id] = base
	for i, p := range t.parts {
		p.Node = id
		switch p.Kind {
		case PartNIC:
			p.Name = c.NICIdent(id, i-len(k.GPUs)).Label()
		case PartGPU:
			p.Name = strconv.Itoa(p.Index)
		}
		p.Name = n.Name + "/" + p.Name
		b.part(p)
	}
	for _, w := range t.wires {
		b.wire(base+w.A, base+w.B, w.BW)
	}
	for g := range k.GPUs {
		if dom := c.DomainOf(n.First + GPUID(g)); k.Wiring == NVLinkSwitched && dom >= 0 && len(c.Domains[dom]) > 1 {
			b.wire(base+g, b.shared(PartNVSwitch, dom, "NVSwitch of domain "+strconv.Itoa(dom)), d.gpus[g].linkBW)
		}
	}
	for i := range k.NICs {
		if !d.usable.has(i) {
			continue
		}
		rail := 0
		if c.railOptimised() {
			rail = k.NICs[i].Rail
		}
		b.wire(base+len(k.GPUs)+i, b.leafPart(id, rail), d.nics[i])
	}
}

func (c *Cluster) railOptimised() bool {
	return len(c.Fabric.Tiers) > 0 && c.Fabric.Tiers[0].RailOptimized
}

func (b *graphBuilder) leafPart(id NodeID, rail int) int {
	leaf := b.c.nodes[id].leaf
	name := "network"
	if leaf >= 0 {
		name = "leaf " + b.c.leaves[leaf].name
	}
	if b.c.railOptimised() {
		name += " rail " + strconv.Itoa(rail)
	}
	before := len(b.Parts)
	at := b.shared(PartLeaf, int(leaf), name)
	if at == before {
		b.ports = append(b.ports, port{at, leaf, rail})
	}
	return at
}

// addUplinks joins the leaves in use to a spine, one for each pod, and pods to a core. A leaf's uplinks carry all NICs
// below it, in the whole cluster, over the oversubscription.
func (b *graphBuilder) addUplinks() {
	if len(b.ports) < 2 {
		return
	}
	over, overPod := 0.0, 0.0
	if t := b.c.Fabric.Tiers; len(t) > 0 {
		over = t[0].Oversubscription
		if len(t) > 1 {
			overPod = t[1].Oversubscription
		}
	}
	below := b.c.ratesBelow()
	pods := map[int]units.Bandwidth{}
	var order []int
	for _, p := range b.ports {
		pod := ""
		if p.leaf >= 0 {
			pod = b.c.leaves[p.leaf].pod
		}
		spine := b.shared(PartSpine, 0, strings.TrimSpace("spine "+pod))
		up := below[port{leaf: p.leaf, rail: p.rail}]
		if over > 0 {
			up /= units.Bandwidth(max(1, over))
		} else {
			up = 0
		}
		b.wire(p.part, spine, up)
		if _, ok := pods[spine]; !ok {
			order = append(order, spine)
		}
		pods[spine] += up
	}
	if len(pods) < 2 {
		return
	}
	core := b.shared(PartSpine, 1, "core")
	for _, spine := range order {
		up := units.Bandwidth(0)
		if overPod > 0 {
			up = pods[spine] / units.Bandwidth(max(1, overPod))
		}
		b.wire(spine, core, up)
	}
}

// ratesBelow is the rate of all usable NICs of the cluster below each leaf and rail. It counts nodes by leaf and class
// first, so that equal nodes cost one addition.
func (c *Cluster) ratesBelow() map[port]units.Bandwidth {
	count := make([]int, (len(c.leaves)+1)*len(c.Classes))
	for i := range c.Nodes {
		count[int(c.nodes[i].leaf+1)*len(c.Classes)+c.Nodes[i].Class]++
	}
	below := map[port]units.Bandwidth{}
	for at, n := range count {
		leaf, class := int32(at/len(c.Classes))-1, at%len(c.Classes)
		for x := range c.Classes[class].NICs {
			p := port{leaf: leaf}
			if c.railOptimised() {
				p.rail = c.Classes[class].NICs[x].Rail
			}
			if n > 0 {
				below[p] += c.derived[class].nics[x] * units.Bandwidth(n)
			}
		}
	}
	return below
}

func (b *graphBuilder) finish() *Graph {
	g := b.Graph
	for _, w := range b.sum {
		g.Wires = append(g.Wires, w)
	}
	slices.SortFunc(g.Wires, func(x, y Wire) int { return cmp.Or(x.A-y.A, x.B-y.B) })
	g.adj = make([][]int32, len(g.Parts))
	for i, w := range g.Wires {
		g.adj[w.A] = append(g.adj[w.A], int32(i))
		g.adj[w.B] = append(g.adj[w.B], int32(i))
	}
	return g
}

// GPUPart is the position in Parts of a GPU, -1 when its node is not in the graph.
func (g *Graph) GPUPart(id GPUID) int {
	if !g.c.Valid(id) {
		return -1
	}
	n := g.c.gpuNode[id]
	at, ok := g.gpuAt[n]
	if !ok {
		return -1
	}
	return at + int(id-g.c.Nodes[n].First)
}

// WireName names a wire by its ends.
func (g *Graph) WireName(w Wire) string { return g.Parts[w.A].Name + " - " + g.Parts[w.B].Name }

// template builds the inside of a class: NVLinks between GPUs where there is no NVSwitch, and the PCIe tree as far as
// the distances tell it: GPUs and NICs that are PIX or PXB apart hang on one PCIe switch, those of one NUMA node on
// one socket.
func (k *NodeClass) template(d *classInfo) *template {
	t := &template{}
	for g := range k.GPUs {
		t.parts = append(t.parts, Part{Kind: PartGPU, Index: g})
	}
	for i := range k.NICs {
		t.parts = append(t.parts, Part{Kind: PartNIC, Index: i})
	}
	if k.Wiring != NVLinkSwitched {
		for _, l := range k.NVLinks {
			if l.Count > 0 {
				t.wires = append(t.wires, Wire{A: l.A, B: l.B, BW: k.bundle(d, l)})
			}
		}
	}
	sockets, order := map[int]int{}, []int{}
	socket := func(numa int) int {
		at, ok := sockets[numa]
		if !ok {
			at = len(t.parts)
			name := "cpu"
			if numa >= 0 {
				name = "numa " + strconv.Itoa(numa)
			}
			t.parts = append(t.parts, Part{Kind: PartSocket, Index: numa, Name: name})
			sockets[numa] = at
			order = append(order, at)
		}
		return at
	}
	host := make([]int, len(k.GPUs)) // the part that each GPU hangs on
	for i := range d.islands {
		first := d.islands[i].next(0)
		on := -1
		if d.islands[i].count() > 1 || k.nicBelow(first) {
			on = len(t.parts)
			t.parts = append(t.parts, Part{Kind: PartPCIeSwitch, Index: i, Name: "pcie " + strconv.Itoa(i)})
		}
		up, known := units.Bandwidth(0), true
		for g := first; g >= 0; g = d.islands[i].next(g + 1) {
			host[g] = on
			up = max(up, d.gpus[g].pcieBW)
			known = known && d.gpus[g].pcieBW > 0
			if on < 0 {
				host[g] = socket(k.GPUs[g].NUMA)
			}
			t.wires = append(t.wires, Wire{A: g, B: host[g], BW: d.gpus[g].pcieBW})
		}
		if !known {
			up = 0
		}
		if on >= 0 {
			t.wires = append(t.wires, Wire{A: on, B: socket(k.GPUs[first].NUMA), BW: up})
		}
	}
	for i := range k.NICs {
		on := -1
		for g := range k.GPUs {
			if p := k.nicPath(g, i); (p == PathPIX || p == PathPXB) && on < 0 {
				on = host[g]
			}
		}
		if on < 0 {
			on = socket(k.NICs[i].NUMA)
		}
		t.wires = append(t.wires, Wire{A: len(k.GPUs) + i, B: on, BW: max(d.nics[i], k.NICs[i].PCIe.Bandwidth())})
	}
	for i := 1; i < len(order); i++ { // sockets reach each other; no source states how fast
		for j := range i {
			t.wires = append(t.wires, Wire{A: order[j], B: order[i]})
		}
	}
	return t
}

// nicBelow says whether some NIC hangs on GPU g's PCIe switch.
func (k *NodeClass) nicBelow(g int) bool {
	for i := range k.NICs {
		if p := k.nicPath(g, i); p == PathPIX || p == PathPXB {
			return true
		}
	}
	return false
}
