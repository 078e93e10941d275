package validate

import (
	"math"
	"slices"

	"rankmap/internal/measured"
)

// quantile interpolates linearly between the order statistics of a sorted slice (type 7 of Hyndman and Fan, 1996).
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	h := q * float64(len(sorted)-1)
	lo := int(math.Floor(h))
	hi := min(lo+1, len(sorted)-1)
	return sorted[lo] + (h-float64(lo))*(sorted[hi]-sorted[lo])
}

// summarise turns repeats in microseconds into the report's form.
func summarise(us []float64) measured.Times {
	s := slices.Clone(us)
	slices.Sort(s)
	t := measured.Times{Repeats: len(s), MedianUs: quantile(s, 0.5), P10Us: quantile(s, 0.1), P90Us: quantile(s, 0.9)}
	for _, v := range s {
		t.MeanUs += v / float64(len(s))
	}
	if t.MedianUs > 0 {
		t.Spread = 100 * (t.P90Us - t.P10Us) / t.MedianUs
	}
	return t
}

// slowest takes, batch by batch, the longest time over the ranks: a collective is over when its last member is.
func slowest(byRank map[int][]float64) []float64 {
	var out []float64
	for _, us := range byRank {
		for i, v := range us {
			if i == len(out) {
				out = append(out, v)
			}
			out[i] = max(out[i], v)
		}
	}
	return out
}

func median(v []float64) float64 {
	s := slices.Clone(v)
	slices.Sort(s)
	return quantile(s, 0.5)
}
