package step

import (
	"rankmap/internal/units"
	"rankmap/model"
)

// spread is between which multiples of a predicted training step 80 % of published ones lie.
type spread struct{ low, high float64 }

// Spreads of whole steps, read off the rows with even numbers of published runs (docs/training.md, section 7); those with odd
// numbers test them. The intervals of kernels and collectives know nothing of what a step leaves out: what runs between them,
// unfused code around experts and recurrent layers, stragglers.
var (
	denseSpread     = spread{0.9, 1.23}
	expertSpread    = spread{0.9, 1.7}
	recurrentSpread = spread{0.98, 1.75} // all of them longer than predicted
	serialSpread    = spread{0.97, 1.43} // DeepSpeed's engine and Megatron-LM before 2023
)

// spreadOf is the spread of a network's steps.
func spreadOf(s *model.Spec, serial bool) spread {
	switch {
	case serial:
		return serialSpread
	case s.Recurrent():
		return recurrentSpread
	case s.MoE():
		return expertSpread
	}
	return denseSpread
}

// widen makes an interval at least as wide as a spread.
func (b *Band) widen(s spread) {
	b.P10 = min(b.P10, b.Time*units.Duration(s.low))
	b.P90 = max(b.P90, b.Time*units.Duration(s.high))
}
