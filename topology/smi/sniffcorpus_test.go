package smi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rankmap/internal/testdata"
)

// TestSniffCorpus: every kind of file of the collection is told from ours.
func TestSniffCorpus(t *testing.T) {
	dir := testdata.Dir(t, "topology", "dev")
	for _, sub := range []string{"smi", "fabric", "ncclxml", "nccllog"} {
		files, err := filepath.Glob(filepath.Join(dir, sub, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			want := ""
			switch {
			case sub == "smi":
				want = Kind
			case strings.Contains(f, "nvlink-status"):
				want = KindNVLink
			}
			if got := Sniff(b[:min(len(b), 1<<16)]); got != want {
				t.Errorf("%s is %q, want %q", f, got, want)
			}
		}
	}
}
