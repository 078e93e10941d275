package collective

import (
	"math"
	"strings"
	"testing"

	"rankmap/internal/hardware"
	"rankmap/internal/measured"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/topology"
)

// PyTorch's symmetric-memory kernels: the measured two H200 within a tenth, other group sizes flagged, never faster than the wire.
func TestSymmetricMemory(t *testing.T) {
	ps := profiles(t)
	for _, c := range []struct {
		bytes units.Bytes
		us    float64
		kind  string
	}{{8 << 10, 6.5, "one-shot"}, {16 << 20, 58, "two-shot"}} {
		e, err := CustomAllReduce(ps, "h200_sxm", symmetric, "", 2, c.bytes, Graph)
		if err != nil || math.Abs(e.Time.Micros()/c.us-1) > 0.1 || e.Algorithm != c.kind {
			t.Errorf("%v: %v %s, %v; want about %v us", c.bytes, e.Time, e.Algorithm, err, c.us)
		}
	}
	m := New(cluster(t, box("h200_sxm", 8, 18, 0), 1, topology.FabricUnknown), ps, Options{Kernels: symmetric})
	e, err := m.Price(Request{Op: parallel.AllReduce, Bytes: 1 << 20, Members: ids(0, 1, 8)})
	if err != nil || e.Protocol != symmetric || !strings.Contains(strings.Join(e.Flags, " "), "measured on 2 ranks only") {
		t.Errorf("eight ranks: %+v, %v", e, err)
	}
}

func TestCustomKernelFollowsTheFrameworksLimits(t *testing.T) {
	for _, c := range []struct {
		framework string
		n         int
		size      units.Bytes
		want      string
	}{
		{"vllm", 2, 4 << 20, "one-shot"}, {"vllm", 4, 512<<10 - 1, "one-shot"}, {"vllm", 4, 512 << 10, "two-shot"},
		{"vllm", 8, 256<<10 - 1, "one-shot"}, {"vllm", 8, 256 << 10, "two-shot"}, {"vllm", 8, 8 << 20, "nccl"},
		{"sglang", 8, 8 << 20, "two-shot"}, {"sglang", 8, 8<<20 + 1, "nccl"}, {"vllm", 16, 8, "nccl"}, {"vllm", 1, 8, "nccl"},
	} {
		if got := CustomKernel(c.framework, c.n, c.size); got != c.want {
			t.Errorf("%s on %d, %v: %s, want %s", c.framework, c.n, c.size, got, c.want)
		}
	}
}

// TestCustomForms checks the three kernels by hand on a link of 450 GB/s (450,000 bytes/us).
func TestCustomForms(t *testing.T) {
	k := hardware.CustomAllReduce{Kernel: "vllm", B1: 4, C1: .1, E1: .5, B2: 6, C2: 1, E2: .5, BM: 9, EM: .5, FloorUs: 20, CopyGBps: 1000}
	almost(t, "one-shot", oneShot(&k, 450, 8, 225000), 4+.7+7)
	almost(t, "two-shot", twoShot(&k, 450, 8, 225000), 6+7+1.75)
	d, ok := CustomMulticast(&k, 450, 8, 225000)
	almost(t, "multicast", d.Micros(), 9+1.125)
	almost(t, "eager floor", customEager(&k, 5, 1e6), 21)
	almost(t, "eager above it", customEager(&k, 50, 1e6), 50)
	k.BM = 0
	if _, none := CustomMulticast(&k, 450, 8, 8); none || !ok {
		t.Error("no multicast kernel, no time")
	}
}

// TestCustomAllReduceAgainstTables: the shipped fits explain the published graph tables of their versions.
func TestCustomAllReduceAgainstTables(t *testing.T) {
	ps := profiles(t)
	rows := measuredRows(t, measured.ReadCollectives, "measured", "public", "collectives.csv")
	var ape []float64
	for _, r := range rows {
		if r.Library == "nccl" || strings.HasSuffix(r.Kernel, "_eager") || r.Bytes > 4<<20 || r.Nodes > 1 {
			continue
		}
		e, err := CustomAllReduce(ps, r.Hardware, r.Library, r.Version, r.Ranks, r.Bytes, Graph)
		if err != nil {
			continue // PCIe
		}
		ape = append(ape, 100*math.Abs(float64(e.Time/r.Time)-1))
	}
	n, m, p90 := len(ape), quantileOf(ape, .5), quantileOf(ape, .9)
	t.Logf("%d rows: median %.1f %%, p90 %.1f %%", n, m, p90)
	if n < 800 || m > 5 || p90 > 30 {
		t.Errorf("%d rows: median %.1f %%, p90 %.1f %%", n, m, p90)
	}
}

func TestCustomAllReduceEdges(t *testing.T) {
	ps := profiles(t)
	if _, err := CustomAllReduce(ps, "rtx_pro_6000", "vllm", "", 2, 8, Graph); err == nil {
		t.Error("PCIe is not predictable")
	}
	if _, err := CustomAllReduce(ps, "nothing", "vllm", "", 2, 8, Graph); err == nil {
		t.Error("unknown system")
	}
	if e, err := CustomAllReduce(ps, "h100_sxm", "vllm", "", 1, 8, Graph); err != nil || e.Time != 0 {
		t.Error(e, err)
	}
	own, _ := CustomAllReduce(ps, "b200_sxm", "vllm", "", 4, 1<<16, Graph)
	sib, err := CustomAllReduce(ps, "b300_sxm", "vllm", "", 4, 1<<16, Graph)
	if err != nil || sib.Time != own.Time || sib.P90 <= own.P90 || sib.Provenance != Sibling {
		t.Errorf("b300 like b200 with a wider interval: %+v, %+v, %v", own, sib, err)
	}
	big, err := CustomAllReduce(ps, "h100_sxm", "vllm", "", 8, 64<<20, Graph)
	if err != nil || big.Algorithm != "nccl" || big.Time.Micros() < 100 {
		t.Errorf("beyond the limit NCCL's time counts: %+v %v", big, err)
	}
	eager, _ := CustomAllReduce(ps, "h100_sxm", "vllm", "", 8, 8<<10, Eager)
	graph, _ := CustomAllReduce(ps, "h100_sxm", "vllm", "", 8, 8<<10, Graph)
	if eager.Time < 2*graph.Time {
		t.Errorf("eager %v, graph %v", eager.Time, graph.Time)
	}
}
