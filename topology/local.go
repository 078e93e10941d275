package topology

import "rankmap/internal/units"

// localKey names some GPUs of a node class; out says that the group has more GPUs of their NVLink domain elsewhere.
type localKey struct {
	class int
	set   partSet
	out   bool
}

// local is what one node's members add to a shape. It is the same for all nodes of a class, so large groups cost one
// look-up a node instead of a walk over their members.
type local struct {
	sh                 Shape
	base               GPUID // first GPU of the node that it was worked out on
	linkSeen, pcieSeen bool
}

// addLocal adds one node's members. Shared PCIe uplinks depend on the node, so a loaded shape walks the members where
// PCIe is used.
func (s *Shaper) addLocal(sh *Shape, node NodeID, firstNode, loaded bool) {
	c := s.c
	n := &c.Nodes[node]
	set := &s.node[node].set
	if c.domainOf == nil || c.derived[n.Class].split {
		s.inNode(sh, node, firstNode, loaded)
		return
	}
	key := localKey{class: n.Class, set: *set}
	if d := c.nodes[node].domain; d >= 0 {
		key.out = int(s.domain[d].n) > set.count()
	}
	l := s.lastLocal // the nodes of a group mostly hold the same members
	if l == nil || s.lastLocalKey != key {
		l = s.locals[key]
	}
	if l == nil {
		if len(s.locals) >= maxCached {
			clear(s.locals)
		}
		l = &local{base: n.First, sh: Shape{NVLink: true, PCIeShare: 1, PortShare: 1}}
		link, pcie := s.linkSeen, s.pcieSeen
		s.linkSeen, s.pcieSeen = false, false
		s.inNode(&l.sh, node, true, false)
		l.linkSeen, l.pcieSeen = s.linkSeen, s.pcieSeen
		s.linkSeen, s.pcieSeen = link, pcie
		s.locals[key] = l
	}
	s.lastLocal, s.lastLocalKey = l, key
	if loaded && l.sh.PCIeUsed {
		s.inNode(sh, node, firstNode, true)
		return
	}
	s.merge(sh, l, n.First, firstNode)
	if loaded {
		for g := set.next(0); g >= 0; g = set.next(g + 1) {
			sh.PortShare = max(sh.PortShare, int(s.load.port[int(n.First)+g]))
		}
	}
}

// slower is the model of two that a mixed group waits for: the one with the slower NVLink by its datasheet, the earlier name where
// that says nothing. So the order of the members does not matter.
func (s *Shaper) slower(a, b string) string {
	rate := func(model string) (r units.Bandwidth) {
		for i := range s.c.Classes {
			for g := range s.c.Classes[i].GPUs {
				if sheet := s.c.derived[i].gpus[g].sheet; s.c.Classes[i].GPUs[g].Model == model && sheet != nil {
					return sheet.NVLink()
				}
			}
		}
		return 0
	}
	if x, y := rate(a), rate(b); x != y {
		if x < y {
			return a
		}
		return b
	}
	return min(a, b)
}

// merge adds what was worked out on another node, or on this one, of the same class.
func (s *Shaper) merge(sh *Shape, l *local, first GPUID, firstNode bool) {
	if firstNode {
		sh.Wiring, sh.GPU, sh.Multicast = l.sh.Wiring, l.sh.GPU, true
	}
	if sh.Mixed = sh.Mixed || l.sh.Mixed || l.sh.GPU != sh.GPU; l.sh.GPU != sh.GPU {
		sh.GPU = s.slower(sh.GPU, l.sh.GPU)
	}
	sh.Multicast = sh.Multicast && l.sh.Multicast
	sh.NVLink = sh.NVLink && l.sh.NVLink
	switch {
	case l.linkSeen && !s.linkSeen:
		s.linkSeen = true
		sh.LinkBW, sh.PairBW, sh.RingBW = l.sh.LinkBW, l.sh.PairBW, l.sh.RingBW
	case l.linkSeen:
		sh.LinkBW, sh.PairBW, sh.RingBW = min(sh.LinkBW, l.sh.LinkBW), min(sh.PairBW, l.sh.PairBW), min(sh.RingBW, l.sh.RingBW)
	}
	if l.sh.PCIeUsed {
		sh.PCIeUsed = true
		sh.PCIe = max(sh.PCIe, l.sh.PCIe)
		sh.LeavesHostBridge = sh.LeavesHostBridge || l.sh.LeavesHostBridge
		sh.PCIeIslandMax = max(sh.PCIeIslandMax, l.sh.PCIeIslandMax)
		if l.pcieSeen && (!s.pcieSeen || l.sh.PCIeBW < sh.PCIeBW) {
			sh.PCIeBW = l.sh.PCIeBW
		}
		s.pcieSeen = s.pcieSeen || l.pcieSeen
	}
	if l.sh.Limit.Kind != LimitNone {
		limit := l.sh.Limit
		limit.GPU += first - l.base
		limit.Other += first - l.base
		sh.Limit.narrow(limit)
	}
}
