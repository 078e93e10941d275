package main

import (
	"math"

	"rankmap/collective"
	"rankmap/internal/hardware"
	"rankmap/internal/parallel"
)

// Cross-validation: what each kind of prediction misses on measurements that took no part in its fit. Intervals and the
// score both come from these residuals, never from a fit's own.

// residual is ln(measured/predicted) of one measurement left out.
type residual struct {
	system  string // that was predicted; bands pool by profile
	profile string // that predicted it
	op      parallel.Op
	size    string
	ranks   int
	log     float64
}

// fold is one kind of leaving out.
type fold struct {
	name string
	res  []residual
}

func (f *fold) add(pr *collective.Predictor, profile string, pt *collective.Point) {
	f.res = append(f.res, residual{pt.System, profile, pt.Op, collective.SizeClass(pt.Bytes), pt.Ranks, math.Log(float64(pt.Time / pr.Predict(pt)))})
}

// folds holds every kind.
type folds struct {
	run, version, ranks4, ranks2, ranks8, sibling, generation, generation8, generation24 *fold
}

// dataset is the measured points of every system, and what is known of each.
type dataset struct {
	points   map[string][]collective.Point
	catalog  *hardware.Catalog
	profiles *hardware.Profiles // fitted on everything
}

// fit fits one system to points, with its siblings' curves.
func (d *dataset) fit(system string, points []collective.Point) (*hardware.CollectiveProfile, error) {
	gpu, err := d.catalog.GPU(system)
	if err != nil {
		return nil, err
	}
	t := collective.Target(gpu, source)
	t.Siblings = siblings[system]
	return collective.FitDomain(t, points, collective.DefaultTolerance), nil
}

// predictor fits points and resolves siblings, which are fitted on all of theirs.
func (d *dataset) predictor(system string, points []collective.Point, alone bool) (*collective.Predictor, error) {
	p, err := d.fit(system, points)
	if err != nil {
		return nil, err
	}
	if alone {
		p.Siblings = nil
	}
	return collective.NewPredictor(collective.Resolve(d.profiles, p)), nil
}

// leave fits without the chosen points of each system and predicts them. Operations that are not among the rest are not
// scored.
func (d *dataset) leave(name string, alone bool, systems []string, out func(p *collective.Point) bool) (*fold, error) {
	f := &fold{name: name}
	for _, sys := range systems {
		var train, test []collective.Point
		for i := range d.points[sys] {
			if p := d.points[sys][i]; out(&p) {
				test = append(test, p)
			} else {
				train = append(train, p)
			}
		}
		if len(train) == 0 || len(test) == 0 {
			continue
		}
		pr, err := d.predictor(sys, train, alone)
		if err != nil {
			return nil, err
		}
		trained := map[parallel.Op]bool{}
		for i := range train {
			trained[train[i].Op] = true
		}
		for i := range test {
			if trained[test[i].Op] {
				f.add(pr, sys, &test[i])
			}
		}
	}
	return f, nil
}

// versions leaves each library version of each system out in turn.
func (d *dataset) versions(systems []string) (*fold, error) {
	all := &fold{name: "one library version left out"}
	for _, sys := range systems {
		seen := map[string]bool{}
		for i := range d.points[sys] {
			v := d.points[sys][i].Library
			if seen[v] {
				continue
			}
			seen[v] = true
			f, err := d.leave("", false, []string{sys}, func(p *collective.Point) bool { return p.Library == v })
			if err != nil {
				return nil, err
			}
			all.res = append(all.res, f.res...)
		}
	}
	return all, nil
}

// runs leaves each repeat of every measurement out in turn: a new run of a version that was measured.
func (d *dataset) runs() (*fold, error) {
	all := &fold{name: "one run left out"}
	for _, sys := range sortedKeys(d.points) {
		index, most := repeatIndex(d.points[sys])
		for r := 0; most > 0 && r <= most; r++ {
			i := -1
			f, err := d.leave("", false, []string{sys}, func(*collective.Point) bool { i++; return index[i] == r })
			if err != nil {
				return nil, err
			}
			all.res = append(all.res, f.res...)
		}
	}
	return all, nil
}

// repeatIndex numbers the repeats of each measurement, -1 for what was measured once.
func repeatIndex(points []collective.Point) (index []int, most int) {
	count := map[collective.Point]int{}
	index = make([]int, len(points))
	key := func(p collective.Point) collective.Point { p.Time = 0; return p }
	for i, p := range points {
		index[i] = count[key(p)]
		count[key(p)]++
		most = max(most, index[i])
	}
	for i, p := range points {
		if count[key(p)] == 1 {
			index[i] = -1
		}
	}
	return index, most
}

// pairs predicts each system from another one's profile, as plans do for GPUs without measurements.
func (d *dataset) pairs(name string, pairs [][2]string, sibling bool, pick func([]collective.Point) (in, out []collective.Point)) (*fold, error) {
	f := &fold{name: name}
	for _, pair := range pairs {
		from, err := d.fit(pair[0], d.points[pair[0]])
		if err != nil {
			return nil, err
		}
		from.Siblings = nil // the target may be one
		gpu, err := d.catalog.GPU(pair[1])
		if err != nil {
			return nil, err
		}
		p := collective.Transfer(from, gpu, sibling)
		test := d.points[pair[1]]
		if pick != nil {
			var in []collective.Point
			in, test = pick(test)
			if p, _, err = collective.Calibrate(p, in, collective.CalibrationOptions{Relation: collective.OtherGen}); err != nil {
				return nil, err
			}
		}
		pr := collective.NewPredictor(p)
		for i := range test {
			f.add(pr, pair[0], &test[i])
		}
	}
	return f, nil
}

// siblingPairs and generationPairs are (profile of, used for); generations are neighbours in time.
var (
	siblingPairs    = [][2]string{{"h100_sxm", "h200_sxm"}, {"h200_sxm", "h100_sxm"}, {"b200_sxm", "gb200"}, {"gb200", "b200_sxm"}}
	generationPairs = [][2]string{{"a100_sxm", "h100_sxm"}, {"a100_sxm", "h200_sxm"}, {"h100_sxm", "a100_sxm"}, {"h200_sxm", "a100_sxm"},
		{"h100_sxm", "b200_sxm"}, {"h200_sxm", "b200_sxm"}, {"h100_sxm", "gb200"}, {"h200_sxm", "gb200"}}
)

// pickSizes chooses calibration points as a user would measure them: the operations at 2 and at all ranks, one type, one
// library version (the one with most measurements), four sizes from 4 KiB to 512 MiB.
func pickSizes(ops ...parallel.Op) func([]collective.Point) (in, out []collective.Point) {
	return func(points []collective.Point) (in, out []collective.Point) {
		most, count := 0, map[string]int{}
		library := ""
		for _, p := range points {
			most = max(most, p.Ranks)
			if count[p.Library]++; count[p.Library] > count[library] {
				library = p.Library
			}
		}
		taken := map[collective.Point]bool{}
		for _, p := range points {
			key := p
			key.Time = 0
			size := p.Bytes == 4<<10 || p.Bytes == 1<<20 || p.Bytes == 32<<20 || p.Bytes == 512<<20
			wanted := false
			for _, op := range ops {
				wanted = wanted || p.Op == op
			}
			if wanted && size && (p.Ranks == 2 || p.Ranks == most) && !collective.OneByte(p.DType) && p.Library == library && !taken[key] {
				taken[key] = true
				in = append(in, p)
			} else {
				out = append(out, p)
			}
		}
		return in, out
	}
}

// crossValidate runs every kind of leaving out.
func (d *dataset) crossValidate() (*folds, error) {
	var fs folds
	all := sortedKeys(d.points)
	var errs [9]error
	fs.version, errs[0] = d.versions([]string{"h100_sxm", "h200_sxm", "b200_sxm"})
	fs.run, errs[1] = d.runs()
	ranks := func(n int) func(*collective.Point) bool {
		return func(p *collective.Point) bool { return p.Ranks == n }
	}
	fs.ranks4, errs[2] = d.leave("4 ranks left out", true, all, ranks(4))
	fs.ranks2, errs[3] = d.leave("2 ranks left out", true, all, ranks(2))
	fs.ranks8, errs[4] = d.leave("8 ranks left out", true, all, ranks(8))
	fs.sibling, errs[5] = d.pairs("sibling's profile", siblingPairs, true, nil)
	fs.generation, errs[6] = d.pairs("other generation", generationPairs, false, nil)
	fs.generation8, errs[7] = d.pairs("other generation, 8 points", generationPairs, false, pickSizes(parallel.AllReduce))
	fs.generation24, errs[8] = d.pairs("other generation, 24 points", generationPairs, false, pickSizes(parallel.AllReduce, parallel.AllGather, parallel.AllToAll))
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return &fs, nil
}
