package collective

import (
	"math"
	"testing"

	"rankmap/internal/hardware"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/topology"
)

func TestSizeClasses(t *testing.T) {
	for b, want := range map[units.Bytes]string{8: "small", 256 << 10: "small", 256<<10 + 1: "mid", 16 << 20: "mid", 16<<20 + 1: "large", 1 << 40: "large"} {
		if got := SizeClass(b); got != want {
			t.Errorf("%v: %s, want %s", b, got, want)
		}
	}
}

func TestProvenanceNames(t *testing.T) {
	seen := map[string]bool{}
	for p := Measured; p <= Textbook; p++ {
		if s := p.String(); s == "unknown" || seen[s] {
			t.Errorf("%d: %q", p, s)
		} else {
			seen[s] = true
		}
	}
	if Provenance(99).String() != "unknown" {
		t.Error("99 has a name")
	}
}

func TestBandsOfAnOperationComeFirst(t *testing.T) {
	bands := []hardware.Band{
		{Provenance: "measured", Op: "all_gather", Size: "mid", Low: -.1, High: .2},
		{Provenance: "measured", Size: "mid", Low: -.3, High: .4},
		{Provenance: "sibling", Op: "all_gather", Size: "mid", Low: -9, High: 9},
	}
	tab := newBandTable(bands, Measured)
	if got := tab[parallel.AllGather][sizeMid]; got != (logBand{-.1, .2}) {
		t.Errorf("all_gather: %v", got)
	}
	if got := tab[parallel.AllReduce][sizeMid]; got != (logBand{-.3, .4}) {
		t.Errorf("all_reduce: %v", got)
	}
	if got := tab[parallel.AllReduce][sizeLarge]; got != defaultBands[Measured][sizeLarge] {
		t.Errorf("not stated: %v", got)
	}
}

func TestIntervalHoldsTheTime(t *testing.T) {
	p10, p90 := logBand{math.Log(.5), math.Log(2)}.interval(10)
	almost(t, "p10", float64(p10), 5)
	almost(t, "p90", float64(p90), 20)
}

// TestIntervalsWidenWithIgnorance: own measurements, another version, a sibling, another generation.
func TestIntervalsWidenWithIgnorance(t *testing.T) {
	ps := profiles(t)
	width := func(model, library string, links int) float64 {
		m := New(cluster(t, box(model, 8, links, 0), 1, ""), ps, Options{})
		sum := 0.0
		for _, s := range []units.Bytes{8 << 10, 1 << 20, 256 << 20} {
			e := price(t, m, Request{Op: parallel.AllGather, Bytes: s, Members: ids(0, 1, 8), Library: library})
			sum += math.Log(float64(e.P90 / e.P10))
		}
		return sum
	}
	known := width("h100_sxm", "2.27.3", 18)
	version := width("h100_sxm", "2.40.1", 18)
	sibling := width("b300_sxm", "", 18)
	generation := width("v100_sxm2", "", 6)
	t.Logf("known %.2f, version %.2f, sibling %.2f, generation %.2f", known, version, sibling, generation)
	if !(known < version && version < sibling*2 && sibling < generation) {
		t.Errorf("known %.2f, version %.2f, sibling %.2f, generation %.2f", known, version, sibling, generation)
	}
	_ = topology.FabricRoCE
}
