package collective

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"rankmap/internal/hardware"
	"rankmap/internal/parallel"
)

// CalibrationOptions adjust Calibrate.
type CalibrationOptions struct {
	Relation Provenance // what base is to the measured system, as BaseFor says
	FloorUs  float64    // the host's launch floor: eager points near it say nothing about the links
	Source   string     // goes into the profile: where the points come from
	// Profiles holds the network profiles; with it, points over several nodes adapt the profile of their network, which then
	// travels in the system's.
	Profiles *hardware.Profiles
}

// CalibrationReport says what Calibrate did and why.
type CalibrationReport struct {
	Points        int      // given
	Used          int      // measurements used, repeats merged
	Inside        int      // of those, inside the base's 80 % interval
	Refitted      bool     // the parameters changed
	Corrected     bool     // the correction changed
	Fabrics       []string // network profiles that changed
	Before, After float64  // median absolute error on the points, percent: base, and the result with each point left out
	GroupSizes    []int    // group sizes measured
	Notes         []string // what was left out and why; what to measure next
}

// largeSample is how many measurements are enough to refit even a profile whose interval holds
// (docs/collective-model.md, section 8).
const largeSample = 24

// Calibrate adapts a profile to measurements of its system and returns a copy. What it promises: it never makes a good
// profile worse. The parameters are fitted anew (in two stages) only if the points lie outside the profile's interval or
// are at least 24 (or if the profile is another generation's), only with two group sizes or more, and only if that predicts points left out better than the profile
// does. What the form then still misses at the measured sizes goes into the correction.
//
// Errors: no usable point; points of several systems.
func Calibrate(base *hardware.CollectiveProfile, points []Point, opts CalibrationOptions) (*hardware.CollectiveProfile, CalibrationReport, error) {
	rep := CalibrationReport{Points: len(points)}
	if base == nil || base.Domain == nil {
		return nil, rep, errors.New("no fitted profile to start from")
	}
	network := networkPoints(base, points, opts)
	used, err := usablePoints(base, points, opts, len(network) > 0, &rep)
	if err != nil {
		return nil, rep, err
	}
	if len(used) == 0 { // all over several nodes
		out := *base
		out.Fabrics = calibrateFabrics(&out, opts.Profiles, network, &rep)
		return &out, rep, nil
	}
	pr := NewPredictor(base)
	rep.Used = len(used)
	for i := range used {
		if !slices.Contains(rep.GroupSizes, used[i].Ranks) {
			rep.GroupSizes = append(rep.GroupSizes, used[i].Ranks)
		}
	}
	slices.Sort(rep.GroupSizes)
	rep.Inside = countInside(base, pr, used, opts.Relation)
	rep.Before = medianError(used, pr)

	out := *base
	if opts.Source != "" {
		out.Source = base.Source + "; calibrated with " + opts.Source
	}
	if wantRefit(&rep, opts.Relation) {
		if cand := refitProfile(&out, used); betterLeftOut(&out, used, opts.Relation) {
			out, rep.Refitted = *cand, true
		} else {
			rep.Notes = append(rep.Notes, "a refit predicts points left out no better than the profile: parameters kept")
		}
	}
	rep.Corrected = correct(&out, used, opts.Relation)
	after := make([]float64, 0, len(used))
	for i := range used {
		rest := slices.Delete(slices.Clone(used), i, i+1)
		c := *base
		if rep.Refitted {
			c = *refitProfile(&c, rest)
		}
		correct(&c, rest, opts.Relation)
		after = append(after, absError(NewPredictor(&c), &used[i]))
	}
	rep.After = median(after)
	out.Points = base.Points
	if rep.Refitted {
		out.Points = len(used)
		out.NotIdentified = nil
		retitleBands(&out, opts.Relation)
	}
	if len(network) > 0 {
		out.Fabrics = calibrateFabrics(&out, opts.Profiles, network, &rep)
	}
	return &out, rep, nil
}

// networkPoints keeps the points that the network profiles can learn from.
func networkPoints(base *hardware.CollectiveProfile, points []Point, opts CalibrationOptions) []Point {
	if opts.Profiles == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(points), func(p Point) bool {
		return p.nodes() < 2 || (p.System != "" && p.System != base.System) || p.NIC <= 0 || p.Fabric == "" || p.Bytes <= 0 || !(p.Time > 0) || p.Op > parallel.SendRecv
	})
}

// usablePoints keeps what the form inside a domain can learn from. network says that points over several nodes are used
// elsewhere.
func usablePoints(base *hardware.CollectiveProfile, points []Point, opts CalibrationOptions, network bool, rep *CalibrationReport) ([]Point, error) {
	pr := NewPredictor(base)
	var foreign, nodes, broken, host int
	kept := slices.DeleteFunc(slices.Clone(points), func(p Point) bool {
		switch {
		case p.System != "" && p.System != base.System:
			foreign++
		case p.nodes() > 1:
			nodes++
		case p.Ranks < 2 || p.Bytes <= 0 || !(p.Time > 0) || math.IsInf(float64(p.Time), 0) || p.Op > parallel.SendRecv:
			broken++
		case p.Launch == Eager && !p.SharesHost && opts.FloorUs > 0 && (pr.Predict(&p).Micros() < opts.FloorUs || p.Time.Micros() < 1.5*opts.FloorUs):
			host++
		default:
			return false
		}
		return true
	})
	note := func(n int, what string) {
		if n > 0 {
			rep.Notes = append(rep.Notes, fmt.Sprintf("%d points left out: %s", n, what))
		}
	}
	note(foreign, "measured on another system than "+base.System)
	if !network {
		note(nodes, "over several nodes")
	}
	note(broken, "one rank, no size or no time")
	note(host, "eager launches bound by the host")
	if len(kept) == 0 && !network {
		return nil, fmt.Errorf("none of %d points can calibrate %s", len(points), base.System)
	}
	for i := range kept {
		kept[i].System, kept[i].Launch, kept[i].SharesHost, kept[i].NIC, kept[i].Fabric = base.System, Graph, false, 0, ""
	}
	return mergeRepeats(kept), nil
}

// countInside counts points in the base's interval.
func countInside(base *hardware.CollectiveProfile, pr *Predictor, points []Point, relation Provenance) int {
	tables := map[Provenance]*bandTable{}
	n := 0
	for i := range points {
		pt := &points[i]
		prov := relation
		if prov == Measured {
			prov = pr.Provenance(pt)
		}
		if tables[prov] == nil {
			tables[prov] = newBandTable(base.Bands, prov)
		}
		b := tables[prov][pt.Op][classOf(pt.Bytes)]
		if d := math.Log(float64(pt.Time / pr.Predict(pt))); d >= b.low && d <= b.high {
			n++
		}
	}
	return n
}

// wantRefit applies the rule of thumb: points outside the interval, or many of them, or a profile of another generation,
// whose interval is too wide to be left; and two group sizes.
func wantRefit(rep *CalibrationReport, relation Provenance) bool {
	if len(rep.GroupSizes) < 2 {
		rep.Notes = append(rep.Notes, "one group size only: hops and launches cannot be told apart, parameters kept; measure 2 ranks and all ranks")
		return false
	}
	return relation >= OtherGen || rep.Used >= largeSample || 10*rep.Inside < 6*rep.Used
}

// refitProfile fits the parameters anew around those of p; the correction stays.
func refitProfile(p *hardware.CollectiveProfile, points []Point) *hardware.CollectiveProfile {
	c := *p
	pr := NewPredictor(p)
	predict := func(d *hardware.DomainParams, pt *Point) float64 {
		q := *pr
		q.form.Params = d
		return q.hybrid(pt.Op, pt.Ranks, float64(pt.Bytes), OneByte(pt.DType), pr.minorOf(pt.Library))
	}
	d := roundParams(domainParams, refit(*p.Domain, predict, points))
	c.Domain = &d
	return &c
}

// betterLeftOut leaves every k-th point out in turn and says whether the refit predicts those better than the profile.
func betterLeftOut(p *hardware.CollectiveProfile, points []Point, relation Provenance) bool {
	folds := min(len(points), 8)
	base := NewPredictor(p)
	var before, after float64
	for k := range folds {
		var in, out []Point
		for i := range points {
			if i%folds == k {
				out = append(out, points[i])
			} else {
				in = append(in, points[i])
			}
		}
		if len(in) == 0 {
			return false
		}
		pr := NewPredictor(refitProfile(p, in))
		for i := range out {
			before += math.Abs(softL1(math.Log(float64(base.Predict(&out[i])/out[i].Time)), softScale))
			after += math.Abs(softL1(math.Log(float64(pr.Predict(&out[i])/out[i].Time)), softScale))
		}
	}
	if relation >= OtherGen {
		return after < before // nothing speaks for the profile
	}
	return after < 0.95*before
}

func absError(pr *Predictor, pt *Point) float64 {
	return 100 * math.Abs(float64(pr.Predict(pt)/pt.Time)-1)
}

func medianError(points []Point, pr *Predictor) float64 {
	v := make([]float64, len(points))
	for i := range points {
		v[i] = absError(pr, &points[i])
	}
	return median(v)
}

// median of v, which it sorts; NaN when empty.
func median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	slices.Sort(v)
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}
