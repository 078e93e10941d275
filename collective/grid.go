package collective

import (
	"math"
	"slices"
	"sort"

	"rankmap/internal/hardware"
	"rankmap/internal/parallel"
)

// The correction r(S, n) = ln(measured/physical): what physics cannot know (protocol switches that the library's tuner
// gets wrong, version changes). COLLECTIVE-MODEL, section 3. Never times are interpolated, only this ratio.

// gridKey selects the curves of one operation and type class.
type gridKey struct {
	op      parallel.Op
	oneByte bool
}

// gridRank holds the curves of one group size, one for each library.
type gridRank struct {
	n      int
	logN   float64
	curves []hardware.Curve
	minors []float64 // minor version of each curve; NaN unknown
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
			g[i] = append(g[i], gridRank{n: c.Ranks, logN: math.Log(float64(c.Ranks))})
			at = len(g[i]) - 1
		}
		minor := math.NaN()
		if m, ok := minorVersion(c.Library); ok {
			minor = float64(m)
		}
		g[i][at].curves = append(g[i][at].curves, c)
		g[i][at].minors = append(g[i][at].minors, minor)
	}
	for i := range g {
		sort.Slice(g[i], func(a, b int) bool { return g[i][a].n < g[i][b].n })
	}
	return g
}

// at returns r for n ranks and a size, for a library whose minor version is minor (NaN: all alike). It allocates nothing.
func (g *grid) at(k gridKey, n int, log2Bytes, minor float64) float64 {
	ranks := g[k.index()]
	if len(ranks) == 0 {
		return 0
	}
	for i := range ranks {
		r := &ranks[i]
		if n == r.n {
			return r.at(log2Bytes, minor)
		}
		if n < r.n {
			if i == 0 {
				return ShrinkE * r.at(log2Bytes+ShiftN*math.Log2(float64(r.n)/float64(n)), minor) * float64(n) / float64(r.n) // exp(-|ln(n/edge)|)
			}
			l := &ranks[i-1]
			f := (math.Log(float64(n)) - l.logN) / (r.logN - l.logN)
			dl, dr := ShiftN*math.Log2(float64(l.n)/float64(n)), ShiftN*math.Log2(float64(r.n)/float64(n))
			return ShrinkN * ((1-f)*l.at(log2Bytes+dl, minor) + f*r.at(log2Bytes+dr, minor))
		}
	}
	edge := &ranks[len(ranks)-1]
	return ShrinkE * edge.at(log2Bytes+ShiftN*math.Log2(float64(edge.n)/float64(n)), minor) * float64(edge.n) / float64(n)
}

// at is the mean over the libraries, nearer versions counting more.
func (r *gridRank) at(log2Bytes, minor float64) float64 {
	if len(r.curves) == 1 {
		return curveAt(&r.curves[0], log2Bytes)
	}
	sum, weight := 0.0, 0.0
	for i := range r.curves {
		w := r.curves[i].Weight
		if w == 0 {
			w = 1
		}
		if d := minor - r.minors[i]; !math.IsNaN(d) {
			w *= math.Exp(-math.Abs(d) / versionWeightScale)
		}
		sum += w * curveAt(&r.curves[i], log2Bytes)
		weight += w
	}
	if weight < 1e-300 {
		return curveAt(&r.curves[0], log2Bytes)
	}
	return sum / weight
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
			c.R = append(c.R, decimals(math.Log(pt.Time.Micros()/physical(pt)), 3))
		}
		out = append(out, thin(c, tolerance))
		i = j
	}
	return out
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

// covers says whether the operation was measured at this group size.
func (g *grid) covers(k gridKey, n int) bool {
	for _, r := range g[k.index()] {
		if r.n == n {
			return true
		}
	}
	return false
}

var ShiftN, ShrinkN, ShrinkE = 1.0, 1.0, 1.0
