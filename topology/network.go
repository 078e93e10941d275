package topology

import (
	"math"

	"rankmap/internal/units"
)

// endScratch is one endpoint of the network: a rack of one NVLink domain, or a node.
type endScratch struct {
	ranks, nics, nic int32
	first            GPUID
	leaf             int32
	unknown          bool // a NIC without a rate
	bw               units.Bandwidth
	rails            uint64
}

// leafScratch is what the current group asks of one leaf's uplinks.
type leafScratch struct {
	mark   uint32
	demand units.Bandwidth
}

// network adds the part between endpoints.
func (s *Shaper) network(sh *Shape, loaded bool) {
	sh.Endpoints, sh.RanksPerEndpointMin, sh.RanksPerEndpointMax = 1, sh.Ranks, sh.Ranks
	if sh.Nodes < 2 || len(s.doms) == 1 {
		return
	}
	oneRail := ^uint64(0)
	for _, n := range s.touched {
		s.addNode(sh, n, &oneRail, loaded)
	}
	if len(s.ends) < 2 {
		return
	}
	sh.Network, sh.Endpoints, sh.OneRail, sh.RailAligned = true, len(s.ends), oneRail != 0, s.ends[0].rails != 0
	sh.RanksPerEndpointMin, sh.RanksPerEndpointMax = 0, 0
	sh.NICs = math.MaxInt
	for i := range s.ends {
		e := &s.ends[i]
		within(&sh.RanksPerEndpointMin, &sh.RanksPerEndpointMax, int(e.ranks))
		sh.NICs = min(sh.NICs, int(e.nics))
		sh.RailAligned = sh.RailAligned && e.rails == s.ends[0].rails
	}
	s.tiers(sh)
	first := true
	for i := range s.ends {
		s.throughNICs(sh, &s.ends[i], first, loaded)
		first = false
	}
}

// addNode adds a node's members to their endpoints. Nearly always that is one endpoint; a tray whose GPUs belong to
// different NVLink fabrics has several.
func (s *Shaper) addNode(sh *Shape, node NodeID, oneRail *uint64, loaded bool) {
	c := s.c
	n, set := &c.Nodes[node], s.node[node].set
	if d := c.nodes[node].domain; d >= 0 || !c.derived[n.Class].split {
		s.addPart(sh, node, d, set, oneRail, loaded)
		return
	}
	for !set.empty() {
		d := c.domainOf[int(n.First)+set.next(0)]
		var part partSet
		for g := set.next(0); g >= 0; g = set.next(g + 1) {
			if c.domainOf[int(n.First)+g] == d {
				part.add(g)
			}
		}
		set = set.minus(&part)
		if c.domains[d].nodes < 2 {
			d = -1
		}
		s.addPart(sh, node, d, part, oneRail, loaded)
	}
}

// addPart adds members of one node to the endpoint of domain d, or to one of their own when d is -1.
func (s *Shaper) addPart(sh *Shape, node NodeID, d int32, part partSet, oneRail *uint64, loaded bool) {
	c := s.c
	n := &c.Nodes[node]
	info := &c.derived[n.Class]
	at := len(s.ends)
	if d >= 0 {
		if m := &s.endAt[d]; m.mark == s.mark {
			at = int(m.n)
		} else {
			m.mark, m.n = s.mark, int32(at)
		}
	}
	if at == len(s.ends) {
		s.ends = append(s.ends, endScratch{first: n.First + GPUID(part.next(0)), leaf: c.nodes[node].leaf})
	}
	e := &s.ends[at]
	sum := s.nicSum(n.Class, info, part)
	e.ranks += sum.ranks
	e.nics += sum.nics
	e.nic = sum.nic
	e.rails |= sum.rails
	e.unknown = e.unknown || sum.unknown
	*oneRail &= sum.oneRail
	sh.NICPath = max(sh.NICPath, sum.path)
	bw := sum.bw
	if loaded {
		bw = 0
		first := int(c.nodes[node].nic)
		for i := sum.set.next(0); i >= 0; i = sum.set.next(i + 1) {
			users := max(1, int(s.load.nic[first+i]))
			sh.NICShare = max(sh.NICShare, users)
			bw += info.nics[i] / units.Bandwidth(users)
		}
	}
	bw = min(bw, sum.host)
	e.bw += bw
	if leaf := c.nodes[node].leaf; leaf >= 0 {
		l := &s.leafAt[leaf]
		if l.mark != s.mark {
			l.mark, l.demand = s.mark, 0
			s.leaves = append(s.leaves, leaf)
		}
		l.demand += bw
	} else {
		sh.Leaves = -1
	}
}

// nicSum is what the NICs offer to some GPUs of a node class.
type nicSum struct {
	ranks, nics, nic int32
	set              partSet
	host, bw         units.Bandwidth // the GPUs' host links; the NICs, all together
	rails, oneRail   uint64          // rails of any, of every GPU
	path             PathKind
	unknown          bool
}

// maxCached bounds each cache of a Shaper. Real clusters need a handful of entries.
const maxCached = 1 << 14

// nicSum looks the answer up, or works it out the first time.
func (s *Shaper) nicSum(class int, info *classInfo, part partSet) *nicSum {
	key := ringKey{class, part}
	if s.lastSum != nil && s.lastSumKey == key {
		return s.lastSum
	}
	if sum := s.sums[key]; sum != nil {
		s.lastSum, s.lastSumKey = sum, key
		return sum
	}
	if len(s.sums) >= maxCached {
		clear(s.sums)
	}
	sum := &nicSum{oneRail: ^uint64(0)}
	for g := part.next(0); g >= 0; g = part.next(g + 1) {
		u := &info.gpus[g]
		sum.set.addAll(&u.nics)
		sum.ranks++
		sum.rails |= u.rails
		sum.oneRail &= u.rails
		sum.path = max(sum.path, u.nicPath)
		if u.pcieBW == 0 {
			sum.host = units.Bandwidth(math.Inf(1))
		}
		sum.host += u.pcieBW
	}
	for i := sum.set.next(0); i >= 0; i = sum.set.next(i + 1) {
		sum.unknown = sum.unknown || info.nics[i] == 0
		sum.nics++
		sum.nic = int32(i)
		sum.bw += info.nics[i]
	}
	s.sums[key] = sum
	return sum
}

// tiers decides which tiers the traffic passes. In a rail-optimised fabric a leaf is one rail of a group of nodes, so
// members on different rails cross it even inside the group.
func (s *Shaper) tiers(sh *Shape) {
	c := s.c
	if sh.Leaves < 0 {
		sh.Leaves = 0
	} else {
		sh.Leaves = len(s.leaves)
	}
	tiers := c.Fabric.Tiers
	if len(tiers) == 0 {
		sh.CrossLeaf = sh.Leaves > 1
		if sh.CrossLeaf {
			sh.Oversubscription = 0
		}
		return
	}
	sh.CrossLeaf = sh.Leaves > 1 || tiers[0].RailOptimized && !sh.RailAligned
	pods := 1
	for _, l := range s.leaves {
		if c.leaves[l].pod != c.leaves[s.leaves[0]].pod {
			pods = 2
		}
	}
	if sh.CrossLeaf {
		sh.Oversubscription = tiers[0].Oversubscription
		if pods > 1 && len(tiers) > 1 {
			sh.Oversubscription *= tiers[1].Oversubscription
		}
	}
}

// throughNICs narrows the group by one endpoint's NICs and its leaf's uplinks.
func (s *Shaper) throughNICs(sh *Shape, e *endScratch, first, loaded bool) {
	bw := e.bw
	if e.unknown {
		bw = 0
	}
	l := Limit{Kind: LimitNIC, GPU: e.first, Other: e.first, NIC: e.nic, NICs: e.nics, Leaf: e.leaf, BW: bw, unresolved: e.unknown}
	uplinks := false
	if sh.CrossLeaf && e.leaf >= 0 && sh.Oversubscription > 1 {
		demand := s.leafAt[e.leaf].demand
		if loaded {
			demand = max(demand, s.load.leafDemand[e.leaf])
			sh.LeafShare = max(sh.LeafShare, int(s.load.leafUsers[e.leaf]))
		}
		if most := s.c.leaves[e.leaf].nics / units.Bandwidth(sh.Oversubscription); demand > most {
			bw *= most / demand
			l.Kind, l.BW, uplinks = LimitLeaf, most, true
		}
	}
	per := bw / units.Bandwidth(e.ranks)
	l.perMember = per
	if first || bw < sh.NICBW {
		sh.NICBW, sh.UplinksLimit = bw, uplinks
	}
	if first || per < sh.NICPerGPU {
		sh.NICPerGPU = per
	}
	sh.Limit.narrow(l)
}
