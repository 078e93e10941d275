package planner

import (
	"fmt"

	"rankmap/collective"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/model"
	"rankmap/topology"
)

// comm prices the collectives of one seating. A step waits for the slowest group of a kind, so every distinct group is
// priced and the slowest counts. Groups that look the same from the machine's side (same classes, same places in the
// node, same pattern of nodes and domains) are priced once.
type comm struct {
	pricer   collective.Pricer
	launch   collective.Launch
	distinct map[parallel.Dim][][]topology.GPUID
	all      map[parallel.Dim][][]topology.GPUID
	ends     [][]topology.GPUID // first and last stage of each distinct pipeline: tied embeddings
	cache    map[commKey]collective.Estimate
}

type commKey struct {
	kind  parallel.Dim
	op    parallel.Op
	bytes units.Bytes
	dtype string
}

// newComm prepares the groups of a seating for pricing.
func newComm(c *topology.Cluster, p collective.Pricer, launch collective.Launch, groups []kindGroups) *comm {
	m := &comm{
		pricer: p, launch: launch,
		distinct: map[parallel.Dim][][]topology.GPUID{},
		all:      map[parallel.Dim][][]topology.GPUID{},
		cache:    map[commKey]collective.Estimate{},
	}
	for _, g := range groups {
		lists := g.groups
		if g.kind == parallel.PP {
			lists = neighbours(g.groups)
			m.ends = distinct(c, ends(g.groups))
		}
		m.all[g.kind] = lists
		m.distinct[g.kind] = distinct(c, lists)
	}
	return m
}

// distinct keeps the first of the groups that look the same.
func distinct(c *topology.Cluster, lists [][]topology.GPUID) [][]topology.GPUID {
	var out [][]topology.GPUID
	seen := map[uint64]bool{}
	for _, l := range lists {
		if s := signature(c, l); !seen[s] {
			seen[s] = true
			out = append(out, l)
		}
	}
	return out
}

// ends pairs the first and the last stage of each pipeline.
func ends(lines [][]topology.GPUID) [][]topology.GPUID {
	var out [][]topology.GPUID
	for _, l := range lines {
		out = append(out, []topology.GPUID{l[0], l[len(l)-1]})
	}
	return out
}

// neighbours turns pipelines into the pairs of stages that talk.
func neighbours(lines [][]topology.GPUID) [][]topology.GPUID {
	var out [][]topology.GPUID
	for _, l := range lines {
		for i := range len(l) - 1 {
			out = append(out, l[i:i+2:i+2])
		}
	}
	return out
}

// signature hashes what a group looks like from the machine's side (FNV-1a over places, in order).
func signature(c *topology.Cluster, members []topology.GPUID) uint64 {
	h := uint64(14695981039346656037)
	nodes := map[topology.NodeID]int{}
	domains := map[int]int{}
	put := func(v int) {
		h = (h ^ uint64(v)) * 1099511628211
	}
	for _, id := range members {
		n := c.NodeOf(id)
		node := &c.Nodes[n]
		if _, ok := nodes[n]; !ok {
			nodes[n] = len(nodes)
		}
		d := c.DomainOf(id)
		if _, ok := domains[d]; !ok {
			domains[d] = len(domains)
		}
		put(nodes[n])
		put(domains[d])
		put(node.Class)
		put(int(id - node.First))
	}
	return h
}

// price is the step.Comm of this seating.
func (m *comm) price(op model.CollectiveOp) (collective.Estimate, error) {
	k := commKey{op.Group, op.Op, op.Bytes, op.DType}
	if e, ok := m.cache[k]; ok {
		return e, nil
	}
	lists := m.distinct[op.Group]
	if op.Group == parallel.PP && op.Op != parallel.SendRecv {
		lists = m.ends
	}
	if len(lists) == 0 {
		return collective.Estimate{}, fmt.Errorf("%s: the strategy has no %s group", op.Name, op.Group)
	}
	var worst collective.Estimate
	for i, l := range lists {
		e, err := m.pricer.Price(collective.Request{
			Op: op.Op, Bytes: op.Bytes, DType: op.DType, Launch: m.launch, Members: l, Siblings: m.siblings(op.Group),
		})
		if err != nil {
			return collective.Estimate{}, err
		}
		if i == 0 || e.Time > worst.Time {
			worst = e
		}
	}
	m.cache[k] = worst
	return worst, nil
}

// siblings are the groups of the kind that run at the same time; nil when there is only one.
func (m *comm) siblings(kind parallel.Dim) [][]topology.GPUID {
	if len(m.all[kind]) < 2 {
		return nil
	}
	return m.all[kind]
}
