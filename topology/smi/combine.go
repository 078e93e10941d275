package smi

import (
	"strconv"

	"rankmap/topology"
)

// combine makes the result of the tables of one text.
func combine(rep *report, tables []*table, ms []*machine) *Result {
	names := hostNames(tables, ms)
	res := &Result{NVLinkVisible: true}
	at := map[string]int{}
	var keep []*machine
	for i, m := range ms {
		m.node.Name = names[i]
		first, again := at[m.node.Name]
		if !again {
			at[m.node.Name] = len(keep)
			keep = append(keep, m)
			continue
		}
		k := keep[first]
		switch {
		case sameDevices(k, m) && m.command == "-mp" && k.command != "-mp" && len(m.node.NVLinks) == 0:
			k.node.PCIePaths = m.node.GPUPaths
		case sameDevices(k, m) && k.command == "-mp" && m.command == "-m":
			m.node.PCIePaths = k.node.GPUPaths
			m.node.Name = k.node.Name
			keep[first] = m
		case sameMatrix(k, m):
			rep.warn(m.at, "the table stands here again: read once")
		default:
			rep.warn(m.at, "a second, different table: another host or another moment; the first one is read")
		}
	}
	for i, m := range keep {
		res.Nodes = append(res.Nodes, m.node)
		res.NVLinkVisible = res.NVLinkVisible && m.nvlink
		for _, f := range m.facts {
			f.What = nodeLabel(&m.node, i) + "/" + f.What
			res.Facts = append(res.Facts, f)
		}
	}
	return res
}

// nodeLabel is how facts call a node.
func nodeLabel(n *topology.NodeClass, i int) string {
	if n.Name != "" {
		return n.Name
	}
	return "node" + strconv.Itoa(i)
}

// hostNames returns a name for each table. Headings count only if every table stands under one of its own.
func hostNames(tables []*table, ms []*machine) []string {
	names := make([]string, len(ms))
	headings := len(ms) > 1 && len(tables) == len(ms)
	for i, m := range ms {
		names[i] = m.node.Name
		if headings {
			headings = m.node.Name == ms[0].node.Name && tables[i].title != ""
		}
	}
	if headings {
		for i := range names {
			names[i] = tables[i].title
		}
	}
	return names
}

func sameDevices(a, b *machine) bool {
	if len(a.node.GPUs) != len(b.node.GPUs) {
		return false
	}
	for i := range a.node.GPUs {
		if a.node.GPUs[i].Index != b.node.GPUs[i].Index {
			return false
		}
	}
	return true
}

func sameMatrix(a, b *machine) bool {
	if !sameDevices(a, b) || len(a.node.NICs) != len(b.node.NICs) || len(a.node.NVLinks) != len(b.node.NVLinks) {
		return false
	}
	for i := range a.node.NVLinks {
		if a.node.NVLinks[i] != b.node.NVLinks[i] {
			return false
		}
	}
	for i := range a.node.GPUPaths {
		for j := range a.node.GPUPaths[i] {
			if a.node.GPUPaths[i][j] != b.node.GPUPaths[i][j] {
				return false
			}
		}
		for j := range a.node.NICPaths[i] {
			if a.node.NICPaths[i][j] != b.node.NICPaths[i][j] {
				return false
			}
		}
	}
	return true
}
