package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rankmap/internal/accuracy"
	"rankmap/internal/testdata"
)

const own = "../../accuracy/testdata/h200-x2"

// Without the tables our own measurements are compared and no document is touched.
func TestCleanClone(t *testing.T) {
	out := t.TempDir()
	old := os.Stdout
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	os.Stdout = w
	err = run(filepath.Join(out, "nowhere"), own, out)
	os.Stdout = old
	w.Close()
	var text bytes.Buffer
	if _, e := text.ReadFrom(r); e != nil || err != nil {
		t.Fatal(e, err)
	}
	if !strings.Contains(text.String(), "## Our own two H200") || !strings.Contains(text.String(), "|1 MiB|13.9|") {
		t.Error(text.String())
	}
	if left, _ := os.ReadDir(out); len(left) != 0 {
		t.Errorf("wrote %v", left)
	}
}

func TestWithTheTables(t *testing.T) {
	if testing.Short() {
		t.Skip("fits every profile several times")
	}
	data := testdata.Dir(t, "measured")
	out := t.TempDir()
	if err := run(data, own, out); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(out, "accuracy.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"## Rows that were not fitted", "|n = 4 left out|2679|", "## Other people's clusters", "(accuracy/h100_sxm.svg)", "## Our own two H200"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q", want)
		}
	}
	pictures, _ := filepath.Glob(filepath.Join(out, "accuracy", "*.svg"))
	if len(pictures) < 5 {
		t.Errorf("%d pictures, want five systems", len(pictures))
	}
	if bytes.Contains(text, []byte("/tmp")) || bytes.Contains(text, []byte(data)) {
		t.Error("a path of this machine in the document")
	}
}

func TestVerdictNamesMisses(t *testing.T) {
	for _, c := range []struct {
		t    target
		want string
	}{
		{target{}, "not run: no rows"},
		{target{cases: []accuracy.Case{{Measured: 100, Ours: 105}}, median: 4, p90: 10}, "**missed**"},
		{target{cases: []accuracy.Case{{Measured: 100, Ours: 105}}, median: 6, p90: 10}, "met"},
		{target{cases: []accuracy.Case{{Measured: 100, Ours: 105}}}, ""},
	} {
		if got := c.t.verdict(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
