package collective

import (
	"io"
	"os"
	"testing"

	"rankmap/internal/measured"
	"rankmap/internal/testdata"
)

// ncclPoints reads the published single-domain NCCL tables, by system.
func ncclPoints(t testing.TB) map[string][]Point {
	t.Helper()
	out := map[string][]Point{}
	for _, r := range measuredRows(t, measured.ReadCollectives, "measured", "public", "collectives.csv") {
		if r.Library == "nccl" && r.Nodes == 1 {
			out[r.Hardware] = append(out[r.Hardware], Point{System: r.Hardware, Op: r.Op, DType: r.DType, Ranks: r.Ranks, Bytes: r.Bytes,
				Time: r.Time, Library: r.Version, Launch: Eager, SharesHost: true})
		}
	}
	return out
}

func measuredRows(t testing.TB, read func(r io.Reader, name string) ([]measured.Row, []measured.Skip, error), elem ...string) []measured.Row {
	t.Helper()
	f, err := os.Open(testdata.Dir(t, elem...))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, _, err := read(f, f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return rows
}
