package collective

import (
	"fmt"
	"math"
	"testing"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
)

// near fails unless got rounds to want with the given number of decimals.
func near(t *testing.T, what string, got, want float64, decimals int) {
	t.Helper()
	if fmt.Sprintf("%.*f", decimals, got) != fmt.Sprintf("%.*f", decimals, want) {
		t.Errorf("%s: got %.*f, want %.*f", what, decimals+2, got, decimals, want)
	}
}

// TestAlgorithmTable reproduces text 000's table of 8 GPUs on NVLink 4: us by algorithm, and the fastest without NVLS.
func TestAlgorithmTable(t *testing.T) {
	m := TextbookNVLink4
	for _, row := range []struct {
		size                               units.Bytes
		ring, tree, oneShot, twoShot, nvls float64
		best                               string
	}{
		{16 << 10, 21.1, 9.1, 3.3, 6.1, 3.0, "one-shot"},
		{256 << 10, 22.0, 10.2, 7.1, 7.0, 3.6, "two-shot"},
		{1 << 20, 25.1, 13.7, 19.3, 10.1, 5.3, "two-shot"},
		{8 << 20, 53.6, 46.3, 133.5, 38.6, 21.6, "two-shot"},
		{64 << 20, 282.0, 307.3, 1046.9, 267.0, 152.1, "two-shot"},
	} {
		times := map[string]float64{
			"ring":     m.Ring(parallel.AllReduce, 8, row.size).Micros(),
			"tree":     m.Tree(8, row.size).Micros(),
			"one-shot": m.OneShot(8, row.size).Micros(),
			"two-shot": m.TwoShot(8, row.size).Micros(),
		}
		name := row.size.String()
		near(t, name+" ring", times["ring"], row.ring, 1)
		near(t, name+" tree", times["tree"], row.tree, 1)
		near(t, name+" one-shot", times["one-shot"], row.oneShot, 1)
		near(t, name+" two-shot", times["two-shot"], row.twoShot, 1)
		near(t, name+" nvls", m.NVLS(8, row.size).Micros(), row.nvls, 1)
		for k, v := range times {
			if v < times[row.best] {
				t.Errorf("%s: %s takes %.2f us, faster than %s", name, k, v, row.best)
			}
		}
	}
}

func TestOneGiBRing(t *testing.T) {
	d := TextbookNVLink4.Ring(parallel.AllReduce, 8, 1<<30)
	near(t, "ms", d.Millis(), 4.20, 2)
	near(t, "algbw", float64(1<<30)/d.Seconds()/1e9, 256, 0)
	near(t, "busbw", BusBandwidth(parallel.AllReduce, 8, 1<<30, d).GBps(), 448, 0)
}

// TestCrossover is text 000's exercise 2: about 257 KB on 8 GPUs, never on 2.
func TestCrossover(t *testing.T) {
	m := TextbookNVLink4
	s, ok := m.Crossover(8)
	if !ok {
		t.Fatal("no crossover on 8 GPUs")
	}
	near(t, "KB", float64(s)/1e3, 257, 0)
	for n := 3; n <= 72; n++ {
		s, ok := m.Crossover(n)
		if !ok {
			t.Fatalf("no crossover on %d GPUs", n)
		}
		if below := s * 99 / 100; m.OneShot(n, below) > m.TwoShot(n, below) {
			t.Errorf("n=%d: one-shot is slower below the crossover", n)
		}
		if above := s*101/100 + 1; m.OneShot(n, above) < m.TwoShot(n, above) {
			t.Errorf("n=%d: one-shot is faster above the crossover", n)
		}
	}
	if _, ok := m.Crossover(2); ok {
		t.Error("two GPUs have no crossover")
	}
	for s := units.Bytes(1); s <= 1<<34; s *= 4 {
		if m.OneShot(2, s) >= m.TwoShot(2, s) {
			t.Errorf("two GPUs, %v: one-shot must win", s)
		}
	}
}

// TestBusBandwidthExercises is text 000's exercise 1: 360 GB/s on 8 GPUs, 256 MiB.
func TestBusBandwidthExercises(t *testing.T) {
	bw := units.GBps(360)
	ar := TimeFromBusBandwidth(parallel.AllReduce, 8, 256<<20, bw)
	near(t, "all_reduce ms", ar.Millis(), 1.3, 1)
	near(t, "all_reduce algbw", float64(256<<20)/ar.Seconds()/1e9, 205.7, 1)
	ag := TimeFromBusBandwidth(parallel.AllGather, 8, 256<<20, bw)
	near(t, "all_gather ms", ag.Millis(), 0.65, 2)
	near(t, "all_gather algbw", float64(256<<20)/ag.Seconds()/1e9, 411, 0)
	near(t, "round trip", BusBandwidth(parallel.AllReduce, 8, 256<<20, ar).GBps(), 360, 6)
}

func TestProtocolEfficiency(t *testing.T) {
	near(t, "LL %", EfficiencyLL*100, 50, 0)
	near(t, "LL128 %", EfficiencyLL128*100, 94, 0)
}

// TestBandwidthLadder is text 003's ladder, in its own convention (NVLink 5 quoted both ways).
func TestBandwidthLadder(t *testing.T) {
	nvlink, pcie, ndr := TextbookNVLink5.Beta.GBps(), 64.0, units.Gbps(400).GBps()
	near(t, "NVLink/PCIe", nvlink/pcie, 28, 0)
	near(t, "PCIe/InfiniBand", pcie/ndr, 1.3, 1)
	near(t, "NVLink/InfiniBand", nvlink/ndr, 36, 0)
	near(t, "HBM3/NVLink", 3350/nvlink, 2, 0)
	near(t, "HBM3e of B200/NVLink", 8000/nvlink, 4, 0)
	near(t, "100 GbE", units.Gbps(100).GBps(), 12.5, 1)
}

func TestRingVolumes(t *testing.T) {
	const s = 100e6
	near(t, "8 GPUs MB", RingVolume(8, s)/1e6, 175, 0)
	near(t, "32 GPUs MB", RingVolume(32, s)/1e6, 194, 0)
	if v := RingVolume(1<<20, s); v >= 2*s || v < 1.999*s {
		t.Errorf("the volume must approach 2S from below: %v", v)
	}
	root, other := GatherToOne(8, s)
	near(t, "gather-to-one root GB", float64(root)/1e9, 1.4, 1)
	near(t, "gather-to-one other MB", float64(other)/1e6, 200, 0)
}

// TestRingTable is text 003's table on 32 GPUs. Its 1 GB row computes to 1,076 us; the text prints 1,078 because it
// rounded the volume to 194 MB per 100 MB first.
func TestRingTable(t *testing.T) {
	m := TextbookNVLink5
	near(t, "steps us", float64(m.steps(RingSteps(parallel.AllReduce, 32)))*1e6, 124, 0)
	for _, row := range []struct {
		size     units.Bytes
		transfer float64
		decimals int
	}{{64e3, 0.07, 2}, {1e6, 1.1, 1}, {100e6, 108, 0}, {1e9, 1076, 0}} {
		got := m.Ring(parallel.AllReduce, 32, row.size).Micros() - 124
		near(t, row.size.Decimal(), got, row.transfer, row.decimals)
	}
	near(t, "1 GB from the rounded volume", 1940e6/m.Beta.GBps()/1e3, 1078, 0)
	near(t, "transfer against steps at 1 GB", 1078/124.0, 8.7, 1)
	half := AlphaBeta{Alpha: m.Alpha, Beta: units.GBps(900)} // one way
	near(t, "1 GB, one way", half.Ring(parallel.AllReduce, 32, 1e9).Micros()-124, 2153, 0)
}

func TestRingAgainstTreeSteps(t *testing.T) {
	near(t, "ring 32", RingSteps(parallel.AllReduce, 32), 62, 0)
	near(t, "ring 8", RingSteps(parallel.AllReduce, 8), 14, 0)
	near(t, "tree 32", TreeSteps(32), 10, 0)
	m := TextbookNVLink5
	near(t, "tree us", float64(m.steps(TreeSteps(32)))*1e6, 20, 0)
	if m.Tree(32, 64e3) > m.Ring(parallel.AllReduce, 32, 64e3) {
		t.Error("small buffers: the tree must win")
	}
	if m.Tree(32, 10e9) < m.Ring(parallel.AllReduce, 32, 10e9) {
		t.Error("large buffers: the ring must win")
	}
}

// TestAllToAllMovesHalf: all_reduce moves about 2S a GPU, all_to_all about S.
func TestAllToAllMovesHalf(t *testing.T) {
	for _, n := range []int{2, 8, 32} {
		if r := parallel.AllReduce.BusFactor(n) / parallel.AllToAll.BusFactor(n); math.Abs(r-2) > 1e-12 {
			t.Errorf("n=%d: ratio %v", n, r)
		}
	}
}

// TestEightyLayers is text 003's comparison: one all_reduce of 100 MB on 8 GPUs in each of 80 layers, transfer only.
func TestEightyLayers(t *testing.T) {
	v := RingVolume(8, 100e6)
	nv := AlphaBeta{Beta: units.GBps(1800)}.transfer(v)
	ib := AlphaBeta{Beta: units.Gbps(400)}.transfer(v)
	near(t, "NVLink ms", nv.Millis(), 0.097, 3)
	near(t, "InfiniBand ms", ib.Millis(), 3.5, 1)
	near(t, "80 layers NVLink ms", 80*nv.Millis(), 7.8, 1)
	near(t, "80 layers InfiniBand ms", 80*ib.Millis(), 280, 0)
}

func TestAloneTakesNoTime(t *testing.T) {
	m := TextbookNVLink4
	for _, d := range []units.Duration{m.Ring(parallel.AllReduce, 1, 1e9), m.Tree(1, 1e9), m.OneShot(1, 1e9), m.TwoShot(1, 1e9), m.NVLS(1, 1e9)} {
		if d != 0 {
			t.Errorf("one rank takes %v", d)
		}
	}
}
