package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"rankmap/topology"
)

// TopologyMatrix prints one node's distances as nvidia-smi topo -m does, with tabs: GPUs and NICs, the NVLink count
// where NVLink joins two GPUs, CPU and NUMA affinity, and the legends.
func TopologyMatrix(w io.Writer, c *topology.Cluster, node topology.NodeID) error {
	n, k := c.Node(node)
	var b strings.Builder
	gpus, nics := len(k.GPUs), len(k.NICs)
	for g := range gpus {
		fmt.Fprintf(&b, "\tGPU%d", c.GPUIdent(n.First+topology.GPUID(g)).Index)
	}
	for i := range nics {
		fmt.Fprintf(&b, "\tNIC%d", i)
	}
	b.WriteString("\tCPU Affinity\tNUMA Affinity\n")
	count := map[[2]int]int{}
	for _, l := range k.NVLinks {
		count[[2]int{l.A, l.B}], count[[2]int{l.B, l.A}] = l.Count, l.Count
	}
	for g := range gpus {
		id := c.GPUIdent(n.First + topology.GPUID(g))
		fmt.Fprintf(&b, "GPU%d", id.Index)
		for o := range gpus {
			b.WriteString("\t" + topoCell(k.GPUPaths[g][o], count[[2]int{g, o}]))
		}
		for i := range nics {
			b.WriteString("\t" + topoCell(nicPath(k, g, i), 0))
		}
		numa := "N/A"
		if id.NUMA >= 0 {
			numa = strconv.Itoa(id.NUMA)
		} else if r := k.GPUs[g].NUMARange; r != "" {
			numa = Clean(r)
		}
		fmt.Fprintf(&b, "\t%s\t%s\n", Clean(id.CPUAffinity), numa)
	}
	for i := range nics {
		fmt.Fprintf(&b, "NIC%d", i)
		for g := range gpus {
			b.WriteString("\t" + topoCell(nicPath(k, g, i), 0))
		}
		for o := range nics {
			if o == i {
				b.WriteString("\t X ")
			} else {
				b.WriteString("\t" + topoCell(nicToNIC(k, i, o), 0))
			}
		}
		b.WriteString("\t\t\n")
	}
	b.WriteString("\nLegend:\n\n  X    = Self\n  SYS  = over the link between NUMA nodes\n  NODE = between host bridges of one NUMA node\n  PHB  = over a PCIe host bridge\n" +
		"  PXB  = over several PCIe bridges\n  PIX  = over at most one PCIe bridge\n  NV#  = over # NVLinks\n  ?    = not stated\n")
	if nics > 0 {
		b.WriteString("\nNIC Legend:\n\n")
		for i := range nics {
			fmt.Fprintf(&b, "  NIC%d: %s\n", i, Clean(c.NICIdent(node, i).Label()))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func nicPath(k *topology.NodeClass, g, n int) topology.PathKind {
	if k.NICPaths == nil {
		return topology.PathUnknown
	}
	return k.NICPaths[g][n]
}

// nicToNIC is how far two NICs are apart as far as the distances of one GPU to both tell: no nearer than the farther
// of the two, and exactly that where they differ.
func nicToNIC(k *topology.NodeClass, a, b int) topology.PathKind {
	best := topology.PathUnknown
	for g := range k.GPUs {
		x, y := nicPath(k, g, a), nicPath(k, g, b)
		if x != topology.PathUnknown && y != topology.PathUnknown && (best == topology.PathUnknown || max(x, y) < best) {
			best = max(x, y)
		}
	}
	return best
}

// topoCell is one cell of the matrix.
func topoCell(kind topology.PathKind, links int) string {
	switch {
	case kind == topology.PathSelf:
		return " X "
	case kind == topology.PathNV && links > 0:
		return "NV" + strconv.Itoa(links)
	}
	return kind.String()
}
