package collective

import (
	"math"
	"testing"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/topology"
)

// TestSendRecvIsBoundByItsChannels: 16 channels of 21 GB/s to 256 MiB, then 32 and the port.
func TestSendRecvIsBoundByItsChannels(t *testing.T) {
	ps := profiles(t)
	for _, c := range []struct {
		system    string
		bytes     float64
		low, high float64 // GB/s
		bound     string
	}{
		{"h200_sxm", 256 << 20, 270, 320, "channels"},
		{"h200_sxm", 1 << 30, 335, 0.8 * 450, "port"},
		{"b200_sxm", 256 << 20, 300, 336, "channels"},
		{"b200_sxm", 4 << 30, 560, 672, "channels, all of them"},
		{"a100_sxm", 256 << 20, 210, 0.79 * 300, "port"},
	} {
		p := ps.Collective(c.system)
		d := domainOf(p)
		rate := c.bytes / d.Micros(parallel.SendRecv, 2, c.bytes, false) / 1000
		if rate < c.low || rate > c.high {
			t.Errorf("%s: %.0f bytes at %.0f GB/s, want %.0f to %.0f (%s)", c.system, c.bytes, rate, c.low, c.high, c.bound)
		}
		if h := NewPredictor(p).hybrid(parallel.SendRecv, 2, c.bytes, false, 28); math.Abs(h/d.Micros(parallel.SendRecv, 2, c.bytes, false)-1) > 1e-12 {
			t.Errorf("%s: a correction of all_to_all on send/recv: %v", c.system, h)
		}
	}
}

// TestSendRecvNeverTakesLessForMore: where NCCL adds channels the price stays level until the larger buffer has caught up.
func TestSendRecvNeverTakesLessForMore(t *testing.T) {
	c := cluster(t, box("h200_sxm", 8, 18, units.Gbps(400)), 1, topology.FabricInfiniBand)
	m := New(c, profiles(t), Options{})
	var last units.Duration
	for e := 3.0; e < 34; e += 0.1 {
		b := units.Bytes(math.Exp2(e))
		got := price(t, m, Request{Op: parallel.SendRecv, Bytes: b, Members: ids(0, 1, 2)})
		if got.Time < last {
			t.Fatalf("%v: %v after %v", b, got.Time, last)
		}
		last = got.Time
	}
}

// TestRemoteChannels: an equal power of two of 32 for each peer, the rank itself included; more for large parts.
func TestRemoteChannels(t *testing.T) {
	for _, c := range []struct {
		n     int
		bytes float64
		want  float64
	}{
		{2, 1 << 20, 16}, {3, 1 << 20, 16}, {4, 1 << 20, 24}, {6, 1 << 20, 20}, {8, 1 << 20, 28}, {16, 1 << 20, 30}, {32, 1 << 20, 31}, {72, 1 << 20, 32},
		{2, 512 << 20, 16}, {2, 1 << 30, 32}, {8, 512 << 20, 28}, {8, 1 << 30, 32},
	} {
		if got := remoteChannels(c.n, c.bytes); got != c.want {
			t.Errorf("%d ranks, %.0f bytes: %.0f channels, want %.0f", c.n, c.bytes, got, c.want)
		}
	}
}

// TestAllToAllOnBlackwellIsBoundByItsChannels: what Hopper teaches of a link half as fast.
func TestAllToAllOnBlackwellIsBoundByItsChannels(t *testing.T) {
	ps := profiles(t)
	p := *ps.Collective("h100_sxm")
	d := domainOf(&p)
	d.LinkGBps = 900
	for n, want := range map[int]float64{2: 332, 4: 489, 8: 563} { // peaks of published B200 tables
		bytes := float64(512 << 20)
		bus := bytes * float64(n-1) / float64(n) / d.Micros(parallel.AllToAll, n, bytes, false) / 1000
		if math.Abs(bus/want-1) > 0.12 {
			t.Errorf("%d ranks: %.0f GB/s, want about %.0f", n, bus, want)
		}
	}
}
