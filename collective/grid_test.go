package collective

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"rankmap/internal/hardware"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
)

var key = gridKey{parallel.AllGather, false}

func gridOf(curves ...hardware.Curve) *grid { return newGrid(curves) }

func gather(ranks int, library string, r ...float64) hardware.Curve {
	c := hardware.Curve{Op: "all_gather", Ranks: ranks, Library: library, R: r}
	for i := range r {
		c.Log2 = append(c.Log2, 10+float64(i))
	}
	return c
}

func almost(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*math.Max(1, math.Abs(want)) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestGridIsLinearBetweenSizesAndConstantBeyond(t *testing.T) {
	g := gridOf(gather(4, "", .1, .3, .2))
	for x, want := range map[float64]float64{3: .1, 10: .1, 10.5: .2, 11: .3, 11.75: .225, 12: .2, 40: .2} {
		almost(t, "size", g.at(key, 4, x, math.NaN()), want)
	}
}

func TestGridTakesNeighboursAtTheSameBytesARank(t *testing.T) {
	g := gridOf(gather(2, "", .1, .2, .3, .4), gather(8, "", .5, .6, .7, .8))
	// 4 ranks at 2^12: 2^10 a rank, so 2 ranks at 2^11 (.2) and 8 ranks at 2^13 (.8), half way in log n.
	almost(t, "between", g.at(key, 4, 12, math.NaN()), .5)
	almost(t, "below, fading", g.at(gridKey{parallel.AllGather, true}, 16, 13, math.NaN()), .7/2)
	almost(t, "not measured", g.at(gridKey{parallel.AllReduce, false}, 4, 12, math.NaN()), 0)
}

func TestNearerVersionsCountMore(t *testing.T) {
	g := gridOf(gather(4, "2.23.4", .1), gather(4, "2.27.3", .5))
	almost(t, "known version", g.at(key, 4, 10, 27), (.5+.1*math.Exp(-4/versionWeightScale))/(1+math.Exp(-4/versionWeightScale)))
	almost(t, "half way", g.at(key, 4, 10, 25), .3)
	almost(t, "version not stated", g.at(key, 4, 10, math.NaN()), .3)
	almost(t, "far away", g.at(key, 4, 10, 5000), .1) // no weight left: the first curve
}

// TestASiblingTellsWhatAVersionChanges: own 2.23; the sibling says that 2.27 adds .2 to 2.23.
func TestASiblingTellsWhatAVersionChanges(t *testing.T) {
	lent := func(library string, r float64) hardware.Curve {
		c := gather(4, library, r)
		c.Sibling, c.Other = true, true
		return c
	}
	g := gridOf(gather(4, "2.23.4", .1), lent("2.23.4", -.3), lent("2.27.3", -.1))
	far := math.Exp(-4 / versionWeightScale)
	old, young := (-.3-.1*far)/(1+far), (-.1-.3*far)/(1+far)
	almost(t, "known version", g.at(key, 4, 10, 23), .1)
	almost(t, "new version", g.at(key, 4, 10, 27), .1+siblingShare*(young-old))
	almost(t, "version not stated", g.at(key, 4, 10, math.NaN()), .1)
	almost(t, "only the sibling measured", gridOf(lent("2.23.4", -.3)).at(key, 4, 10, 27), -.3)
}

// TestHybridReturnsTheMeasuredTime: without thinning and with one version, the profile returns its own (monotone) table.
func TestHybridReturnsTheMeasuredTime(t *testing.T) {
	gpu, err := catalog(t).GPU("h100_sxm")
	if err != nil {
		t.Fatal(err)
	}
	var pts []Point
	for _, op := range []parallel.Op{parallel.AllReduce, parallel.AllToAll} {
		for e := range 20 {
			us := 7 + 3*math.Sin(float64(e)*1.3)/5 + math.Exp2(float64(e))*512/3e5
			pts = append(pts, Point{Op: op, DType: "bf16", Ranks: 8, Bytes: 512 << e, Time: units.Micros(us), Library: "2.27.3"})
		}
	}
	var times []float64
	pr := NewPredictor(FitDomain(Target(gpu, "test"), pts, 0))
	for i := range pts {
		times = append(times, math.Log(pts[i].Time.Micros()))
		if i%20 == 19 {
			monotone(times)
			for k, v := range times {
				if got := pr.Predict(&pts[i-19+k]).Micros(); math.Abs(got/math.Exp(v)-1) > 2e-3 {
					t.Errorf("%v %v: got %.3f us, measured %.3f", pts[i].Op, pts[i-19+k].Bytes, got, math.Exp(v))
				}
			}
			times = times[:0]
		}
	}
}

func TestThinningKeepsWithinTolerance(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(rt, "n")
		tol := rapid.Float64Range(0, .1).Draw(rt, "tolerance")
		c := hardware.Curve{}
		x := 0.0
		for range n {
			x += rapid.Float64Range(.1, 2).Draw(rt, "step")
			c.Log2 = append(c.Log2, x)
			c.R = append(c.R, rapid.Float64Range(-.5, .5).Draw(rt, "r"))
		}
		th := thin(c, tol)
		if len(th.Log2) > n {
			rt.Fatal("grew")
		}
		for i := range c.Log2 {
			if d := math.Abs(curveAt(&th, c.Log2[i]) - c.R[i]); d > tol+1e-12 {
				rt.Fatalf("knot %d is off by %v, tolerance %v", i, d, tol)
			}
		}
	})
}

func TestMonotoneIsTheNearestRisingSequence(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		v := rapid.SliceOfN(rapid.Float64Range(-5, 5), 0, 30).Draw(rt, "v")
		m := append([]float64(nil), v...)
		monotone(m)
		sumV, sumM := 0.0, 0.0
		for i := range m {
			sumV += v[i]
			sumM += m[i]
			if i > 0 && m[i] < m[i-1]-1e-12 {
				rt.Fatalf("falls at %d: %v", i, m)
			}
		}
		if math.Abs(sumV-sumM) > 1e-9 {
			rt.Fatalf("the mean moved: %v became %v", sumV, sumM)
		}
	})
}

func TestSiblingsLendTheirCurves(t *testing.T) {
	ps := profiles(t)
	h100 := ps.Collective("h100_sxm")
	if len(h100.Siblings) == 0 {
		t.Fatal("h100_sxm has no sibling")
	}
	r := Resolve(ps, h100)
	if len(r.Curves) <= len(h100.Curves) || len(r.Siblings) != 0 {
		t.Errorf("%d curves became %d", len(h100.Curves), len(r.Curves))
	}
	// all_reduce on 8 GB200 was never measured (trays have 4): the form, with what B200 says.
	pr := NewPredictor(Resolve(ps, ps.Collective("gb200")))
	pt := Point{Op: parallel.AllReduce, Ranks: 8, Bytes: 1 << 20}
	if pr.Provenance(&pt) != Calibrated {
		t.Error("a sibling's curve is not a measurement of the system")
	}
}
