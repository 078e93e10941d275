package whatif

import (
	"rankmap/internal/parallel"
	"rankmap/layout"
)

// Moved says what a new layout costs to adopt.
type Moved struct {
	Ranks   int      `yaml:"ranks" json:"ranks"`                        // whose GPU is another one, and new ranks
	Reloads int      `yaml:"reloads" json:"reloads"`                    // GPUs that must load other weights
	List    []string `yaml:"list,omitempty,flow" json:"list,omitempty"` // "29: node3/5 to node2/7", the first ones
}

// shard says which weights a rank holds: the degrees that cut weights, each with the rank's place (kept in the places of a
// Strategy's degrees as degree x 2^20 + place). Replicas hold the same: dp is left out.
func shard(s *parallel.Strategy, rank int) layout.Strategy {
	c := s.CoordsOf(rank)
	in := func(degree, at int) int { return degree<<20 + at }
	return layout.Strategy{
		TP: in(s.TP, c.TP), PP: in(s.PP, c.PP), EP: in(s.EP, c.EP), ExpertTP: in(s.ExpertTP, c.ExpertTP), Interleave: s.Interleave,
	}
}
