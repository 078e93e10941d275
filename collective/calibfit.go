package collective

import (
	"math"

	"rankmap/internal/hardware"
)

// Two-stage fit for few points (docs/collective-model.md, section 11): first three common factors, then every parameter around
// the scaled profile.

// factorPull pulls each factor's logarithm to 0, weakly.
const factorPull = 0.05 / 0.5

// factorGroups are the parameters that the differences between machines move together.
// Per-peer costs of all_to_all and the low-latency efficiency are alike everywhere and stay out.
var factorGroups = [][]string{
	{"b", "bS", "ba"},           // launches
	{"h", "hS"},                 // hops
	{"eAR", "eAG", "eRS", "eA"}, // efficiencies
}

// spread is the sigma of each parameter's logarithm (logit for shares) between NVLink systems once the common factors
// are taken out: what the second stage may change. From the fits of A100, H100, H200, B200 and GB200.
var spread = map[string]float64{
	"b": .15, "h": .2, "d": .3, "eLL": .1, "bS": .35, "hS": 1.2, "p": .4, "eAR": .06, "eAG": .06, "eRS": .06, "fAR": .4, "fAG": .4,
	"g": .1, "bN": .25, "ba": .15, "pa": .4, "da": .4, "eA": .06, "fA": .6, "rA": .6, "q8": .02, "xs": .3,
}

// localSpace is domainParams with the spreads as sigmas.
var localSpace = func() []param[hardware.DomainParams] {
	s := make([]param[hardware.DomainParams], len(domainParams))
	copy(s, domainParams)
	for i := range s {
		s[i].sigma = spread[s[i].name]
	}
	return s
}()

// predictFunc predicts a point from parameters, in us.
type predictFunc func(*hardware.DomainParams, *Point) float64

// refit adapts parameters to a few points (repeats merged).
func refit(base hardware.DomainParams, predict predictFunc, points []Point) hardware.DomainParams {
	scaled := scaleFactors(base, predict, points)
	f := &fitProblem[hardware.DomainParams, Point]{space: localSpace, points: points, micros: pointMicros, predict: predict, centre: scaled, strength: 1}
	return f.fit(scaled)
}

// scaleFactors fits the common factors.
func scaleFactors(base hardware.DomainParams, predict predictFunc, points []Point) hardware.DomainParams {
	n := len(factorGroups)
	x, lo, hi := make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range lo {
		lo[i], hi[i] = -3, 3
	}
	var members [][]*param[hardware.DomainParams]
	for _, names := range factorGroups {
		var m []*param[hardware.DomainParams]
		for _, name := range names {
			for i := range domainParams {
				if domainParams[i].name == name {
					m = append(m, &domainParams[i])
				}
			}
		}
		members = append(members, m)
	}
	apply := func(x []float64) hardware.DomainParams {
		p := base
		for g, m := range members {
			for _, q := range m {
				v := q.at(&p)
				*v = math.Min(math.Max(*v*math.Exp(x[g]), q.lo), q.hi)
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
