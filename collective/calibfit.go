package collective

import (
	"math"

	"rankmap/internal/hardware"
)

// Two-stage fit for few points (COLLECTIVE-MODEL, section 11): first three common factors, then every parameter around
// the scaled profile.
const (
	factorPull    = 0.05 / 0.5 // weak pull of each factor's logarithm to 0
	localStrength = 0.6        // prior strength of the second stage
	fewPoints     = 24         // with fewer, only the factors and the second stage's strong prior speak
)

// factorGroups are the parameters that one machine's differences move together.
var factorGroups = [][]string{
	{"b", "bS", "ba"},                  // launches
	{"h", "hS", "pa"},                  // hops
	{"eAR", "eAG", "eRS", "eA", "eLL"}, // efficiencies
}

// refit adapts the parameters of base to a few points (repeats merged, one domain) of the domain d.
func refit(base hardware.DomainParams, d domainForm, points []Point) hardware.DomainParams {
	predict := domainPredict(d)
	scaled := scaleFactors(base, predict, points)
	f := &fitProblem[hardware.DomainParams]{space: domainParams, points: points, predict: predict, centre: scaled, strength: localStrength}
	return f.fit(scaled)
}

// scaleFactors fits the three common factors.
func scaleFactors(base hardware.DomainParams, predict func(*hardware.DomainParams, *Point) float64, points []Point) hardware.DomainParams {
	n := len(factorGroups)
	x, lo, hi := make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range lo {
		lo[i], hi[i] = -3, 3
	}
	apply := func(x []float64) hardware.DomainParams {
		p := base
		for g, names := range factorGroups {
			for i := range domainParams {
				q := &domainParams[i]
				for _, name := range names {
					if q.name == name {
						v := q.at(&p)
						*v = math.Min(math.Max(*v*math.Exp(x[g]), q.lo), q.hi)
					}
				}
			}
		}
		return p
	}
	eval := func(x, r []float64) {
		p := apply(x)
		for i := range points {
			r[i] = softL1(math.Log(predict(&p, &points[i])/points[i].Time.Micros()), softScale)
		}
		for g := range x {
			r[len(points)+g] = factorPull * x[g]
		}
	}
	levenberg(eval, len(points)+n, x, lo, hi, 100)
	return apply(x)
}
