package collective

import (
	"math"
	"slices"
	"strings"

	"rankmap/internal/hardware"
	"rankmap/internal/units"
)

// FitFabric fits the form across nodes to measured points of one kind of network. What happens inside a node comes from
// the systems' profiles; points of systems without one are left out. centre is the prior (zero: the RDMA default).
func FitFabric(target hardware.FabricProfile, points []Point, profiles *hardware.Profiles, centre hardware.FabricParams) *hardware.FabricProfile {
	p := target
	// Racks are predicted, not fitted: what bounds their rings (channels, not NICs) is not in the form.
	f := fabricProblem(slices.DeleteFunc(slices.Clone(points), func(pt Point) bool { return pt.NIC.GBps() > rackGBps }), profiles)
	if centre.E > 0 {
		own := f.centre
		f.centre = centre
		f.centre.E, f.centre.E1 = own.E, own.E1 // what NICs bring of their rate is no other network's to say
	}
	if !overLibfabric(target.Kinds) {
		f.frozen, f.centre.K = map[string]bool{"k": true}, kneeFabric
	}
	p.Params = roundParams(fabricParams, f.fit(f.centre))
	p.NotIdentified = f.unidentified(p.Params)
	p.Points, p.MaxRanks = len(f.points), reach(fabricProblem(points, profiles), &p.Params)
	return &p
}

// rackGBps tells racks from nodes by their NICs: no node of today has more than sixteen of 400 Gb/s.
const rackGBps = 800

// offReach is the factor by which a group's median may miss before the form counts as not holding for it.
const offReach = 1.5

// reach is the largest group for which the form holds: larger ones were measured slower (or faster) than any parameters of the
// others explain, or not at all. 0 when it holds for none.
func reach(f *fitProblem[hardware.FabricParams, Point], p *hardware.FabricParams) int {
	ratios := map[int][]float64{}
	for i := range f.points {
		pt := &f.points[i]
		ratios[pt.Ranks] = append(ratios[pt.Ranks], math.Log(pointMicros(pt)/f.predict(p, pt)))
	}
	most := 0
	for n, r := range ratios {
		if math.Abs(median(r)) < math.Log(offReach) {
			most = max(most, n)
		}
	}
	return most
}

// overLibfabric says whether NCCL reaches the network over a libfabric plugin. Its rendezvous thresholds move the change of
// protocols to smaller buffers (EFA, a site left out: 6.6 / 15.5 % with the middle fitted, 8.4 / 20.7 without); over verbs
// the middle stays where it is, which predicts sites left out better.
func overLibfabric(kinds []string) bool {
	return slices.ContainsFunc(kinds, func(k string) bool { return strings.EqualFold(k, "EFA") || strings.EqualFold(k, "Slingshot") })
}

// fabricProblem states the fit. Every table counts with the square root of its points, so that one long sweep does not
// outvote the other sites.
func fabricProblem(points []Point, profiles *hardware.Profiles) *fitProblem[hardware.FabricParams, Point] {
	domains := map[string]domainForm{}
	keep := slices.DeleteFunc(slices.Clone(points), func(pt Point) bool {
		if pt.nodes() < 2 || pt.Ranks%pt.nodes() != 0 || pt.Bytes <= 0 || !(pt.Time > 0) || pt.NIC <= 0 {
			return true
		}
		if _, ok := domains[pt.System]; !ok {
			p := profiles.Collective(pt.System)
			if p != nil && p.Like != "" {
				p = profiles.Collective(p.Like)
			}
			if p == nil || p.Domain == nil {
				return true
			}
			domains[pt.System] = domainOf(p)
		}
		return false
	})
	f := &fitProblem[hardware.FabricParams, Point]{space: fabricParams, micros: pointMicros, centre: priorCentre(fabricParams), strength: 1}
	f.points = keep
	counts := map[Point]float64{}
	table := func(pt Point) Point { pt.Bytes, pt.Time, pt.Launch = 0, 0, 0; return pt }
	for _, pt := range keep {
		counts[table(pt)]++
	}
	f.weight = make([]float64, len(keep))
	for i, pt := range keep {
		f.weight[i] = math.Pow(counts[table(pt)], -0.25) * 2 // residuals are squared: weight n^-1/2 each
	}
	f.predict = func(p *hardware.FabricParams, pt *Point) float64 {
		nw := networkForm{domainForm: domains[pt.System], Fabric: p, Nodes: pt.nodes(), PerNode: pt.Ranks / pt.nodes(), NICGBps: pt.NIC.GBps(), BulkTree: domains[pt.System].Multicast}
		return nw.Micros(pt.Op, float64(pt.Bytes), OneByte(pt.DType))
	}
	return f
}

// PredictNetwork predicts a point over several nodes from a fabric profile and the system's profile; false if the point
// is inside one domain, uneven, or of a system without profile.
func PredictNetwork(f *hardware.FabricProfile, profiles *hardware.Profiles, pt *Point) (units.Duration, bool) {
	p := fabricProblem([]Point{*pt}, profiles)
	if len(p.points) == 0 {
		return 0, false
	}
	return units.Micros(p.predict(&f.Params, pt)), true
}
