package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestExamples runs every folder of examples: command.txt holds one rankmap command line, run from the repository's
// root; expected.txt its standard output.
func TestExamples(t *testing.T) {
	t.Chdir("../..")
	files, err := filepath.Glob("examples/*/command.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, f := range files {
		dir := filepath.Dir(f)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			line, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			args := strings.Fields(strings.ReplaceAll(string(line), "\\\n", " "))
			if len(args) < 2 || args[0] != "rankmap" {
				t.Fatalf("%s: want a line that starts with rankmap", f)
			}
			var out, talk bytes.Buffer
			d := osDeps()
			d.Stdout, d.Stderr, d.Terminal, d.Width = &out, &talk, false, 0
			if code := run(context.Background(), d, args[1:]); code != 0 {
				t.Fatalf("exit %d: %s", code, talk.String())
			}
			golden := filepath.Join(dir, "expected.txt")
			if *update {
				if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), out.String()); d != "" {
				t.Errorf("output differs (run with -update and read the diff):\n%s", d)
			}
		})
	}
}
