package topology

import (
	"fmt"
	"math"
	"slices"

	"rankmap/internal/units"
)

// Path is a way through the graph.
type Path struct {
	Parts   []int           // positions in Graph.Parts, from one end to the other
	BW      units.Bandwidth // of the slowest wire whose rate is known; 0 when none is
	Wire    Wire            // that wire
	Certain bool            // every wire's rate is known
}

// Widest finds the path between two GPUs whose slowest wire is fastest, with the fewest hops among those, then the
// lowest part numbers. ok is false when none exists.
//
// It looks for the highest rate at which a path remains, by bisection over the rates, with a breadth-first search each
// time: fewest hops come for free, which the usual widest-path Dijkstra does not give. Cost: the wires times the
// logarithm of the number of different rates.
func (g *Graph) Widest(a, b GPUID) (p Path, ok bool, err error) {
	from, to := g.GPUPart(a), g.GPUPart(b)
	if from < 0 || to < 0 {
		return p, false, fmt.Errorf("gpu %d or %d is not in the graph", a, b)
	}
	if from == to {
		return Path{Parts: []int{from}, Certain: true}, true, nil
	}
	var rates []float64
	for _, w := range g.Wires {
		rates = append(rates, w.capacity())
	}
	slices.Sort(rates)
	rates = slices.Compact(rates)
	prev := make([]int32, len(g.Parts))
	lo, hi := 0, len(rates)
	for lo < hi {
		mid := (lo + hi) / 2
		if g.reach(from, to, rates[mid], prev) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 || !g.reach(from, to, rates[lo-1], prev) {
		return p, false, nil
	}
	return g.trace(from, to, prev), true, nil
}

// reach searches breadth first over wires of at least the rate; prev holds the wire by which each part was met.
func (g *Graph) reach(from, to int, rate float64, prev []int32) bool {
	for i := range prev {
		prev[i] = -1
	}
	queue := []int{from}
	seen := make([]bool, len(g.Parts))
	seen[from] = true
	for len(queue) > 0 {
		v := queue[0]
		queue = queue[1:]
		if v == to {
			return true
		}
		if v != from && g.Parts[v].Kind == PartGPU {
			continue // GPUs do not forward
		}
		for _, i := range g.adj[v] {
			w := g.Wires[i]
			o := w.A + w.B - v
			if !seen[o] && w.capacity() >= rate {
				seen[o], prev[o] = true, i
				queue = append(queue, o)
			}
		}
	}
	return false
}

func (g *Graph) trace(from, to int, prev []int32) Path {
	p := Path{Certain: true}
	least := math.Inf(1)
	for v := to; ; {
		p.Parts = append(p.Parts, v)
		if v == from {
			break
		}
		w := g.Wires[prev[v]]
		if w.Unknown {
			p.Certain = false
		} else if w.capacity() < least {
			least, p.Wire, p.BW = w.capacity(), w, w.BW
		}
		v = w.A + w.B - v
	}
	slices.Reverse(p.Parts)
	return p
}

// Bottleneck finds the pair of members whose widest path is slowest, and that path. Cost: a search for each pair, so
// it is meant for explanations of groups of some dozen members.
func (g *Graph) Bottleneck(members []GPUID) (p Path, a, b GPUID, err error) {
	if len(members) < 2 {
		return p, 0, 0, fmt.Errorf("a group of %d has no bottleneck, want at least 2 members", len(members))
	}
	least := math.Inf(1)
	for i, x := range members {
		for _, y := range members[i+1:] {
			q, ok, err := g.Widest(x, y)
			if err != nil {
				return p, 0, 0, err
			}
			if !ok {
				return Path{}, x, y, fmt.Errorf("%s and %s do not reach each other", g.c.GPUName(x), g.c.GPUName(y))
			}
			bw := math.Inf(1)
			if q.BW > 0 {
				bw = float64(q.BW)
			}
			if bw < least || p.Parts == nil {
				least, p, a, b = bw, q, x, y
			}
		}
	}
	return p, a, b, nil
}
