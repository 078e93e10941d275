package collective

import (
	"math"
	"testing"

	"rankmap/internal/hardware"
	"rankmap/internal/units"
)

// release makes samples of one framework version: launches that grow by a factor, a jump from one size on.
func release(version string, factor float64, jumpFrom units.Bytes) []CustomSample {
	k := hardware.CustomAllReduce{Kernel: "trtllm", B1: 4, C1: .1, E1: .6, B2: 8, C2: 1, E2: .6}
	var out []CustomSample
	for _, n := range []int{2, 4, 8} {
		c := customRouteOf(&k, 450, n, version)
		for b := units.Bytes(256); b <= 8<<20; b *= 2 {
			us, _ := c.micros(b)
			us *= factor
			if b >= jumpFrom {
				us += 6
			}
			out = append(out, CustomSample{Version: version, Ranks: n, Bytes: b, Time: units.Micros(us)})
		}
	}
	return out
}

// TestASiblingShowsWhatAReleaseChanged: a release that was measured on the sibling alone is predicted from what it changed there.
func TestASiblingShowsWhatAReleaseChanged(t *testing.T) {
	own := FitCustom("trtllm", 450, release("1.3.0", 1.1, 1<<40))
	sibling := FitCustom("trtllm", 450, append(release("1.2.0", 1.2, 64<<10), release("1.3.0", 1, 1<<40)...))
	for _, n := range []int{2, 4, 8} {
		truth := release("1.2.0", 1.32, 64<<10)
		c := customRouteOf(own, 450, n, "1.2.0")
		c.correct([]*hardware.CustomAllReduce{sibling}, "1.2.0")
		alone := customRouteOf(own, 450, n, "1.2.0")
		alone.correct(nil, "1.2.0")
		for _, s := range truth {
			if s.Ranks != n || s.Bytes > 1<<20 {
				continue
			}
			with, _ := c.rising(s.Bytes, math.NaN())
			without, _ := alone.rising(s.Bytes, math.NaN())
			us := s.Time.Micros()
			if math.Abs(math.Log(with/us)) > 0.2 || math.Abs(math.Log(with/us)) > math.Abs(math.Log(without/us))+0.01 {
				t.Errorf("%d ranks, %v: %.2f us, with the sibling %.2f, without %.2f", n, s.Bytes, us, with, without)
			}
		}
	}
}

// TestCorrectedKernelsNeverFall: more bytes never take less, whatever the curves say between their knots.
func TestCorrectedKernelsNeverFall(t *testing.T) {
	k := FitCustom("vllm", 450, append(release("0.14.0", 1, 1<<40), release("0.19.0", .8, 128<<10)...))
	k.Curves = append(k.Curves, hardware.Curve{Op: "all_reduce", Ranks: 4, Library: "0.21.0", Log2: []float64{8, 14, 16, 23}, R: []float64{0, 1, -1, 0.2}})
	for _, version := range []string{"", "0.14.0", "0.19.0", "0.21.0", "0.99"} {
		for _, n := range []int{2, 4, 6, 8} {
			c := customRouteOf(k, 450, n, version)
			c.correct(nil, version)
			last := 0.0
			for b := units.Bytes(1); b < 8<<20; b += b/7 + 1 {
				us, kernel := c.rising(b, math.NaN())
				if kernel == "nccl" {
					break
				}
				if us < last*(1-1e-12) {
					t.Fatalf("%q on %d: %v takes %.3f us, less took %.3f", version, n, b, us, last)
				}
				last = us
			}
		}
	}
}
