package validate

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"rankmap/internal/measured"
	"rankmap/internal/parallel"
)

func TestQuantile(t *testing.T) {
	v := []float64{1, 2, 3, 4, 5}
	for q, want := range map[float64]float64{0: 1, 0.5: 3, 1: 5, 0.25: 2, 0.1: 1.4} {
		if got := quantile(v, q); math.Abs(got-want) > 1e-12 {
			t.Errorf("quantile %v: %v, want %v", q, got, want)
		}
	}
	if quantile(nil, 0.5) != 0 || quantile([]float64{7}, 0.9) != 7 {
		t.Error("edges")
	}
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SliceOfN(rapid.Float64Range(0, 1e6), 1, 50).Draw(t, "v")
		sum := summarise(s)
		if sum.P10Us > sum.MedianUs || sum.MedianUs > sum.P90Us || sum.Repeats != len(s) ||
			sum.MeanUs < slices.Min(s)-1e-6 || sum.MeanUs > slices.Max(s)*(1+1e-12)+1e-6 {
			t.Fatalf("%+v of %v", sum, s)
		}
	})
}

func TestSlowestIsTheLastMember(t *testing.T) {
	got := slowest(map[int][]float64{0: {1, 5, 2}, 3: {4, 1, 2}, 7: {0, 0, 9}})
	if !slices.Equal(got, []float64{4, 5, 9}) {
		t.Errorf("got %v", got)
	}
}

func TestJudge(t *testing.T) {
	times := func(p10, med, p90 float64) measured.Times {
		return measured.Times{Repeats: 9, MedianUs: med, P10Us: p10, P90Us: p90, Spread: 100 * (p90 - p10) / med}
	}
	p := &Prediction{Us: 100, P10Us: 90, P90Us: 120}
	for _, c := range []struct {
		name  string
		t     measured.Times
		p     *Prediction
		wrong int64
		want  string
	}{
		{"inside", times(99, 100, 101), p, 0, measured.VerdictPass},
		{"on the upper edge", times(119, 120, 121), p, 0, measured.VerdictPass},
		{"above", times(120, 121, 122), p, 0, measured.VerdictSlow},
		{"below", times(79, 80, 81), p, 0, measured.VerdictFast},
		{"noisy", times(60, 100, 140), p, 0, measured.VerdictUnstable},
		{"noisy and above", times(200, 400, 600), p, 0, measured.VerdictUnstable},
		{"wrong though fast", times(1, 1, 1), p, 3, measured.VerdictFail},
		{"no prediction", times(99, 100, 101), nil, 0, measured.VerdictSkipped},
		{"empty prediction", times(99, 100, 101), &Prediction{}, 0, measured.VerdictSkipped},
		{"no interval", times(99, 100, 101), &Prediction{Us: 100}, 0, measured.VerdictSkipped},
		{"not measured", measured.Times{}, p, 0, measured.VerdictSkipped},
	} {
		got, why := judge(c.t, c.p, c.wrong)
		if got != c.want || (why == "") != (got == measured.VerdictPass) {
			t.Errorf("%s: %s %q, want %s", c.name, got, why, c.want)
		}
	}
	for _, v := range severityOrder {
		if verdictWords[v] == "" {
			t.Errorf("verdict %q has no word", v)
		}
	}
	if worst(nil) != measured.VerdictSkipped {
		t.Error("nothing is not a pass")
	}
}

func TestExitCode(t *testing.T) {
	row := func(name, verdict, required string) measured.ReportGroup {
		return measured.ReportGroup{Name: name, Verdict: verdict, Required: required, Times: measured.Times{Repeats: 1}}
	}
	slowSweep := row("", measured.VerdictSlow, "")
	pass := row("a", measured.VerdictPass, "")
	for _, c := range []struct {
		name     string
		rows     []measured.ReportGroup
		findings []string
		f        *failure
		required bool
		want     int
	}{
		{"all pass", []measured.ReportGroup{pass}, nil, nil, false, exitOK},
		{"the layout's own size is slow", []measured.ReportGroup{pass, row("b", measured.VerdictSlow, "")}, nil, nil, false, exitBelow},
		{"only a sweep size is slow", []measured.ReportGroup{pass, slowSweep}, nil, nil, false, exitOK},
		{"unstable", []measured.ReportGroup{row("b", measured.VerdictUnstable, "")}, nil, nil, false, exitBelow},
		{"nothing", nil, nil, nil, false, exitEnvironment},
		{"all skipped", []measured.ReportGroup{row("b", measured.VerdictSkipped, "")}, nil, nil, false, exitEnvironment},
		{"required and met, although the sweep is slow", []measured.ReportGroup{row("", measured.VerdictPass, "pass")}, nil, nil, true, exitOK},
		{"required and not met in the sweep", []measured.ReportGroup{row("", measured.VerdictSlow, "fail")}, nil, nil, true, exitBelow},
		{"required, nothing could be judged by it", []measured.ReportGroup{pass}, nil, nil, true, exitEnvironment},
		{"wrong data before everything", []measured.ReportGroup{row("", measured.VerdictFail, "")}, []string{"step-deadline"}, nil, false, exitBelow},
		{"first cause first", []measured.ReportGroup{pass}, []string{"rank-died", "step-deadline"}, nil, false, exitPartial},
		{"deadline", []measured.ReportGroup{pass}, []string{"root", "step-deadline"}, nil, false, exitDeadline},
		{"slow link", []measured.ReportGroup{pass}, []string{"slow-link"}, nil, false, exitBelow},
		{"interrupted", []measured.ReportGroup{pass}, []string{"interrupted"}, &failure{exit: exitTerminated}, false, exitTerminated},
	} {
		rep := &measured.Report{Groups: c.rows}
		for _, id := range c.findings {
			rep.Findings = append(rep.Findings, newFinding(id, "x"))
		}
		if got := exitCode(rep, c.f, c.required); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestSpecsAndUnits(t *testing.T) {
	f := family{kind: parallel.PP, groups: []JobGroup{
		{Members: []int{0, 2, 4}, Collectives: []JobCollective{coll("a", parallel.SendRecv, 64, 2), coll("b", parallel.SendRecv, 64, 2)}},
		{Members: []int{1, 3, 5}, Collectives: []JobCollective{coll("a", parallel.SendRecv, 128, 2)}},
	}}
	specs := f.specs([]int64{64, 1024})
	if len(specs) != 3 || specs[0].bytes != 64 || specs[1].bytes != 128 || specs[2].bytes != 1024 || !specs[2].sweep {
		t.Errorf("specs %+v", specs)
	}
	us := f.units(1, parallel.SendRecv)
	if len(us) != 4 || !slices.Equal(us[1].ranks, []int{2, 4}) || us[1].pair != [2]int{1, 2} || us[3].group != 1 {
		t.Errorf("units %+v", us)
	}
	if len(f.units(1, parallel.AllReduce)) != 2 || !slices.Equal(f.ranks(), []int{0, 1, 2, 3, 4, 5}) {
		t.Error("groups as units")
	}
	if c := f.together(1, specs[0]); c.Pair[0] != c.Pair[1] {
		t.Errorf("a chain of three: %+v", c)
	}
}

func TestNeighbours(t *testing.T) {
	for _, c := range []struct {
		pair     [2]int
		me, n    int
		to, from int
	}{
		{[2]int{0, 1}, 0, 2, 1, 1}, {[2]int{0, 1}, 1, 2, 0, 0}, {[2]int{1, 2}, 0, 3, -1, -1},
		{[2]int{}, 0, 3, 1, -1}, {[2]int{}, 1, 3, 2, 0}, {[2]int{}, 2, 3, -1, 1},
	} {
		if to, from := neighbours(call{Pair: c.pair}, member{me: c.me, n: c.n}); to != c.to || from != c.from {
			t.Errorf("%+v: to %d from %d", c, to, from)
		}
	}
}

func TestMixCountsByTheRarest(t *testing.T) {
	ar, aa := coll("x", parallel.AllReduce, 64, 2), coll("y", parallel.AllToAll, 64, 4)
	ar.TimesPerStep, aa.TimesPerStep = 160, 80
	odd := coll("only one stage", parallel.AllGather, 64, 2)
	fams := []family{
		{kind: parallel.TP, groups: []JobGroup{{Members: []int{0, 1}, Collectives: []JobCollective{ar, odd}}, {Members: []int{2, 3}, Collectives: []JobCollective{ar}}}},
		{kind: parallel.EP, groups: []JobGroup{{Members: []int{0, 1, 2, 3}, Collectives: []JobCollective{aa}}}},
	}
	fams[0].groups[0].Collectives[1].TimesPerStep = 0
	m := mixes(fams)
	if len(m) != 1 || len(m[0].calls) != 2 || m[0].calls[0].Times != 2 || m[0].calls[1].Times != 1 || !m[0].known {
		t.Fatalf("mix %+v", m)
	}
	if want := 2*ar.Predicted.Us + aa.Predicted.Us; math.Abs(m[0].expect.Us-want) > 1e-9 {
		t.Errorf("expected %v, want %v", m[0].expect.Us, want)
	}
	if n := innerFor(5.5, 500, 100); n != 91 {
		t.Errorf("inner %d", n)
	}
	if innerFor(0, 500, 100) != 100 || innerFor(1e6, 500, 100) != 1 {
		t.Error("inner at the edges")
	}
}
