package whatif

import (
	"testing"

	"rankmap/layout"
)

// In a rack where any spare is as good, the new plan of a layout that lost a GPU moves one rank and no other.
func TestARenewedPlanMovesWhatItMust(t *testing.T) {
	p := problem(t, "deepseek-v3")
	p.GPUs = 64
	m := machine(t, "gb200-nvl72", 1)
	e := existing(t, p, m)
	p.GPUs = 0
	e.Layout.Inputs.Use = &layout.Use{GPUs: 64}
	e, err := FromLayout(e.Layout, "layout.yaml", p.Catalog)
	if err != nil {
		t.Fatal(err)
	}
	out, err := e.Change(t.Context(), p, Changes{Drop: []string{"node3.gpu1"}})
	if err != nil {
		t.Fatal(err)
	}
	again := columnOf(t, out, Replanned)
	if again.Moved == nil || again.Moved.Ranks > 1 || again.Moved.Reloads > 1 || again.GPUs != 64 {
		t.Errorf("%d GPUs, moved %+v; want one rank of 64", again.GPUs, again.Moved)
	}
}

// A slower NIC that no group waits for changes nothing, so that nothing moves.
func TestNothingMovesWhereNothingIsWon(t *testing.T) {
	p := problem(t, "llama-3.1-70b")
	e := existing(t, p, machine(t, "hgx-h100", 2))
	out, err := e.Change(t.Context(), p, Changes{Degrade: []string{"node0.nic2=390G"}})
	if err != nil {
		t.Fatal(err)
	}
	if again := columnOf(t, out, Replanned); again.Moved == nil || again.Moved.Reloads != 0 {
		t.Errorf("moved %+v", again.Moved)
	}
}

// Figures for each GPU count what the plan counted, and GPUs that it was told to leave out stay out.
func TestALayoutKeepsToItsPartOfTheCluster(t *testing.T) {
	p := problem(t, "llama-3.1-70b")
	p.GPUs = 8
	e := existing(t, p, machine(t, "hgx-h100", 2))
	p.GPUs = 0
	e.Layout.Inputs.Use = &layout.Use{GPUs: 8, Exclude: []string{"node1/[0-3]", "node1/0", "node1/1"}}
	want := e.Layout.Predicted.TokensPerSecondPerGPU
	e, err := FromLayout(e.Layout, "layout.yaml", p.Catalog)
	if err != nil {
		t.Fatal(err)
	}
	out, err := e.Change(t.Context(), p, Changes{Drop: []string{"node0.gpu5"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := columnOf(t, out, AsPlanned).Predicted.TokensPerSecondPerGPU; abs(got/want-1) > 1e-4 {
		t.Errorf("as planned %v tokens/s/GPU, the layout says %v", got, want)
	}
	for _, name := range []string{Spares, Replanned} {
		col := columnOf(t, out, name)
		for _, id := range col.seats {
			if g := e.Machine.Cluster.GPUName(id); g == "node1/0" || g == "node1/1" || g == "node0/5" {
				t.Errorf("%s: a rank sits on %s", name, g)
			}
		}
		if col.GPUs > 8 || col.Machine.Paid != 8 {
			t.Errorf("%s: %d GPUs, %d paid, want 8 at most and 8", name, col.GPUs, col.Machine.Paid)
		}
	}
}
