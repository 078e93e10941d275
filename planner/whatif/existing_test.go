package whatif

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func columnOf(t *testing.T, c *Comparison, name string) *Column {
	t.Helper()
	for _, col := range c.Columns {
		if col.Name == name {
			return col
		}
	}
	t.Fatalf("no column %q in %v", name, names(c))
	return nil
}

func names(c *Comparison) []string {
	var out []string
	for _, col := range c.Columns {
		out = append(out, col.Name)
	}
	return out
}

func TestALayoutPricedAgainIsThePlan(t *testing.T) {
	p := problem(t, "llama-3.1-70b")
	e := existing(t, p, machine(t, "hgx-h100", 2))
	out, err := e.Change(t.Context(), p, Changes{})
	if err != nil {
		t.Fatal(err)
	}
	got, want := *out.Columns[0].Predicted, e.Layout.Predicted
	if d := cmp.Diff(want, got, cmpopts.EquateApprox(1e-4, 0)); d != "" {
		t.Error(d)
	}
}

func TestADeadGPUInvalidatesTheLayoutAndIsPlannedAround(t *testing.T) {
	p := problem(t, "llama-3.1-70b")
	e := existing(t, p, machine(t, "hgx-h100", 2))
	out, err := e.Change(t.Context(), p, Changes{Drop: []string{"node1.gpu5"}})
	if err != nil {
		t.Fatal(err)
	}
	kept := columnOf(t, out, Kept)
	rank := -1
	for r, id := range e.Seats {
		if e.Machine.Cluster.GPUName(id) == "node1/5" {
			rank = r
		}
	}
	if kept.Predicted != nil || !strings.Contains(kept.Infeasible, fmt.Sprintf("rank %d (node1/5)", rank)) {
		t.Errorf("kept: %+v", kept)
	}
	again := columnOf(t, out, Replanned)
	if again.Predicted == nil || again.Moved == nil || again.GPUs > 15 || again.Machine.Lost != 1 {
		t.Errorf("re-planned: %+v", again)
	}
	for _, id := range again.seats {
		if e.Machine.Cluster.GPUName(id) == "node1/5" {
			t.Error("the dead GPU is used")
		}
	}
}

func TestASpareTakesTheDeadGPUsRank(t *testing.T) {
	p := problem(t, "deepseek-v3")
	p.GPUs = 64
	e := existing(t, p, machine(t, "gb200-nvl72", 1)) // eight GPUs stay idle
	p.GPUs = 0
	out, err := e.Change(t.Context(), p, Changes{Drop: []string{"node3.gpu1"}})
	if err != nil {
		t.Fatal(err)
	}
	base, spare := columnOf(t, out, AsPlanned), columnOf(t, out, Spares)
	if spare.Moved == nil || spare.Moved.Ranks != 1 || spare.Moved.Reloads != 1 {
		t.Fatalf("moved: %+v", spare.Moved)
	}
	if d := spare.Predicted.StepMs/base.Predicted.StepMs - 1; abs(d) > 1e-3 {
		t.Errorf("inside one NVLink domain any spare is as good: step %+.2g", d)
	}
}

func TestASlowerPartCostsWhatItsGroupsPay(t *testing.T) {
	p := problem(t, "llama-3.1-70b")
	e := existing(t, p, machine(t, "hgx-h100", 2))
	step := func(ch Changes) float64 {
		out, err := e.Change(t.Context(), p, ch)
		if err != nil {
			t.Fatal(err)
		}
		return columnOf(t, out, Kept).Predicted.StepMs
	}
	whole, half := step(Changes{}), step(Changes{Degrade: []string{"node0.gpu3=9"}})
	if half <= whole {
		t.Errorf("half the NVLinks of a GPU: %v ms, before %v", half, whole)
	}
	if nic := step(Changes{Degrade: []string{"node0.nic2=50G"}}); nic != whole {
		t.Errorf("a slow NIC changes a layout that uses none: %v ms, before %v", nic, whole)
	}
	if sw := step(Changes{Drop: []string{"node1.nvswitch0"}}); sw <= whole || sw > half {
		t.Errorf("one of four switches gone: %v ms, want between %v and %v", sw, whole, half)
	}
}

func TestTheSameQuestionGivesTheSameAnswer(t *testing.T) {
	p := problem(t, "deepseek-v3")
	ask := func() *Comparison {
		out, err := Compare(t.Context(), p, []Machine{machine(t, "hgx-h100", 4), machine(t, "gb200-nvl72", 1)}, Changes{}, EqualGPUs)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	first := ask()
	for range 3 {
		if d := cmp.Diff(first, ask(), cmpopts.IgnoreUnexported(Column{})); d != "" {
			t.Fatal(d)
		}
	}
}
