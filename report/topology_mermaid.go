package report

import (
	"fmt"
	"io"
	"strings"

	"rankmap/topology"
)

// TopologyMermaid writes the machine as a Mermaid flowchart: the network, and each kind of node once. Labels are
// quoted and their special characters written as entities.
func TopologyMermaid(w io.Writer, c *topology.Cluster) error {
	m := &mermaidWriter{kinds: map[string][]string{}}
	m.b.WriteString("flowchart TB\n")
	emitTopology(c, m)
	for _, kind := range []string{"gpu", "nic", "switch", "socket", "nvswitch", "leaf", "bad"} {
		if ids := m.kinds[kind]; ids != nil {
			fmt.Fprintf(&m.b, "  classDef %s fill:%s,stroke:#555,color:#222\n  class %s %s\n", kind, topoFill(kind), strings.Join(ids, ","), kind)
		}
	}
	_, err := io.WriteString(w, m.b.String())
	return err
}

type mermaidWriter struct {
	b     strings.Builder
	kinds map[string][]string
}

func (m *mermaidWriter) open(id, label string) {
	fmt.Fprintf(&m.b, "  subgraph %s [%s]\n", id, mermaidQuote(label))
}

func (m *mermaidWriter) shut() { m.b.WriteString("  end\n") }

func (m *mermaidWriter) node(id, label, kind string) {
	fmt.Fprintf(&m.b, "    %s[%s]\n", id, mermaidQuote(label))
	m.kinds[kind] = append(m.kinds[kind], id)
}

func (m *mermaidWriter) edge(a, b, label string, weight int) {
	link := "---"
	if weight > 2 {
		link = "==="
	}
	if label != "" {
		link += "|" + mermaidQuote(label) + "|"
	}
	fmt.Fprintf(&m.b, "    %s %s %s\n", a, link, b)
}

// mermaidQuote makes a Mermaid label: everything but letters, digits and harmless signs as an entity, line breaks as
// <br/>.
func mermaidQuote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i, line := range strings.Split(s, "\n") {
		if i > 0 {
			b.WriteString("<br/>")
		}
		for _, r := range Clean(line) {
			if r < 0x80 && !strings.ContainsRune(" ,.:-_/()+", r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') {
				fmt.Fprintf(&b, "#%d;", r)
				continue
			}
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
