package topology

import (
	"fmt"

	"gonum.org/v1/gonum/graph/simple"

	"rankmap/internal/units"
)

// MinCut is the most that the GPUs of left can send to those of right together, one way: the capacity of the
// narrowest cut between them. unlimited is true when no wire of known rate lies between. A GPU in both halves, or not
// in the graph, is an error. Cost: Dinic's algorithm on the parts and wires.
func (g *Graph) MinCut(left, right []GPUID) (bw units.Bandwidth, unlimited bool, err error) {
	side := make([]int8, len(g.Parts))
	for s, half := range [][]GPUID{left, right} {
		if len(half) == 0 {
			return 0, false, errEmptyGroup
		}
		for _, id := range half {
			at := g.GPUPart(id)
			switch {
			case at < 0:
				return 0, false, fmt.Errorf("gpu %d is not in the graph", id)
			case side[at] != 0:
				return 0, false, fmt.Errorf("gpu %s stands twice in the halves", g.c.GPUName(id))
			}
			side[at] = int8(s + 1)
		}
	}
	f, most := newFlowNet(len(g.Parts)+2), 0.0
	g.eachArc(side, func(a, b int, capacity, back, limit float64) {
		f.arc(a, b, capacity, back)
		most = limit
	})
	v := f.max(len(g.Parts), len(g.Parts)+1)
	if v >= most {
		return 0, true, nil
	}
	return units.Bandwidth(v), false, nil
}

// eachArc lists the arcs for a cut. Left GPUs (side 1) only send, right ones (2) only receive, others are left out.
// Source and sink are the two ids after the parts. A wire without a known rate gets limit, twice the sum of all known
// ones, and so never narrows a cut.
func (g *Graph) eachArc(side []int8, arc func(a, b int, capacity, back, limit float64)) {
	limit := 0.0
	for _, w := range g.Wires {
		if !w.Unknown {
			limit += w.capacity()
		}
	}
	limit = max(1, 2*limit)
	for _, w := range g.Wires {
		if g.Parts[w.A].Kind == PartGPU && side[w.A] == 0 || g.Parts[w.B].Kind == PartGPU && side[w.B] == 0 {
			continue
		}
		c := min(w.capacity(), limit)
		there, back := c, c
		if side[w.A] == 2 || side[w.B] == 1 {
			there = 0
		}
		if side[w.B] == 2 || side[w.A] == 1 {
			back = 0
		}
		arc(w.A, w.B, there, back, limit)
	}
	for v, s := range side {
		switch s {
		case 1:
			arc(len(g.Parts), v, limit, 0, limit)
		case 2:
			arc(v, len(g.Parts)+1, limit, 0, limit)
		}
	}
}

// vertex is a gonum node: ids are positions in Parts, 0 to n-1 without gaps.
type vertex int64

// ID is the position.
func (v vertex) ID() int64 { return int64(v) }

// Weighted is the graph as gonum's undirected graph, for algorithms of one's own: ids are positions in Parts, weights
// bytes a second, 0 where the rate is unknown. gonum iterates in random order: sort what users see.
func (g *Graph) Weighted() *simple.WeightedUndirectedGraph {
	u := simple.NewWeightedUndirectedGraph(0, 0)
	for i := range g.Parts {
		u.AddNode(vertex(i))
	}
	for _, w := range g.Wires {
		u.SetWeightedEdge(simple.WeightedEdge{F: vertex(w.A), T: vertex(w.B), W: float64(w.BW)})
	}
	return u
}
