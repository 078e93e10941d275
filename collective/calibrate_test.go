package collective

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"rankmap/internal/hardware"
	"rankmap/internal/measured"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
)

// errorOf is the median absolute error of a profile on points, percent.
func errorOf(p *hardware.CollectiveProfile, points []Point) float64 {
	pr := NewPredictor(p)
	return medianError(points, pr)
}

// TestCalibrateOnOwnH200 calibrates on 8 of the 24 sizes that nccl-tests measured with graph launches on a 2 x H200 machine and
// predicts the others.
func TestCalibrateOnOwnH200(t *testing.T) {
	rows := measuredRows(t, measured.ReadNCCLTests, "measured", "h200-x2", "nccl-tests", "nt_all_reduce_graph.txt")
	var in, out []Point
	for i, r := range rows {
		p := Point{Op: r.Op, DType: r.DType, Ranks: 2, Bytes: r.Bytes, Time: r.Time, Library: r.Version, Launch: Graph}
		if i%3 == 1 {
			in = append(in, p)
		} else {
			out = append(out, p)
		}
	}
	if len(in) < 8 {
		t.Fatalf("only %d rows", len(rows))
	}
	gpu, err := catalog(t).GPU("h200_sxm")
	if err != nil {
		t.Fatal(err)
	}
	base, relation, err := BaseFor(profiles(t), gpu)
	if err != nil {
		t.Fatal(err)
	}
	p, rep, err := Calibrate(base, in, CalibrationOptions{Relation: relation})
	if err != nil {
		t.Fatal(err)
	}
	before, after := errorOf(base, out), errorOf(p, out)
	t.Logf("other sizes: %.1f %% before, %.1f %% after; %+v", before, after, rep)
	if after > 5 || after > before+1 {
		t.Errorf("other sizes are off by %.1f %% (before: %.1f %%)", after, before)
	}
	if rep.Refitted {
		t.Error("one group size must not refit the parameters")
	}
}

// TestCalibrationNeverSpoils calibrates each system's own profile (fitted without the library version that the points are
// of, where there are several) and its sibling's on random points, and scores the rest.
func TestCalibrationNeverSpoils(t *testing.T) {
	data := ncclPoints(t)
	cat := catalog(t)
	for _, pair := range [][2]string{{"h100_sxm", "h100_sxm"}, {"h200_sxm", "h100_sxm"}, {"gb200", "b200_sxm"}, {"b200_sxm", "gb200"}, {"a100_sxm", "h100_sxm"}} {
		gpu, err := cat.GPU(pair[1])
		if err != nil {
			t.Fatal(err)
		}
		own, _ := cat.GPU(pair[0])
		relation := Sibling
		base := FitDomain(Target(own, "test"), data[pair[0]], DefaultTolerance)
		switch {
		case pair[0] == pair[1]:
			relation = Measured
		case pair[0] == "a100_sxm":
			relation = OtherGen
			base = Transfer(base, gpu, false)
		default:
			base = Transfer(base, gpu, true)
		}
		for _, k := range []int{8, 24} {
			for seed := range uint64(2) {
				in, out := randomPoints(data[pair[1]], k, seed)
				p, rep, err := Calibrate(base, in, CalibrationOptions{Relation: relation})
				if err != nil {
					t.Fatal(err)
				}
				before, after := errorOf(base, out), errorOf(p, out)
				t.Logf("%s from %s, %d points, seed %d: %.1f -> %.1f %% (refitted %v, inside %d of %d)", pair[1], pair[0], k, seed, before, after, rep.Refitted, rep.Inside, rep.Used)
				if after > before*1.15+0.5 {
					t.Errorf("%s from %s, %d points, seed %d: %.1f became %.1f %%", pair[1], pair[0], k, seed, before, after)
				}
			}
		}
	}
}

func randomPoints(points []Point, k int, seed uint64) (in, out []Point) {
	r := rand.New(rand.NewPCG(seed, 1))
	for i, j := range r.Perm(len(points)) {
		if i < k {
			in = append(in, points[j])
		} else {
			out = append(out, points[j])
		}
	}
	return in, out
}

// TestCalibrationHealsAnotherGeneration is the recommended measurement: all_reduce on 2 and on all ranks, four sizes.
func TestCalibrationHealsAnotherGeneration(t *testing.T) {
	data := ncclPoints(t)
	cat := catalog(t)
	for _, pair := range [][2]string{{"a100_sxm", "h200_sxm"}, {"h100_sxm", "gb200"}} {
		own, _ := cat.GPU(pair[0])
		gpu, _ := cat.GPU(pair[1])
		base := Transfer(FitDomain(Target(own, "test"), data[pair[0]], DefaultTolerance), gpu, false)
		var in, out []Point
		most := 8
		if pair[1] == "gb200" {
			most = 4
		}
		for _, p := range data[pair[1]] {
			size := p.Bytes == 4<<10 || p.Bytes == 1<<20 || p.Bytes == 32<<20 || p.Bytes == 512<<20
			if p.Op == parallel.AllReduce && size && !OneByte(p.DType) && (p.Ranks == 2 || p.Ranks == most) {
				in = append(in, p)
			} else {
				out = append(out, p)
			}
		}
		p, rep, err := Calibrate(base, in, CalibrationOptions{Relation: OtherGen})
		if err != nil {
			t.Fatal(err)
		}
		before, after := errorOf(base, out), errorOf(p, out)
		t.Logf("%s from %s: %.1f -> %.1f %% with %d measurements", pair[1], pair[0], before, after, rep.Used)
		if !rep.Refitted || after > 7 || before < 15 {
			t.Errorf("%s from %s: %.1f -> %.1f %%, refitted %v", pair[1], pair[0], before, after, rep.Refitted)
		}
	}
}

// synthetic makes points that follow a profile with every time scaled.
func synthetic(p *hardware.CollectiveProfile, factor float64, ranks ...int) []Point {
	pr := NewPredictor(p)
	var out []Point
	for _, op := range []parallel.Op{parallel.AllReduce, parallel.AllToAll} {
		for _, n := range ranks {
			for e := 10; e <= 28; e += 6 {
				pt := Point{Op: op, DType: "bf16", Ranks: n, Bytes: units.Bytes(1) << e, Launch: Graph}
				pt.Time = pr.Predict(&pt) * units.Duration(factor)
				out = append(out, pt)
			}
		}
	}
	return out
}

func TestPointsInsideTheIntervalChangeNoParameters(t *testing.T) {
	base := Resolve(profiles(t), profiles(t).Collective("h100_sxm"))
	p, rep, err := Calibrate(base, synthetic(base, 1.005, 2, 8), CalibrationOptions{Relation: Measured})
	if err != nil {
		t.Fatal(err)
	}
	if rep.Refitted || *p.Domain != *base.Domain || rep.Inside != rep.Used {
		t.Errorf("%+v", rep)
	}
}

func TestPointsOutsideTheIntervalDo(t *testing.T) {
	base := Resolve(profiles(t), profiles(t).Collective("h100_sxm"))
	p, rep, err := Calibrate(base, synthetic(base, 1.4, 2, 8), CalibrationOptions{Relation: Measured})
	if err != nil {
		t.Fatal(err)
	}
	if !rep.Refitted || rep.Before < 25 || rep.After > 5 {
		t.Errorf("%+v", rep)
	}
	pt := Point{Op: parallel.AllGather, Ranks: 4, Bytes: 1 << 16}
	if r := float64(NewPredictor(p).Predict(&pt) / NewPredictor(base).Predict(&pt)); r < 1.2 || r > 1.6 {
		t.Errorf("an operation that was not measured must follow: %.2f times the base", r)
	}
}

func TestUnusablePointsAreCounted(t *testing.T) {
	base := profiles(t).Collective("h100_sxm")
	good := synthetic(base, 1, 2)
	bad := []Point{
		{System: "a100_sxm", Op: parallel.AllReduce, Ranks: 2, Bytes: 8, Time: 1e-5},
		{Op: parallel.AllReduce, Ranks: 16, Nodes: 2, Bytes: 8, Time: 1e-5},
		{Op: parallel.AllReduce, Ranks: 1, Bytes: 8, Time: 1e-5},
		{Op: parallel.AllReduce, Ranks: 2, Bytes: 8, Time: units.Duration(math.NaN())},
		{Op: parallel.AllReduce, Ranks: 2, Bytes: 8, Time: 20e-6, Launch: Eager},
	}
	_, rep, err := Calibrate(base, append(bad, good...), CalibrationOptions{Relation: Measured, FloorUs: 18})
	if err != nil {
		t.Fatal(err)
	}
	notes := strings.Join(rep.Notes, "; ")
	for _, want := range []string{"another system", "several nodes", "2 points left out: one rank", "bound by the host", "one group size"} {
		if !strings.Contains(notes, want) {
			t.Errorf("notes %q lack %q", notes, want)
		}
	}
	if _, _, err := Calibrate(base, bad, CalibrationOptions{FloorUs: 18}); err == nil {
		t.Error("no usable point must be an error")
	}
	if _, _, err := Calibrate(nil, good, CalibrationOptions{}); err == nil {
		t.Error("no profile must be an error")
	}
}
