package collective

import (
	"math"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
)

// AlphaBeta is the textbook cost model: a fixed cost a step and a link.
type AlphaBeta struct {
	Alpha units.Duration  // one step: launch, synchronisation with neighbours, propagation
	Beta  units.Bandwidth // one way, one GPU
}

// The two settings of the seed documents. Text 000 counts 1.5 us a step and NVLink 4 at 450 GB/s one way; text 003 counts
// 2 us and quotes NVLink 5 both ways (1,800 GB/s), which halves its transfer times. The default model uses 900.
var (
	TextbookNVLink4 = AlphaBeta{Alpha: units.Micros(1.5), Beta: units.GBps(450)}
	TextbookNVLink5 = AlphaBeta{Alpha: units.Micros(2), Beta: units.GBps(1800)}
)

// Share of a link that carries data, by protocol: LL stores 4 bytes of flag with 4 of data, LL128 8 of flag with 120 of
// data (text 000; NCCL prims_ll.h and prims_ll128.h).
const (
	EfficiencyLL     = 4.0 / 8
	EfficiencyLL128  = 120.0 / 128
	EfficiencySimple = 1.0
)

// transfer is the time of v bytes on one link.
func (m AlphaBeta) transfer(v float64) units.Duration { return units.Duration(v / float64(m.Beta)) }

// steps is the time of k steps.
func (m AlphaBeta) steps(k float64) units.Duration { return units.Duration(k) * m.Alpha }

// Ring is the ring: 2(n-1) steps and 2(n-1)/n of the buffer for all_reduce, half of both for all_gather and
// reduce_scatter; a pipelined chain for broadcast and reduce.
func (m AlphaBeta) Ring(op parallel.Op, n int, s units.Bytes) units.Duration {
	if n < 2 {
		return 0
	}
	return m.steps(RingSteps(op, n)) + m.transfer(float64(s)*op.BusFactor(n))
}

// RingSteps counts a ring's serial steps; all_to_all and send/recv have one.
func RingSteps(op parallel.Op, n int) float64 {
	switch op {
	case parallel.AllToAll, parallel.SendRecv:
		return 1
	}
	return hops(op, n)
}

// TreeSteps counts a binary tree's levels up and down.
func TreeSteps(n int) float64 { return 2 * math.Log2(float64(n)) }

// Tree is the all_reduce over a tree: 2 log2(n) steps, the buffer up and down once.
func (m AlphaBeta) Tree(n int, s units.Bytes) units.Duration {
	if n < 2 {
		return 0
	}
	return m.steps(TreeSteps(n)) + m.transfer(2*float64(s))
}

// OneShot is the all_reduce in which every GPU reads all peers' data: two synchronisations, (n-1) buffers.
func (m AlphaBeta) OneShot(n int, s units.Bytes) units.Duration {
	if n < 2 {
		return 0
	}
	return m.steps(2) + m.transfer(float64(n-1)*float64(s))
}

// TwoShot is reduce_scatter and all_gather by direct reads: four synchronisations, 2(n-1)/n of the buffer.
func (m AlphaBeta) TwoShot(n int, s units.Bytes) units.Duration {
	if n < 2 {
		return 0
	}
	return m.steps(4) + m.transfer(float64(s)*parallel.AllReduce.BusFactor(n))
}

// NVLS is the all_reduce in the switch: two synchronisations, the buffer once.
func (m AlphaBeta) NVLS(n int, s units.Bytes) units.Duration {
	if n < 2 {
		return 0
	}
	return m.steps(2) + m.transfer(float64(s))
}

// Crossover is the size at which one-shot and two-shot take equally long: 2ab/((n-1)(1-2/n)). With two GPUs there is
// none: one-shot moves as much and synchronises less; ok is false.
func (m AlphaBeta) Crossover(n int) (s units.Bytes, ok bool) {
	if n < 3 {
		return 0, false
	}
	v := 2 * float64(m.Alpha) * float64(m.Beta) / (float64(n-1) * (1 - 2/float64(n)))
	return units.Bytes(math.Round(v)), true
}

// GatherToOne is the volume of the naive all_reduce: the root receives and sends (n-1) buffers, every other GPU sends one
// and receives one.
func GatherToOne(n int, s units.Bytes) (root, other units.Bytes) {
	if n < 2 {
		return 0, 0
	}
	return 2 * units.Bytes(n-1) * s, 2 * s
}

// RingVolume is what one GPU sends in a ring all_reduce: 2(n-1)/n of the buffer.
func RingVolume(n int, s units.Bytes) float64 { return float64(s) * parallel.AllReduce.BusFactor(n) }

// BusBandwidth is nccl-tests' busbw: bytes/time times the operation's factor.
func BusBandwidth(op parallel.Op, n int, s units.Bytes, t units.Duration) units.Bandwidth {
	if t <= 0 {
		return 0
	}
	return units.Bandwidth(float64(s) / float64(t) * op.BusFactor(n))
}

// TimeFromBusBandwidth turns a bus bandwidth back into a time.
func TimeFromBusBandwidth(op parallel.Op, n int, s units.Bytes, busbw units.Bandwidth) units.Duration {
	if busbw <= 0 {
		return 0
	}
	return units.Duration(float64(s) * op.BusFactor(n) / float64(busbw))
}
