package report

import (
	"fmt"
	"io"
	"strings"

	"rankmap/topology"
)

// maxTopoClasses bounds how many kinds of node a picture shows in full; further ones are named only.
const maxTopoClasses = 6

// TopologyTree prints the machine as a tree of text: the network, the racks, and each kind of node once with its
// sockets, PCIe switches, GPUs and NICs. It grows with the kinds of node, not with their number.
func TopologyTree(w io.Writer, c *topology.Cluster) error {
	o := newTopoOutline(c)
	var kids []textTree
	if o.network != "" {
		n := textTree{text: o.network}
		for _, g := range o.groups {
			s := fmt.Sprintf("%s: %s, %s", g.name, strings.Join(g.content, ", "), topoCount(g.gpus, "GPU"))
			if g.alike > 0 {
				s += fmt.Sprintf(" (and %d groups like it)", g.alike)
			}
			n.kids = append(n.kids, textTree{text: s})
		}
		kids = append(kids, n)
	}
	for _, r := range o.racks {
		s := fmt.Sprintf("%s: %s, one NVLink domain over %s", r.name, topoCount(r.gpus, "GPU"), topoCount(len(r.nodes), "node"))
		if r.alike > 0 {
			s += fmt.Sprintf(" (and %d like it)", r.alike)
		}
		kids = append(kids, textTree{text: s})
	}
	for i := range o.classes {
		k := &o.classes[i]
		if i == maxTopoClasses {
			kids = append(kids, textTree{text: fmt.Sprintf("and %d more kinds of node", len(o.classes)-i)})
			break
		}
		n := textTree{text: k.heading(), kids: []textTree{k.nvlinkTree(c)}}
		for _, p := range k.roots {
			n.kids = append(n.kids, partTree(p))
		}
		kids = append(kids, n)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", o.title, o.summary)
	writeTree(&b, kids, "")
	_, err := io.WriteString(w, b.String())
	return err
}

type textTree struct {
	text string
	kids []textTree
}

func writeTree(b *strings.Builder, kids []textTree, indent string) {
	for i, k := range kids {
		branch, below := "├─ ", "│  "
		if i == len(kids)-1 {
			branch, below = "└─ ", "   "
		}
		b.WriteString(indent + branch + k.text + "\n")
		writeTree(b, k.kids, indent+below)
	}
}

// nvlinkTree lists the links of a node one by one where there is no switch.
func (k *topoClass) nvlinkTree(c *topology.Cluster) textTree {
	t := textTree{text: k.nvlink(c)}
	if k.class.Wiring == topology.NVLinkSwitched {
		return t
	}
	byCount := map[int][]string{}
	most := 0
	for _, l := range k.class.NVLinks {
		if l.Count > 0 {
			byCount[l.Count] = append(byCount[l.Count], fmt.Sprintf("%d-%d", l.A, l.B))
			most = max(most, l.Count)
		}
	}
	for n := most; n > 0; n-- {
		if byCount[n] != nil {
			t.kids = append(t.kids, textTree{text: fmt.Sprintf("NV%d: %s", n, strings.Join(byCount[n], " "))})
		}
	}
	return t
}

func partTree(p *topoPart) textTree {
	s := p.label
	if len(p.notes) > 0 {
		s += " (" + strings.Join(p.notes, ", ") + ")"
	}
	if p.bad != "" {
		s += " BAD: " + p.bad
	}
	t := textTree{text: s}
	for _, c := range p.children {
		t.kids = append(t.kids, partTree(c))
	}
	return t
}
