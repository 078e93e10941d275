package planner

import (
	"slices"

	"rankmap/internal/engine"
	"rankmap/internal/parallel"
	"rankmap/layout"
)

// launchers says for each launcher whether its rank arithmetic reaches the order of the strategy. The loss of the best
// order that it can express is filled in by the search where it is not zero.
func launchers(st parallel.Strategy) []layout.Launcher {
	var out []layout.Launcher
	for _, e := range engine.All() {
		l := layout.Launcher{Target: e.Name, Expressible: e.Expresses(st)}
		if l.Expressible {
			l.Why = e.Why
		} else {
			l.Why = e.WhyNot(st)
		}
		out = append(out, l)
	}
	slices.SortStableFunc(out, func(a, b layout.Launcher) int {
		if a.Target < b.Target {
			return -1
		}
		return 1
	})
	return out
}
