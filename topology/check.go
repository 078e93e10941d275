package topology

import (
	"math"

	"rankmap/internal/units"
)

// Caps on one cluster, so that a small file cannot exhaust memory.
const (
	MaxGPUs    = 1 << 20
	maxNodes   = 1 << 20
	maxName    = 255
	maxLinks   = 1024 // NVLinks in one bundle; the most of any GPU sold is 36
	maxClasses = 1 << 17
)

// check reports every contradiction of the cluster as given, before anything is derived.
func (c *Cluster) check(p *problems) {
	if len(c.Nodes) == 0 {
		p.add("cluster %q has no nodes", c.Name)
	}
	if len(c.Nodes) > maxNodes || len(c.Classes) > maxClasses {
		p.add("cluster %q has %d nodes and %d classes, want at most %d and %d", c.Name, len(c.Nodes), len(c.Classes), maxNodes, maxClasses)
		return
	}
	for i := range c.Classes {
		p.at = place{i, -1, -1}
		c.Classes[i].check(p)
	}
	c.checkNodes(p)
	p.at = nowhere
	checkRate(p, "fabric", "nic rate", c.Fabric.NICRate)
	c.checkTiers(p)
}

func (c *Cluster) checkNodes(p *problems) {
	hosts := make(map[string]bool, len(c.Nodes))
	total := 0
	for i := range c.Nodes {
		n := &c.Nodes[i]
		p.at = place{-1, i, -1}
		switch {
		case n.Name == "":
			p.add("node %d has no name", i)
		case len(n.Name) > maxName:
			p.add("node %d: name of %d bytes, want at most %d", i, len(n.Name), maxName)
		case hosts[n.Name]:
			p.add("node %q is listed twice", n.Name)
		}
		hosts[n.Name] = true
		if n.Class < 0 || n.Class >= len(c.Classes) {
			p.add("node %q: class %d does not exist (there are %d)", n.Name, n.Class, len(c.Classes))
			continue
		}
		k := &c.Classes[n.Class]
		total += len(k.GPUs)
		if n.GPUIdents != nil && len(n.GPUIdents) != len(k.GPUs) {
			p.add("node %q: %d GPU identities for the %d GPUs of class %q", n.Name, len(n.GPUIdents), len(k.GPUs), k.Name)
		}
		if n.NICIdents != nil && len(n.NICIdents) != len(k.NICs) {
			p.add("node %q: %d NIC identities for the %d NICs of class %q", n.Name, len(n.NICIdents), len(k.NICs), k.Name)
		}
	}
	if total > MaxGPUs {
		p.at = nowhere
		p.add("cluster %q has %d GPUs, want at most %d", c.Name, total, MaxGPUs)
		return
	}
	c.checkUUIDs(p)
}

// checkUUIDs reports GPUs that claim one identity. A class with UUIDs that several nodes share without identities of
// their own is such a claim.
func (c *Cluster) checkUUIDs(p *problems) {
	var owner map[string]string
	for i := range c.Nodes {
		n := &c.Nodes[i]
		if n.Class < 0 || n.Class >= len(c.Classes) {
			continue
		}
		for g := range c.Classes[n.Class].GPUs {
			id := c.Classes[n.Class].GPUs[g].UUID
			if g < len(n.GPUIdents) {
				id = n.GPUIdents[g].UUID
			}
			if id == "" {
				continue
			}
			if owner == nil {
				owner = map[string]string{}
			}
			here := gpuName(n.Name, g)
			if was, dup := owner[id]; dup {
				p.at = place{-1, i, -1}
				p.add("GPU UUID %q belongs to both %s and %s", id, was, here)
				continue
			}
			owner[id] = here
		}
	}
}

func (c *Cluster) checkTiers(p *problems) {
	seen := map[string]string{}
	for _, t := range c.Fabric.Tiers {
		if v := t.Oversubscription; v < 0 || math.IsNaN(v) || math.IsInf(v, 0) {
			p.add("fabric tier %q: oversubscription is %v, want downlinks over uplinks, or 0 when unknown", t.Name, v)
		}
		for _, s := range t.Switches {
			if was, dup := seen[s]; dup {
				p.add("switch %q stands in tiers %q and %q", s, was, t.Name)
			}
			seen[s] = t.Name
		}
	}
}

func (k *NodeClass) check(p *problems) {
	if len(k.GPUs) == 0 {
		p.add("class %q has no GPUs", k.Name)
	}
	if len(k.GPUs) > maxParts || len(k.NICs) > maxParts {
		p.add("class %q has %d GPUs and %d NICs, want at most %d of each in one node", k.Name, len(k.GPUs), len(k.NICs), maxParts)
		return
	}
	for g := range k.GPUs {
		u := &k.GPUs[g]
		if u.Memory < 0 {
			p.add("class %q: GPU %d: memory is %d bytes, want at least 0", k.Name, g, u.Memory)
		}
		if u.NVLinksUp < 0 || u.NVLinksUp > maxLinks {
			p.add("class %q: GPU %d: %d NVLinks up, want 0 to %d", k.Name, g, u.NVLinksUp, maxLinks)
		}
	}
	for n := range k.NICs {
		checkRate(p, "class \""+k.Name+"\": NIC "+k.NICs[n].Name, "rate", k.NICs[n].Rate)
	}
	if s := k.LinkScale; s < 0 || s > 1000 || math.IsNaN(s) {
		p.add("class %q: NVLink scale is %v, want 0 to 1000", k.Name, s)
	}
	k.checkLinks(p)
	checkMatrix(p, k.Name, "GPU paths", k.GPUPaths, len(k.GPUs), len(k.GPUs), true)
	checkMatrix(p, k.Name, "PCIe paths", k.PCIePaths, len(k.GPUs), len(k.GPUs), true)
	checkMatrix(p, k.Name, "NIC paths", k.NICPaths, len(k.GPUs), len(k.NICs), false)
}

func (k *NodeClass) checkLinks(p *problems) {
	type pair struct{ a, b int }
	count := map[pair]int{}
	for i, l := range k.NVLinks {
		p.at.link = i
		switch {
		case l.A < 0 || l.B < 0 || l.A >= len(k.GPUs) || l.B >= len(k.GPUs):
			p.add("class %q: NVLink %d-%d: there are GPUs 0 to %d only", k.Name, l.A, l.B, len(k.GPUs)-1)
		case l.A == l.B:
			p.add("class %q: NVLink from GPU %d to itself", k.Name, l.A)
		case l.Count < 0 || l.Count > maxLinks || l.Down < 0 || l.Down > maxLinks:
			p.add("class %q: NVLink %d-%d: %d links up, %d down, want 0 to %d", k.Name, l.A, l.B, l.Count, l.Down, maxLinks)
		}
		checkRate(p, "class \""+k.Name+"\"", "NVLink rate", l.PerLink)
		count[pair{l.A, l.B}] += l.Count
	}
	for i, l := range k.NVLinks {
		p.at.link = i
		if there, back := count[pair{l.A, l.B}], count[pair{l.B, l.A}]; l.A < l.B && back != 0 && back != there {
			p.add("class %q: NVLink %d-%d has %d links one way and %d the other", k.Name, l.A, l.B, there, back)
			delete(count, pair{l.B, l.A})
		}
	}
	p.at.link = -1
}

func checkRate(p *problems, where, what string, b units.Bandwidth) {
	if v := float64(b); v < 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		p.add("%s: %s is %v bytes/s, want a positive number, or 0 when unknown", where, what, v)
	}
}

func checkMatrix(p *problems, class, what string, m [][]PathKind, rows, cols int, square bool) {
	if m == nil {
		return
	}
	if len(m) != rows {
		p.add("class %q: %s have %d rows, want %d", class, what, len(m), rows)
		return
	}
	for i := range m {
		if len(m[i]) != cols {
			p.add("class %q: %s: row %d has %d cells, want %d", class, what, i, len(m[i]), cols)
			return
		}
		for _, k := range m[i] {
			if k >= numPathKinds {
				p.add("class %q: %s: row %d holds the unknown kind %d", class, what, i, k)
				return
			}
		}
	}
	for i := range m {
		for j := 0; square && j < i; j++ {
			if m[i][j] != m[j][i] {
				p.add("class %q: %s: GPU %d to %d is %s, back is %s", class, what, j, i, m[j][i], m[i][j])
			}
		}
	}
}
