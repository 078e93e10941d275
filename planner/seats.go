package planner

import (
	"cmp"
	"slices"

	"rankmap/internal/parallel"
	"rankmap/topology"
)

// seats maps ranks to GPUs.
type seats []topology.GPUID

// baseOrder lists the usable GPUs so that neighbours in the list are neighbours in the machine: NVLink domains one after
// the other, inside a domain by node and index. A rank order over this list is what launchers can express: node order,
// GPU order inside a node, a few dimension orders.
func baseOrder(c *topology.Cluster, skip func(topology.GPUID) bool) []topology.GPUID {
	var all []topology.GPUID
	for id := range topology.GPUID(c.NumGPUs()) {
		if skip == nil || !skip(id) {
			all = append(all, id)
		}
	}
	slices.SortStableFunc(all, func(a, b topology.GPUID) int {
		return cmp.Or(cmp.Compare(c.DomainOf(a), c.DomainOf(b)), cmp.Compare(a, b))
	})
	return all
}

// kindGroups holds the member lists of one group kind under a seating.
type kindGroups struct {
	kind   parallel.Dim
	ranks  [][]int
	groups [][]topology.GPUID
}

// seat returns the groups of every kind that has more than one member.
func seat(st parallel.Strategy, order []topology.GPUID) []kindGroups {
	var out []kindGroups
	for _, k := range []parallel.Dim{parallel.TP, parallel.CP, parallel.EP, parallel.ExpertTP, parallel.ExpertDP, parallel.DP, parallel.PP} {
		ranks := st.Groups(k)
		if ranks == nil {
			continue
		}
		g := kindGroups{kind: k, ranks: ranks, groups: make([][]topology.GPUID, len(ranks))}
		for i, rs := range ranks {
			g.groups[i] = make([]topology.GPUID, len(rs))
			for j, r := range rs {
				g.groups[i][j] = order[r]
			}
		}
		out = append(out, g)
	}
	return out
}
