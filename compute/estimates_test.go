package compute

import (
	"strings"
	"testing"

	"rankmap/configs"
	"rankmap/internal/hardware"
	"rankmap/model"
)

// TestEstimatesSaySo: what no table measured is marked in the file, in every record and in every price, with the GPUs that it
// comes from; its datasheet names its source. Blackwell Ultra comes from its own silicon alone where that has the record.
func TestEstimatesSaySo(t *testing.T) {
	for system, sister := range map[string]string{
		"b300_sxm": "b200_sxm", "gb300": "gb200", "vr200": "", "l40s": "", "rtx_pro_6000": "", "h20": "", "h800_sxm": "", "gh200": "", "v100_sxm2": "",
	} {
		g, k := gpu(t, system)
		if k.Estimate == "" || len(g.Source) < 40 || !strings.Contains(g.Source, "20") && !strings.Contains(g.Source, "arXiv") {
			t.Errorf("%s: estimate %q, source %q", system, k.Estimate, g.Source)
		}
		own := 0
		for dtype, r := range k.GEMM {
			if r.Fit.From == "" || r.Fit.Lo <= 0 || r.Fit.Hi <= 1 {
				t.Errorf("%s gemm %s: %+v", system, dtype, r.Fit)
			}
			if r.Fit.From == sister {
				own++
			}
		}
		if sister != "" && own < 5 {
			t.Errorf("%s: %d matrix products come from %s alone", system, own, sister)
		}
		m, err := New(g, k, Options{Phase: model.Decode})
		if err != nil {
			t.Fatal(err)
		}
		e, err := m.Price(model.ComputeOp{Kind: model.GEMM, DType: "bf16", M: 64, N: 4096, K: 4096})
		if err != nil || e.Provenance != Family {
			t.Errorf("%s: %v, %v", system, e.Provenance, err)
		}
	}
	if _, k := gpu(t, "h20"); len(k.Frameworks[DefaultFramework].MoEFast) != 0 {
		t.Error("Blackwell's fused kernels on Hopper")
	}
	if _, k := gpu(t, "rtx_pro_6000"); len(k.Frameworks[DefaultFramework].MoEFast) != 0 {
		t.Error("kernels for tensor memory on a GPU without")
	}
}

// TestUnknownHardwareIsRefused: no GPU is guessed from its name.
func TestUnknownHardwareIsRefused(t *testing.T) {
	cat, err := hardware.Load(configs.FS)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "b400", "mi300x", "gb200x", "h", "rubin ultra"} {
		if g, err := cat.GPU(name); err == nil {
			t.Errorf("%q is taken for %s", name, g.System)
		}
	}
	if _, err := hardware.LoadKernels(configs.FS, "b400_sxm"); err == nil {
		t.Error("kernels of an unknown GPU")
	}
	g, k := gpu(t, "h100_sxm")
	bare := *g
	bare.HBMGBps = 0
	if _, err := New(&bare, k, Options{}); err == nil {
		t.Error("a GPU without memory bandwidth")
	}
	if _, err := Estimated(g, nil); err == nil {
		t.Error("an estimate from nothing")
	}
	if _, err := New(nil, k, Options{}); err == nil {
		t.Error("no GPU")
	}
}
