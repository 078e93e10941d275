package collective

import (
	"math"
	"testing"

	"rankmap/internal/hardware"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
)

// TestLevenbergFindsRosenbrock is the classical test: the minimum (1, 1) at the end of a bent valley.
func TestLevenbergFindsRosenbrock(t *testing.T) {
	f := func(x, r []float64) { r[0], r[1] = 10*(x[1]-x[0]*x[0]), 1-x[0] }
	x := []float64{-1.2, 1}
	cost := levenberg(f, 2, x, []float64{-5, -5}, []float64{5, 5}, 200)
	if cost > 1e-10 || math.Abs(x[0]-1) > 1e-4 || math.Abs(x[1]-1) > 1e-4 {
		t.Errorf("x %v, cost %v", x, cost)
	}
}

func TestLevenbergStaysWithinBounds(t *testing.T) {
	f := func(x, r []float64) { r[0], r[1] = x[0]-3, x[1]+2 }
	x := []float64{0, 0}
	levenberg(f, 2, x, []float64{-1, -1}, []float64{1, 1}, 100)
	if math.Abs(x[0]-1) > 1e-9 || math.Abs(x[1]+1) > 1e-9 {
		t.Errorf("x %v, want the corner (1, -1)", x)
	}
}

func TestLevenbergSurvivesNonsense(t *testing.T) {
	f := func(x, r []float64) { r[0] = math.NaN() }
	x := []float64{1}
	if cost := levenberg(f, 1, x, []float64{0}, []float64{2}, 50); !math.IsInf(cost, 1) {
		t.Errorf("cost %v of a residual that is not a number", cost)
	}
}

func TestSoftL1IsQuadraticThenLinear(t *testing.T) {
	if r := softL1(1e-4, .05); math.Abs(r-1e-4) > 1e-8 {
		t.Errorf("near zero: %v", r)
	}
	far := math.Pow(softL1(1, .05), 2) / math.Pow(softL1(2, .05), 2)
	if far < .45 || far > .55 {
		t.Errorf("twice as far costs %v times as little", far)
	}
	if softL1(-1, .05) != -softL1(1, .05) {
		t.Error("not odd")
	}
}

// TestFitRecoversItsOwnForm generates exact times from known parameters and fits them back.
func TestFitRecoversItsOwnForm(t *testing.T) {
	truth := priorCentre(domainParams)
	truth.B, truth.H, truth.EAR, truth.BS, truth.EA, truth.FAR, truth.FA = 5, .8, .87, 14, .7, .25, .1
	d := domainForm{Params: &truth, LinkGBps: 450, Multicast: true}
	var pts []Point
	for _, op := range []parallel.Op{parallel.AllReduce, parallel.AllGather, parallel.ReduceScatter, parallel.AllToAll} {
		for _, n := range []int{2, 4, 8} {
			for e := 9; e <= 29; e++ {
				p := Point{Op: op, DType: "bf16", Ranks: n, Bytes: units.Bytes(1) << e}
				p.Time = units.Micros(d.Micros(op, n, float64(p.Bytes), false))
				pts = append(pts, p)
			}
		}
	}
	fit := FitDomain(hardware.CollectiveProfile{System: "x", Link: "nvlink", LinkGBps: 450, Multicast: true}, pts, -1)
	worst := 0.0
	pr := NewPredictor(fit)
	for i := range pts {
		worst = math.Max(worst, math.Abs(math.Log(float64(pr.Physical(&pts[i])/pts[i].Time))))
	}
	if worst > .02 || math.Abs(fit.Domain.EAR/.87-1) > .02 || math.Abs(fit.Domain.B/5-1) > .02 {
		t.Errorf("worst residual %.3f, parameters %+v", worst, *fit.Domain)
	}
	if len(fit.NotIdentified) != 2 { // no one-byte type (q8) and no PCIe (xs) among the points
		t.Errorf("not identified: %v", fit.NotIdentified)
	}
}

func TestRoundingKeepsFourDigits(t *testing.T) {
	for v, want := range map[float64]float64{123456: 123500, 0.00123456: 0.001235, 1: 1, 0: 0, -9.99951: -10} {
		if got := signif(v, 4); math.Abs(got-want) > 1e-12*math.Abs(want) {
			t.Errorf("%v became %v, want %v", v, got, want)
		}
	}
}
