package topology

import (
	"errors"
	"fmt"

	"rankmap/internal/units"
)

// Shaper makes shapes. It keeps scratch memory, so that in steady state nothing is allocated; it is for one goroutine
// at a time. Make one with Cluster.NewShaper after Finish; an edited cluster needs a new one.
type Shaper struct {
	c       *Cluster
	mark    uint32
	node    []nodeScratch // by node
	domain  []countMark   // by domain: members
	touched []NodeID      // nodes of the current members, in order of first appearance
	doms    []int32       // domains of the current members
	ends    []endScratch
	endAt   []countMark // by domain: its endpoint, for domains that span nodes
	leafAt  []leafScratch
	leaves  []int32
	rings   map[ringKey]ring
	locals  map[localKey]*local
	sums    map[ringKey]*nicSum
	load    loadScratch

	lastLocal    *local
	lastLocalKey localKey
	lastSum      *nicSum
	lastSumKey   ringKey

	linkSeen, pcieSeen bool // the current shape has an NVLink, a PCIe rate, maybe unknown
}

// nodeScratch holds the members of one node; mark tells whether they belong to the current group.
type nodeScratch struct {
	mark uint32
	set  partSet
}

type countMark struct {
	mark uint32
	n    int32
}

// NewShaper makes a Shaper for the cluster.
func (c *Cluster) NewShaper() *Shaper {
	return &Shaper{
		c:      c,
		node:   make([]nodeScratch, len(c.Nodes)),
		domain: make([]countMark, len(c.Domains)),
		endAt:  make([]countMark, len(c.Domains)),
		leafAt: make([]leafScratch, len(c.leaves)),
		rings:  map[ringKey]ring{},
		locals: map[localKey]*local{},
		sums:   map[ringKey]*nicSum{},
	}
}

var errEmptyGroup = errors.New("a group has no members")

// Shape describes a group that runs alone. Members may come in any order; one that does not exist or stands twice is
// an error. Cost: the members, the nodes that they touch and those nodes' NICs.
func (s *Shaper) Shape(members []GPUID) (Shape, error) {
	if err := s.scan(members); err != nil {
		return Shape{}, err
	}
	return s.describe(false), nil
}

// next starts a new epoch of the scratch marks.
func (s *Shaper) next() {
	s.mark++
	if s.mark == 0 { // wrapped: forget every mark
		clear(s.node)
		clear(s.domain)
		clear(s.endAt)
		clear(s.leafAt)
		s.mark = 1
	}
	s.touched, s.doms, s.ends, s.leaves = s.touched[:0], s.doms[:0], s.ends[:0], s.leaves[:0]
}

// scan sorts the members into nodes and domains.
func (s *Shaper) scan(members []GPUID) error {
	c := s.c
	s.next()
	if len(members) == 0 {
		return errEmptyGroup
	}
	for _, g := range members {
		if !c.Valid(g) {
			return fmt.Errorf("gpu %d does not exist (the cluster has %d)", g, len(c.gpuNode))
		}
		n := c.gpuNode[g]
		at := &s.node[n]
		if at.mark != s.mark {
			at.mark, at.set = s.mark, partSet{}
			s.touched = append(s.touched, n)
		}
		local := int(g - c.Nodes[n].First)
		if at.set.has(local) {
			return fmt.Errorf("gpu %s stands twice in one group", c.GPUName(g))
		}
		at.set.add(local)
		if c.domainOf == nil {
			continue
		}
		d := c.domainOf[g]
		if m := &s.domain[d]; m.mark != s.mark {
			m.mark, m.n = s.mark, 1
			s.doms = append(s.doms, d)
		} else {
			m.n++
		}
	}
	return nil
}

// describe makes the shape of the scanned members. loaded says that s.load holds who else uses the shared links.
func (s *Shaper) describe(loaded bool) Shape {
	known := s.c.domainOf != nil
	s.linkSeen, s.pcieSeen = false, false
	sh := Shape{Fabric: s.c.Fabric.Kind, Nodes: len(s.touched), DomainsKnown: known, Domains: len(s.doms), NVLink: known,
		Oversubscription: 1, NICShare: 1, LeafShare: 1, PCIeShare: 1, PortShare: 1}
	for _, d := range s.doms {
		within(&sh.RanksPerDomainMin, &sh.RanksPerDomainMax, int(s.domain[d].n))
	}
	for i, n := range s.touched {
		ranks := s.node[n].set.count()
		sh.Ranks += ranks
		within(&sh.RanksPerNodeMin, &sh.RanksPerNodeMax, ranks)
		s.addLocal(&sh, n, i == 0, loaded)
	}
	if sh.Ranks == 1 {
		sh.Multicast = false
	}
	s.network(&sh, loaded)
	return sh
}

// within widens the range lo..hi to hold v; a range of 0..0 is empty.
func within(lo, hi *int, v int) {
	if *lo == 0 || v < *lo {
		*lo = v
	}
	*hi = max(*hi, v)
}

// inNode adds one node's members: models, NVLink and PCIe.
func (s *Shaper) inNode(sh *Shape, node NodeID, firstNode, loaded bool) {
	c := s.c
	n := &c.Nodes[node]
	k, d := &c.Classes[n.Class], &c.derived[n.Class]
	set := &s.node[node].set
	switched := k.Wiring == NVLinkSwitched
	if firstNode {
		first := set.next(0)
		sh.Wiring, sh.GPU, sh.Multicast = k.Wiring, k.GPUs[first].Model, true
	}
	for g := set.next(0); g >= 0; g = set.next(g + 1) {
		u := &d.gpus[g]
		id := n.First + GPUID(g)
		if k.GPUs[g].Model != sh.GPU {
			sh.Mixed, sh.GPU = true, s.slower(sh.GPU, k.GPUs[g].Model)
		}
		sh.Multicast = sh.Multicast && switched && u.sheet != nil && u.sheet.Multicast
		joined := s.joined(n, d, g, set)
		if switched && c.domainOf != nil && s.domain[c.domainOf[id]].n > 1 {
			s.nvlink(sh, Limit{Kind: LimitNVLink, GPU: id, Other: id, BW: u.linkBW}, u.linkBW, u.linkBW)
		}
		if loaded {
			sh.PortShare = max(sh.PortShare, int(s.load.port[id]))
		}
		if others := set.minus(&joined); !others.empty() {
			s.overPCIe(sh, n, d, g, &others, loaded)
		}
	}
	if switched || c.domainOf == nil {
		return
	}
	for i := range d.parts {
		both := set.and(&d.parts[i])
		if both.count() < 2 {
			continue
		}
		r := s.ring(n.Class, k, d, both)
		sh.NVLink = sh.NVLink && r.ok
		if !r.ok {
			continue
		}
		slow := n.First + GPUID(r.slow)
		l := Limit{Kind: LimitNVLink, GPU: slow, Other: slow, BW: r.sum}
		if r.other >= 0 {
			l.Other = n.First + GPUID(r.other)
		}
		s.nvlink(sh, l, r.pair, r.best)
	}
}

// nvlink narrows the group's NVLink rates.
func (s *Shaper) nvlink(sh *Shape, l Limit, pair, best units.Bandwidth) {
	l.perMember, l.unresolved = l.BW, l.BW == 0
	if !s.linkSeen {
		sh.LinkBW, sh.PairBW, sh.RingBW = l.BW, pair, best
	}
	s.linkSeen = true
	sh.LinkBW, sh.PairBW, sh.RingBW = min(sh.LinkBW, l.BW), min(sh.PairBW, pair), min(sh.RingBW, best)
	sh.Limit.narrow(l)
}

// joined is the set of members of the node, g included, that g reaches over NVLink.
func (s *Shaper) joined(n *Node, d *classInfo, g int, set *partSet) partSet {
	var j partSet
	j.add(g)
	if s.c.domainOf == nil {
		return j
	}
	part := set.and(&d.parts[d.gpus[g].part])
	k := &s.c.Classes[n.Class]
	if k.Wiring != NVLinkSwitched {
		if part.count() > 1 && s.ring(n.Class, k, d, part).ok {
			return part
		}
		j = set.and(&d.gpus[g].peers)
		j.add(g)
		return j
	}
	if !d.split {
		return part
	}
	own := s.c.domainOf[int(n.First)+g]
	for o := part.next(0); o >= 0; o = part.next(o + 1) {
		if s.c.domainOf[int(n.First)+o] == own {
			j.add(o)
		}
	}
	return j
}

// overPCIe adds the PCIe way of member g to the members of its node that NVLink does not reach.
func (s *Shaper) overPCIe(sh *Shape, n *Node, d *classInfo, g int, others *partSet, loaded bool) {
	u := &d.gpus[g]
	sh.PCIeUsed = true
	for kind := PathSYS; kind >= PathPIX; kind-- {
		if u.path[kind].meets(others) {
			sh.PCIe = max(sh.PCIe, kind)
			sh.LeavesHostBridge = sh.LeavesHostBridge || kind.CrossesHostBridge()
			break
		}
	}
	share := 1
	island := d.islands[u.island]
	if away := others.minus(&island); !away.empty() {
		inside := s.node[s.c.gpuNode[n.First]].set.and(&island)
		sh.PCIeIslandMax = max(sh.PCIeIslandMax, inside.count())
		if loaded {
			share = max(1, int(s.load.island[int(n.First)+int(u.island)]))
			sh.PCIeShare = max(sh.PCIeShare, share)
		}
	}
	id := n.First + GPUID(g)
	if !s.pcieSeen || u.pcieBW < sh.PCIeBW {
		sh.PCIeBW = u.pcieBW
	}
	s.pcieSeen = true
	bw := u.pcieBW / units.Bandwidth(share)
	sh.Limit.narrow(Limit{Kind: LimitPCIe, GPU: id, Other: id, BW: bw, perMember: bw, unresolved: bw == 0})
}
