package whatif

import (
	"math"
	"testing"

	"rankmap/layout"
)

// rungs indexes a ladder by name.
func rungs(l *Ladder) map[string]Rung {
	out := map[string]Rung{}
	for _, r := range l.Rungs {
		out[r.Name] = r
	}
	return out
}

// The bandwidth table that courses teach for NVLink 5 and NDR InfiniBand quotes NVLink both ways: 1,800 against 64 and 50
// GB/s, ratios 28, 1.3 and 36; 100 MB all-reduced on 8 GPUs moves 175 MB a GPU, 0.097 ms against 3.5 ms, 80 layers 7.8 ms
// against 280 ms.
func TestTheVendorsConventionGivesTheTextbookTable(t *testing.T) {
	m := machine(t, "hgx-b200", 8)
	l, err := MakeLadder(&m, nil, layout.Workload{}, Vendor, nil)
	if err != nil {
		t.Fatal(err)
	}
	near := func(what string, got, want, digit float64) {
		if math.Abs(got-want) > digit/2+1e-9 {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	r := rungs(l)
	near("HBM", r["HBM"].GBps, 8000, 1)
	near("NVLink", r["NVLink"].GBps, 1800, 1)
	near("PCIe", r["PCIe"].GBps, 64, 1)
	near("InfiniBand", r["InfiniBand"].GBps, 50, 1)
	near("HBM to NVLink", r["HBM"].Ratio, 4.4, 0.1)
	near("NVLink to PCIe", r["NVLink"].Ratio, 28, 1)
	near("PCIe to InfiniBand", r["PCIe"].Ratio, 1.3, 0.1)
	near("NVLink to InfiniBand", l.Cliff(), 36, 1)
	if !r["NVLink"].Boundary || r["PCIe"].Boundary {
		t.Error("the boundary is not where NVLink ends")
	}
	nv, ib := r["NVLink"].Costs[0], r["InfiniBand"].Costs[0]
	near("moved", float64(nv.MovedBytes)/1e6, 175, 1)
	near("NVLink ms", nv.Ms, 0.097, 0.001)
	near("InfiniBand ms", ib.Ms, 3.5, 0.1)
	near("80 layers on NVLink", nv.StepMs, 7.8, 0.1)
	near("80 layers on InfiniBand", ib.StepMs, 280, 1)
}

// One way, the same machine has half of it.
func TestOneWayIsTheDefaultTruth(t *testing.T) {
	p := problem(t, "llama-3.1-70b")
	m := machine(t, "hgx-b200", 8)
	r, err := p.request(&m, 0)
	if err != nil {
		t.Fatal(err)
	}
	l, err := MakeLadder(&m, p.Spec, layout.Workload{Batch: 64, ISL: 4096}, OneWay, r.Pricer)
	if err != nil {
		t.Fatal(err)
	}
	got := rungs(l)
	if got["NVLink"].GBps != 900 || l.Cliff() != 18 {
		t.Errorf("NVLink %v GB/s, %vx the network", got["NVLink"].GBps, l.Cliff())
	}
	for _, name := range []string{"NVLink", "InfiniBand"} {
		for _, c := range got[name].Costs {
			if c.PredictedUs <= 0 || c.PredictedUs < c.Ms*1e3/2.2 { // in-switch reduction moves half of it
				t.Errorf("%s, %s: predicted %v us, bytes over bandwidth %v us", name, c.What, c.PredictedUs, c.Ms*1e3)
			}
		}
	}
	if c := got["NVLink"].Costs[1]; c.Bytes != 2*8192*64 || c.Layers != 160 {
		t.Errorf("decode of batch 64: %+v", c)
	}
	if _, err := MakeLadder(&Machine{Name: "x", Cluster: machine(t, "pcie-l40s", 1).Cluster}, nil, layout.Workload{}, OneWay, nil); err != nil {
		t.Errorf("a PCIe box: %v", err)
	}
}
