package topology

import (
	"slices"
	"sort"
	"strconv"

	"rankmap/internal/hardware"
)

// Finish checks the cluster and derives what the rest of rankmap asks for: GPU models from driver names, the wiring
// where no source states it, the order of the nodes (numerically by host name), GPU numbers and NVLink domains. Every
// source calls it, directly or by FromNodes, before a cluster is used; calling it again after an edit is allowed.
//
// cat may be nil; then GPU models are taken as they are and link rates come from the sources alone. The error lists
// all problems, at most 20.
func (c *Cluster) Finish(cat *hardware.Catalog) error { return c.finish(cat, nil) }

// finish is Finish for readers that can say where a problem stands.
func (c *Cluster) finish(cat *hardware.Catalog, where func(place) string) error {
	c.nameClasses()
	p := newProblems()
	c.check(p)
	if len(p.list) > 0 {
		return p.err(where)
	}
	sheets := make([][]*hardware.GPU, len(c.Classes))
	for i := range c.Classes {
		k := &c.Classes[i]
		p.at = place{i, -1, -1}
		sheets[i] = resolveModels(p, k, cat)
		k.NVLinks = mergeLinks(k.NVLinks)
		for n := range k.NICs {
			if k.NICs[n].Name == "" {
				k.NICs[n].Name = "NIC" + strconv.Itoa(k.NICs[n].Index)
			}
		}
		k.checkCounts(p, sheets[i])
		k.numberRails()
		k.normalisePaths(p)
	}
	if len(p.list) > 0 {
		return p.err(where)
	}
	sort.SliceStable(c.Nodes, func(i, j int) bool { return CompareNames(c.Nodes[i].Name, c.Nodes[j].Name) < 0 })
	c.number()
	for i := range c.Classes {
		if k := &c.Classes[i]; k.Wiring == NVLinkNone {
			k.Wiring = decideWiring(k, sheets[i])
		}
	}
	c.findDomains()
	c.derive(sheets)
	slices.SortStableFunc(c.Facts, compareFacts)
	c.Facts = slices.Compact(c.Facts)
	return nil
}

// nameClasses gives every class a name of its own.
func (c *Cluster) nameClasses() {
	taken, last := make(map[string]bool, len(c.Classes)), map[string]int{}
	for i := range c.Classes {
		k := &c.Classes[i]
		if k.Name == "" {
			k.Name = "class" + strconv.Itoa(i)
		}
		base := k.Name
		for taken[k.Name] {
			last[base]++
			k.Name = base + "-" + strconv.Itoa(last[base]+1)
		}
		taken[k.Name] = true
	}
}

// resolveModels finds the datasheet of each GPU: by key, else by the driver's name. An unknown key is an error; an
// unknown driver name is not, the GPU then simply has no datasheet.
func resolveModels(p *problems, k *NodeClass, cat *hardware.Catalog) []*hardware.GPU {
	sheets := make([]*hardware.GPU, len(k.GPUs))
	if cat == nil {
		return sheets
	}
	for g := range k.GPUs {
		u := &k.GPUs[g]
		if g > 0 && u.Model == k.GPUs[g-1].Model && u.Name == k.GPUs[g-1].Name {
			sheets[g] = sheets[g-1]
			continue
		}
		if u.Model != "" {
			sheet, err := cat.GPU(u.Model)
			if err != nil {
				p.add("class %q: GPU %d: %w", k.Name, g, err)
				continue
			}
			sheets[g], u.Model = sheet, sheet.System
		} else if u.Name != "" {
			if sheet := cat.ByName(u.Name); sheet != nil {
				sheets[g], u.Model = sheet, sheet.System
			}
		}
	}
	return sheets
}

// checkCounts reports pairs with more links, up or down, than the GPU has: then the model is wrong.
func (k *NodeClass) checkCounts(p *problems, sheets []*hardware.GPU) {
	for _, l := range k.NVLinks {
		for _, g := range []int{l.A, l.B} {
			if s := sheets[g]; s != nil && s.NVLinks > 0 && l.Count+l.Down > s.NVLinks {
				p.add("class %q: GPU %d and %d are joined by %d NVLinks, but a %s has %d: is the GPU model right?", k.Name, l.A, l.B, l.Count+l.Down, s.System, s.NVLinks)
				return
			}
		}
	}
}

// mergeLinks stores each pair once, A < B: parallel bundles are added up, the two directions of one bundle (equal, or
// check had refused them) become one.
func mergeLinks(links []NVLink) []NVLink {
	sorted := slices.IsSortedFunc(links, comparePairs)
	for i, l := range links {
		sorted = sorted && l.A < l.B && (i == 0 || comparePairs(links[i-1], l) < 0)
	}
	if sorted {
		return links
	}
	type pair struct{ a, b int }
	at := map[pair]int{}
	var out []NVLink
	for pass := range 2 {
		forward := pass == 0
		met := map[pair]bool{}
		for _, l := range links {
			if (l.A < l.B) != forward {
				continue
			}
			if !forward {
				l.A, l.B = l.B, l.A
			}
			i, ok := at[pair{l.A, l.B}]
			switch {
			case !ok:
				at[pair{l.A, l.B}] = len(out)
				met[pair{l.A, l.B}] = true
				out = append(out, l)
			case met[pair{l.A, l.B}] || forward: // another bundle of the same direction
				out[i].Count += l.Count
				out[i].Down += l.Down
			}
		}
	}
	slices.SortFunc(out, comparePairs)
	return out
}

func comparePairs(x, y NVLink) int {
	if x.A != y.A {
		return x.A - y.A
	}
	return x.B - y.B
}

// normalisePaths makes the matrices agree with the links: NV exactly where a link is up. A PCIe kind that a link
// outranks moves to PCIePaths. NVLink without a link is an error.
func (k *NodeClass) normalisePaths(p *problems) {
	n := len(k.GPUs)
	if k.GPUPaths == nil {
		k.GPUPaths = newMatrix(n, n)
	}
	for i := range n {
		k.GPUPaths[i][i] = PathSelf
	}
	linked := map[[2]int]bool{}
	for _, l := range k.NVLinks {
		if l.Count == 0 {
			continue
		}
		linked[[2]int{l.A, l.B}] = true
		was := k.GPUPaths[l.A][l.B]
		if was.IsPCIe() {
			if k.PCIePaths == nil {
				k.PCIePaths = newMatrix(n, n)
			}
			k.PCIePaths[l.A][l.B], k.PCIePaths[l.B][l.A] = was, was
		}
		k.GPUPaths[l.A][l.B], k.GPUPaths[l.B][l.A] = PathNV, PathNV
	}
	for a := range n {
		for b := a + 1; b < n; b++ {
			if k.GPUPaths[a][b] == PathNV && !linked[[2]int{a, b}] {
				if k.Wiring == NVLinkUnknown {
					continue
				}
				p.add("class %q: GPU %d and %d are said to be joined by NVLink, but no link between them is up", k.Name, a, b)
			}
		}
	}
}

func newMatrix(rows, cols int) [][]PathKind {
	cells := make([]PathKind, rows*cols)
	m := make([][]PathKind, rows)
	for i := range m {
		m[i] = cells[i*cols : (i+1)*cols : (i+1)*cols]
	}
	return m
}

// number gives every node its first GPU and every GPU its node.
func (c *Cluster) number() {
	total := 0
	for i := range c.Nodes {
		c.Nodes[i].First = GPUID(total)
		total += len(c.Classes[c.Nodes[i].Class].GPUs)
	}
	c.gpuNode = make([]NodeID, total)
	for i := range c.Nodes {
		first := int(c.Nodes[i].First)
		for g := range c.Classes[c.Nodes[i].Class].GPUs {
			c.gpuNode[first+g] = NodeID(i)
		}
	}
}

func compareFacts(a, b Fact) int {
	if c := CompareNames(a.What, b.What); c != 0 {
		return c
	}
	if c := CompareNames(a.Source, b.Source); c != 0 {
		return c
	}
	return CompareNames(a.Value, b.Value)
}

// numberRails gives NICs the rail of their position where none states a rail (all unknown, or all left at zero): rail i
// is the NICs with the same local index over all nodes.
func (k *NodeClass) numberRails() {
	for i := range k.NICs {
		if r := k.NICs[i].Rail; r != k.NICs[0].Rail || r > 0 {
			return
		}
	}
	for i := range k.NICs {
		k.NICs[i].Rail = i
	}
}
