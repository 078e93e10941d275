package collective

import (
	"slices"
	"testing"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/topology"
)

// Fusion saves a launch and two passes over memory of a custom kernel, and nothing of NCCL's.
func TestFusedNorm(t *testing.T) {
	c := cluster(t, box("h100_sxm", 8, 18, units.Gbps(400)), 1, topology.FabricInfiniBand)
	m := New(c, profiles(t), Options{Kernels: "vllm"})
	norm := Norm{MemoryGBps: 2000, LaunchUs: 2}
	for _, s := range []units.Bytes{16 << 10, 1 << 20, 64 << 20, 256 << 20} {
		e, err := m.Price(Request{Op: parallel.AllReduce, Bytes: s, Members: ids(0, 1, 8)})
		if err != nil {
			t.Fatal(err)
		}
		apart, fused := norm.Apart(e, s), norm.Fused(e, s)
		almost(t, "apart", (apart.Time - e.Time).Micros(), 2+4*float64(s)/2e6)
		if e.Protocol != "vllm" {
			if fused.Time != apart.Time || slices.Contains(fused.Flags, flagFused) {
				t.Errorf("%v by NCCL: fused %+v", s, fused)
			}
			continue
		}
		almost(t, "saved", (apart.Time - fused.Time).Micros(), 2+2*float64(s)/2e6)
		if !slices.Contains(fused.Flags, flagFused) || slices.Contains(e.Flags, flagFused) || fused.P10 > fused.Time || fused.P90 < apart.Time {
			t.Errorf("%v: %+v of %+v", s, fused, e)
		}
	}
}

// Options.Fused takes off what Norm.Fused saves, never of NCCL's, and more bytes still never take less.
func TestFusedOption(t *testing.T) {
	c := cluster(t, box("h100_sxm", 8, 18, units.Gbps(400)), 1, topology.FabricInfiniBand)
	norm := Norm{MemoryGBps: 2000, LaunchUs: 2}
	for _, framework := range []string{"vllm", "sglang", "trtllm", symmetric, "nccl"} {
		plain, m := New(c, profiles(t), Options{Kernels: framework}), New(c, profiles(t), Options{Kernels: framework, Fused: norm})
		for _, n := range []int{2, 4, 8} {
			var last units.Duration
			fused := 0
			for s := units.Bytes(1 << 10); s <= 1<<30; s += s / 8 {
				r := Request{Op: parallel.AllReduce, Bytes: s, Members: ids(0, 1, n)}
				e, f := price(t, plain, r), price(t, m, r)
				if f.Time < last || f.P10 > f.Time || f.P90 < f.Time {
					t.Fatalf("%s, %d ranks, %v: %+v after %v", framework, n, s, f, last)
				}
				last = f.Time
				if !slices.Contains(f.Flags, flagFused) {
					if f.Time != e.Time {
						t.Errorf("%s, %d ranks, %v: %v without fusion, %v with, not flagged", framework, n, s, e.Time, f.Time)
					}
					continue
				}
				fused++
				if f.Algorithm != e.Algorithm+"+norm" || f.Time >= e.Time || f.P90 < e.P90-units.Micros(1e-6) {
					t.Errorf("%s, %d ranks, %v: %+v of %+v", framework, n, s, f, e)
				}
			}
			if own := framework != "nccl" && framework != symmetric; own != (fused > 0) {
				t.Errorf("%s, %d ranks: %d sizes fused", framework, n, fused)
			}
		}
	}
}
