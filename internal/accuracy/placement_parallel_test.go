package accuracy

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"rankmap/configs"
	"rankmap/internal/measured"
	"rankmap/internal/testdata"
)

// The number of workers never shows in the result.
func TestWorkersDoNotChangeTheResult(t *testing.T) {
	dir := testdata.Dir(t, "placements")
	rows := readTable(t, filepath.Join(dir, "dev.csv"), measured.ReadPlacements)
	names := readTable(t, filepath.Join(dir, "models.tsv"), measured.ReadModelMap)
	var some []measured.Placement
	for i := range rows {
		if f := rows[i].Family(); f == "mlperf-8b" || f == "mlinf" || f == "vtrain-single" {
			some = append(some, rows[i])
		}
	}
	run := func(workers int) string {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(workers))
		p, err := NewPlacer(configs.FS, Models{Map: names})
		if err != nil {
			t.Fatal(err)
		}
		calls := 0
		res, err := p.Rows(context.Background(), some, func(done, all int) {
			if calls++; done != calls || all != len(some) {
				t.Errorf("progress says %d of %d, want %d of %d", done, all, calls, len(some))
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(res.Summary())
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if one, four := run(1), run(4); one != four {
		t.Errorf("one worker says\n%s\nfour say\n%s", one, four)
	}
}

// A cancelled confrontation is an error, not a table with holes.
func TestCancelledRows(t *testing.T) {
	p, err := NewPlacer(configs.FS, Models{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := p.Rows(ctx, make([]measured.Placement, 3), nil); err == nil {
		t.Error("no error")
	}
}

func readTable[T any](t *testing.T, name string, read func(r io.Reader, name string) (T, error)) T {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	v, err := read(f, name)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
