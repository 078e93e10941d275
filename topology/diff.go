package topology

import (
	"fmt"
	"slices"
	"strings"
)

// Change is one difference between two clusters.
type Change struct {
	What   string `json:"what"`
	Before string `json:"before,omitempty"` // empty: it is new
	After  string `json:"after,omitempty"`  // empty: it is gone
}

// Diff lists in what b is not like a: nodes that came, went or changed, NVLink domains, the network. Names of classes
// and provenance do not count; equal clusters give an empty list. Nodes that changed alike share an entry. The order
// is the same each time. Cost: the nodes, and a comparison for each pair of classes that one node moved between.
func Diff(a, b *Cluster) []Change {
	d := differ{a: a, b: b, moves: map[[2]int][]string{}}
	d.nodes()
	d.add("NVLink domains", domainSizes(a), domainSizes(b))
	d.fabric()
	return d.out
}

type differ struct {
	a, b  *Cluster
	out   []Change
	moves map[[2]int][]string // classes before and after: hosts
}

func (d *differ) add(what, before, after string) {
	if before != after {
		d.out = append(d.out, Change{what, before, after})
	}
}

func (d *differ) nodes() {
	var gone, come []string
	var order [][2]int
	i, j := 0, 0
	for i < len(d.a.Nodes) || j < len(d.b.Nodes) {
		way := 0
		switch {
		case i == len(d.a.Nodes):
			way = 1
		case j == len(d.b.Nodes):
			way = -1
		default:
			way = CompareNames(d.a.Nodes[i].Name, d.b.Nodes[j].Name)
		}
		switch {
		case way < 0:
			gone = append(gone, d.a.Nodes[i].Name)
			i++
		case way > 0:
			come = append(come, d.b.Nodes[j].Name)
			j++
		default:
			x, y := &d.a.Nodes[i], &d.b.Nodes[j]
			d.add(x.Name+" state", bad(x.Bad), bad(y.Bad))
			d.add(x.Name+" leaf", x.Leaf, y.Leaf)
			d.add(x.Name+" rack", x.Rack, y.Rack)
			key := [2]int{x.Class, y.Class}
			if d.moves[key] == nil {
				order = append(order, key)
			}
			d.moves[key] = append(d.moves[key], x.Name)
			i, j = i+1, j+1
		}
	}
	if len(gone) > 0 {
		d.out = append(d.out, Change{What: "nodes gone", Before: CompressHosts(gone)})
	}
	if len(come) > 0 {
		d.out = append(d.out, Change{What: "nodes added", After: CompressHosts(come)})
	}
	for _, key := range order {
		d.classes(CompressHosts(d.moves[key]), &d.a.Classes[key[0]], &d.b.Classes[key[1]])
	}
}

func bad(why string) string {
	if why == "" {
		return "healthy"
	}
	return why
}

// classes compares what a node was and is, part by part.
func (d *differ) classes(hosts string, x, y *NodeClass) {
	say := func(what string, before, after any) { d.add(hosts+" "+what, fmt.Sprint(before), fmt.Sprint(after)) }
	say("GPUs", len(x.GPUs), len(y.GPUs))
	say("NICs", len(x.NICs), len(y.NICs))
	say("NVLink wiring", x.Wiring, y.Wiring)
	say("NVLink scale", float64(x.scale()), float64(y.scale()))
	if len(x.GPUs) == len(y.GPUs) {
		for g := range x.GPUs {
			p, q := &x.GPUs[g], &y.GPUs[g]
			what := fmt.Sprintf("GPU %d ", g)
			say(what+"model", p.Model, q.Model)
			say(what+"state", bad(p.Bad), bad(q.Bad))
			say(what+"PCIe", p.PCIe, q.PCIe)
			say(what+"fabric", strings.TrimSpace(p.Clique+" "+p.FabricState), strings.TrimSpace(q.Clique+" "+q.FabricState))
			say(what+"MIG", p.MIG, q.MIG)
		}
		d.links(hosts, x, y)
	}
	if len(x.NICs) == len(y.NICs) {
		for i := range x.NICs {
			p, q := &x.NICs[i], &y.NICs[i]
			what := fmt.Sprintf("NIC %d ", i)
			say(what+"rate", p.Rate, q.Rate)
			say(what+"state", strings.TrimSpace(bad(p.Bad)+" "+p.State), strings.TrimSpace(bad(q.Bad)+" "+q.State))
			say(what+"PCIe", p.PCIe, q.PCIe)
			say(what+"rail", p.Rail, q.Rail)
		}
	}
	if !slices.EqualFunc(x.NICPaths, y.NICPaths, slices.Equal) && len(x.NICs) == len(y.NICs) && len(x.GPUs) == len(y.GPUs) {
		d.out = append(d.out, Change{What: hosts + " distances between GPUs and NICs", Before: "as before", After: "changed"})
	}
}

func (d *differ) links(hosts string, x, y *NodeClass) {
	count := func(k *NodeClass) map[[2]int]int {
		m := map[[2]int]int{}
		for _, l := range k.NVLinks {
			m[[2]int{l.A, l.B}] = l.Count
		}
		return m
	}
	p, q := count(x), count(y)
	for a := range x.GPUs {
		for b := a + 1; b < len(x.GPUs); b++ {
			d.add(fmt.Sprintf("%s NVLink %d-%d", hosts, a, b), fmt.Sprint(p[[2]int{a, b}], " links"), fmt.Sprint(q[[2]int{a, b}], " links"))
		}
	}
}

// domainSizes puts the sizes of the NVLink domains in words: "18 x 8, 2 x 1".
func domainSizes(c *Cluster) string {
	if c.Domains == nil {
		return "unknown"
	}
	count := map[int]int{}
	var sizes []int
	for _, m := range c.Domains {
		if count[len(m)] == 0 {
			sizes = append(sizes, len(m))
		}
		count[len(m)]++
	}
	slices.SortFunc(sizes, func(a, b int) int { return b - a })
	var words []string
	for _, s := range sizes {
		words = append(words, fmt.Sprintf("%d x %d", count[s], s))
	}
	return strings.Join(words, ", ")
}

func (d *differ) fabric() {
	x, y := &d.a.Fabric, &d.b.Fabric
	d.add("network", string(x.Kind), string(y.Kind))
	d.add("network NIC rate", x.NICRate.String(), y.NICRate.String())
	for i := range max(len(x.Tiers), len(y.Tiers)) {
		d.add(fmt.Sprintf("network tier %d", i), tierText(x.Tiers, i), tierText(y.Tiers, i))
	}
}

func tierText(tiers []Tier, i int) string {
	if i >= len(tiers) {
		return ""
	}
	t := tiers[i]
	s := fmt.Sprintf("%s, oversubscription %v, %d switches", t.Name, t.Oversubscription, len(t.Switches))
	if t.RailOptimized {
		s += ", one leaf a rail"
	}
	return s
}
