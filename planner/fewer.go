package planner

import "math/bits"

// fewer is the next number of GPUs to try after n of usable ones held no plan; 0 = give up.
//
// A count that no degrees divide leaves single GPUs idle, so every smaller one is tried. Where limits of TTFT or TPOT drop
// what fits, the fault is not in the count: a replica that keeps a limit does so on any multiple of its GPUs. Then only
// counts that replicas of 2^k or 3 x 2^k GPUs fill are tried, a few dozen at most.
func (s *search) fewer(n, usable int) int {
	if s.hopeless() {
		return 0
	}
	if s.counts.ByLimit == 0 {
		return n - 1
	}
	next := 0
	for k := range bits.Len(uint(usable)) {
		for _, replica := range [...]int{1 << k, 3 << k} {
			if m := usable / replica * replica; m < n {
				next = max(next, m)
			}
		}
	}
	return next
}
