package collective

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"rankmap/internal/hardware"
	"rankmap/internal/measured"
)

// TestDistinctRanks: known cases, and a count by hand (2 ranks, 4 experts, 2 of them: both on one rank in 2 of 6 draws).
func TestDistinctRanks(t *testing.T) {
	almost(t, "one expert", DistinctRanks(8, 1, 64), 1)
	almost(t, "all experts", DistinctRanks(8, 64, 64), 8)
	almost(t, "2 of 4 on 2 ranks", DistinctRanks(2, 2, 4), 1*2.0/6+2*4.0/6)
	almost(t, "one expert a rank", DistinctRanks(64, 8, 64), 8)
	if d := DistinctRanks(8, 8, 256); d < 5 || d > 5.4 {
		t.Errorf("top 8 of 256 on 8 ranks: %v", d)
	}
	for _, bad := range [][3]int{{0, 1, 8}, {8, 0, 8}, {8, 9, 8}} {
		if d := DistinctRanks(bad[0], bad[1], bad[2]); d != 0 {
			t.Errorf("%v: %v", bad, d)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 64).Draw(rt, "n")
		k := rapid.IntRange(1, 16).Draw(rt, "k")
		e := n * rapid.IntRange(1, 8).Draw(rt, "experts a rank")
		if e < k {
			return
		}
		d := DistinctRanks(n, k, e)
		if d < 1-1e-9 || d > math.Min(float64(n), float64(k))+1e-9 {
			rt.Fatalf("n %d, k %d, E %d: %v", n, k, e, d)
		}
	})
}

// TestDispatchAgainstTables: the shipped fits explain the published exchange tables.
func TestDispatchAgainstTables(t *testing.T) {
	ps, cat := profiles(t), catalog(t)
	for _, set := range []struct {
		mode, kernel string
		most         float64
	}{{"deepep_ll", "low_latency", 6}, {"deepep_normal", "normal", 6}} {
		var ape []float64
		for _, r := range measuredRows(t, measured.ReadDeepEP, "measured", "public", "deepep.csv") {
			gpu, err := cat.GPU(r.Hardware)
			if err != nil || r.Nodes > 1 || r.Kernel != set.mode {
				continue
			}
			x := r.Exchange
			e, err := Dispatch(ps, r.Hardware, set.kernel, "", Exchange{Phase: x.Phase, Ranks: r.Ranks, Tokens: x.Tokens, Hidden: x.Hidden, TopK: x.TopK, Experts: x.Expert, SMs: x.SMs}, gpu.SMs)
			if err != nil {
				continue
			}
			ape = append(ape, 100*math.Abs(float64(e.Time/r.Time)-1))
		}
		n, m := len(ape), quantileOf(ape, .5)
		t.Logf("%s: %d rows, median %.1f %%, p90 %.1f %%", set.kernel, n, m, quantileOf(ape, .9))
		if n < 500 || m > set.most {
			t.Errorf("%s: %d rows, median %.1f %%", set.kernel, n, m)
		}
	}
}

func TestDispatchGrowsWithTokens(t *testing.T) {
	ps := profiles(t)
	rapid.Check(t, func(rt *rapid.T) {
		sys := rapid.SampledFrom([]string{"h200_sxm", "b200_sxm", "gb200"}).Draw(rt, "system")
		mode := rapid.SampledFrom([]string{"low_latency", "normal"}).Draw(rt, "mode")
		x := Exchange{Phase: rapid.SampledFrom([]string{"dispatch", "combine"}).Draw(rt, "phase"), Ranks: 8, Hidden: 7168, TopK: 8, Experts: 256, SMs: 20}
		last := 0.0
		for x.Tokens = 1; x.Tokens < 1<<15; x.Tokens *= 3 {
			e, err := Dispatch(ps, sys, mode, "", x, 132)
			if err != nil {
				rt.Fatal(err)
			}
			if us := e.Time.Micros(); us < last || !(us > 0) || e.P10 > e.P90 {
				rt.Fatalf("%s %s %s, %d tokens: %v us after %v", sys, mode, x.Phase, x.Tokens, us, last)
			} else {
				last = us
			}
		}
	})
}

func TestDispatchEdges(t *testing.T) {
	ps := profiles(t)
	good := Exchange{Phase: "dispatch", Ranks: 8, Tokens: 128, Hidden: 7168, TopK: 8, Experts: 256}
	one := good
	one.Ranks = 1
	if e, err := Dispatch(ps, "h200_sxm", "low_latency", "", one, 132); err != nil || e.Time != 0 {
		t.Error(e, err)
	}
	bad := good
	bad.Experts = 4
	if _, err := Dispatch(ps, "h200_sxm", "low_latency", "", bad, 132); err == nil {
		t.Error("top 8 of 4 experts")
	}
	if _, err := Dispatch(ps, "l40s", "low_latency", "", good, 132); err == nil {
		t.Error("never measured over PCIe")
	}
	if _, err := Dispatch(ps, "nothing", "low_latency", "", good, 132); err == nil {
		t.Error("unknown system")
	}
	four, err := Dispatch(ps, "gb200", "nvlink", "NVLinkTwoSided", Exchange{Phase: "dispatch", Ranks: 4, Tokens: 4096, Hidden: 7168, TopK: 8, Experts: 256}, 148)
	if err != nil || four.Time.Micros() < 100 {
		t.Error(four, err)
	}
	_ = hardware.DispatchKernel{}
}
