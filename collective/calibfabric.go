package collective

import (
	"fmt"
	"math"
	"slices"

	"rankmap/internal/hardware"
)

// fabricSpread is the sigma of each parameter's logarithm between sites of one kind of network: what a calibration may
// change. From the fits of InfiniBand, RoCE, EFA and Slingshot.
var fabricSpread = map[string]float64{"aT": .4, "aR": .5, "b0": .8, "aS": .5, "s": .4, "k": .5, "e": .15, "e1": .15, "p": .2, "ba": .5, "pa": .6, "ea": .15}

// localFabricSpace is fabricParams with these spreads as sigmas.
var localFabricSpace = func() []param[hardware.FabricParams] {
	s := slices.Clone(fabricParams)
	for i := range s {
		s[i].sigma = fabricSpread[s[i].name]
	}
	return s
}()

// minFabricPoints is how many measurements over several nodes a network profile is adapted to at least.
const minFabricPoints = 8

// calibrateFabrics adapts the network profiles to the points over several nodes, one for each kind of network, and returns
// those that changed. As inside a domain, a refit is taken only if it predicts points left out better. own is the
// system's profile, which says what happens inside a node.
func calibrateFabrics(own *hardware.CollectiveProfile, profiles *hardware.Profiles, points []Point, rep *CalibrationReport) []hardware.FabricProfile {
	byFabric := map[string][]Point{}
	var order []string
	for _, p := range points {
		p.System, p.Launch = own.System, Graph
		if byFabric[p.Fabric] == nil {
			order = append(order, p.Fabric)
		}
		byFabric[p.Fabric] = append(byFabric[p.Fabric], p)
	}
	slices.Sort(order)
	with := profiles.With(own)
	var out []hardware.FabricProfile
	for _, name := range order {
		base := profiles.Fabric(name)
		if base == nil {
			rep.Notes = append(rep.Notes, fmt.Sprintf("%d points over fabric %q left out: no profile of it", len(byFabric[name]), name))
			continue
		}
		f := fabricProblem(byFabric[name], with)
		if len(f.points) < minFabricPoints {
			rep.Notes = append(rep.Notes, fmt.Sprintf("%d even groups over %s: want %d to adapt the network", len(f.points), base.Name, minFabricPoints))
			continue
		}
		f.weight, f.space, f.centre = nil, localFabricSpace, base.Params
		f.frozen = map[string]bool{"k": !overLibfabric(base.Kinds)}
		f.points = mergeRepeats(f.points)
		before, after, left := f.leaveOut(base.Params)
		if after >= 0.95*before {
			rep.Notes = append(rep.Notes, "a refit of "+base.Name+" predicts points left out no better: network kept")
			continue
		}
		c := *base
		c.Params = roundParams(fabricParams, f.fit(base.Params))
		c.Points, c.NotIdentified = len(f.points), f.unidentified(c.Params)
		c.Source = base.Source + "; calibrated"
		c.Bands = leftOutBands(left, f.points)
		rep.Fabrics = append(rep.Fabrics, base.Name)
		out = append(out, c)
	}
	return out
}

// leaveOut fits without every eighth point in turn. It returns the summed loss of the parameters at and of the refits on
// the points left out, and ln(measured/predicted) of each point by its refit.
func (f *fitProblem[P, D]) leaveOut(at P) (before, after float64, left []float64) {
	all := f.points
	folds := min(len(all), 8)
	left = make([]float64, len(all))
	for k := range folds {
		f.points = nil
		for i := range all {
			if i%folds != k {
				f.points = append(f.points, all[i])
			}
		}
		p := f.fit(at)
		for i := k; i < len(all); i += folds {
			us := f.micros(&all[i])
			left[i] = math.Log(us / f.predict(&p, &all[i]))
			before += math.Abs(softL1(math.Log(us/f.predict(&at, &all[i])), softScale))
			after += math.Abs(softL1(left[i], softScale))
		}
	}
	f.points = all
	return before, after, left
}

// leftOutBands are the intervals of a network profile after calibration: of each size class with ten points or more, else
// of all together, a quarter wider, since the points left out come from the same runs as those that stayed.
func leftOutBands(left []float64, points []Point) []hardware.Band {
	var out []hardware.Band
	for c := range numSizes {
		var own []float64
		for i := range left {
			if classOf(points[i].Bytes) == c {
				own = append(own, left[i])
			}
		}
		if len(own) < 10 {
			own = slices.Clone(left)
		}
		low, high := quantileOf(own, 0.1), quantileOf(own, 0.9)
		out = append(out, hardware.Band{Provenance: Network.String(), Size: sizeNames[c], Points: len(own),
			Low: decimals(min(1.25*low, -0.03), 3), High: decimals(max(1.25*high, 0.03), 3)})
	}
	return out
}
