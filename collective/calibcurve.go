package collective

import (
	"cmp"
	"math"
	"slices"

	"rankmap/internal/hardware"
	"rankmap/internal/parallel"
)

// Corrections from few points: what the profile misses at the measured sizes is added to its correction there, fades out
// beyond the first and last size, and is left alone at other group sizes but for the usual interpolation.

const (
	fadeOctaves    = 3.0   // octaves of size over which an added correction fades to nothing
	pointNoise     = 0.03  // spread of one timing around the mean of many (published repeats: median 1.4 %, p90 8.7 %)
	smoothOctaves  = 0.4   // octaves over which residuals are averaged
	curveTolerance = 0.004 // thinning, in logarithms
)

// curveID is what a correction belongs to.
type curveID struct {
	op      parallel.Op
	oneByte bool
	ranks   int
}

func (id curveID) is(c *hardware.Curve) bool {
	return c.Op == id.op.String() && c.Ranks == id.ranks && c.Byte == id.oneByte
}

// correct adds what the points say to the corrections of their operations, group sizes and type classes. relation tells
// which of the profile's intervals applies: the wider it is, the more a point counts against it.
func correct(p *hardware.CollectiveProfile, points []Point, relation Provenance) (changed bool) {
	groups := map[curveID][]Point{}
	var order []curveID
	for _, pt := range points {
		id := curveID{pt.Op, typed(pt.Op) && OneByte(pt.DType), pt.Ranks}
		if groups[id] == nil {
			order = append(order, id)
		}
		groups[id] = append(groups[id], pt)
	}
	pr := NewPredictor(p)
	curves := slices.Clone(p.Curves)
	p.Ranks = slices.Clone(p.Ranks)
	for _, id := range order {
		added := addedCurve(p, pr, id, groups[id], relation)
		own := false
		for i := range curves {
			if id.is(&curves[i]) && !curves[i].Other {
				curves[i], own = bend(curves[i], &added), true
			}
		}
		if !own {
			library := groups[id][0].Library
			c := sampled(pr, id, pr.minorOf(library))
			c.Library = library
			curves = slices.DeleteFunc(curves, func(o hardware.Curve) bool { return id.is(&o) })
			curves = append(curves, bend(c, &added))
			if library != "" && !slices.Contains(p.Libraries, library) {
				p.Libraries = append(slices.Clone(p.Libraries), library)
				slices.SortFunc(p.Libraries, compareVersions)
			}
		}
		if !slices.Contains(p.Ranks, id.ranks) {
			p.Ranks = append(p.Ranks, id.ranks)
		}
		changed = true
	}
	slices.Sort(p.Ranks)
	p.Curves = curves
	return changed
}

// addedCurve is what the points say on top of the profile: the mean of their residuals around each size, against a
// residual of 0 that counts by how certain the profile was there (interval) against the noise of a timing.
func addedCurve(p *hardware.CollectiveProfile, pr *Predictor, id curveID, pts []Point, relation Provenance) hardware.Curve {
	slices.SortStableFunc(pts, func(a, b Point) int { return cmp.Compare(a.Bytes, b.Bytes) })
	x, r, doubt := make([]float64, len(pts)), make([]float64, len(pts)), make([]float64, len(pts))
	for i := range pts {
		prov := relation
		if prov == Measured {
			prov = pr.Provenance(&pts[i])
		}
		band := newBandTable(p.Bands, prov)[id.op][classOf(pts[i].Bytes)]
		x[i] = decimals(math.Log2(float64(pts[i].Bytes)), 4)
		r[i] = math.Log(float64(pts[i].Time / pr.Predict(&pts[i])))
		// The sigma of a normal distribution with these p10 and p90; a point far outside says that the interval was wrong.
		sigma := math.Max((band.high-band.low)/2.56, math.Abs(r[i])/2.56)
		doubt[i] = pointNoise * pointNoise / (sigma * sigma)
	}
	var c hardware.Curve
	for i := range pts {
		if n := len(c.Log2); n > 0 && x[i]-c.Log2[n-1] < 1e-3 {
			continue // a repeat: it counts in the mean
		}
		sum, weight := 0.0, doubt[i]
		for k := range pts {
			d := (x[k] - x[i]) / smoothOctaves
			w := math.Exp(-d * d / 2)
			sum += w * r[k]
			weight += w
		}
		c.Log2, c.R = append(c.Log2, x[i]), append(c.R, sum/weight)
	}
	first, last := c.Log2[0], c.Log2[len(c.Log2)-1]
	c.Log2 = append(append([]float64{first - fadeOctaves}, c.Log2...), last+fadeOctaves)
	c.R = append(append([]float64{0}, c.R...), 0)
	return c
}

// sampled is the profile's correction of one operation and group size as one curve.
func sampled(pr *Predictor, id curveID, minor float64) hardware.Curve {
	c := hardware.Curve{Op: id.op.String(), Ranks: id.ranks, Byte: id.oneByte}
	for x := 3.0; x <= 34; x++ {
		c.Log2 = append(c.Log2, x)
		c.R = append(c.R, pr.grid.at(gridKey{id.op, id.oneByte}, id.ranks, x, minor))
	}
	return c
}

// bend adds one curve to another.
func bend(c hardware.Curve, added *hardware.Curve) hardware.Curve {
	knots := append(slices.Clone(c.Log2), added.Log2...)
	slices.Sort(knots)
	knots = slices.Compact(knots)
	out := c
	out.Log2, out.R = nil, nil
	for _, x := range knots {
		r := curveAt(&c, x) + curveAt(added, x)
		out.Log2, out.R = append(out.Log2, x), append(out.R, decimals(math.Min(math.Max(r, -5), 5), 4))
	}
	return thin(out, curveTolerance)
}

// retitleBands gives a refitted profile the intervals of a calibration with few points.
func retitleBands(p *hardware.CollectiveProfile, relation Provenance) {
	if relation == Measured {
		return
	}
	var bands []hardware.Band
	for _, b := range p.Bands {
		if b.Provenance == "few" {
			for _, name := range []string{"measured", "version", "calibrated"} {
				b.Provenance = name
				bands = append(bands, b)
			}
		}
	}
	p.Bands = bands
}
