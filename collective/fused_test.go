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
