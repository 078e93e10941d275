package topology

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"rankmap/internal/hardware"
	"rankmap/internal/units"
)

// DiscoveredNode is what the sources found on one host, before nodes are compared.
type DiscoveredNode struct {
	Name   string
	Class  NodeClass // with UUIDs, PCI addresses and fabric identities of this very host
	Clique string    // NVLink fabric identity of the whole host where GPUs state none
	Leaf   string
	Pod    string
	Rack   string
	Bad    string
	Facts  []Fact
}

// FabricMap is what descriptions of the network say.
type FabricMap struct {
	Kind       FabricKind
	NICRate    units.Bandwidth
	Tiers      []Tier // nearest first
	NVSwitches []string
	Hosts      []FabricHost
	Ports      []FabricPort
	Facts      []Fact
}

// FabricHost places a host. Empty fields say nothing.
type FabricHost struct {
	Host   string
	Leaf   string // leaf switch, or block
	Pod    string
	Rack   string
	Clique string // NVLink fabric (a block whose nodes share NVLink)
}

// FabricPort says which leaf switch a NIC is cabled to.
type FabricPort struct {
	Host   string
	Device string // "mlx5_0"; empty when the description names no device
	Leaf   string
	Rate   units.Bandwidth // 0 unknown
}

// FromNodes merges the discoveries of many hosts and a description of the network (nil = none) into one cluster.
// Hosts that are equal but for numbering share a class and keep their identities; a half-width link makes a class of
// its own. NVLink domains follow from the fabric identities, or from the description where GPUs state none; rails from
// the cabling where it is described, else from the NICs' order. Hosts of the description that were not discovered are
// reported as facts, not invented.
func FromNodes(nodes []DiscoveredNode, desc *FabricMap, cat *hardware.Catalog) (*Cluster, error) {
	if len(nodes) == 0 {
		return nil, errors.New("no nodes were discovered")
	}
	c := &Cluster{Name: clusterName(nodes)}
	m := merger{c: c, byExact: map[string][]int{}, byPrint: map[string][]int{}, names: map[string]int{}}
	net := newCabledNet(desc, nodes)
	if desc != nil {
		c.Fabric = Fabric{Kind: desc.Kind, NICRate: desc.NICRate, Tiers: slices.Clone(desc.Tiers), NVSwitches: desc.NVSwitches}
		c.Facts = append(c.Facts, desc.Facts...)
	}
	for i := range nodes {
		d := nodes[i]
		d.Class = d.Class.clone()
		net.place(&d)
		n := Node{Name: d.Name, Clique: d.Clique, Leaf: d.Leaf, Pod: d.Pod, Rack: d.Rack, Bad: d.Bad}
		n.hoistClique(&d.Class)
		if err := m.add(n, &d.Class, cat); err != nil {
			return nil, fmt.Errorf("node %q: %w", d.Name, err)
		}
		c.Facts = append(c.Facts, d.Facts...)
	}
	if net.railOptimised && len(c.Fabric.Tiers) > 0 {
		c.Fabric.Tiers[0].RailOptimized = true
	}
	c.Facts = append(c.Facts, net.strangers()...)
	m.settle()
	return c, c.Finish(cat)
}

// Spread gives every host of a network description the same node class: one machine's discovery and the fabric's list
// of hosts make a cluster. UUIDs are dropped, since no two GPUs share one.
func Spread(class NodeClass, desc *FabricMap, cat *hardware.Catalog) (*Cluster, error) {
	if len(desc.Hosts) == 0 {
		return nil, errors.New("the network description lists no hosts")
	}
	class = class.clone()
	class.dropIdentities()
	nodes := make([]DiscoveredNode, len(desc.Hosts))
	for i, h := range desc.Hosts {
		nodes[i] = DiscoveredNode{Name: h.Host, Class: class}
	}
	return FromNodes(nodes, desc, cat)
}

// dropIdentities forgets what no two nodes can share.
func (k *NodeClass) dropIdentities() {
	for g := range k.GPUs {
		k.GPUs[g].UUID = ""
	}
	for n := range k.NICs {
		k.NICs[n].GUID = ""
	}
}

func clusterName(nodes []DiscoveredNode) string {
	if len(nodes) == 1 {
		return nodes[0].Name
	}
	return strconv.Itoa(len(nodes)) + " nodes"
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// hoistClique moves the GPUs' fabric identity to the node where it is one, and splits off the common part where GPUs
// of one tray belong to different cliques of one fabric, so that trays of different racks can share a class.
func (n *Node) hoistClique(k *NodeClass) {
	uuids, whole := map[string]bool{}, map[string]bool{}
	for g := range k.GPUs {
		if nullClique(k.GPUs[g].Clique) {
			k.GPUs[g].Clique = ""
		}
		uuid, _, _ := cutLast(k.GPUs[g].Clique, ".")
		uuids[uuid], whole[k.GPUs[g].Clique] = true, true
	}
	if whole[""] || len(uuids) != 1 {
		return
	}
	for g := range k.GPUs {
		c := k.GPUs[g].Clique
		uuid, id, found := cutLast(c, ".")
		switch {
		case len(whole) == 1:
			n.Clique, k.GPUs[g].Clique = c, ""
		case found:
			n.Clique, k.GPUs[g].Clique = uuid, "."+id
		}
	}
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// nullClique recognises the all-zero identity that drivers give to GPUs outside any NVLink fabric.
func nullClique(c string) bool {
	uuid, _, _ := cutLast(c, ".")
	return c != "" && strings.Trim(uuid, "0-") == ""
}

// merger collects nodes into classes.
type merger struct {
	c       *Cluster
	byExact map[string][]int
	byPrint map[string][]int
	names   map[string]int
	idents  []nodeIdents
}

type nodeIdents struct{ gpus, nics []Ident }

// add puts a node into the class that it equals, or a new one.
func (m *merger) add(n Node, k *NodeClass, cat *hardware.Catalog) error {
	one := Cluster{Classes: []NodeClass{*k}, Nodes: []Node{{Name: n.Name}}}
	if err := one.Finish(cat); err != nil {
		return err
	}
	*k = one.Classes[0]
	ids := nodeIdents{}
	for g := range k.GPUs {
		ids.gpus = append(ids.gpus, one.GPUIdent(GPUID(g)))
	}
	for i := range k.NICs {
		ids.nics = append(ids.nics, one.NICIdent(0, i))
	}
	exact := k.exact()
	for _, at := range m.byExact[exact] {
		n.Class = at
		m.push(n, ids)
		return nil
	}
	print := k.Fingerprint()
	for _, at := range m.byPrint[print] {
		if gpus, nics, ok := m.c.Classes[at].Match(k); ok {
			n.Class = at
			m.push(n, nodeIdents{permute(ids.gpus, gpus), permute(ids.nics, nics)})
			return nil
		}
	}
	n.Class = len(m.c.Classes)
	k.Name = m.className(k)
	m.c.Classes = append(m.c.Classes, *k)
	m.byExact[exact] = append(m.byExact[exact], n.Class)
	m.byPrint[print] = append(m.byPrint[print], n.Class)
	m.push(n, ids)
	return nil
}

func (m *merger) push(n Node, ids nodeIdents) {
	m.c.Nodes = append(m.c.Nodes, n)
	m.idents = append(m.idents, ids)
}

func permute(in []Ident, order []int) []Ident {
	out := make([]Ident, len(order))
	for i, at := range order {
		out[i] = in[at]
	}
	return out
}

// className names a class after its GPUs, with a number when the name is taken.
func (m *merger) className(k *NodeClass) string {
	name := first(k.GPUs[0].Model, first(k.GPUs[0].Name, "gpu")) + "-" + strconv.Itoa(len(k.GPUs))
	m.names[name]++
	if n := m.names[name]; n > 1 {
		name += "-" + strconv.Itoa(n)
	}
	return name
}

// exact describes a class with its numbering but without identities, to recognise equal nodes cheaply: clusters are
// mostly equal nodes, and a renumbering need not be searched then.
func (k *NodeClass) exact() string {
	b := make([]byte, 0, 4096)
	num := func(v ...int) {
		for _, x := range v {
			b = strconv.AppendInt(b, int64(x), 10)
			b = append(b, ' ')
		}
	}
	str := func(v ...string) {
		for _, x := range v {
			b = strconv.AppendQuote(b, x)
		}
	}
	flag := func(v bool) { b = strconv.AppendBool(b, v) }
	rate := func(v float64) { b = strconv.AppendFloat(b, v, 'g', -1, 64) }
	num(len(k.GPUs), len(k.NICs), len(k.Switches), len(k.NVLinks), int(k.Wiring), k.Sockets)
	str(k.CPUModel)
	flag(k.Virtual)
	rate(k.LinkScale)
	numa := k.relabel()
	for i := range k.GPUs {
		g := &k.GPUs[i]
		str(g.Model, g.Name, g.NUMARange, g.Clique, g.FabricState, g.Bad)
		num(numa[g.NUMA], g.GPUNUMA, int(g.Memory), g.ComputeMajor, g.ComputeMinor, g.NVLinksUp)
		num(g.PCIe.Gen, g.PCIe.MaxGen, g.PCIe.Width, g.PCIe.MaxWidth)
		flag(g.MIG)
		flag(g.NoP2P)
	}
	for i := range k.NICs {
		x := &k.NICs[i]
		str(x.LinkLayer, x.State, x.Firmware, x.Bad)
		num(numa[x.NUMA], x.Rail, x.PCIe.Gen, x.PCIe.MaxGen, x.PCIe.Width, x.PCIe.MaxWidth)
		rate(float64(x.Rate))
	}
	for _, s := range k.Switches {
		str(s.Name)
		num(int(s.Kind))
	}
	for _, l := range k.NVLinks {
		num(l.A, l.B, l.Count, l.Down)
		rate(float64(l.PerLink))
	}
	for _, m := range [][][]PathKind{k.GPUPaths, k.PCIePaths, k.NICPaths} {
		num(len(m))
		for _, row := range m {
			for _, kind := range row {
				b = append(b, byte(kind))
			}
		}
	}
	return string(b)
}

// relabel numbers NUMA nodes in the order in which the class's GPUs and NICs name them, so that only who shares one
// counts.
func (k *NodeClass) relabel() map[int]int {
	to := map[int]int{-1: -1}
	add := func(numa int) {
		if _, ok := to[numa]; !ok {
			to[numa] = len(to)
		}
	}
	for i := range k.GPUs {
		add(k.GPUs[i].NUMA)
	}
	for i := range k.NICs {
		add(k.NICs[i].NUMA)
	}
	return to
}

// settle decides where identities live: in the class when one node has it, else with each node that differs.
func (m *merger) settle() {
	users := make([]int, len(m.c.Classes))
	for i := range m.c.Nodes {
		users[m.c.Nodes[i].Class]++
	}
	for i := range m.c.Classes {
		if users[i] < 2 {
			continue
		}
		m.c.Classes[i].dropIdentities()
	}
	for i := range m.c.Nodes {
		n := &m.c.Nodes[i]
		if users[n.Class] < 2 {
			continue
		}
		probe := Cluster{Classes: m.c.Classes[n.Class : n.Class+1], Nodes: []Node{{}}}
		probe.number()
		for g, id := range m.idents[i].gpus {
			if probe.GPUIdent(GPUID(g)) != id {
				n.GPUIdents = m.idents[i].gpus
			}
		}
		for x, id := range m.idents[i].nics {
			if probe.NICIdent(0, x) != id {
				n.NICIdents = m.idents[i].nics
			}
		}
	}
	sort.SliceStable(m.c.Facts, func(i, j int) bool { return compareFacts(m.c.Facts[i], m.c.Facts[j]) < 0 })
}
