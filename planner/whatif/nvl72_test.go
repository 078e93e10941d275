package whatif

import (
	"strconv"
	"testing"

	"rankmap/internal/parallel"
	"rankmap/planner"
)

// fixedPlan plans with all degrees given.
func fixedPlan(t *testing.T, p *Problem, m Machine, fix map[parallel.Dim]int, gpus int) *Column {
	t.Helper()
	q := *p
	q.Freedom = planner.Freedom{Fix: fix}
	q.GPUs = gpus
	col, _, no, err := q.best(t.Context(), &m, 0)
	if err != nil || no != nil {
		t.Fatal(err, no)
	}
	return col
}

func kindOf(c *Column, kind string) (ms float64, link string) {
	for _, x := range c.Communication {
		if x.Kind == kind {
			return x.Ms, x.Link
		}
	}
	return 0, ""
}

// A pipeline inside a rack talks over NVLink; one that crosses racks pays the network for each hop that does.
func TestPipelinesPayTheNetworkOnlyBetweenRacks(t *testing.T) {
	p := problem(t, "llama-3.1-405b")
	p.Workload.Batch, p.Workload.TPOTMs = 1, 0 // one sequence: a step passes every stage
	one := fixedPlan(t, p, machine(t, "gb200-nvl72", 1), map[parallel.Dim]int{parallel.TP: 8, parallel.PP: 4}, 32)
	two := fixedPlan(t, p, machine(t, "gb200-nvl72", 2), map[parallel.Dim]int{parallel.TP: 8, parallel.PP: 14}, 112)
	if nv, net := hops(one); nv <= 0 || net != 0 {
		t.Errorf("inside the rack hops take %v ms over NVLink and %v ms over the network", nv, net)
	}
	if nv, net := hops(two); nv <= 0 || net <= 0 {
		t.Errorf("of two racks hops take %v ms over NVLink and %v ms over the network", nv, net)
	}
	for _, s := range two.Spans {
		if s.Kind == parallel.PP && (s.Crosses == 0 || s.Crosses == s.Groups) {
			t.Errorf("%d of %d hops leave a rack, want some", s.Crosses, s.Groups)
		}
	}
}

// Wide expert parallelism stays inside one rack and crosses eight boxes.
func TestWideExpertParallelismOnARackAgainstBoxes(t *testing.T) {
	p := problem(t, "deepseek-v3")
	p.Workload.TPOTMs = 0
	p.Spec = p.Spec.WithRedundantExperts(32) // 288 experts: ep 72 divides them
	for _, ep := range []int{32, 72} {
		p.Workload.Batch = 32 * ep
		fix := map[parallel.Dim]int{parallel.TP: 1, parallel.DP: ep, parallel.EP: ep}
		rack := fixedPlan(t, p, machine(t, "gb200-nvl72", 1), fix, ep)
		boxes := fixedPlan(t, p, machine(t, "hgx-b200", ep/8), fix, ep)
		a, link := kindOf(rack, "ep")
		b, net := kindOf(boxes, "ep")
		if link != "NVLink 900 GB/s" || net == link || b < 2*a {
			t.Errorf("ep%d: rack %v ms over %s, boxes %v ms over %s", ep, a, link, b, net)
		}
	}
}

// The same 64 GPUs cost more when the rack is cut into smaller NVLink domains.
func TestSmallerDomainsAreNotBetter(t *testing.T) {
	p := problem(t, "deepseek-v3")
	last := 0.0
	for _, d := range []string{"4", "8", "16", "32", "64"} {
		m, q, err := Changes{Set: []string{"gpus=64", "nvlink.domain=" + d}}.Apply(machine(t, "gb200-nvl72", 1), p)
		if err != nil {
			t.Fatal(err)
		}
		col, _, no, err := q.best(t.Context(), &m, 0)
		if err != nil || no != nil {
			t.Fatal(err, no)
		}
		if k := strconv.Itoa(col.Machine.DomainGPUs); k != d {
			t.Errorf("domains of %s have %s GPUs", d, k)
		}
		if v := col.Predicted.TokensPerSecondPerGPU; v < last*(1-1e-6) {
			t.Errorf("domains of %s: %v tokens/s/GPU, smaller ones had %v", d, v, last)
		} else {
			last = v
		}
	}
}

func TestABudgetTakesEqualSharesOfRacks(t *testing.T) {
	m := machine(t, "gb200-nvl72", 2)
	use := m.chosen(128)
	n := [2]int{}
	for id, u := range use {
		if u {
			n[id/72]++
		}
	}
	if n != [2]int{64, 64} {
		t.Errorf("%v", n)
	}
	if m.chosen(144) != nil || m.chosen(0) != nil {
		t.Error("all GPUs are not all")
	}
}
