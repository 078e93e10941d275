package planner

import (
	"cmp"
	"slices"

	"rankmap/internal/parallel"
)

// A pipeline that is cut evenly may lose to one with more virtual stages and still win once its ends are levelled: the fewer
// the pieces, the more a head of several layers weighs. So the best of each number of virtual stages is levelled before the
// fastest is chosen.

// levelGain is how much an option's bound may lie above the best price found for it to be priced yet.
func (s *search) levelGain(st parallel.Strategy) float64 {
	if st.PP == 1 || s.Held.EvenStages {
		return 1
	}
	return levelMargin
}

// keepCut keeps the fastest outcome of each number of virtual stages.
func keepCut(cuts []*Outcome, o *Outcome) []*Outcome {
	for i, c := range cuts {
		if c.Strategy.Interleave == o.Strategy.Interleave {
			if o.score < c.score {
				cuts[i] = o
			}
			return cuts
		}
	}
	return append(cuts, o)
}

// levelAll levels the ends of those of the cuts that are within reach of the best, and returns the fastest.
func (s *search) levelAll(best *Outcome, cuts []*Outcome, cm *comm) (*Outcome, error) {
	if best.Strategy.PP == 1 || s.Held.EvenStages {
		return best, nil
	}
	reach := best.score * levelMargin
	slices.SortStableFunc(cuts, func(a, b *Outcome) int { return cmp.Compare(a.score, b.score) })
	for _, c := range cuts {
		if c.score > reach {
			break
		}
		o, err := s.levelEnds(c, cm)
		if err != nil {
			return nil, err
		}
		if o.score < best.score {
			best = o
		}
	}
	return best, nil
}
