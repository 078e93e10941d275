package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"rankmap/report"
	"rankmap/topology"
	"rankmap/topology/source"
)

// maxListed bounds the nodes, domains and facts that a table lists one by one.
const maxListed = 16

// discoverTable prints the matrix of each kind of node in the words of topo -m, then GPUs, NICs, NVLink domains,
// switches and findings; wide adds where each fact comes from.
func discoverTable(res *source.Result, v *topology.View, wide bool, width int) ([]byte, error) {
	var b bytes.Buffer
	if wide {
		width = 0
	}
	if res.Cluster != nil {
		if err := classTables(&b, res.Cluster, v, wide, width); err != nil {
			return nil, err
		}
	} else {
		hostTable(&b, v, width)
	}
	domainLines(&b, v)
	switchLines(&b, v)
	findingLines(&b, v)
	if wide {
		factTable(&b, v)
	}
	return b.Bytes(), nil
}

// classTables shows the first node of each kind.
func classTables(b *bytes.Buffer, c *topology.Cluster, v *topology.View, wide bool, width int) error {
	shown := map[int]bool{}
	for i := range c.Nodes {
		class := c.Nodes[i].Class
		if shown[class] {
			continue
		}
		if len(shown) == maxListed {
			fmt.Fprintf(b, "and %d more kinds of node\n", len(c.Classes)-maxListed)
			break
		}
		shown[class] = true
		var like []string
		for j := range c.Nodes {
			if c.Nodes[j].Class == class {
				like = append(like, c.Nodes[j].Name)
			}
		}
		fmt.Fprintf(b, "%s: %s\n\n", clip(topology.CompressHosts(like), 100), nodeSummary(&c.Classes[class], len(like)))
		if err := report.TopologyMatrix(b, c, topology.NodeID(i)); err != nil {
			return err
		}
		b.WriteByte('\n')
		gpuTable(b, &v.Nodes[i], wide, width)
		nicTable(b, &v.Nodes[i], wide, width)
	}
	return nil
}

func nodeSummary(k *topology.NodeClass, nodes int) string {
	s := fmt.Sprintf("%d GPUs, %d NICs, NVLink %s", len(k.GPUs), len(k.NICs), k.Wiring)
	if k.Sockets > 0 {
		s += fmt.Sprintf(", %d sockets", k.Sockets)
	}
	if k.CPUModel != "" {
		s += ", " + report.Clean(k.CPUModel)
	}
	if k.Virtual {
		s += ", PCIe distances unknown (virtualised)"
	}
	if nodes > 1 {
		s = fmt.Sprintf("%d nodes, each with %s", nodes, s)
	}
	return s
}

func clip(s string, n int) string {
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "") + "..."
	}
	return s
}

func gpuTable(b *bytes.Buffer, n *topology.ViewNode, wide bool, width int) {
	t := report.Table{Columns: []report.Column{{Title: "GPU"}, {Title: "NAME"}, {Title: "NVLINKS", Align: report.Right}, {Title: "NUMA", Align: report.Right},
		{Title: "NEAREST NICS", Drop: 1}, {Title: "MEMORY", Align: report.Right, Drop: 2}, {Title: "PCIE", Drop: 3}, {Title: "PCI", Drop: 4}, {Title: "STATE", Drop: 1}}}
	if wide {
		t.Columns = append(t.Columns, report.Column{Title: "UUID"}, report.Column{Title: "FABRIC"})
	}
	for i := range n.GPUs {
		g := &n.GPUs[i]
		near := "-"
		if g.NearestNICPath != nil {
			near = strings.Join(g.NearestNICs, ",") + " " + *g.NearestNICPath
		}
		name := g.Name
		if name == "GPU"+strconv.Itoa(g.Index) && g.Model != "" { // no driver named it
			name = g.Model
		}
		cells := []string{strconv.Itoa(g.Index), name, orDash(g.NVLinksUp), intOrDash(g.NUMA), near, memory(g.MemoryBytes), slot(g.PCIe), g.PCI, gpuState(g)}
		if wide {
			cells = append(cells, g.UUID, strings.TrimSpace(g.Clique+" "+g.FabricState))
		}
		t.Add(cells...)
	}
	t.Write(b, "", width)
	b.WriteByte('\n')
}

func gpuState(g *topology.ViewGPU) string {
	switch {
	case g.Bad != "":
		return "bad: " + g.Bad
	case g.MIG:
		return "MIG"
	}
	return "ok"
}

func nicTable(b *bytes.Buffer, n *topology.ViewNode, wide bool, width int) {
	if len(n.NICs) == 0 {
		return
	}
	t := report.Table{Columns: []report.Column{{Title: "NIC"}, {Title: "DEVICE"}, {Title: "RATE", Align: report.Right}, {Title: "STATE"}, {Title: "LINK", Drop: 1},
		{Title: "NUMA", Align: report.Right, Drop: 1}, {Title: "RAIL", Align: report.Right, Drop: 2}, {Title: "PCIE", Drop: 3}, {Title: "PCI", Drop: 4}}}
	if wide {
		t.Columns = append(t.Columns, report.Column{Title: "NETDEV"}, report.Column{Title: "FIRMWARE"}, report.Column{Title: "GUID"})
	}
	for i := range n.NICs {
		x := &n.NICs[i]
		state := x.State
		if x.Bad != "" {
			state = "bad: " + x.Bad
		}
		cells := []string{x.Name, dash(x.Device), gbpsText(x.GBps), dash(state), dash(x.LinkLayer), intOrDash(x.NUMA), intOrDash(x.Rail), slot(x.PCIe), x.PCI}
		if wide {
			cells = append(cells, x.NetDev, x.Firmware, x.GUID)
		}
		t.Add(cells...)
	}
	t.Write(b, "", width)
	b.WriteByte('\n')
}

// hostTable lists hosts of which no GPU is known.
func hostTable(b *bytes.Buffer, v *topology.View, width int) {
	if len(v.Nodes) == 0 {
		b.WriteString("no hosts\n\n")
		return
	}
	t := report.Table{Columns: []report.Column{{Title: "HOST"}, {Title: "NICS", Align: report.Right}, {Title: "LEAF"}, {Title: "POD", Drop: 2}, {Title: "RACK", Drop: 1}, {Title: "NVLINK DOMAIN", Drop: 1}}}
	for i := range v.Nodes {
		if i == 4*maxListed {
			t.Add(fmt.Sprintf("and %d more", len(v.Nodes)-i))
			break
		}
		n := &v.Nodes[i]
		t.Add(n.Name, orDash(len(n.NICs)), dash(n.Leaf), dash(n.Pod), dash(n.Rack), dash(n.Clique))
	}
	t.Write(b, "", width)
	b.WriteByte('\n')
	for i := range v.Nodes {
		if len(v.Nodes) == 1 {
			nicTable(b, &v.Nodes[i], false, width)
		}
	}
}

func domainLines(b *bytes.Buffer, v *topology.View) {
	if v.NVLinkDomains == nil {
		b.WriteString("NVLink domains: unknown\n")
		return
	}
	alone := 0
	bySize := map[int]int{}
	var lines []string
	var sizes []int
	for _, d := range v.NVLinkDomains {
		if len(d) == 1 {
			alone++
			continue
		}
		if bySize[len(d)]++; bySize[len(d)] == 1 {
			sizes = append(sizes, len(d))
		}
		lines = append(lines, fmt.Sprintf("  %d GPUs: %s", len(d), clip(report.Clean(spans(d)), 100)))
	}
	fmt.Fprintf(b, "NVLink domains: %d\n", len(v.NVLinkDomains))
	if len(lines) > maxListed {
		lines = nil
		for _, n := range sizes {
			lines = append(lines, fmt.Sprintf("  %d GPUs each: %d", n, bySize[n]))
		}
	}
	for _, l := range lines {
		fmt.Fprintln(b, l)
	}
	if alone > 0 {
		fmt.Fprintf(b, "  1 GPU alone: %d\n", alone)
	}
}

// spans shortens "a/0 a/1 b/0 b/1" to "a/0-1, b/0-1".
func spans(names []string) string {
	var out []string
	for i := 0; i < len(names); {
		host, from := cutGPU(names[i])
		to := from
		for i++; i < len(names); i++ {
			h, g := cutGPU(names[i])
			if h != host || g != to+1 {
				break
			}
			to = g
		}
		s := fmt.Sprintf("%s/%d", host, from)
		if to > from {
			s += fmt.Sprintf("-%d", to)
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

func cutGPU(name string) (host string, gpu int) {
	at := strings.LastIndexByte(name, '/')
	gpu, _ = strconv.Atoi(name[at+1:])
	return name[:max(at, 0)], gpu
}

func switchLines(b *bytes.Buffer, v *topology.View) {
	var order []string
	count := map[string]int{}
	for _, s := range v.Switches {
		key := strings.TrimSpace(s.Tier + " " + s.Kind.String())
		if s.Tier == s.Kind.String() {
			key = s.Tier
		}
		if count[key]++; count[key] == 1 {
			order = append(order, key)
		}
	}
	if len(order) == 0 {
		return
	}
	b.WriteString("switches:")
	for i, k := range order {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(b, " %d %s", count[k], k)
	}
	b.WriteByte('\n')
}

func findingLines(b *bytes.Buffer, v *topology.View) {
	if len(v.Findings) == 0 {
		b.WriteString("findings: none\n")
		return
	}
	fmt.Fprintf(b, "findings: %d\n", len(v.Findings))
	for i, f := range v.Findings {
		if i == 4*maxListed {
			fmt.Fprintf(b, "  and %d more\n", len(v.Findings)-i)
			break
		}
		fmt.Fprintf(b, "  %s  %s: %s (%s)\n", strings.ToUpper(f.Severity.String()), report.Clean(f.Where), report.Clean(f.Message), f.ID)
		if f.Severity != topology.SeverityNote {
			fmt.Fprintf(b, "         next: %s\n", report.Clean(f.Next))
		}
	}
}

func factTable(b *bytes.Buffer, v *topology.View) {
	if len(v.Facts) == 0 {
		return
	}
	t := report.Table{Columns: []report.Column{{Title: "FACT"}, {Title: "VALUE"}, {Title: "SOURCE"}}}
	for _, f := range v.Facts {
		t.Add(f.What, f.Value, f.Source)
	}
	b.WriteByte('\n')
	t.Write(b, "", 0)
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func orDash(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

func intOrDash(n *int) string {
	if n == nil {
		return "-"
	}
	return strconv.Itoa(*n)
}

func memory(bytes int64) string {
	if bytes <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f GB", float64(bytes)/1e9)
}

func gbpsText(v *float64) string {
	if v == nil {
		return "-"
	}
	return strconv.FormatFloat(*v, 'g', 6, 64) + " GB/s"
}

func slot(p *topology.PCIeDoc) string {
	if p == nil {
		return "-"
	}
	s := fmt.Sprintf("gen%s x%s", orUnknown(p.Gen), orUnknown(p.Width))
	if p.MaxGen > p.Gen && p.Gen > 0 || p.MaxWidth > p.Width && p.Width > 0 {
		s += fmt.Sprintf(" of gen%s x%s", orUnknown(p.MaxGen), orUnknown(p.MaxWidth))
	}
	return s
}

func orUnknown(n int) string {
	if n == 0 {
		return "?"
	}
	return strconv.Itoa(n)
}
