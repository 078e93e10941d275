package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCommandReferenceIsCurrent(t *testing.T) {
	const file = "../../docs/commands.md"
	got := reference(newRootCmd(osDeps()))
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("docs/commands.md is old (make golden):\n%s", d)
	}
}

func TestEveryCommandHasExamplesAndHelp(t *testing.T) {
	for _, c := range newRootCmd(osDeps()).Commands() {
		if c.Hidden || !c.Runnable() || c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		if c.Short == "" || strings.Count(c.Example, "rankmap "+c.Name()) < 2 {
			t.Errorf("rankmap %s: want a summary and at least two examples to copy", c.Name())
		}
	}
}
