package topology

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"rankmap/internal/hardware"
	"rankmap/internal/units"
)

// EditKind is a what-if change of a machine.
type EditKind uint8

// The changes. Dropping marks a part bad, so that all parts keep their numbers.
const (
	DropNode      EditKind = iota // Node
	DropGPU                       // Node, GPU
	DropNIC                       // Node, NIC
	DropNVLink                    // Node, GPU, Peer: all links between two GPUs; behind NVSwitch one link of GPU
	DropNVSwitch                  // Node or the Rack, Switch
	DropLeaf                      // Leaf, Rail: the NICs cabled to it
	SetLinks                      // Node, GPU, Links: how many links of a GPU are up
	SetNICRate                    // Node or all, NIC or all, Rate
	SetLinkScale                  // Node or all, Scale: NVLink rates times this
	SetDomainSize                 // GPUs: NVLink domains of this many GPUs, in order
	undoEdit                      // what Edit returns
)

// Edit is one change. Node "" means all nodes where a kind allows it; NIC, Rail and Peer -1 mean all or none.
type Edit struct {
	Kind      EditKind
	Node      string
	Rack      string // DropNVSwitch: NVLink fabric or rack name
	Leaf      string
	GPU, Peer int
	NIC, Rail int
	Switch    int
	Links     int
	GPUs      int
	Rate      units.Bandwidth
	Scale     float64
	Text      string // as the user wrote it

	undo *patch
}

// patch holds what an edit changed, so that it can be taken back.
type patch struct {
	nodes   []NodeID
	before  []nodeState
	nicRate units.Bandwidth
}

type nodeState struct {
	node  Node
	class NodeClass
}

// Edit returns a changed copy of a finished cluster and the edit that takes the change back: applying that to the copy
// gives the original. Errors name the part that does not exist. Cost: a copy of the cluster.
func (c *Cluster) Edit(e Edit, cat *hardware.Catalog) (after *Cluster, inverse Edit, err error) {
	out := c.Clone()
	w := &editor{c: out, back: &patch{nicRate: c.Fabric.NICRate}, forks: map[forkKey]int{}}
	if err := w.apply(e); err != nil {
		if e.Text != "" {
			err = fmt.Errorf("%s: %w", e.Text, err)
		}
		return nil, Edit{}, err
	}
	out.sweepForks()
	if err := out.Finish(cat); err != nil {
		return nil, Edit{}, err
	}
	return out, Edit{Kind: undoEdit, undo: w.back, Text: "undo " + e.Text}, nil
}

type editor struct {
	c     *Cluster
	back  *patch
	forks map[forkKey]int
}

type forkKey struct {
	class int
	what  string
}

// change edits one node and its class. Equal results share a class; what names the class's change, so that it is made
// once for all nodes of the class ("" = differs by node).
func (w *editor) change(id NodeID, what string, f func(n *Node, k *NodeClass)) {
	n := &w.c.Nodes[id]
	w.back.nodes = append(w.back.nodes, id)
	w.back.before = append(w.back.before, nodeState{*n, w.c.Classes[n.Class]})
	key := forkKey{n.Class, what}
	if at, ok := w.forks[key]; ok && what != "" {
		n.Class = at
		return
	}
	k := w.c.Classes[n.Class].clone()
	f(n, &k)
	n.Class = w.c.intern(n.Class, k)
	w.forks[key] = n.Class
}

// intern finds a class equal to k but for the name, or adds it as a fork of class from.
func (c *Cluster) intern(from int, k NodeClass) int {
	for i := range c.Classes {
		k.Name = c.Classes[i].Name
		if reflect.DeepEqual(&k, &c.Classes[i]) {
			return i
		}
	}
	base, _, _ := strings.Cut(c.Classes[from].Name, forkMark)
	for n := 1; ; n++ {
		k.Name = base + forkMark + strconv.Itoa(n)
		if !slices.ContainsFunc(c.Classes, func(o NodeClass) bool { return o.Name == k.Name }) {
			break
		}
	}
	c.Classes = append(c.Classes, k)
	return len(c.Classes) - 1
}

// forkMark stands in the names of classes that edits made; such a class goes when no node has it any more.
const forkMark = "~"

func (c *Cluster) sweepForks() {
	used := make([]bool, len(c.Classes))
	for i := range c.Nodes {
		used[c.Nodes[i].Class] = true
	}
	to, kept := make([]int, len(c.Classes)), c.Classes[:0]
	for i, k := range c.Classes {
		to[i] = len(kept)
		if used[i] || !strings.Contains(k.Name, forkMark) {
			kept = append(kept, k)
		}
	}
	c.Classes = kept
	for i := range c.Nodes {
		c.Nodes[i].Class = to[c.Nodes[i].Class]
	}
}

func (w *editor) apply(e Edit) error {
	switch e.Kind {
	case undoEdit:
		return w.undo(e.undo)
	case SetDomainSize:
		return w.setDomains(e.GPUs)
	case DropLeaf:
		return w.dropLeaf(e)
	case DropNVSwitch:
		return w.dropSwitch(e)
	}
	ids, err := w.pick(e.Node, e.Kind == SetNICRate || e.Kind == SetLinkScale)
	if err != nil {
		return err
	}
	for _, id := range ids {
		n, k := w.c.Node(id)
		if err := e.checkParts(n, k); err != nil {
			return err
		}
		w.change(id, fmt.Sprintf("%d", e.Kind), func(n *Node, k *NodeClass) { e.change(n, k) })
	}
	if e.Kind == SetNICRate && e.Node == "" && e.NIC < 0 {
		w.c.Fabric.NICRate = e.Rate
	}
	return nil
}

// pick lists the nodes that an edit names.
func (w *editor) pick(host string, allowAll bool) ([]NodeID, error) {
	if host == "" && allowAll {
		all := make([]NodeID, len(w.c.Nodes))
		for i := range all {
			all[i] = NodeID(i)
		}
		return all, nil
	}
	id, ok := w.c.FindNode(host)
	if !ok {
		return nil, fmt.Errorf("no node %q (there are %s)", host, clip(CompressHosts(w.c.hostNames())))
	}
	return []NodeID{id}, nil
}

func (c *Cluster) hostNames() []string {
	names := make([]string, len(c.Nodes))
	for i := range c.Nodes {
		names[i] = c.Nodes[i].Name
	}
	return names
}

func (e Edit) checkParts(n *Node, k *NodeClass) error {
	gpu := func(g int) error {
		if g < 0 || g >= len(k.GPUs) {
			return fmt.Errorf("node %q has no GPU %d (it has 0 to %d)", n.Name, g, len(k.GPUs)-1)
		}
		return nil
	}
	switch e.Kind {
	case DropGPU:
		return gpu(e.GPU)
	case SetLinks:
		if e.Links < 0 || e.Links > maxLinks {
			return fmt.Errorf("%d links, want 0 to %d", e.Links, maxLinks)
		}
		return gpu(e.GPU)
	case DropNVLink:
		if err := gpu(e.GPU); err != nil {
			return err
		}
		if err := gpu(e.Peer); err != nil {
			return err
		}
		for _, l := range k.NVLinks {
			if l.Count > 0 && (l.A == e.GPU && l.B == e.Peer || l.A == e.Peer && l.B == e.GPU) {
				return nil
			}
		}
		return fmt.Errorf("node %q has no NVLink between GPU %d and %d", n.Name, e.GPU, e.Peer)
	case DropNIC, SetNICRate:
		if e.Kind == SetNICRate && !(e.Rate > 0) || math.IsInf(float64(e.Rate), 0) {
			return fmt.Errorf("nic rate %v, want more than 0", e.Rate)
		}
		if e.NIC >= len(k.NICs) || e.NIC < 0 && e.Kind == DropNIC {
			return fmt.Errorf("node %q has no NIC %d (it has %d)", n.Name, e.NIC, len(k.NICs))
		}
	case SetLinkScale:
		if !(e.Scale > 0) || e.Scale > 1000 {
			return fmt.Errorf("NVLink scale %v, want more than 0, at most 1000", e.Scale)
		}
	}
	return nil
}

// dropped is why a part that an edit took away is bad.
const dropped = "dropped"

func (e Edit) change(n *Node, k *NodeClass) {
	switch e.Kind {
	case DropNode:
		n.Bad = dropped
	case DropGPU:
		k.GPUs[e.GPU].Bad = dropped
	case DropNIC:
		k.NICs[e.NIC].Bad = dropped
	case DropNVLink:
		k.lowerPair(e.GPU, e.Peer)
	case SetLinks:
		k.setLinks(e.GPU, e.Links)
	case SetNICRate:
		for i := range k.NICs {
			if e.NIC < 0 || e.NIC == i {
				k.NICs[i].Rate = e.Rate
			}
		}
	case SetLinkScale:
		k.LinkScale = e.Scale
	}
}

// lowerPair takes the links between two GPUs away. Behind NVSwitch no link belongs to a pair: then GPU g loses one.
func (k *NodeClass) lowerPair(g, peer int) {
	if k.Wiring == NVLinkSwitched {
		k.setLinks(g, k.linksOf(g)-1)
		return
	}
	for i := range k.NVLinks {
		if l := &k.NVLinks[i]; l.A == min(g, peer) && l.B == max(g, peer) {
			l.Down += l.Count
			l.Count = 0
			k.unlink(l)
		}
	}
}

// below is the PCIe distance that remains without NVLink.
func (k *NodeClass) below(a, b int) PathKind {
	if k.PCIePaths == nil {
		return PathUnknown
	}
	return k.PCIePaths[a][b]
}

// linksOf is how many links of a GPU are up, before Finish.
func (k *NodeClass) linksOf(g int) int {
	if up := k.GPUs[g].NVLinksUp; up > 0 {
		return up
	}
	n := 0
	for _, l := range k.NVLinks {
		switch {
		case l.A != g && l.B != g:
		case k.Wiring == NVLinkSwitched:
			n = max(n, l.Count)
		default:
			n += l.Count
		}
	}
	return n
}

// setLinks makes so many links of a GPU be up. Behind NVSwitch each of its pairs shows them, or fewer where the other
// end has fewer; on direct wirings links go one at a time from the widest bundle, the last among equals.
func (k *NodeClass) setLinks(g, links int) {
	links = max(0, links)
	if k.Wiring == NVLinkSwitched {
		k.setSwitchedLinks(g, links)
		return
	}
	for k.linksOf(g) > links {
		widest := -1
		for i := range k.NVLinks {
			if l := k.NVLinks[i]; (l.A == g || l.B == g) && l.Count > 0 && (widest < 0 || l.Count >= k.NVLinks[widest].Count) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		l := &k.NVLinks[widest]
		l.Count, l.Down = l.Count-1, l.Down+1
		if k.GPUs[g].NVLinksUp > 0 {
			k.GPUs[g].NVLinksUp--
		}
		k.unlink(l)
	}
}

func (k *NodeClass) setSwitchedLinks(g, links int) {
	most := make([]int, len(k.GPUs))
	for o := range most {
		most[o] = k.linksOf(o)
	}
	if k.GPUs[g].NVLinksUp > 0 {
		k.GPUs[g].NVLinksUp = links
	}
	for i := range k.NVLinks {
		l := &k.NVLinks[i]
		if l.A == g || l.B == g {
			l.Count = min(links, most[l.A+l.B-g])
			k.unlink(l)
		}
	}
}

// unlink makes the paths agree with a bundle that may have lost its last link.
func (k *NodeClass) unlink(l *NVLink) {
	if l.Count == 0 {
		k.GPUPaths[l.A][l.B], k.GPUPaths[l.B][l.A] = k.below(l.A, l.B), k.below(l.A, l.B)
	}
}

// dropLeaf takes away the NICs cabled to a leaf: of all rails, or of one.
func (w *editor) dropLeaf(e Edit) error {
	found, lost := false, 0
	for i := range w.c.Nodes {
		n, k := w.c.Node(NodeID(i))
		if n.Leaf != e.Leaf {
			continue
		}
		found = true
		for x := range k.NICs {
			if e.Rail < 0 || k.NICs[x].Rail == e.Rail {
				lost++
			}
		}
		w.change(NodeID(i), "leaf", func(_ *Node, k *NodeClass) {
			for x := range k.NICs {
				if e.Rail < 0 || k.NICs[x].Rail == e.Rail {
					k.NICs[x].Bad = "its leaf is dropped"
				}
			}
		})
	}
	switch {
	case !found:
		if len(w.c.Leaves()) == 0 {
			return fmt.Errorf("no leaf %q: the cluster names no leaf switches", e.Leaf)
		}
		return fmt.Errorf("no leaf %q (there are %s)", e.Leaf, clip(strings.Join(w.c.Leaves(), ", ")))
	case lost == 0:
		return fmt.Errorf("leaf %q has no rail %d", e.Leaf, e.Rail)
	}
	return nil
}

// dropSwitch takes one NVSwitch away, of a node or of a rack: every GPU loses its links to it. GPUs spread their links
// over the switches as evenly as goes (18 links on 4 switches: 5, 4, 4, 5 on the board; here 5, 5, 4, 4).
func (w *editor) dropSwitch(e Edit) error {
	lower := func(id NodeID, total int) {
		w.change(id, "switch", func(_ *Node, k *NodeClass) {
			for g := range k.GPUs {
				links := k.linksOf(g)
				share := links / total
				if e.Switch < links%total {
					share++
				}
				k.setLinks(g, links-share)
			}
		})
	}
	if e.Rack == "" {
		id, ok := w.c.FindNode(e.Node)
		if !ok {
			return fmt.Errorf("no node %q", e.Node)
		}
		_, k := w.c.Node(id)
		total := 0
		for _, s := range k.Switches {
			if s.Kind == NVSwitch {
				total++
			}
		}
		if e.Switch < 0 || e.Switch >= total {
			return fmt.Errorf("node %q has no NVSwitch %d (it has %d)", e.Node, e.Switch, total)
		}
		lower(id, total)
		return nil
	}
	total := len(w.c.Fabric.NVSwitches)
	if e.Switch < 0 || e.Switch >= total {
		return fmt.Errorf("rack %q has no NVSwitch %d (it has %d)", e.Rack, e.Switch, total)
	}
	found := false
	for i := range w.c.Nodes {
		if n := &w.c.Nodes[i]; n.Rack == e.Rack || n.Clique == e.Rack {
			found = true
			lower(NodeID(i), total)
		}
	}
	if !found {
		return fmt.Errorf("no rack %q", e.Rack)
	}
	return nil
}

// setDomains joins and splits NVLink domains so that each has size GPUs, counted in order.
func (w *editor) setDomains(size int) error {
	if size < 1 {
		return fmt.Errorf("NVLink domains of %d GPUs, want at least 1", size)
	}
	for i := range w.c.Classes {
		if k := &w.c.Classes[i]; k.Wiring != NVLinkSwitched && w.c.classUsed(i) {
			return fmt.Errorf("class %q is wired %s: only switched NVLink can be joined and split", k.Name, k.Wiring)
		}
	}
	for i := range w.c.Nodes {
		first := int(w.c.Nodes[i].First)
		last := first + len(w.c.Classes[w.c.Nodes[i].Class].GPUs) - 1
		w.change(NodeID(i), "", func(n *Node, k *NodeClass) {
			n.Clique = "domain" + strconv.Itoa(first/size)
			for g := range k.GPUs {
				k.GPUs[g].Clique = ""
				if first/size != last/size {
					k.GPUs[g].Clique = "domain" + strconv.Itoa((first+g)/size)
				}
			}
		})
	}
	return nil
}

// undo puts the touched nodes back.
func (w *editor) undo(p *patch) error {
	for i := len(p.nodes) - 1; i >= 0; i-- {
		id, was := p.nodes[i], p.before[i]
		if int(id) >= len(w.c.Nodes) || w.c.Nodes[id].Name != was.node.Name {
			return fmt.Errorf("the cluster is not the one that the change was made on")
		}
		n := &w.c.Nodes[id]
		w.back.nodes = append(w.back.nodes, id)
		w.back.before = append(w.back.before, nodeState{*n, w.c.Classes[n.Class]})
		class := -1
		for at := range w.c.Classes {
			if reflect.DeepEqual(w.c.Classes[at], was.class) {
				class = at
				break
			}
		}
		if class < 0 {
			w.c.Classes = append(w.c.Classes, was.class.clone())
			class = len(w.c.Classes) - 1
		}
		*n = was.node
		n.Class = class
	}
	w.c.Fabric.NICRate = p.nicRate
	return nil
}
