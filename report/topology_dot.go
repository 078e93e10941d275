package report

import (
	"fmt"
	"io"
	"strings"

	"rankmap/topology"
)

// TopologyDOT writes the machine as a Graphviz graph: the network, and each kind of node once. Names are quoted, so
// that no name can break out of its label.
func TopologyDOT(w io.Writer, c *topology.Cluster) error {
	e := &dotWriter{}
	e.b.WriteString("graph topology {\n  rankdir=TB;\n  node [shape=box, fontname=\"Helvetica\"];\n  edge [fontname=\"Helvetica\", fontsize=10];\n")
	emitTopology(c, e)
	e.b.WriteString("}\n")
	_, err := io.WriteString(w, e.b.String())
	return err
}

// topologyEmitter is what DOT and Mermaid write alike.
type topologyEmitter interface {
	open(id, label string)
	shut()
	node(id, label, kind string)
	edge(a, b, label string, weight int)
}

// emitTopology walks the outline: a box for the network, one for each kind of node.
func emitTopology(c *topology.Cluster, e topologyEmitter) {
	o := newTopoOutline(c)
	if o.network != "" {
		e.open("net", o.title+": "+o.network)
		if len(o.groups) > 1 || o.groups[0].alike > 0 {
			e.node("spine", "spines", "switch")
		}
		for i, g := range o.groups[:min(len(o.groups), 24)] {
			label := g.name + "\n" + strings.Join(g.content, "\n") + "\n" + topoCount(g.gpus, "GPU")
			if g.alike > 0 {
				label += fmt.Sprintf("\nand %d groups like it", g.alike)
			}
			id := fmt.Sprintf("leaf%d", i)
			e.node(id, label, "leaf")
			if len(o.groups) > 1 || g.alike > 0 {
				e.edge("spine", id, "", 1)
			}
		}
		e.shut()
	}
	for i := range o.classes[:min(len(o.classes), maxTopoClasses)] {
		k := &o.classes[i]
		id := fmt.Sprintf("class%d", i)
		e.open(id, k.heading())
		for j, root := range k.roots {
			emitPart(e, root, fmt.Sprintf("%s_r%d", id, j), id)
		}
		if k.class.Wiring == topology.NVLinkSwitched {
			e.node(id+"_nvswitch", k.nvlink(c), "nvswitch")
			for g := range k.class.GPUs {
				if n := c.LinksUp(gpuOf(c, k.node, g)); n > 0 {
					e.edge(fmt.Sprintf("%s_gpu%d", id, g), id+"_nvswitch", fmt.Sprintf("NV%d", n), 3)
				}
			}
		} else {
			for _, l := range k.class.NVLinks {
				if l.Count > 0 {
					e.edge(fmt.Sprintf("%s_gpu%d", id, l.A), fmt.Sprintf("%s_gpu%d", id, l.B), fmt.Sprintf("NV%d", l.Count), 1+min(l.Count, 4))
				}
			}
		}
		e.shut()
	}
}

// emitPart writes a part and its children and returns its id.
func emitPart(e topologyEmitter, p *topoPart, id, class string) string {
	kind := "socket"
	switch p.kind {
	case topology.PartGPU:
		id, kind = fmt.Sprintf("%s_gpu%d", class, p.index), "gpu"
	case topology.PartNIC:
		id, kind = fmt.Sprintf("%s_nic%d", class, p.index), "nic"
	case topology.PartPCIeSwitch:
		kind = "switch"
	}
	label := strings.Join(append([]string{p.label}, p.notes...), "\n")
	if p.bad != "" {
		label, kind = p.label+"\nbad: "+p.bad, "bad"
	}
	e.node(id, label, kind)
	for i, c := range p.children {
		e.edge(id, emitPart(e, c, fmt.Sprintf("%s_%d", id, i), class), "", 1)
	}
	return id
}

// topoFill is the colour of a kind of part, the same as in the SVG.
func topoFill(kind string) string {
	switch kind {
	case "gpu":
		return fillGPU
	case "nic":
		return fillNIC
	case "switch":
		return fillSwitch
	case "socket":
		return fillSocket
	case "nvswitch":
		return fillNVSwitch
	case "bad":
		return fillBad
	}
	return "#ffffff"
}

type dotWriter struct{ b strings.Builder }

func (d *dotWriter) open(id, label string) {
	fmt.Fprintf(&d.b, "  subgraph %s {\n    label=%s;\n    style=rounded;\n", dotQuote("cluster_"+id), dotQuote(label))
}

func (d *dotWriter) shut() { d.b.WriteString("  }\n") }

func (d *dotWriter) node(id, label, kind string) {
	fmt.Fprintf(&d.b, "    %s [label=%s, style=filled, fillcolor=%s];\n", dotQuote(id), dotQuote(label), dotQuote(topoFill(kind)))
}

func (d *dotWriter) edge(a, b, label string, weight int) {
	fmt.Fprintf(&d.b, "    %s -- %s [label=%s, penwidth=%d];\n", dotQuote(a), dotQuote(b), dotQuote(label), weight)
}

// dotQuote makes a DOT string: quotes and backslashes escaped, line breaks as \n, other control characters dropped.
func dotQuote(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(Clean(l))
	}
	return `"` + strings.Join(lines, `\n`) + `"`
}
