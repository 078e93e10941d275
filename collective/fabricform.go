package collective

import (
	"cmp"
	"math"

	"rankmap/internal/hardware"
	"rankmap/internal/parallel"
)

const (
	kneeFabric    = 262144  // bytes: middle of the change to bulk protocols across nodes, where a profile states none
	kneeFabricA2A = 1048576 // bytes: the same for all_to_all
)

// hostBase, us, is the launch inside a node at which B0 counts as it stands. What the network adds to a launch (proxy threads,
// doorbells over PCIe) is slower on hosts whose launches are slow: with B0 in proportion a source left out on InfiniBand is
// predicted to 35 % at the 90th percentile, 52 without.
const hostBase = 5

// networkForm is a group over several nodes (NVLink domains) as the form sees it.
type networkForm struct {
	domainForm
	Fabric  *hardware.FabricParams
	Nodes   int     // domains that the group touches
	PerNode int     // ranks in one of them (the largest share when uneven)
	NICGBps float64 // one way: all NICs of one domain that serve the group's ranks, after sharing
	// BulkTree says that an all_reduce of large buffers on two nodes takes a tree, which sends every byte out of a node once: from
	// Hopper on. On Ampere NCCL counts 24 GB/s a tree channel (tuning.cc, perChMaxTreeBws; 38.7 on Hopper) and stays with rings.
	BulkTree bool
	SHARP    bool // the network's switches reduce
	PAT      bool // the library knows PAT
}

// Micros is the time of one collective on nw.Nodes x nw.PerNode ranks, in us, by the fastest way there is. bytes follow nccl-tests.
func (nw *networkForm) Micros(op parallel.Op, bytes float64, oneByte bool) float64 {
	t := nw.plain(op, bytes, oneByte)
	if special, _, ok := nw.inNetwork(op, bytes); ok {
		t = math.Min(t, special)
	}
	return t
}

// plain is the time by rings, trees and direct sends, us.
//
// Form: docs/collective-model.md, section 7. Broadcast and reduce run as a chain over the nodes, send/recv as one hop over one
// GPU's NIC.
func (nw *networkForm) plain(op parallel.Op, bytes float64, oneByte bool) float64 {
	N, g := nw.Nodes, nw.PerNode
	n := N * g
	if n < 2 {
		return 0
	}
	if N < 2 {
		return nw.domainForm.Micros(op, g, bytes, oneByte)
	}
	p, f := nw.Params, nw.Fabric
	link := 1000 * nw.LinkGBps
	nic := 1000 * nw.NICGBps
	if op == parallel.AllToAll {
		lat := (f.BA + f.PA*float64(n-g)) * (1 + (f.S-1)*bytes/(bytes+kneeFabricA2A))
		inter := bytes * float64(n-g) / float64(n) / (nic / float64(g) * f.EA)
		intra := bytes * float64(g-1) / float64(n) / (link * p.EA)
		return lat + norm4(inter, intra)
	}
	u := float64(n-1) / float64(n)
	grown := bytes / (bytes + cmp.Or(f.K, kneeFabric))
	out := float64(N - 1) // of a ring's hops leave a node
	if g > 1 {
		out = float64(N)
	}
	inside := float64(n-1) - out
	ring := inside*p.H + nw.bulkStart(inside, bytes*u, grown) + nw.hopMicros(out, f.AR, grown)
	switch op {
	case parallel.AllReduce:
		e := p.EAR
		if nw.Multicast {
			e *= p.G
		}
		twice := 2 * bytes * u
		intra := twice / (link * e)
		tree, share := nw.treeMicros(bytes, grown), bytes*nw.treeShare()
		switch { // the faster of the two; mostly one is behind in nothing
		case tree <= 2*ring && share <= twice:
			return nw.way(tree, share, nic, intra)
		case tree >= 2*ring && share >= twice:
			return nw.way(2*ring, twice, nic, intra)
		}
		return math.Min(nw.way(2*ring, twice, nic, intra), nw.way(tree, share, nic, intra))
	case parallel.SendRecv:
		return nw.way(nw.hopMicros(1, f.AR, grown), bytes, nic/float64(g), 0)
	case parallel.Broadcast, parallel.Reduce:
		return nw.way(ring, bytes, nic, bytes/(link*p.EAG))
	case parallel.ReduceScatter:
		return nw.way(ring, bytes*u, nic, bytes*u/(link*p.ERS))
	}
	return nw.way(ring, bytes*u, nic, bytes*u/(link*p.EAG))
}

// way is the time of one algorithm, us: lat on top of the launch; sent bytes leave a node over NICs of nic bytes/us; intra is the
// transfer inside the node. Both transfers run at once, chunk by chunk, so that the slower counts.
func (nw *networkForm) way(lat, sent, nic, intra float64) float64 {
	f := nw.Fabric
	if nw.PerNode < 2 {
		intra = 0
	}
	return pnorm(nw.Params.B*(1+f.B0/hostBase)+lat, norm8(sent/(nic*nw.nicShare()), intra), f.P)
}

// nicShare is what the NICs bring of their rate.
func (nw *networkForm) nicShare() float64 {
	if nw.PerNode < 2 {
		return nw.Fabric.E1
	}
	return nw.Fabric.E
}

// hopMicros is the latency of hops across nodes, us: the host's part in proportion to its launches, and what a chunk of the bulk
// protocol takes to fill and to pass through the proxies.
func (nw *networkForm) hopMicros(hops, each, grown float64) float64 {
	return hops * each * (nw.Params.B/hostBase + nw.Fabric.AS*grown)
}

// bulkStart is what the bulk protocol adds to the latency of steps inside the nodes, us. It is never more than the low-latency
// protocol loses by sending twice the bytes: else NCCL stays with that.
func (nw *networkForm) bulkStart(steps, sent, grown float64) float64 {
	return math.Min(bulkLatency(nw.Params, steps)*grown, sent/(1000*nw.NICGBps))
}

// treeMicros is the latency of a tree, up and down, us: the chain of the node's ranks, the start of the bulk protocol or of the
// switch's reduction, and the levels across nodes.
func (nw *networkForm) treeMicros(bytes, grown float64) float64 {
	p, g := nw.Params, float64(nw.PerNode)
	k := 2 * (g - 1)
	start := nw.bulkStart(k, 2*bytes, grown)
	if nw.Multicast && g > 1 {
		r := g / nvlsRanks
		start = p.BN * r * bytes / (bytes + kneeNVLS*1000*nw.LinkGBps*r)
	}
	return k*p.H + start + nw.hopMicros(2*math.Log2(float64(nw.Nodes)), nw.Fabric.AT, grown)
}

// treeShare is how often a tree sends the bytes out of a node: up and down, at 0.92 of a ring's rate (NCCL's tuning.cc); on two nodes
// once, where NCCL takes it.
func (nw *networkForm) treeShare() float64 {
	if nw.Nodes == 2 && nw.PerNode > 1 && nw.BulkTree {
		return 1
	}
	return 2 / 0.92
}

// nicMicros is the time that the transfer alone takes on the NICs, us.
func (nw *networkForm) nicMicros(op parallel.Op, bytes float64) float64 {
	N, g := nw.Nodes, nw.PerNode
	n := N * g
	if N < 2 {
		return 0
	}
	nic := 1000 * nw.NICGBps
	switch {
	case op == parallel.AllToAll:
		return bytes * float64(n-g) / float64(n) / (nic / float64(g) * nw.Fabric.EA)
	case op == parallel.SendRecv:
		return bytes / (nic / float64(g) * nw.nicShare())
	}
	if op == parallel.AllReduce && (N == 2 && (nw.BulkTree || g < 2) || nw.SHARP) {
		return bytes / (nic * nw.nicShare())
	}
	return wireBytes(op, n, bytes) / (nic * nw.nicShare())
}

// root4 is the fourth root.
func root4(x float64) float64 { return math.Sqrt(math.Sqrt(x)) }

// norm8 is the maximum, a little rounded, of two transfers of one pipeline.
func norm8(a, b float64) float64 {
	if a < b {
		a, b = b, a
	}
	if b <= 0 {
		return a
	}
	x := pow4(b / a)
	return a * math.Sqrt(root4(1+x*x))
}

// norm4 is the smooth maximum of two times that run beside each other.
func norm4(a, b float64) float64 {
	if a < b {
		a, b = b, a
	}
	if b <= 0 {
		return a
	}
	return a * root4(1+pow4(b/a))
}
