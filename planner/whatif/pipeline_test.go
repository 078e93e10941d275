package whatif

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"rankmap/internal/parallel"
	"rankmap/layout"
)

// hops adds the time of transfers between pipeline stages by what they cross, ms.
func hops(c *Column) (nvlink, network float64) {
	for _, x := range c.Communication {
		switch {
		case x.Kind != parallel.PP.String():
		case strings.HasPrefix(x.Link, "NVLink"):
			nvlink += x.Ms
		default:
			network += x.Ms
		}
	}
	return nvlink, network
}

// crossings counts the hops that leave their NVLink domain, and all.
func crossings(c *Column) (out, all int) {
	for _, s := range c.Spans {
		if s.Kind == parallel.PP {
			return s.Crosses, s.Groups
		}
	}
	return 0, 0
}

// The same 32 GPUs and stages of tp 8, with NVLink domains that hold four, two or one of the stages. A step of one sequence
// (one micro-batch in training) passes every stage, so that it pays every hop: over NVLink inside a domain, over the network
// between two.
//
//	pp4, domains of 32   [0 1 2 3]        three hops over NVLink
//	pp4, domains of 16   [0 1] [2 3]      the middle one over the network
//	pp4, domains of 8    [0] [1] [2] [3]  three over the network
//	pp2, domains of 16   [0 1]            one over NVLink
//	pp2, domains of 8    [0] [1]          one over the network
//
// Steps of serving add up their hops; a training step shows those of the stage that paces it, the others in the bubble.
func TestEachHopIsPricedByWhatItCrosses(t *testing.T) {
	serving := problem(t, "llama-3.1-405b")
	serving.Workload.TPOTMs, serving.Workload.Batch = 0, 1
	training := problem(t, "llama-3.1-70b")
	training.Workload = layout.Workload{Task: "train", SeqLen: 4096, Batch: 1, Objective: "step-time"}
	for name, p := range map[string]*Problem{"serving": serving, "training": training} {
		t.Run(name, func(t *testing.T) {
			plan := func(stages, domain, crossing int) *Column {
				t.Helper()
				m, q, err := Changes{Set: []string{fmt.Sprintf("nvlink.domain=%d", domain)}}.Apply(machine(t, "gb200-nvl72", 1), p)
				if err != nil {
					t.Fatal(err)
				}
				col := fixedPlan(t, q, m, map[parallel.Dim]int{parallel.TP: 8, parallel.CP: 1, parallel.PP: stages, parallel.DP: 1}, 8*stages)
				if out, all := crossings(col); all == 0 || out != all*crossing/(stages-1) {
					t.Errorf("pp%d, domains of %d: %d of %d hops cross", stages, domain, out, all)
				}
				nv, net := hops(col)
				t.Logf("pp%d, domains of %d: hops %.4g ms over NVLink, %.4g ms over the network; step %.6g ms", stages, domain, nv, net, col.Predicted.StepMs)
				if (nv > 0) != (crossing < stages-1) || (net > 0) != (crossing > 0) {
					t.Errorf("pp%d, domains of %d: %v ms over NVLink, %v ms over the network", stages, domain, nv, net)
				}
				return col
			}
			in, middle, out := plan(4, 32, 0), plan(4, 16, 1), plan(4, 8, 3)
			near, far := plan(2, 16, 0), plan(2, 8, 1)
			if a, b, c := in.Predicted.StepMs, middle.Predicted.StepMs, out.Predicted.StepMs; a > b || b >= c {
				t.Errorf("pp4: steps of %v, %v and %v ms with 0, 1 and 3 hops over the network", a, b, c)
			}
			if a, b := near.Predicted.StepMs, far.Predicted.StepMs; a >= b {
				t.Errorf("pp2: steps of %v and %v ms with 0 and 1 hops over the network", a, b)
			}
			if name == "training" {
				return // the stage that paces the pipeline shows its own hops only
			}
			nv, net := hops(middle)
			all, _ := hops(in)
			one, _ := hops(near)
			_, allNet := hops(out)
			_, oneNet := hops(far)
			for _, pair := range [][2]float64{{nv, 2 * one}, {all, 3 * one}, {net, oneNet}, {allNet, 3 * oneNet}} {
				if math.Abs(pair[0]/pair[1]-1) > 0.01 {
					t.Errorf("hops take %v ms, want %v", pair[0], pair[1])
				}
			}
		})
	}
}
