package nccltune

import (
	"fmt"
	"math"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
)

// Why explains a choice in one line: the time that NCCL counts for it, of what it consists, and by how much the next
// best algorithm or protocol loses.
func (t *Tuner) Why(op parallel.Op, bytes units.Bytes) string {
	c, ok := t.Choose(op, bytes)
	if !ok {
		if tunedIndex(op) < 0 {
			return fmt.Sprintf("NCCL has no choice for %s: pairs of send and receive", op)
		}
		return "one rank: nothing to do"
	}
	text := fmt.Sprintf("%s %s: %s = %s + %s at %s", c.Algorithm, c.Protocol, c.Time, c.Latency, bytes, c.Bandwidth)
	a, p, next := t.runnerUp(op, bytes, c)
	if next > 0 {
		text += fmt.Sprintf("; next %s %s %s", a, p, next)
	}
	return text
}

// runnerUp is the best of the other combinations; time 0 when there is none.
func (t *Tuner) runnerUp(op parallel.Op, bytes units.Bytes, c Choice) (Algorithm, Protocol, units.Duration) {
	bestA, bestP, best := Algorithm(0), Protocol(0), units.Duration(math.MaxFloat64)
	for a := range numAlgorithms {
		for p := range numProtocols {
			if a == c.Algorithm && p == c.Protocol {
				continue
			}
			if d, ok := t.Predict(op, a, p, bytes); ok && d < best {
				bestA, bestP, best = a, p, d
			}
		}
	}
	if best == math.MaxFloat64 {
		best = 0
	}
	return bestA, bestP, best
}
