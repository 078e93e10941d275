package smi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rankmap/internal/testdata"
)

// TestCorpus reads every real topo -m paste of the collection in place and compares every fact that the index states.
func TestCorpus(t *testing.T) {
	dir := testdata.Dir(t, "topology", "dev")
	index, err := os.ReadFile(filepath.Join(dir, "INDEX.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	var total, right, refused, facts int
	for _, l := range strings.Split(string(index), "\n") {
		f := strings.Split(l, "\t")
		if len(f) < 4 || !strings.HasPrefix(f[0], "smi/") {
			continue
		}
		total++
		ok := t.Run(f[0], func(t *testing.T) {
			file, err := os.Open(filepath.Join(dir, f[0]))
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			res, err := Read(file, f[0])
			if refusal(f[3]) {
				if err == nil {
					t.Fatal("read, want it refused")
				}
				if IsForeign(err) == "" || strings.Contains(err.Error(), "\n") {
					t.Errorf("refused as a damaged table, want one message that says what it is: %v", err)
				}
				t.Log(err)
				refused++
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(res.Nodes) != 1 {
				t.Fatalf("%d nodes, want 1", len(res.Nodes))
			}
			n, bad, skipped := compareReading(&res.Nodes[0], f[3])
			for _, b := range bad {
				t.Error(b)
			}
			for _, s := range skipped {
				t.Logf("not compared: %s", s)
			}
			for _, w := range res.Warnings {
				t.Logf("warning: %s", w)
			}
			facts += n
		})
		if ok && !refusal(f[3]) {
			right++
		}
	}
	t.Logf("read right %d, refused right %d, of %d; %d facts compared", right, refused, total, facts)
}
