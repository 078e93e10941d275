package main

import (
	"math"
	"testing"

	"rankmap/collective"
	"rankmap/configs"
	"rankmap/internal/hardware"
	"rankmap/internal/measured"
	"rankmap/internal/parallel"
	"rankmap/internal/testdata"
)

// loadAll reads the measured tables and fits every system on all of them.
func loadAll(t *testing.T) *dataset {
	t.Helper()
	rows, err := readRows(measured.ReadCollectives, testdata.Dir(t, "measured"), "public", "collectives.csv")
	if err != nil {
		t.Fatal(err)
	}
	d := &dataset{points: map[string][]collective.Point{}}
	if d.catalog, err = hardware.Load(configs.FS); err != nil {
		t.Fatal(err)
	}
	if d.profiles, err = hardware.LoadProfiles(configs.FS); err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		if p, ok := point(&rows[i]); ok {
			d.points[p.System] = append(d.points[p.System], p)
		}
	}
	for _, sys := range sortedKeys(d.points) {
		p, err := d.fit(sys, d.points[sys])
		if err != nil {
			t.Fatal(err)
		}
		d.profiles = d.profiles.With(p)
	}
	return d
}

// TestCrossValidation holds the errors that docs/accuracy.md claims: percent, median and 90th percentile, of measurements
// that took no part in the fit.
func TestCrossValidation(t *testing.T) {
	if testing.Short() {
		t.Skip("fits some hundred profiles")
	}
	fs, err := loadAll(t).crossValidate()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		f           *fold
		median, p90 float64
	}{
		{fs.run, 1.2, 6.5}, {fs.version, 4.9, 14}, {fs.ranks4, 3, 12}, {fs.ranks2, 5, 16.5}, {fs.ranks8, 5.5, 21}, {fs.sibling, 4, 12},
		{fs.generation8, 5.4, 17}, {fs.generation24, 4.5, 15},
	} {
		n, m, p := summary(c.f.res)
		t.Logf("%-34s %6d %6.1f%% %6.1f%%", c.f.name, n, m, p)
		if n < 1000 || m > c.median || p > c.p90 {
			t.Errorf("%s: %d points, %.1f / %.1f %%, want at most %.1f / %.1f", c.f.name, n, m, p, c.median, c.p90)
		}
	}
}

// TestShippedProfilesAreThoseOfTheTables: the files in configs are what the fit gives today.
func TestShippedProfilesAreThoseOfTheTables(t *testing.T) {
	d := loadAll(t)
	shipped, err := hardware.LoadProfiles(configs.FS)
	if err != nil {
		t.Fatal(err)
	}
	for sys, points := range d.points {
		want, got := d.profiles.Collective(sys), shipped.Collective(sys)
		if got == nil || got.Domain == nil {
			t.Errorf("%s is not shipped", sys)
			continue
		}
		a, b := collective.NewPredictor(want), collective.NewPredictor(got)
		for i := range points {
			if r := float64(a.Predict(&points[i]) / b.Predict(&points[i])); math.Abs(r-1) > 0.01 {
				t.Errorf("%s: %v of %v on %d differs by %.1f %%: run make profiles", sys, points[i].Op, points[i].Bytes, points[i].Ranks, 100*(r-1))
				break
			}
		}
	}
}

func TestQuantiles(t *testing.T) {
	var v []weighted
	for i := 1; i <= 10; i++ {
		v = append(v, weighted{float64(i), 1})
	}
	if low, high := quantiles(v); low != 1 || high != 9 {
		t.Errorf("%v %v", low, high)
	}
	v[9].weight = 1000
	if low, high := quantiles(v); low != 10 || high != 10 {
		t.Errorf("a heavy point: %v %v", low, high)
	}
	if q := quantile([]float64{3, 1, 2}, 0.5); q != 2 {
		t.Error(q)
	}
	if !math.IsNaN(quantile(nil, 0.5)) {
		t.Error("quantile of nothing")
	}
}

func TestBandOfFewOwnPointsLeansOnOthers(t *testing.T) {
	f := &fold{}
	for i := range 200 {
		f.res = append(f.res, residual{"other", "other", parallel.AllReduce, "small", 8, 0.2 * math.Sin(float64(i))})
	}
	wide, ok := band([]bandSource{{f, 1}}, "own", parallel.AllReduce, "small")
	if !ok || wide.High < 0.15 {
		t.Errorf("%+v %v", wide, ok)
	}
	for i := range 400 {
		f.res = append(f.res, residual{"own", "own", parallel.AllReduce, "small", 8, 0.02 * math.Sin(float64(i))})
	}
	narrow, _ := band([]bandSource{{f, 1}}, "own", parallel.AllReduce, "small")
	if narrow.High > 0.05 || narrow.High < 0.01 {
		t.Errorf("%+v", narrow)
	}
	if _, ok := band([]bandSource{{f, 1}}, "own", parallel.AllGather, "small"); ok {
		t.Error("a band from nothing")
	}
}

func TestRepeatIndex(t *testing.T) {
	p := collective.Point{Op: parallel.AllReduce, Ranks: 2, Bytes: 8, Time: 1}
	q := p
	q.Time = 2
	once := p
	once.Bytes = 16
	index, most := repeatIndex([]collective.Point{p, once, q})
	if most != 1 || index[0] != 0 || index[1] != -1 || index[2] != 1 {
		t.Errorf("%v %d", index, most)
	}
}
