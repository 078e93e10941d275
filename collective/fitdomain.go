package collective

import (
	"math"
	"slices"

	"rankmap/internal/hardware"
)

// DefaultTolerance is how far a dropped knot of the correction may lie off the line through those kept, in logarithms.
const DefaultTolerance = 0.008

// FitDomain fits the form inside one domain to the measured points of one system and returns target (system, link,
// multicast, source) with parameters, correction and what was measured. Points of several nodes and points without time
// are left out.
func FitDomain(target hardware.CollectiveProfile, points []Point, tolerance float64) *hardware.CollectiveProfile {
	p := target
	f := domainProblem(&p, points)
	params := roundParams(domainParams, f.fit(f.centre))
	p.Domain = &params
	p.NotIdentified = f.unidentified(params)
	p.Points = len(points)
	p.Libraries, p.Ranks = nil, nil
	for i := range f.points {
		pt := &f.points[i]
		if pt.Library != "" && !slices.Contains(p.Libraries, pt.Library) {
			p.Libraries = append(p.Libraries, pt.Library)
		}
		if !slices.Contains(p.Ranks, pt.Ranks) {
			p.Ranks = append(p.Ranks, pt.Ranks)
		}
	}
	slices.SortFunc(p.Libraries, compareVersions)
	slices.Sort(p.Ranks)
	p.Curves = nil
	if tolerance >= 0 {
		p.Curves = buildCurves(f.points, func(pt *Point) float64 { return f.predict(&params, pt) }, tolerance)
	}
	return &p
}

// domainProblem states the fit of one system: repeats merged, every measurement equal.
func domainProblem(p *hardware.CollectiveProfile, points []Point) *fitProblem[hardware.DomainParams, Point] {
	return &fitProblem[hardware.DomainParams, Point]{
		space:    domainParams,
		points:   mergeRepeats(insideDomain(points)),
		micros:   pointMicros,
		predict:  domainPredict(domainOf(p)),
		centre:   domainCentre(p),
		strength: fitStrength,
	}
}

// fitStrength is the strength of the prior. 1 to 4 fit equally well; 2 leaves group sizes out best.
const fitStrength = 2

// Local copies take their time from the memory, whose rate differs little between machines with fast and slow links: their
// share of the bulk time grows with the link. Slopes: fits of A100, H100, H200, B200, GB200 with a flat prior.
const (
	localA  = 0.05   // all_to_all over NVLink: other channels than those that send copy it
	localAR = 5.3e-4 // a GB/s of link, all_reduce
	localAG = 9.5e-4 // all_gather and reduce_scatter
)

// domainCentre is the prior of a system.
func domainCentre(p *hardware.CollectiveProfile) hardware.DomainParams {
	c := priorCentre(domainParams)
	c.FAR = min(localAR*p.LinkGBps, 0.6)
	c.FAG = min(localAG*p.LinkGBps, 0.8)
	if p.LinkGBps >= pcieBelowGBps {
		c.EA, c.FA = portShareBothWays, localA
	}
	return c
}

// insideDomain keeps the points that the form inside a domain can explain.
func insideDomain(points []Point) []Point {
	return slices.DeleteFunc(slices.Clone(points), func(p Point) bool {
		return p.nodes() > 1 || p.Ranks < 2 || p.Bytes <= 0 || !(p.Time > 0) || math.IsInf(float64(p.Time), 0)
	})
}

// domainOf is the domain that a profile describes.
func domainOf(p *hardware.CollectiveProfile) domainForm {
	return domainForm{Params: p.Domain, LinkGBps: p.LinkGBps, Multicast: p.Multicast, NVLSFrom: p.NVLSFromRanks}
}
