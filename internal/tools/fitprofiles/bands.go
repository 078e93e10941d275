package main

import (
	"math"
	"sort"

	"rankmap/internal/hardware"
	"rankmap/internal/parallel"
)

// sizes are the size classes of intervals.
var sizes = []string{"small", "mid", "large"}

// weighted is a residual with a weight.
type weighted struct{ log, weight float64 }

// quantiles returns the 10th and 90th percentile of weighted residuals.
func quantiles(v []weighted) (low, high float64) {
	sort.Slice(v, func(i, j int) bool { return v[i].log < v[j].log })
	total := 0.0
	for _, x := range v {
		total += x.weight
	}
	at := func(p float64) float64 {
		sum := 0.0
		for _, x := range v {
			if sum += x.weight; sum >= p*total {
				return x.log
			}
		}
		return v[len(v)-1].log
	}
	return at(0.1), at(0.9)
}

// source of a band: residuals of a fold, with the weight of the whole fold.
type bandSource struct {
	fold  *fold
	share float64
}

// bands computes the intervals of a system's profile. A version that was not measured is taken as a seventh like a new run of one
// that was: the versions at hand lie two to four minor numbers apart, which few users' do. Group sizes between those that were
// measured are predicted better than those beyond.
func (fs *folds) bands(system string) []hardware.Band {
	var out []hardware.Band
	for _, k := range []struct {
		provenance string
		sources    []bandSource
	}{
		{"measured", []bandSource{{fs.run, 1}}},
		{"version", []bandSource{{fs.run, 0.15}, {fs.version, 0.85}}},
		{"calibrated", []bandSource{{fs.ranks4, 0.5}, {fs.ranks2, 0.25}, {fs.ranks8, 0.25}}},
		{"between", []bandSource{{fs.ranks4, 0.8}, {fs.ranks2, 0.1}, {fs.ranks8, 0.1}}},
		{"sibling", []bandSource{{fs.sibling, 1}}},
		{"generation", []bandSource{{fs.generation, 1}}},
		{"few", []bandSource{{fs.generation8, 1}}},
	} {
		for _, op := range []parallel.Op{parallel.AllReduce, parallel.AllGather, parallel.ReduceScatter, parallel.AllToAll} {
			for _, size := range sizes {
				if b, ok := band(k.sources, system, op, size); ok {
					b.Provenance, b.Op, b.Size = k.provenance, op.String(), size
					out = append(out, b)
				}
			}
		}
	}
	return out
}

// band pools residuals of the operation and size class: the system's own count fully, the others' with the weight that
// makes up for few of its own.
func band(sources []bandSource, system string, op parallel.Op, size string) (hardware.Band, bool) {
	var pool []weighted
	n := 0
	for _, s := range sources {
		var own, others []residual
		for _, r := range s.fold.res {
			if r.op == op && r.size == size {
				if r.profile == system {
					own = append(own, r)
				} else {
					others = append(others, r)
				}
			}
		}
		n += len(own) + len(others)
		ownShare := float64(len(own)) / (float64(len(own)) + 40)
		if len(others) == 0 {
			ownShare = 1
		}
		for _, r := range own {
			pool = append(pool, weighted{r.log, s.share * ownShare / float64(len(own))})
		}
		for _, r := range others {
			pool = append(pool, weighted{r.log, s.share * (1 - ownShare) / float64(len(others))})
		}
	}
	if len(pool) < 10 {
		return hardware.Band{}, false
	}
	low, high := quantiles(pool)
	// A band is never narrower than what repeats of one measurement scatter.
	low, high = math.Min(low, -0.01), math.Max(high, 0.01)
	return hardware.Band{Low: round3(low), High: round3(high), Points: n}, true
}

func round3(v float64) float64 { return math.Round(v*1000) / 1000 }
