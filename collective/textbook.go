package collective

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/topology"
)

// Step costs of the textbook model: 2 us inside a node (text 003), 5 us for a hop over the network (NCCL's own constant
// for a tree hop, tuning.cc).
const (
	textbookStepUs    = 2
	textbookNetworkUs = 5
)

// TextbookModel prices collectives by the alpha-beta forms on nominal link rates: `--cost textbook`.
type TextbookModel struct {
	// RingOnly leaves the tree out, as the baselines of published comparisons do; otherwise the faster of ring and tree
	// counts.
	RingOnly bool

	cluster *topology.Cluster
	shapers sync.Pool
}

var _ Pricer = (*TextbookModel)(nil)

// NewTextbook makes a textbook Pricer. A nil cluster prices shapes only.
func NewTextbook(cluster *topology.Cluster) *TextbookModel {
	m := &TextbookModel{cluster: cluster}
	if cluster != nil {
		m.shapers.New = func() any { return cluster.NewShaper() }
	}
	return m
}

// Price implements Pricer.
func (m *TextbookModel) Price(r Request) (Estimate, error) {
	if m.cluster == nil {
		return Estimate{}, errors.New("no cluster to find the members in: use PriceShape")
	}
	sh := m.shapers.Get().(*topology.Shaper)
	shape, err := sh.ShapeWith(r.Members, r.Siblings)
	m.shapers.Put(sh)
	if err != nil {
		return Estimate{}, err
	}
	return m.PriceShape(shape, r)
}

// PriceShape prices a request on a group of the given shape.
func (m *TextbookModel) PriceShape(s topology.Shape, r Request) (Estimate, error) {
	if err := checkRequest(s.Ranks, &r); err != nil {
		return Estimate{}, err
	}
	n := s.Ranks
	if n < 2 {
		return alone, nil
	}
	link, where, err := nominalLink(&s, r.Op)
	if err != nil {
		return Estimate{}, err
	}
	N, g := max(s.Endpoints, 1), max(s.RanksPerEndpointMax, 1)
	if !s.Network {
		N, g = 1, n
	}
	us := float64(textbookStepUs)
	bytes := units.Duration(float64(r.Bytes) * r.Op.BusFactor(n) / float64(link))
	steps := ringStepsUs(r.Op, n, N, us)
	e := Estimate{Algorithm: "ring", Protocol: "Simple", Provenance: Textbook, Bottleneck: where, Time: units.Micros(steps) + bytes}
	if r.Op == parallel.AllReduce && !m.RingOnly {
		tree := units.Micros(2*math.Log2(float64(g))*us+2*math.Log2(float64(N))*textbookNetworkUs) + units.Duration(2*float64(r.Bytes)/float64(link))
		if tree < e.Time {
			e.Time, e.Algorithm = tree, "tree"
		}
	}
	if r.Op == parallel.AllToAll || r.Op == parallel.SendRecv {
		e.Algorithm = "p2p"
	}
	e.P10, e.P90 = defaultBands[Textbook][classOf(r.Bytes)].interval(e.Time)
	e.BusBW = BusBandwidth(r.Op, n, r.Bytes, e.Time)
	return e, nil
}

// ringStepsUs is the cost of the serial steps of a ring over N nodes.
func ringStepsUs(op parallel.Op, n, nodes int, us float64) float64 {
	network := float64(textbookNetworkUs)
	switch op {
	case parallel.AllToAll, parallel.SendRecv:
		if nodes > 1 {
			return network
		}
		return us
	case parallel.AllReduce:
		return 2 * (float64(n-nodes)*us + float64(nodes-1)*network)
	}
	return float64(n-nodes)*us + float64(nodes-1)*network
}

// nominalLink is the slowest link that a group's ring passes, at its nominal rate. A ring enters and leaves a node once,
// over all NICs that serve the group; in an all_to_all every GPU has but its share of them, and only the part of the
// buffer for other nodes passes.
func nominalLink(s *topology.Shape, op parallel.Op) (units.Bandwidth, string, error) {
	link, where := s.LinkBW, "NVLink"
	if s.PCIeUsed {
		link, where = s.PCIeBW/units.Bandwidth(max(s.PCIeShare, 1)), "PCIe"
	}
	if s.Network {
		nic := s.NICBW
		if op == parallel.AllToAll || op == parallel.SendRecv {
			nic = s.NICPerGPU
		}
		if nic <= 0 {
			return 0, "", errors.New("the group crosses nodes and the NIC rate is not known: state it (--nic-rate 400G)")
		}
		if link <= 0 || s.RanksPerEndpointMax < 2 || nic < link {
			link, where = nic, "NIC"
		}
	}
	if link <= 0 {
		return 0, "", fmt.Errorf("the link between the GPUs is not known")
	}
	return link, where + " " + link.String(), nil
}

// alone is the answer for one rank.
var alone = Estimate{Algorithm: "none", Protocol: "none", Bottleneck: "none"}
