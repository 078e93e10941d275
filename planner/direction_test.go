package planner

import (
	"testing"

	"rankmap/internal/parallel"
	"rankmap/layout"
	"rankmap/topology"
)

// A pipeline over equal boxes costs the same in whichever order its stages take them: what a NIC sends does not slow what it receives.
func TestAPipelineCostsTheSameInAnyOrderOfBoxes(t *testing.T) {
	r, f := running(t, 4, "llama-3.1-70b", parallel.Strategy{TP: 8, PP: 4}, layout.Workload{Task: string(DecodeOnly), ISL: 1024, OSL: 512, Batch: 1024})
	s := &search{Request: r, base: newSeating(r.Cluster, nil)}
	first := 0.0
	for _, boxes := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 0, 3, 2}, {2, 0, 1, 3}} {
		var ids []topology.GPUID
		for _, n := range boxes {
			for g := range 8 {
				ids = append(ids, topology.GPUID(8*n+g))
			}
		}
		o, err := s.evaluate(f.Strategy, newComm(s.base.seatedOn(ids), s.Pricer, graphLaunch, f.Strategy).price, 1024, true)
		if err != nil {
			t.Fatal(err)
		}
		if first == 0 {
			first = o.score
		}
		if d := o.score/first - 1; abs(d) > 1e-9 {
			t.Errorf("boxes %v: %v tokens/s/GPU, in their order %v", boxes, -o.score, -first)
		}
	}
}
