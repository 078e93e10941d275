package whatif

import (
	"strings"
	"testing"

	"rankmap/layout"
)

// Two boxes and their leaf: without it, ranks on both are apart, and the new plan stays in one box.
func TestALostLeafCutsNodesOff(t *testing.T) {
	p := problem(t, "llama-3.1-70b")
	p.Workload = layout.Workload{Task: "decode", ISL: 1024, OSL: 128, Batch: 64, Objective: "throughput"}
	e := existing(t, p, machine(t, "hgx-h100", 2))
	nics := make([]string, 8)
	for i := range nics {
		nics[i] = "node1.nic" + string(rune('0'+i))
	}
	for name, drop := range map[string][]string{"leaf": {"leaf:su0"}, "all NICs of one node": nics} {
		cmp, err := e.Change(t.Context(), p, Changes{Drop: drop})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		kept, again := cmp.Columns[1], cmp.Columns[len(cmp.Columns)-1]
		if !strings.Contains(kept.Infeasible, "no NIC is left") {
			t.Errorf("%s: kept: %q", name, kept.Infeasible)
		}
		if again.Predicted == nil || again.GPUs > 8 || !strings.Contains(strings.Join(again.Notes, "\n"), "cut off") {
			t.Errorf("%s: new plan on %d GPUs, %q, notes %q", name, again.GPUs, again.Infeasible, again.Notes)
		}
	}
}

// Inside one rack no NIC is needed.
func TestARackNeedsNoNICs(t *testing.T) {
	m := machine(t, "gb200-nvl72", 1)
	p := problem(t, "llama-3.1-70b")
	m, _, err := Changes{Drop: []string{"leaf:su0"}}.Apply(m, p)
	if err != nil {
		t.Fatal(err)
	}
	if inside, why := m.island(); inside != nil {
		t.Errorf("cut off: %s", why)
	}
}
