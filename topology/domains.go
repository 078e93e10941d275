package topology

import "strings"

// findDomains groups the GPUs that reach each other over NVLink: by links that are up inside a node, and by the
// NVLink fabric identity between nodes. Two GPUs of one node with different identities are apart even though a matrix
// shows links between them: the switches do not forward between cliques. Cost: the GPUs and the links.
//
// If any class's NVLink is unknown, no domain is known and Domains is nil.
func (c *Cluster) findDomains() {
	c.Domains, c.domainOf, c.domains = nil, nil, nil
	for i := range c.Classes {
		if c.Classes[i].Wiring == NVLinkUnknown && c.classUsed(i) {
			return
		}
	}
	u := newUnion(len(c.gpuNode))
	linked := make([][]bool, len(c.Classes))
	for i := range c.Classes {
		linked[i] = c.Classes[i].linked()
	}
	byClique := map[string]GPUID{}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		k := &c.Classes[n.Class]
		for _, l := range k.NVLinks {
			if l.Count > 0 && n.forwards(&k.GPUs[l.A], &k.GPUs[l.B]) {
				u.join(int(n.First)+l.A, int(n.First)+l.B)
			}
		}
		for g := range k.GPUs {
			key := n.clique(&k.GPUs[g])
			if key == "" || !linked[n.Class][g] || !fabricReady(k.GPUs[g].FabricState) {
				continue
			}
			id := n.First + GPUID(g)
			if first, ok := byClique[key]; ok {
				u.join(int(first), int(id))
				if c.gpuNode[first] != NodeID(i) { // NVLink leaves the node: only switches do that
					k.Wiring = NVLinkSwitched
					c.Classes[c.Nodes[c.gpuNode[first]].Class].Wiring = NVLinkSwitched
				}
			} else {
				byClique[key] = id
			}
		}
	}
	c.collectDomains(u)
}

func (c *Cluster) classUsed(i int) bool {
	for n := range c.Nodes {
		if c.Nodes[n].Class == i {
			return true
		}
	}
	return false
}

// collectDomains lists the sets of u, ordered by first GPU, all in one backing array.
func (c *Cluster) collectDomains(u union) {
	n := len(u)
	c.domainOf = make([]int32, n)
	size := make([]int32, 0, 16)
	for g := range n {
		r := u.find(g)
		if r == g {
			c.domainOf[g] = int32(len(size))
			size = append(size, 0)
		} else {
			c.domainOf[g] = c.domainOf[r]
		}
		size[c.domainOf[g]]++
	}
	all := make([]GPUID, n)
	c.Domains = make([][]GPUID, len(size))
	at := 0
	for d, s := range size {
		c.Domains[d] = all[at : at : at+int(s)]
		at += int(s)
	}
	for g := range n {
		d := c.domainOf[g]
		c.Domains[d] = append(c.Domains[d], GPUID(g))
	}
}

// clique is the NVLink fabric that a GPU of this node belongs to; empty when its links end in the node.
func (n *Node) clique(g *GPU) string {
	switch {
	case g.Clique == "":
		return n.Clique
	case strings.HasPrefix(g.Clique, "."):
		return n.Clique + g.Clique
	}
	return g.Clique
}

// forwards says whether links between two GPUs of the node carry traffic: always when NVLink ends in the node; in a
// larger fabric only if both registered with it, under one identity.
func (n *Node) forwards(a, b *GPU) bool {
	key := n.clique(a)
	if key != n.clique(b) {
		return false
	}
	return key == "" || fabricReady(a.FabricState) && fabricReady(b.FabricState)
}

// fabricReady says whether a GPU with this fabric state can use switches beyond its node. Unstated is ready.
func fabricReady(state string) bool { return state == "" || strings.EqualFold(state, "completed") }

// linked says which GPUs have a link up. Where a node shows no pair at all (one GPU a node, as in racks of GH200),
// a GPU that states nothing is taken as linked: its fabric identity says that it registered.
func (k *NodeClass) linked() []bool {
	has := make([]bool, len(k.GPUs))
	pairs := false
	for _, l := range k.NVLinks {
		pairs = true
		if l.Count > 0 {
			has[l.A], has[l.B] = true, true
		}
	}
	for g := range has {
		has[g] = has[g] || k.GPUs[g].NVLinksUp > 0 || !pairs && len(k.GPUs) == 1
	}
	return has
}
