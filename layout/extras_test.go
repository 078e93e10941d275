package layout

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rankmap/internal/parallel"
)

// What a plan says beyond the choice survives writing and reading; a layout without it has none of the keys.
func TestExtrasRoundTrip(t *testing.T) {
	l := sample()
	l.Strategy.RedundantExperts = 32
	l.Predicted.PlainMs = 4
	l.Launchers = append(l.Launchers, Launcher{Target: "torchrun", LossPercent: 12.5, Why: "uneven nodes",
		Best: &LauncherBest{Strategy: Of(parallel.Strategy{PP: 2}.Normalize()), Batch: 4, StepMs: 3.4}})
	l.Kept = &Kept{From: Source{"old", "sha256:02"}, Stay: 1, Moved: 1, Moves: []string{"rank 1: n1/1 to n1/0"}, Anew: "a new plan wins nothing"}
	l.Avoided = &Avoided{Parts: []string{"n1/3 (Xid 79)"}, CostPercent: 12.3, Strategy: "tp4", StepMs: 2}
	l.Sensitivity = []Sensitivity{{Quantity: "NIC rate", Factor: 0.31, Strategy: "pp2"}}
	text := yamlOf(t, l)
	back, err := Read(strings.NewReader(text), "l.yaml")
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if again := yamlOf(t, back); again != text {
		t.Errorf("read and written again differs:\n%s", cmp.Diff(text, again))
	}
	if back.Strategy.Parallel().RedundantExperts != 32 {
		t.Error("the copies of experts are lost")
	}
	for _, key := range []string{"kept:", "avoided:", "sensitivity:", "plainMs:", "redundantExperts:", "best:"} {
		if plain := yamlOf(t, sample()); strings.Contains(plain, key) || !strings.Contains(text, key) {
			t.Errorf("%s: wanted with a value and not without", key)
		}
	}
}
