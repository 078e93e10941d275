package collective

import (
	"math"
	"slices"

	"rankmap/internal/hardware"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
)

// What the forms of a framework's kernels leave, by version and group size: choices that a release makes otherwise, launches that
// it changed. The same correction as NCCL's (grid.go): a version that was not measured here takes what a sibling system shows that
// it changes.

// customVersionScale spreads a framework's minor versions: each has its own kernels, the next one says little of it.
const customVersionScale = 4

// customTolerance is how far a dropped knot may lie off, in logarithms.
const customTolerance = 0.01

// customCurves are ln(measured/form) of the samples of one framework launched from a graph.
func customCurves(samples []CustomSample, form func(*CustomSample) float64) []hardware.Curve {
	points := make([]Point, len(samples))
	for i, s := range samples {
		points[i] = Point{Op: parallel.AllReduce, Library: s.Version, Ranks: s.Ranks, Bytes: s.Bytes, Time: s.Time}
	}
	return buildCurves(points, func(p *Point) float64 {
		return form(&CustomSample{Version: p.Library, Ranks: p.Ranks, Bytes: p.Bytes})
	}, customTolerance)
}

// correct gives the route the correction of its version, from the system's own curves and its siblings'.
func (c *customRoute) correct(siblings []*hardware.CustomAllReduce, version string) {
	if len(c.k.Curves) == 0 {
		return
	}
	if version == "" {
		version = newest(c.k.Libraries)
	}
	curves := slices.Clone(c.k.Curves)
	for _, s := range siblings {
		curves = append(curves, borrowed(s.Curves)...)
	}
	if c.k.Kernel == "vllm" && multicastWindows[c.link > blackwellGBps][c.n].to > 0 { // another kernel's residuals say nothing of this one's
		newer := compareVersions(version, multicastFrom) >= 0
		curves = slices.DeleteFunc(curves, func(o hardware.Curve) bool { return (compareVersions(o.Library, multicastFrom) >= 0) != newer })
	}
	c.grid, c.version = newGrid(curves), math.NaN()
	if m, ok := minorVersion(version); ok {
		c.version = float64(m) * customVersionScale
	}
	// The correction may bend the time down between its knots: no size takes less than a smaller one.
	var sizes []units.Bytes
	for _, b := range changes { // where a kernel ends and the next begins
		sizes = append(sizes, b-1, b)
	}
	for _, r := range c.grid[gridKey{op: parallel.AllReduce}.index()] {
		for _, of := range [][]versioned{r.own, r.sib} {
			for i := range of {
				of[i].minor *= customVersionScale
				for _, x := range of[i].Log2 {
					sizes = append(sizes, units.Bytes(math.Round(math.Exp2(x)/float64(r.n)*float64(c.n))))
				}
			}
		}
	}
	slices.Sort(sizes)
	for _, b := range slices.Compact(sizes) {
		if us, kernel := c.apart(b); kernel != "nccl" {
			c.floors = append(c.floors, floor{b, us})
		}
	}
}

// floor is the time of a smaller size.
type floor struct {
	bytes units.Bytes
	us    float64
}

// correction is the factor on the form's time.
func (c *customRoute) correction(s units.Bytes) float64 {
	if c.grid == nil {
		return 1
	}
	return math.Exp(c.grid.at(gridKey{op: parallel.AllReduce}, c.n, math.Log2(float64(max(s, 1))), c.version))
}

// knownToSibling says whether a sibling was measured with a version and with one of the system's own, so that it shows what differs.
func knownToSibling(own []string, siblings []*hardware.CustomAllReduce, version string) bool {
	return slices.ContainsFunc(siblings, func(s *hardware.CustomAllReduce) bool {
		return versionMeasured(s.Libraries, version) == versionKnown &&
			slices.ContainsFunc(own, func(v string) bool { return slices.Contains(s.Libraries, v) })
	})
}

// siblingKernels are the records of a framework in a system's siblings.
func siblingKernels(profiles *hardware.Profiles, system, framework string) []*hardware.CustomAllReduce {
	p := profiles.Collective(system)
	if p == nil {
		return nil
	}
	var out []*hardware.CustomAllReduce
	for _, name := range p.Siblings {
		if s := profiles.Collective(name); s != nil {
			for i := range s.Custom {
				if s.Custom[i].Kernel == framework {
					out = append(out, &s.Custom[i])
				}
			}
		}
	}
	return out
}
