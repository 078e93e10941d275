package collective

import (
	"math"

	"rankmap/collective/nccltune"
	"rankmap/internal/parallel"
)

// Ways across nodes that NCCL takes on some machines only: reduction in the switches of the network (SHARP, NCCL's CollNet), and
// PAT, its logarithmic all_gather and reduce_scatter for one GPU a node. docs/collective-model.md, section 7. No fit stands behind
// them: their constants are NCCL's own (collective/nccltune), and Model flags them as estimates.

const (
	collNetNetUs  = 31   // us: way through the network's reduction tree and back (NCCL tuning.cc, CollNet Direct, network)
	collNetInUs   = 3.7  // us: way inside the node (the same, NVLink)
	collNetEff    = 0.85 // share of NVLink beside the fan-out to the NICs (the same, Hopper and later)
	patBaseUs     = 8.0  // us (NCCL tuning.cc, base latency of PAT)
	patStepUs     = 14.0 / 3.5
	patRankUs     = 2.8  // us a rank
	patEff        = 0.75 // share of the ring's bandwidth
	patSinceMinor = 23   // NCCL 2.23
	sharpMinRanks = 3    // nodes: NCCL's CollNet needs more than two (NCCL_COLLNET_NODE_THRESHOLD)
	flagSHARP     = "SHARP: priced from NCCL's own constants, an estimate"
	flagPAT       = "PAT: priced from NCCL's own constants, an estimate"
)

// inNetwork is the time of the special way of an operation, us, and its name; false where there is none.
func (nw *networkForm) inNetwork(op parallel.Op, bytes float64) (float64, nccltune.Algorithm, bool) {
	switch {
	case nw.SHARP && op == parallel.AllReduce && nw.Nodes >= sharpMinRanks:
		return nw.sharpMicros(bytes), nccltune.CollNetDirect, true
	case nw.PAT && nw.PerNode == 1 && nw.Nodes > 1 && (op == parallel.AllGather || op == parallel.ReduceScatter):
		return nw.patMicros(bytes), nccltune.PAT, true
	}
	return 0, 0, false
}

// sharpMicros: every byte leaves a node once and comes back once, however many nodes there are; inside the node the ranks
// scatter to the NICs and gather again.
func (nw *networkForm) sharpMicros(bytes float64) float64 {
	p, n, g := nw.Params, float64(nw.Nodes*nw.PerNode), float64(nw.PerNode)
	lat := p.B + collNetNetUs
	inter := bytes / (1000 * nw.NICGBps * nw.Fabric.E)
	intra := 0.0
	if g > 1 {
		lat += 2 * collNetInUs
		e := p.EAR * collNetEff
		if nw.Multicast {
			e *= p.G
		}
		intra = 2 * bytes * (n - 1) / n / (1000 * nw.LinkGBps * e)
	}
	return pnorm(lat, norm4(inter, intra), nw.Fabric.P)
}

// patMicros: log2 of the nodes as steps, a little for every rank, three quarters of the ring's bandwidth.
func (nw *networkForm) patMicros(bytes float64) float64 {
	N := float64(nw.Nodes)
	lat := nw.Params.B*(1+nw.Fabric.B0/hostBase) + patBaseUs + patStepUs*math.Log2(N) + patRankUs*N
	return pnorm(lat, bytes*(N-1)/N/(1000*nw.NICGBps*nw.Fabric.E1*patEff), nw.Fabric.P)
}
