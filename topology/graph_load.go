package topology

import (
	"cmp"
	"fmt"
	"slices"

	"rankmap/internal/units"
)

// WireLoad is what several groups put on one wire.
type WireLoad struct {
	Name   string
	BW     units.Bandwidth // each way; 0 unknown
	Flows  int             // neighbours of rings whose traffic passes
	Groups int             // groups that they belong to
}

// Loads routes each group as a ring in the order of its members, each neighbour pair over its widest path, and counts
// what every wire carries. The wires come busiest first: by flows for each unit of rate, then by name.
func (c *Cluster) Loads(groups [][]GPUID) ([]WireLoad, error) {
	type tally struct {
		WireLoad
		last int
	}
	at := map[string]*tally{}
	graphs := map[[2]NodeID]*Graph{}
	for i, members := range groups {
		for j, a := range members {
			b := members[(j+1)%len(members)]
			if a == b {
				continue
			}
			if !c.Valid(a) || !c.Valid(b) {
				return nil, fmt.Errorf("group %d: gpu %d or %d does not exist (the cluster has %d)", i, a, b, c.NumGPUs())
			}
			key := [2]NodeID{min(c.gpuNode[a], c.gpuNode[b]), max(c.gpuNode[a], c.gpuNode[b])}
			g := graphs[key]
			if g == nil {
				if len(graphs) > 64 {
					clear(graphs)
				}
				g = c.Graph(key[0], key[1])
				graphs[key] = g
			}
			p, ok, err := g.Widest(a, b)
			if err != nil {
				return nil, err
			}
			if !ok {
				return nil, fmt.Errorf("group %d: %s and %s do not reach each other", i, c.GPUName(a), c.GPUName(b))
			}
			for x := 1; x < len(p.Parts); x++ {
				w := g.between(p.Parts[x-1], p.Parts[x])
				name := g.WireName(w)
				t := at[name]
				if t == nil {
					t = &tally{WireLoad: WireLoad{Name: name, BW: w.BW}, last: -1}
					at[name] = t
				}
				t.Flows++
				if t.last != i {
					t.last = i
					t.Groups++
				}
			}
		}
	}
	out := make([]WireLoad, 0, len(at))
	for _, t := range at {
		out = append(out, t.WireLoad)
	}
	slices.SortFunc(out, func(x, y WireLoad) int {
		return cmp.Or(cmp.Compare(y.pressure(), x.pressure()), CompareNames(x.Name, y.Name))
	})
	return out, nil
}

// pressure is flows for each GB/s; a wire of unknown rate has none.
func (w WireLoad) pressure() float64 {
	if w.BW == 0 {
		return 0
	}
	return float64(w.Flows) / w.BW.GBps()
}

func (g *Graph) between(a, b int) Wire {
	for _, i := range g.adj[a] {
		if w := g.Wires[i]; w.A+w.B-a == b {
			return w
		}
	}
	return Wire{}
}
