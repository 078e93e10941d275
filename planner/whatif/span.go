package whatif

import (
	"rankmap/internal/parallel"
	"rankmap/topology"
)

// Span says how far the groups of a kind reach: the most NVLink domains and nodes that one group touches. For pipelines
// a group is two neighbouring stages.
type Span struct {
	Kind    parallel.Dim `yaml:"kind" json:"kind"`
	Size    int          `yaml:"size" json:"size"`
	Groups  int          `yaml:"groups" json:"groups"`
	Crosses int          `yaml:"crosses" json:"crosses"` // how many of them leave their NVLink domain
	Domains int          `yaml:"domains" json:"domains"`
	Nodes   int          `yaml:"nodes" json:"nodes"`
}

// spanKinds is the order of kinds.
var spanKinds = []parallel.Dim{parallel.TP, parallel.CP, parallel.EP, parallel.ExpertTP, parallel.PP, parallel.DP}

// spans measures every kind that is split. Cost: the ranks, once a kind.
func spans(c *topology.Cluster, st parallel.Strategy, seats []topology.GPUID) []Span {
	var out []Span
	var ranks []int
	domains := map[int]bool{}
	nodes := map[topology.NodeID]bool{}
	for _, kind := range spanKinds {
		if st.Size(kind) < 2 {
			continue
		}
		s := Span{Kind: kind, Size: st.Size(kind)}
		measure := func(ranks []int) {
			clear(domains)
			clear(nodes)
			for _, r := range ranks {
				nodes[c.NodeOf(seats[r])] = true
				domains[c.DomainOf(seats[r])] = true
			}
			s.Groups++
			if len(domains) > 1 {
				s.Crosses++
			}
			s.Domains, s.Nodes = max(s.Domains, len(domains)), max(s.Nodes, len(nodes))
		}
		for g := range st.EachGroup(kind) {
			ranks = st.AppendGroup(ranks[:0], g)
			if kind != parallel.PP {
				measure(ranks)
				continue
			}
			for i := range len(ranks) - 1 {
				measure(ranks[i : i+2])
			}
		}
		out = append(out, s)
	}
	return out
}
