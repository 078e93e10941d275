package smi

import (
	"fmt"

	"rankmap/internal/units"
	"rankmap/topology"
)

// Merge adds what the status says to a node: names, UUIDs, links up, the rate of one link, and, where the GPUs are all
// joined by one count, links that are down. The GPUs are matched by index. What contradicts the node is returned and
// not merged.
func (st *LinkStatus) Merge(n *topology.NodeClass) []Warning {
	var warns []Warning
	warn := func(line int, format string, args ...any) {
		warns = append(warns, Warning{st.file, line, 1, fmt.Sprintf(format, args...)})
	}
	at := map[int]int{}
	for i := range n.GPUs {
		at[n.GPUs[i].Index] = i
	}
	byGPU := make([]*GPULinks, len(n.GPUs))
	for i := range st.GPUs {
		g := &st.GPUs[i]
		k, ok := at[g.Index]
		if !ok {
			warn(g.Line, "GPU %d is not in the matrix: not used", g.Index)
			continue
		}
		gpu := &n.GPUs[k]
		if gpu.UUID != "" && g.UUID != "" && gpu.UUID != g.UUID {
			warn(g.Line, "GPU %d has UUID %s here and %s elsewhere: not used", g.Index, g.UUID, gpu.UUID)
			continue
		}
		byGPU[k] = g
		gpu.UUID = g.UUID
		if g.Name != "" {
			gpu.Name = g.Name
		}
		gpu.NVLinksUp = g.Active()
	}
	most := 0
	for _, g := range byGPU {
		if g != nil {
			most = max(most, g.Active())
		}
	}
	whole := len(n.GPUs) > 1 && len(n.NVLinks) == len(n.GPUs)*(len(n.GPUs)-1)/2
	for i := range n.NVLinks {
		l := &n.NVLinks[i]
		a, b := byGPU[l.A], byGPU[l.B]
		if a == nil || b == nil || !a.known() || !b.known() {
			continue
		}
		least := min(a.Active(), b.Active())
		if l.Count > least {
			warn(a.Line, "GPU %d to GPU %d is NV%d in the matrix, but one of them has %d links up", a.Index, b.Index, l.Count, least)
			continue
		}
		if r := min(a.rate(), b.rate()); r > 0 {
			l.PerLink = r
		}
		if whole && len(n.GPUs) > 2 && l.Count == least && most > least {
			l.Down = most - least
		}
	}
	return warns
}

// known says that the status lists the links of the GPU.
func (g *GPULinks) known() bool { return len(g.Links) > 0 || g.AllInactive }

// rate is that of the slowest link that is up.
func (g *GPULinks) rate() units.Bandwidth {
	var r units.Bandwidth
	for _, l := range g.Links {
		if l.Active && (r == 0 || l.Rate < r) {
			r = l.Rate
		}
	}
	return r
}

// facts are the provenance of what the status says.
func (st *LinkStatus) facts(node string) []topology.Fact {
	var facts []topology.Fact
	for i := range st.GPUs {
		g := &st.GPUs[i]
		src := fmt.Sprintf("nvlink:%s:%d", st.file, g.Line)
		what := fmt.Sprintf("%s/GPU%d ", node, g.Index)
		if g.Name != "" {
			facts = append(facts, topology.Fact{What: what + "name", Value: g.Name, Source: src})
		}
		if g.UUID != "" {
			facts = append(facts, topology.Fact{What: what + "UUID", Value: g.UUID, Source: src})
		}
		if g.known() {
			facts = append(facts, topology.Fact{What: what + "NVLinks up", Value: fmt.Sprintf("%d of %d", g.Active(), len(g.Links)), Source: src})
		}
	}
	return facts
}

// Facts lists the provenance of the status for a node of the given name.
func (st *LinkStatus) Facts(node string) []topology.Fact { return st.facts(node) }
