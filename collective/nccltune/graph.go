package nccltune

import "fmt"

// Group is what NCCL's tuner knows of a communicator.
type Group struct {
	SM         int     // compute capability x 10 of the GPUs: 90
	Ranks      int     //
	Nodes      int     // hosts; an NVLink domain over several hosts counts as one
	NVLinkGBps float64 // one way, into the ranks of one node, by NCCL's count (NVLinkGBps a link); 0 = PCIe only
	NVSwitch   bool
	Multicast  bool // NVSwitch reduces in the switch, and NVLS is not switched off
	PCIeGBps   float64
	NICs       int     // of one node, that serve the group
	NICGBps    float64 // one way for one of them
	CollNet    bool    // the network reduces (SHARP) and its plugin is loaded
	NetLatency float64 // us, what the transport adds; 0 for NCCL's own InfiniBand and socket transports
	AMD        bool    // the hosts have AMD CPUs
	Minor      int     // 28 of NCCL 2.28; 0 = newest
}

// channels is what NCCL's search finds for one kind of graph: how many, and how fast each is inside and across nodes.
type channels struct {
	n            int
	intra, inter float64 // GB/s a channel
}

// perNode is the number of ranks on one node.
func (g *Group) perNode() float64 { return float64(g.Ranks) / float64(g.Nodes) }

// check says what is missing or impossible.
func (g *Group) check() error {
	switch {
	case g.Ranks < 1 || g.Nodes < 1 || g.Nodes > g.Ranks:
		return fmt.Errorf("%d ranks on %d nodes", g.Ranks, g.Nodes)
	case g.SM < 60:
		return fmt.Errorf("compute capability %d.%d: not known to NCCL's tuner", g.SM/10, g.SM%10)
	case g.Ranks > g.Nodes && !(g.NVLinkGBps > 0) && !(g.PCIeGBps > 0):
		return fmt.Errorf("no link between the ranks of a node")
	case g.Nodes > 1 && (g.NICs < 1 || !(g.NICGBps > 0)):
		return fmt.Errorf("%d nodes without a NIC rate", g.Nodes)
	}
	return nil
}

// inside is the rate into one GPU from its peers on the node.
func (g *Group) inside() float64 {
	if g.NVLinkGBps > 0 {
		return g.NVLinkGBps
	}
	return g.PCIeGBps
}

// ring repeats the outcome of the search for rings. The search tries falling speeds, takes as many channels as the links
// carry at each, and keeps what moves most in total; equal totals go to the faster, and it stops at half the speed of the
// best so far. Then it doubles the channels where they are fast enough.
func (g *Group) ring() channels {
	gen := generationOf(g.SM)
	speeds := speedsInside[gen]
	if g.Nodes > 1 {
		speeds = speedsAcross[gen]
	}
	var best channels
	for _, s := range speeds {
		n := g.fit(s)
		if n == 0 {
			continue
		}
		if best.n > 0 && s/best.intra <= .49 {
			break
		}
		if float64(n)*s > float64(best.n)*best.intra {
			best = channels{n, s, s}
		}
	}
	if best.n == 0 {
		return channels{1, g.slowest(), g.slowest()}
	}
	if best.intra < 25 || gen >= hopper && best.intra < 50 && best.n > 4 {
		return best
	}
	n := min(2*best.n, maxSearched)
	down := float64((n + best.n - 1) / best.n)
	return channels{n, best.intra / down, best.inter / down}
}

// fit is how many channels of speed s the links carry.
func (g *Group) fit(s float64) int {
	n := maxSearched
	if g.Ranks > g.Nodes {
		n = min(n, int(g.inside()/s))
		if g.NVLinkGBps == 0 {
			n = min(n, 1) // a second ring over the same PCIe switches finds nothing left
		}
	}
	if g.Nodes > 1 {
		nics, rate := g.nics()
		n = min(n, nics*int(rate/s))
	}
	return n
}

// nics merges NICs where a node has more of them than ranks, as the plugins of such machines do (32 EFA devices for 8
// GPUs are 8 of four times the rate), and bounds the rate by the slot.
func (g *Group) nics() (n int, rate float64) {
	n, rate = g.NICs, g.NICGBps
	if per := int(g.perNode()); per >= 1 && n > per {
		rate *= float64(n) / float64(per)
		n = per
	}
	if g.PCIeGBps > 0 {
		rate = min(rate, g.PCIeGBps)
	}
	return n, rate
}

// slowest is the rate of the thinnest link, where no speed of the list fits.
func (g *Group) slowest() float64 {
	s := g.inside()
	if g.Nodes > 1 {
		_, nic := g.nics()
		if s == 0 || nic < s {
			s = nic
		}
	}
	return s
}

// tree takes the ring's channels; half of a tree's ends carry nothing, so the same links allow n/(n-1) of the rate.
func (g *Group) tree(ring channels) channels {
	n := int(g.perNode())
	if n < 2 {
		return ring
	}
	t := channels{ring.n, ring.intra, ring.inter}
	limit := g.inside() * float64(n) / float64(n-1)
	for _, s := range g.speeds() {
		if float64(ring.n)*s <= limit {
			t.intra = max(t.intra, s)
			break
		}
	}
	return t
}

func (g *Group) speeds() []float64 {
	if g.Nodes > 1 {
		return speedsAcross[generationOf(g.SM)]
	}
	return speedsInside[generationOf(g.SM)]
}

// nvls has one channel a GPU of the node: each GPU is the head of one.
func (g *Group) nvls() channels {
	n := int(g.perNode())
	if n < 2 {
		return channels{}
	}
	c := channels{n: min(n, maxSearched)}
	limit := g.inside() * float64(n) / float64(n-1)
	for _, s := range speedsInside[generationOf(g.SM)] {
		if float64(c.n)*s <= limit {
			c.intra = s
			break
		}
	}
	c.inter = c.intra
	if g.Nodes > 1 {
		nics, rate := g.nics()
		c.inter = min(c.intra, rate*float64(nics)/float64(c.n))
	}
	return c
}
