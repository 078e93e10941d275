package source

import (
	"fmt"

	"rankmap/topology"
)

// compare holds nvidia-smi's matrix and link status against the driver's answers and sysfs. Each kind of difference is
// told once with its first example: the tables of a broken machine differ everywhere.
func (l *liveReader) compare() {
	have, tell := l.node, map[string]int{}
	first := map[string]string{}
	differ := func(kind, format string, args ...any) {
		if tell[kind]++; tell[kind] == 1 {
			first[kind] = fmt.Sprintf(format, args...)
		}
	}
	n := &l.topo.Nodes[0]
	if len(n.GPUs) != len(have.GPUs) {
		differ("GPUs", "nvidia-smi lists %d GPUs, the library %d", len(n.GPUs), len(have.GPUs))
	} else {
		links := func(k *topology.NodeClass) map[[2]int]int {
			m := map[[2]int]int{}
			for _, x := range k.NVLinks {
				m[[2]int{x.A, x.B}] = x.Count
			}
			return m
		}
		a, b := links(have), links(n)
		for x := range have.GPUs {
			for y := x + 1; y < len(have.GPUs); y++ {
				p := [2]int{x, y}
				if a[p] != b[p] && have.Wiring != topology.NVLinkUnknown {
					differ("NVLinks", "nvidia-smi topo -m joins GPU %d and %d by %d NVLinks, the library says %d", x, y, b[p], a[p])
				}
				u, v := have.GPUPaths[x][y], n.GPUPaths[x][y]
				if a[p] == 0 && b[p] == 0 && u.IsPCIe() && v.IsPCIe() && u != v {
					differ("paths", "GPU %d and %d are %s apart by nvidia-smi topo -m, %s by the library and sysfs", x, y, v, u)
				}
			}
			if g, s := &have.GPUs[x], &n.GPUs[x]; g.NUMA >= 0 && s.NUMA >= 0 && g.NUMA != s.NUMA {
				differ("NUMA", "GPU %d is on NUMA node %d by nvidia-smi topo -m, %d by sysfs", x, s.NUMA, g.NUMA)
			}
		}
		l.compareNICs(n, differ)
	}
	l.compareLinks(differ)
	for _, kind := range []string{"GPUs", "NVLinks", "paths", "NUMA", "NICs", "NIC paths", "link status"} {
		if tell[kind] > 1 {
			l.find("sources-differ", "", fmt.Sprintf("%s (and %d more like it)", first[kind], tell[kind]-1))
		} else if tell[kind] == 1 {
			l.find("sources-differ", "", first[kind])
		}
	}
}

func (l *liveReader) compareNICs(n *topology.NodeClass, differ func(kind, format string, args ...any)) {
	at := map[string]int{}
	for i := range l.node.NICs {
		at[l.node.NICs[i].Device] = i
	}
	for j := range n.NICs {
		name := n.NICs[j].Device
		if name == "" {
			continue
		}
		i, ok := at[name]
		if !ok {
			differ("NICs", "nvidia-smi topo -m lists NIC %s, sysfs does not", name)
			continue
		}
		for g := range l.node.GPUs {
			u, v := l.node.NICPaths[g][i], n.NICPaths[g][j]
			if u.IsPCIe() && v.IsPCIe() && u != v {
				differ("NIC paths", "GPU %d and %s are %s apart by nvidia-smi topo -m, %s by sysfs", g, name, v, u)
			}
		}
	}
}

func (l *liveReader) compareLinks(differ func(kind, format string, args ...any)) {
	if l.links == nil {
		return
	}
	for i := range l.links.GPUs {
		s := &l.links.GPUs[i]
		for g := range l.node.GPUs {
			u := &l.node.GPUs[g]
			if u.Index == s.Index && u.Bad == "" && (len(s.Links) > 0 || s.AllInactive) && u.NVLinksUp != s.Active() {
				differ("link status", "nvidia-smi nvlink -s shows %d NVLinks of GPU %d up, the library %d", s.Active(), u.Index, u.NVLinksUp)
			}
		}
	}
}
