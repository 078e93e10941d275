package collective

import (
	"math"
	"slices"
	"sort"

	"rankmap/internal/hardware"
	"rankmap/internal/parallel"
)

// The correction r(S, n) = ln(measured/physical): what physics cannot know (protocol switches that the library's tuner
// gets wrong, version changes). docs/collective-model.md, section 3. Never times are interpolated, only this ratio.

// gridKey selects the curves of one operation and type class.
type gridKey struct {
	op      parallel.Op
	oneByte bool
}

// gridRank holds the curves of one group size, one for each library: the system's own and its siblings'.
type gridRank struct {
	n        int
	log2N    float64
	own, sib []versioned
}

// versioned is a curve with the minor version of its library, NaN when unknown.
type versioned struct {
	hardware.Curve
	minor float64
}

// grid is the correction of one profile.
type grid [2 * numGridOps][]gridRank

const numGridOps = int(parallel.SendRecv) + 1

func (k gridKey) index() int {
	i := 2 * int(k.op)
	if k.oneByte && typed(k.op) {
		i++
	}
	return i
}

// newGrid indexes curves. Unknown operations are left out.
func newGrid(curves []hardware.Curve) *grid {
	g := new(grid)
	for _, c := range curves {
		var op parallel.Op
		if op.UnmarshalText([]byte(c.Op)) != nil || len(c.Log2) == 0 || len(c.Log2) != len(c.R) {
			continue
		}
		i := gridKey{op, c.Byte}.index()
		at := slices.IndexFunc(g[i], func(r gridRank) bool { return r.n == c.Ranks })
		if at < 0 {
			g[i] = append(g[i], gridRank{n: c.Ranks, log2N: math.Log2(float64(c.Ranks))})
			at = len(g[i]) - 1
		}
		minor := math.NaN()
		if m, ok := minorVersion(c.Library); ok {
			minor = float64(m)
		}
		if c.Sibling {
			g[i][at].sib = append(g[i][at].sib, versioned{c, minor})
		} else {
			g[i][at].own = append(g[i][at].own, versioned{c, minor})
		}
	}
	for i := range g {
		sort.Slice(g[i], func(a, b int) bool { return g[i][a].n < g[i][b].n })
	}
	return g
}

// at returns r for n ranks and a size, for a library whose minor version is minor (NaN: all alike). A group size that was
// not measured takes its neighbours' r at the same bytes a rank, S/n, which is what the library's thresholds look at
// (leaving n = 4 out: 2.8 % median error, 3.3 % at the same S). It allocates nothing.
func (g *grid) at(k gridKey, n int, log2Bytes, minor float64) float64 {
	ranks := g[k.index()]
	if len(ranks) == 0 {
		return 0
	}
	chunk := log2Bytes - math.Log2(float64(n))
	for i := range ranks {
		r := &ranks[i]
		if n == r.n {
			return r.at(log2Bytes, minor)
		}
		if n < r.n {
			if i == 0 {
				return r.at(chunk+r.log2N, minor) * float64(n) / float64(r.n) // exp(-|ln(n/edge)|)
			}
			l := &ranks[i-1]
			f := (math.Log2(float64(n)) - l.log2N) / (r.log2N - l.log2N)
			return (1-f)*l.at(chunk+l.log2N, minor) + f*r.at(chunk+r.log2N, minor)
		}
	}
	edge := &ranks[len(ranks)-1]
	return edge.at(chunk+edge.log2N, minor) * float64(edge.n) / float64(n)
}

// siblingShare is how much of the difference that a sibling shows between two library versions is believed here. With none,
// leaving a version of H100 or H200 out gives 7.2 % median error, with half 4.0 %, with three quarters or all 2.8 %.
const siblingShare = 0.8

// at is the mean over the libraries, nearer versions counting more, moved by what a sibling says that the versions differ:
// r(v) = own(v) + share (sib(v) - sib(the versions that own rests on)). What is constant between the two systems cancels.
func (r *gridRank) at(log2Bytes, minor float64) float64 {
	if len(r.own) == 0 {
		return meanAt(r.sib, log2Bytes, minor)
	}
	v := meanAt(r.own, log2Bytes, minor)
	if len(r.sib) == 0 || math.IsNaN(minor) {
		return v
	}
	sum, weight := 0.0, 0.0
	for i := range r.own {
		w := weightOf(minor, r.own[i].minor)
		sum += w * meanAt(r.sib, log2Bytes, r.own[i].minor)
		weight += w
	}
	if weight < minWeight {
		return v
	}
	return v + siblingShare*(meanAt(r.sib, log2Bytes, minor)-sum/weight)
}

// minWeight is where weights are no longer told apart.
const minWeight = 1e-300

// weightOf is how much a measurement of one minor version tells about another.
func weightOf(want, have float64) float64 {
	if d := want - have; !math.IsNaN(d) {
		return math.Exp(-math.Abs(d) / versionWeightScale)
	}
	return 1
}

// meanAt is the mean of some curves, nearer versions counting more; 0 of none.
func meanAt(curves []versioned, log2Bytes, minor float64) float64 {
	if len(curves) == 1 {
		return curveAt(&curves[0].Curve, log2Bytes)
	}
	sum, weight := 0.0, 0.0
	for i := range curves {
		w := weightOf(minor, curves[i].minor)
		sum += w * curveAt(&curves[i].Curve, log2Bytes)
		weight += w
	}
	switch {
	case weight >= minWeight:
		return sum / weight
	case len(curves) > 0:
		return curveAt(&curves[0].Curve, log2Bytes)
	}
	return 0
}

// curveAt is piecewise linear between the knots and constant beyond them.
func curveAt(c *hardware.Curve, x float64) float64 {
	n := len(c.Log2)
	if x <= c.Log2[0] {
		return c.R[0]
	}
	if x >= c.Log2[n-1] {
		return c.R[n-1]
	}
	lo, hi := 0, n-1
	for hi-lo > 1 {
		mid := (lo + hi) / 2
		if c.Log2[mid] <= x {
			lo = mid
		} else {
			hi = mid
		}
	}
	f := (x - c.Log2[lo]) / (c.Log2[hi] - c.Log2[lo])
	return (1-f)*c.R[lo] + f*c.R[hi]
}

// buildCurves computes the correction of points (repeats merged) around a physical prediction, thinned so that no
// dropped knot is off by more than tolerance.
func buildCurves(points []Point, physical func(*Point) float64, tolerance float64) []hardware.Curve {
	var out []hardware.Curve
	merged := mergeRepeats(points)
	for i := 0; i < len(merged); {
		j := i
		c := hardware.Curve{Op: merged[i].Op.String(), Ranks: merged[i].Ranks, Library: merged[i].Library,
			Byte: typed(merged[i].Op) && OneByte(merged[i].DType)}
		for ; j < len(merged) && sameCurve(merged[i], merged[j]); j++ {
			pt := &merged[j]
			c.Log2 = append(c.Log2, decimals(math.Log2(float64(pt.Bytes)), 4))
			c.R = append(c.R, math.Log(pt.Time.Micros()))
		}
		monotone(c.R)
		for k := range c.R {
			c.R[k] = decimals(c.R[k]-math.Log(physical(&merged[i+k])), 3)
		}
		out = append(out, thin(c, tolerance))
		i = j
	}
	return out
}

// monotone makes v non-decreasing with the least change in squares (pool adjacent violators): a larger buffer that was
// timed faster is noise.
func monotone(v []float64) {
	type block struct {
		sum float64
		n   int
	}
	var blocks []block
	for _, x := range v {
		blocks = append(blocks, block{x, 1})
		for k := len(blocks); k > 1 && blocks[k-2].sum*float64(blocks[k-1].n) > blocks[k-1].sum*float64(blocks[k-2].n); k-- {
			blocks[k-2].sum += blocks[k-1].sum
			blocks[k-2].n += blocks[k-1].n
			blocks = blocks[:k-1]
		}
	}
	i := 0
	for _, b := range blocks {
		for range b.n {
			v[i] = b.sum / float64(b.n)
			i++
		}
	}
}

// sameCurve says that two points differ in size and time only.
func sameCurve(a, b Point) bool {
	a.Time, b.Time, a.Bytes, b.Bytes = 0, 0, 0, 0
	return comparePoints(a, b) == 0
}

// thin drops knots that lie within tolerance of the line through those kept (Ramer-Douglas-Peucker).
func thin(c hardware.Curve, tolerance float64) hardware.Curve {
	n := len(c.Log2)
	if n < 3 || tolerance <= 0 {
		return c
	}
	keep := make([]bool, n)
	keep[0], keep[n-1] = true, true
	var split func(lo, hi int)
	split = func(lo, hi int) {
		worst, at := tolerance, -1
		for i := lo + 1; i < hi; i++ {
			f := (c.Log2[i] - c.Log2[lo]) / (c.Log2[hi] - c.Log2[lo])
			if d := math.Abs((1-f)*c.R[lo] + f*c.R[hi] - c.R[i]); d > worst {
				worst, at = d, i
			}
		}
		if at >= 0 {
			keep[at] = true
			split(lo, at)
			split(at, hi)
		}
	}
	split(0, n-1)
	t := c
	t.Log2, t.R = nil, nil
	for i, k := range keep {
		if k {
			t.Log2 = append(t.Log2, c.Log2[i])
			t.R = append(t.R, c.R[i])
		}
	}
	return t
}

// between says whether the operation was measured at smaller and at larger group sizes.
func (g *grid) between(k gridKey, n int) bool {
	below, above := false, false
	for _, r := range g[k.index()] {
		if own := slices.ContainsFunc(r.own, func(c versioned) bool { return !c.Other }); own {
			below, above = below || r.n < n, above || r.n > n
		}
	}
	return below && above
}

// covers says whether the operation was measured at this group size.
func (g *grid) covers(k gridKey, n int) bool {
	for _, r := range g[k.index()] {
		if r.n == n {
			return slices.ContainsFunc(r.own, func(c versioned) bool { return !c.Other })
		}
	}
	return false
}
