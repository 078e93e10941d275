package planner

import (
	"context"
	"strings"
	"testing"

	"rankmap/configs"
	"rankmap/layout"
	"rankmap/model"
)

// A kept plan says what would change the choice, as a new one does, against the strategies that do not cost less already.
func TestAKeptPlanHasItsSensitivity(t *testing.T) {
	b := newBench(t)
	spec, err := model.Load(configs.FS, "llama-3.1-70b")
	if err != nil {
		t.Fatal(err)
	}
	r := cheap(t, b.preset(t, "hgx-h100", 2), spec, layout.Workload{Task: "decode", ISL: 1024, OSL: 512, Batch: 64, Objective: string(Latency)})
	p, err := Search(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	r.Skip = without(p.Seats[3])
	k, err := Replan(context.Background(), r, Former{p.Best.Strategy, p.Seats, p.Best.Batch})
	if err != nil {
		t.Fatal(err)
	}
	before := len(k.Explained)
	if err := Sensitivity(context.Background(), r, k, varyCheap(r)); err != nil {
		t.Fatal(err)
	}
	said := strings.Join(k.Explained[before:], "\n")
	if !strings.Contains(said, "changes the choice") && len(k.Flips) == 0 {
		t.Errorf("a kept plan says nothing of what its choice hangs on: %q", said)
	}
	for _, f := range k.Flips {
		if f.Factor > 0.99 && f.Factor < 1.01 {
			t.Errorf("%s wins at factor %v: it costs less already and is no flip", f.Strategy, f.Factor)
		}
	}
	if cheaper(k.found[min(1, len(k.found)-1)], k.Best) && !strings.Contains(said, "cost less but move more ranks") {
		t.Errorf("a new plan costs less; the text does not say so:\n%s", said)
	}
}
