package smi

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fixture is one line of testdata/INDEX.tsv: a text of our own, its right reading, and what is odd about it.
type fixture struct{ file, reading, oddity string }

func fixtures(t testing.TB) []fixture {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "INDEX.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	var all []fixture
	for _, l := range strings.Split(string(b), "\n")[1:] {
		if f := strings.Split(l, "\t"); len(f) == 3 {
			all = append(all, fixture{f[0], f[1], f[2]})
		}
	}
	return all
}

// TestFixtures reads a text of each class of damage.
func TestFixtures(t *testing.T) {
	for _, f := range fixtures(t) {
		t.Run(f.file, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", f.file))
			if err != nil {
				t.Fatal(err)
			}
			res, err := Read(strings.NewReader(string(text)), f.file)
			if place, ok := strings.CutPrefix(f.reading, "damaged "); ok {
				var e *Error
				if err == nil || !errors.As(err, &e) || e.Foreign != "" {
					t.Fatalf("error %v, want a damaged table refused", err)
				}
				at := fmt.Sprintf("%d:%d", e.Line, e.Column)
				if at != place && fmt.Sprint(e.Line) != place {
					t.Errorf("refused at %s, want %s: %v", at, place, err)
				}
				return
			}
			if f.reading == "refuse" {
				if err == nil || IsForeign(err) == "" || strings.Contains(err.Error(), "\n") {
					t.Fatalf("error %v, want one message that says what the text is", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			_, bad, skipped := compareReading(&res.Nodes[0], f.reading)
			for _, b := range bad {
				t.Error(b)
			}
			for _, s := range skipped {
				t.Errorf("clause not understood: %s", s)
			}
			if t.Failed() {
				t.Logf("%s\n%s\n%v", f.oddity, text, res.Warnings)
			}
		})
	}
}
