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
	SHARP   bool    // the network's switches reduce
	PAT     bool    // the library knows PAT
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
	u, w := float64(n-1)/float64(n), 1.0
	e := p.EAG
	var lat float64
	ring := float64(n-N)*p.H + float64(N-1)*f.AR
	switch op {
	case parallel.AllReduce:
		w, e = 2, p.EAR
		if nw.Multicast {
			e *= p.G
		}
		tree := 2*float64(g-1)*p.H + 2*math.Log2(float64(N))*f.AT
		lat = math.Min(tree, 2*ring)
	case parallel.ReduceScatter:
		e, lat = p.ERS, ring
	case parallel.Broadcast, parallel.Reduce:
		u, lat = 1, ring
	case parallel.SendRecv:
		u, lat, nic = 1, f.AR, 1000*nw.NICGBps/float64(g)
	default:
		lat = ring
	}
	lat = (p.B*(1+f.B0/hostBase) + lat) * (1 + (f.S-1)*bytes/(bytes+cmp.Or(f.K, kneeFabric)))
	v := w * u
	if op == parallel.AllReduce && N == 2 {
		v = 1 // two nodes: a tree sends every byte out of a node once
	}
	inter := bytes * v / (nic * f.E)
	intra := 0.0
	if g > 1 && op != parallel.SendRecv {
		intra = bytes * w * u / (link * e)
	}
	return pnorm(lat, norm4(inter, intra), f.P)
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
		return bytes / (nic / float64(g) * nw.Fabric.E)
	}
	if op == parallel.AllReduce && (N == 2 || nw.SHARP) {
		return bytes / (nic * nw.Fabric.E)
	}
	return wireBytes(op, n, bytes) / (nic * nw.Fabric.E)
}

// root4 is the fourth root.
func root4(x float64) float64 { return math.Sqrt(math.Sqrt(x)) }

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
