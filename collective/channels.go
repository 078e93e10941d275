package collective

import (
	"rankmap/internal/parallel"
)

// A kernel of NCCL moves its bytes over channels, one thread block each. With few of them (NCCL_MAX_NCHANNELS, or a library
// that shares the GPU with computation) the blocks limit the group, not the link.

// What one channel moves, GB/s. Own measurement on two H200, NCCL 2.28.9, 16 to 256 MiB, channels forced to 1, 4, 8, 16: an
// all_reduce moves 21, 20, 19, 16 GB/s a channel (the last already held back by the link); an all_to_all's blocks also copy
// the part that stays at home.
const (
	channelGBps     = 21.0
	channelHomeGBps = 47.0
)

// channelMicros is the least time in which c channels move what one rank sends, us.
func channelMicros(op parallel.Op, n int, bytes float64, c int) float64 {
	if c < 1 || n < 2 {
		return 0
	}
	t := wireBytes(op, n, bytes) / (1000 * channelGBps)
	if op == parallel.AllToAll {
		t += bytes / float64(n) / (1000 * channelHomeGBps)
	}
	return t / float64(c)
}

// wireBytes is what one rank sends in a ring (all_to_all: directly to its peers).
func wireBytes(op parallel.Op, n int, bytes float64) float64 {
	u := float64(n-1) / float64(n)
	switch op {
	case parallel.AllReduce:
		return 2 * u * bytes
	case parallel.Broadcast, parallel.Reduce, parallel.SendRecv:
		return bytes
	}
	return u * bytes
}
