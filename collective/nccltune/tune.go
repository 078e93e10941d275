package nccltune

import (
	"math"
	"math/bits"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
)

// cost is one entry of NCCL's table: latency in us and bandwidth in GB/s of user data; bandwidth 0 = not offered.
type cost struct{ latency, bandwidth float64 }

// Tuner holds the table of one communicator.
type Tuner struct {
	group Group
	ring  channels
	table [numTuned][numAlgorithms][numProtocols]cost
}

// tuned are the operations that NCCL has a model of.
var tuned = [...]parallel.Op{parallel.Broadcast, parallel.Reduce, parallel.AllGather, parallel.ReduceScatter, parallel.AllReduce}

const numTuned = len(tuned)

func tunedIndex(op parallel.Op) int {
	for i, t := range tuned {
		if t == op {
			return i
		}
	}
	return -1
}

// Choice is what NCCL takes.
type Choice struct {
	Algorithm Algorithm
	Protocol  Protocol
	Time      units.Duration // NCCL's own prediction
	Latency   units.Duration // its fixed part
	Bandwidth units.Bandwidth
	Channels  int
}

// New computes the table of a communicator. A group that NCCL would refuse or that lacks a rate is an error.
func New(g Group) (*Tuner, error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	if g.Minor == 0 {
		g.Minor = math.MaxInt
	}
	t := &Tuner{group: g, ring: g.ring()}
	for i, op := range tuned {
		for a := range numAlgorithms {
			for p := range numProtocols {
				if t.offered(op, a, p) {
					t.table[i][a][p] = cost{t.latency(op, a, p), t.bandwidth(op, a, p)}
				}
			}
		}
	}
	return t, nil
}

// Choose returns NCCL's choice; false for an operation without a model and for fewer than two ranks. It allocates
// nothing.
func (t *Tuner) Choose(op parallel.Op, bytes units.Bytes) (Choice, bool) {
	i := tunedIndex(op)
	if i < 0 || t.group.Ranks < 2 {
		return Choice{}, false
	}
	best := Choice{Time: math.MaxFloat64}
	for a := range numAlgorithms {
		for p := range numProtocols {
			if c := t.table[i][a][p]; c.bandwidth > 0 {
				if us := t.micros(op, a, p, c, bytes); units.Micros(us) < best.Time {
					best = Choice{a, p, units.Micros(us), units.Micros(c.latency), units.GBps(c.bandwidth), t.ring.n}
				}
			}
		}
	}
	return best, best.Time < math.MaxFloat64
}

// Predict returns NCCL's own time for one combination; false when it is not offered.
func (t *Tuner) Predict(op parallel.Op, a Algorithm, p Protocol, bytes units.Bytes) (units.Duration, bool) {
	i := tunedIndex(op)
	if i < 0 || a >= numAlgorithms || p >= numProtocols || t.table[i][a][p].bandwidth <= 0 {
		return 0, false
	}
	return units.Micros(t.micros(op, a, p, t.table[i][a][p], bytes)), true
}

// micros is NCCL's estimate at call time: latency + bytes/bandwidth with its two corrections.
func (t *Tuner) micros(op parallel.Op, a Algorithm, p Protocol, c cost, bytes units.Bytes) float64 {
	lat, bw := c.latency, c.bandwidth
	if op == parallel.AllReduce && (a == Tree || a == NVLSTree && generationOf(t.group.SM) == blackwell && !t.group.AMD) {
		if size := bits.Len64(uint64(bytes)>>6) - 1; size >= 0 && size < len(treeDip[p]) {
			bw *= treeDip[p][size]
		}
	}
	if a == Ring && p == Simple && op == parallel.AllReduce && t.group.Nodes > 1 && int64(bytes) >= 64*int64(t.ring.n*t.group.Ranks) {
		if lat *= 1.4; t.group.SM < 80 {
			lat *= 1.9 / 1.4
		}
	}
	return lat + float64(bytes)/(1000*bw)
}

// offered says whether NCCL considers the combination.
func (t *Tuner) offered(op parallel.Op, a Algorithm, p Protocol) bool {
	g := &t.group
	gather := op == parallel.AllGather || op == parallel.ReduceScatter
	if g.Ranks < 2 || (a == CollNetDirect || a == CollNetChain || a == NVLS || a == NVLSTree || a == PAT) && p != Simple {
		return false
	}
	if p == LL128 && !(g.NVLinkGBps > 0 || g.Ranks == g.Nodes) {
		return false // only within NVLink's reach
	}
	nvls := g.Multicast && g.SM >= 90 && g.perNode() >= 2 && g.Minor >= 17
	switch a {
	case Ring:
		return true
	case Tree:
		return op == parallel.AllReduce
	case NVLS:
		return nvls && (op == parallel.AllReduce || gather) && (g.Nodes == 1 || g.CollNet)
	case NVLSTree:
		return nvls && op == parallel.AllReduce && g.Nodes > 1 && g.Minor >= 18
	case CollNetDirect:
		return g.CollNet && g.Nodes > 1 && g.NVSwitch && (op == parallel.AllReduce || gather && g.perNode() <= float64(g.NICs))
	case CollNetChain:
		return g.CollNet && g.Nodes > 1 && op == parallel.AllReduce
	case PAT:
		return gather && g.Nodes > 1 && g.Ranks == g.Nodes && g.Minor >= 23
	}
	return false
}

// bandwidth is the user bandwidth in GB/s.
func (t *Tuner) bandwidth(op parallel.Op, a Algorithm, p Protocol) float64 {
	g := &t.group
	gen, at := generationOf(g.SM), scale(g.Nodes)
	llMax := llMaxOneNode[gen]
	if g.Nodes > 1 {
		if llMax = llMaxIntel[at]; g.AMD {
			llMax = llMaxAMD[at]
		}
	}
	ppn := g.perNode()
	perBus := float64(g.Ranks) / steps(op, g.Ranks) // bus to user bandwidth of rings and NVLS
	switch a {
	case Ring:
		bus := float64(t.ring.n) * between(t.ring, g.Nodes)
		switch p {
		case LL:
			bus = min(llMax, .5*bus)
		case LL128:
			bus = min(.92*bus, float64(t.ring.n)*channelRingLL128[gen][at])
		}
		return bus * perBus
	case Tree:
		c := g.tree(t.ring)
		bus := min(.92*float64(c.n)*between(c, g.Nodes), float64(c.n)*channelTree[gen][at])
		switch p {
		case LL:
			bus = min(bus/3.8, llMax)
		case LL128:
			share := 120.0 / 128
			if g.Nodes == 1 {
				share = 7.0 / 9
			}
			bus = min(bus*share, float64(c.n)*channelTreeLL128[gen][at])
		}
		return .5 * bus
	case NVLS, NVLSTree:
		c := g.nvls()
		per := c.intra * nvlsEfficiency(gen) * float64(c.n-1) / float64(c.n)
		if op == parallel.AllReduce {
			per *= 2
		} else {
			per *= (ppn - 1) / ppn
		}
		if g.Nodes > 1 {
			inter := c.inter
			if a == NVLSTree && g.Nodes == 2 {
				inter *= 2
			}
			per = min(per, inter)
		}
		if a == NVLSTree {
			per = min(per, channelNVLSTree[gen][at])
		}
		return float64(c.n) * per * perBus
	case CollNetDirect:
		if op != parallel.AllReduce {
			w := (ppn - 1) / 7 // between the ratios measured with 1 and with 8 ranks a node
			return ppn * t.ring.intra * (w*.85 + (1-w)*.95)
		}
		factor := ppn / float64(t.ring.n)
		factor -= (factor - 1) / 2
		bus := float64(t.ring.n) * t.ring.intra / factor
		if g.SM >= 90 {
			bus *= .85
		}
		return .5 * bus
	case CollNetChain:
		return .5 * float64(t.ring.n) * t.ring.intra
	default: // PAT
		return .75 * float64(t.ring.n) * between(t.ring, g.Nodes)
	}
}

// between is the speed that counts: a channel's inner one up to two nodes, then the one across.
func between(c channels, nodes int) float64 {
	if nodes <= 2 {
		return c.intra
	}
	return c.inter
}

// steps of a ring.
func steps(op parallel.Op, n int) float64 {
	switch op {
	case parallel.AllReduce:
		return float64(2 * (n - 1))
	case parallel.AllGather, parallel.ReduceScatter:
		return float64(n - 1)
	}
	return float64(n)
}

// latency is the fixed part in us.
func (t *Tuner) latency(op parallel.Op, a Algorithm, p Protocol) float64 {
	g := &t.group
	intra := hopLatency[a].pcie[p]
	if g.NVLinkGBps > 0 {
		intra = hopLatency[a].nvlink[p]
	}
	inter := hopLatency[a].net[p]
	if g.Ranks == g.Nodes {
		inter = hopLatency[Tree].net[p] // one rank a node: the network's latency is exposed in full
	}
	inter += g.NetLatency
	if p == Simple {
		inter += g.NetLatency // the flush
	}
	per := g.Ranks / g.Nodes
	levels := float64(bits.Len(uint(g.Nodes)) - 1)
	base := baseLatency[a][p]
	switch a {
	case Ring:
		k := steps(op, g.Ranks)
		if op == parallel.Broadcast || op == parallel.Reduce {
			if g.Nodes == 1 {
				return base + intra // all channels alike: pipelined
			}
			if p == Simple {
				return base + k*hopLatency[Tree].net[p]
			}
			return base + k*hopLatency[a].net[p]
		}
		if g.Nodes == 1 {
			return base + k*intra
		}
		post := netOverhead(g.AMD)
		if p == Simple {
			post *= 3
		}
		across := steps(op, g.Nodes)
		return base + (k-across)*max(intra, post) + across*inter
	case Tree:
		return base + 2*(float64(per-1)*intra+levels*inter)
	case CollNetDirect:
		return base + 2*(float64(min(1, per-1))*intra+.4*float64(per-1)) + inter // .4 us to serve each local rank
	case CollNetChain:
		return base + 2*float64(per-1)*intra + inter
	case NVLS:
		if g.Nodes > 1 {
			return base + intra + inter
		}
		return base + intra
	case NVLSTree:
		return base + intra + 2*levels*inter
	default: // PAT
		return base + levels*inter/3.5 + 2.8*float64(g.Ranks)
	}
}
