package report

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"rankmap/internal/units"
	"rankmap/topology"
)

// topoOutline is what every picture of a machine shows, whatever its size: the network in groups of nodes that share
// leaves, racks that share NVLink, and each kind of node once.
type topoOutline struct {
	c       *topology.Cluster
	title   string
	summary string
	network string // in words; empty when nothing lies between nodes
	groups  []topoGroup
	racks   []topoRack
	classes []topoClass
}

// topoGroup is the nodes of one leaf, or of all where none is stated.
type topoGroup struct {
	name, pod string
	nodes     []topology.NodeID
	gpus      int
	content   []string // "32 x hgx-h100"
	alike     int      // how many further groups have the same content; they are not listed
}

// topoRack is a set of NVLink domains of one shape that span nodes.
type topoRack struct {
	domain int // the first
	name   string
	alike  int // how many more
	nodes  []topology.NodeID
	gpus   int
	sig    string
}

// topoClass is one kind of node, shown by its first host.
type topoClass struct {
	node  topology.NodeID
	class *topology.NodeClass
	hosts string
	count int
	roots []*topoPart
	parts map[int]*topoPart // by position of the GPU
}

// topoPart is a part of the PCIe tree.
type topoPart struct {
	kind     topology.PartKind
	index    int
	label    string
	notes    []string
	bad      string
	children []*topoPart
}

func newTopoOutline(c *topology.Cluster) *topoOutline {
	o := &topoOutline{c: c, title: Clean(c.Name)}
	o.summary = fmt.Sprintf("%s, %s, %s", topoCount(c.NumNodes(), "node"), topoCount(c.NumGPUs(), "GPU"), topoDomains(c))
	if c.NumNodes() > 1 {
		o.network = topoNetwork(c)
		o.addGroups()
	}
	o.addRacks()
	o.addClasses()
	return o
}

func topoCount(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return strconv.Itoa(n) + " " + word + "s"
}

// topoDomains puts the sizes of the NVLink domains in words.
func topoDomains(c *topology.Cluster) string {
	if c.Domains == nil {
		return "NVLink unknown"
	}
	count := map[int]int{}
	for _, d := range c.Domains {
		count[len(d)]++
	}
	if count[1] == len(c.Domains) {
		return "no NVLink"
	}
	var sizes []int
	for s := range count {
		sizes = append(sizes, s)
	}
	sort.Sort(sort.Reverse(sort.IntSlice(sizes)))
	var words []string
	for i, s := range sizes {
		if i == 4 {
			words = append(words, fmt.Sprintf("%d other sizes", len(sizes)-4))
			break
		}
		switch {
		case s == 1:
			words = append(words, topoCount(count[s], "GPU")+" alone")
		case count[s] == 1:
			words = append(words, fmt.Sprintf("an NVLink domain of %d", s))
		default:
			words = append(words, fmt.Sprintf("%d NVLink domains of %d", count[s], s))
		}
	}
	return strings.Join(words, ", ")
}

func topoNetwork(c *topology.Cluster) string {
	name := string(c.Fabric.Kind)
	if name == "" {
		name = "network of unknown kind"
	}
	var tiers []string
	for _, t := range c.Fabric.Tiers {
		s := Clean(t.Name)
		switch {
		case t.Oversubscription == 0:
			s += " (oversubscription unknown"
		case t.Oversubscription <= 1:
			s += " (non-blocking"
		default:
			s += " (" + units.Trim(t.Oversubscription, 2) + ":1 oversubscribed"
		}
		if t.RailOptimized {
			s += ", one leaf a rail"
		}
		tiers = append(tiers, s+")")
	}
	if len(tiers) == 0 {
		return name + ", tiers not stated"
	}
	return name + ": " + strings.Join(tiers, ", ")
}

// addGroups puts nodes that share a leaf together. Groups of equal content after the first are only counted when
// there are more than eight.
func (o *topoOutline) addGroups() {
	leaves := o.c.Leaves()
	at := map[int]int{}
	for i := range o.c.Nodes {
		leaf := o.c.LeafOf(topology.NodeID(i))
		g, ok := at[leaf]
		if !ok {
			g = len(o.groups)
			at[leaf] = g
			name := "leaf not stated"
			if leaf >= 0 {
				name = Clean(leaves[leaf])
			}
			o.groups = append(o.groups, topoGroup{name: name, pod: Clean(o.c.Nodes[i].Pod)})
		}
		o.groups[g].nodes = append(o.groups[g].nodes, topology.NodeID(i))
	}
	for i := range o.groups {
		g := &o.groups[i]
		count := make([]int, len(o.c.Classes))
		for _, n := range g.nodes {
			node, k := o.c.Node(n)
			count[node.Class]++
			g.gpus += len(k.GPUs)
		}
		for class, n := range count {
			if n > 0 {
				g.content = append(g.content, fmt.Sprintf("%d x %s", n, Clean(o.c.Classes[class].Name)))
			}
		}
	}
	if len(o.groups) <= 8 {
		return
	}
	kept := o.groups[:0]
	first := map[string]int{}
	for _, g := range o.groups {
		key := g.pod + "\n" + strings.Join(g.content, "\n")
		if i, ok := first[key]; ok {
			kept[i].alike++
			continue
		}
		first[key] = len(kept)
		kept = append(kept, g)
	}
	o.groups = kept
}

// addRacks lists the NVLink domains that span nodes, each shape once.
func (o *topoOutline) addRacks() {
	first := map[string]int{}
	for d, members := range o.c.Domains {
		if o.c.DomainNodes(d) < 2 {
			continue
		}
		r := topoRack{domain: d, gpus: len(members)}
		var sig strings.Builder
		for _, g := range members {
			n := o.c.NodeOf(g)
			if len(r.nodes) == 0 || r.nodes[len(r.nodes)-1] != n {
				r.nodes = append(r.nodes, n)
				node, _ := o.c.Node(n)
				fmt.Fprintf(&sig, "|%d%t", node.Class, node.Bad != "")
			}
			_, at := o.c.GPU(g)
			fmt.Fprintf(&sig, ".%d", at)
		}
		r.sig = sig.String()
		if i, ok := first[r.sig]; ok {
			o.racks[i].alike++
			continue
		}
		node, _ := o.c.Node(r.nodes[0])
		r.name = Clean(node.Rack)
		if r.name == "" {
			r.name = "NVLink domain " + strconv.Itoa(d)
		}
		first[r.sig] = len(o.racks)
		o.racks = append(o.racks, r)
	}
}

func (o *topoOutline) addClasses() {
	hosts := make([][]string, len(o.c.Classes))
	first := make([]topology.NodeID, len(o.c.Classes))
	for i := range o.c.Nodes {
		n, _ := o.c.Node(topology.NodeID(i))
		if hosts[n.Class] == nil {
			first[n.Class] = topology.NodeID(i)
		}
		hosts[n.Class] = append(hosts[n.Class], n.Name)
	}
	for i := range o.c.Classes {
		if hosts[i] == nil {
			continue
		}
		list := Clean(topology.CompressHosts(hosts[i]))
		if len(list) > 60 {
			list = Clean(hosts[i][0]) + " ..."
		}
		k := topoClass{node: first[i], class: &o.c.Classes[i], hosts: list, count: len(hosts[i]), parts: map[int]*topoPart{}}
		k.buildTree(o.c)
		o.classes = append(o.classes, k)
	}
}

// buildTree reads the PCIe tree off the bandwidth graph of the class's first node.
func (k *topoClass) buildTree(c *topology.Cluster) {
	g := c.Graph(k.node)
	parts := make([]*topoPart, len(g.Parts))
	for i, p := range g.Parts {
		if p.Node == k.node {
			parts[i] = k.newPart(c, p)
		}
	}
	taken := make([]bool, len(parts))
	adopt := func(child, parent int) {
		if !taken[child] {
			taken[child] = true
			parts[parent].children = append(parts[parent].children, parts[child])
		}
	}
	for _, above := range []topology.PartKind{topology.PartPCIeSwitch, topology.PartSocket} {
		for _, w := range g.Wires {
			a, b := w.A, w.B
			if parts[a] == nil || parts[b] == nil {
				continue
			}
			if g.Parts[a].Kind == above {
				a, b = b, a
			}
			if g.Parts[b].Kind == above && g.Parts[a].Kind < above {
				adopt(a, b)
			}
		}
	}
	for i, p := range parts {
		if p == nil {
			continue
		}
		if p.kind == topology.PartGPU {
			k.parts[p.index] = p
		}
		if !taken[i] {
			k.roots = append(k.roots, p)
		}
		sort.SliceStable(p.children, func(x, y int) bool {
			a, b := p.children[x], p.children[y]
			if ka, kb := topoRank(a), topoRank(b); ka != kb {
				return ka < kb
			}
			return a.index < b.index
		})
	}
}

// topoRank orders siblings: switches by the first GPU below them, then GPUs, then NICs.
func topoRank(p *topoPart) int {
	switch p.kind {
	case topology.PartPCIeSwitch:
		return 0
	case topology.PartGPU:
		return 1
	}
	return 2
}

func (k *topoClass) newPart(c *topology.Cluster, p topology.Part) *topoPart {
	t := &topoPart{kind: p.Kind, index: p.Index}
	switch p.Kind {
	case topology.PartGPU:
		u := &k.class.GPUs[p.Index]
		t.label, t.bad = "GPU "+strconv.Itoa(p.Index), Clean(u.Bad)
		if u.Model != "" {
			t.notes = append(t.notes, u.Model)
		} else if u.Name != "" {
			t.notes = append(t.notes, Clean(u.Name))
		}
		if bw := c.PCIeBandwidth(gpuOf(c, k.node, p.Index)); bw > 0 {
			t.notes = append(t.notes, "PCIe "+topoGBps(bw))
		}
	case topology.PartNIC:
		x := &k.class.NICs[p.Index]
		t.label, t.bad = Clean(c.NICIdent(k.node, p.Index).Label()), Clean(x.Bad)
		if bw := c.NICBandwidth(k.node, p.Index); bw > 0 {
			t.notes = append(t.notes, units.Trim(bw.Gbps(), 1)+" Gb/s")
		} else if x.State != "" {
			t.notes = append(t.notes, Clean(x.State))
		}
		if x.Rail >= 0 && len(k.class.NICs) > 1 {
			t.notes = append(t.notes, "rail "+strconv.Itoa(x.Rail))
		}
	case topology.PartPCIeSwitch:
		t.label = "PCIe switch"
	case topology.PartSocket:
		t.label = "CPU"
		if p.Index >= 0 {
			t.label = "NUMA " + strconv.Itoa(p.Index)
		}
	}
	return t
}

func gpuOf(c *topology.Cluster, n topology.NodeID, g int) topology.GPUID {
	node, _ := c.Node(n)
	return node.First + topology.GPUID(g)
}

func topoGBps(b units.Bandwidth) string { return units.Trim(b.GBps(), 1) + " GB/s" }

// nvlink puts the NVLink of a node in words.
func (k *topoClass) nvlink(c *topology.Cluster) string {
	switch k.class.Wiring {
	case topology.NVLinkNone:
		return "no NVLink"
	case topology.NVLinkUnknown:
		return "NVLink unknown"
	case topology.NVLinkDirect:
		return "NVLink between GPUs, no switch"
	case topology.NVLinkCubeMesh:
		return "NVLink between some GPUs, no switch"
	}
	first := gpuOf(c, k.node, 0)
	s := "NVSwitch"
	n := 0
	for _, sw := range k.class.Switches {
		if sw.Kind == topology.NVSwitch {
			n++
		}
	}
	d := c.DomainOf(first)
	if d >= 0 && c.DomainNodes(d) > 1 {
		s, n = "NVSwitches of the rack", len(c.Fabric.NVSwitches)
	}
	if n > 0 {
		s = fmt.Sprintf("%d %s", n, strings.Replace(s, "NVSwitches", "NVSwitch", 1))
		if n > 1 {
			s = strings.Replace(s, "NVSwitch", "NVSwitches", 1)
		}
	}
	s += fmt.Sprintf(", %d links a GPU", c.LinksUp(first))
	if bw := c.LinkBandwidth(first); bw > 0 {
		s += ", " + topoGBps(bw) + " one way"
	}
	return s
}

// heading is the caption of a node.
func (k *topoClass) heading() string {
	s := Clean(k.class.Name) + ": " + topoCount(k.count, "node") + ", " + k.hosts
	if k.class.Virtual {
		s += " (virtual machine: PCIe distances unknown)"
	}
	return s
}
