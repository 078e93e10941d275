package accuracy

import (
	"os"
	"path/filepath"
	"testing"

	"rankmap/configs"
	"rankmap/internal/measured"
	"rankmap/internal/testdata"
)

// TestHalfATableCalibrates: a GPU estimated from the others and calibrated from half of its matrix products predicts the
// other half better than the estimate, on every GPU.
func TestHalfATableCalibrates(t *testing.T) {
	f, err := os.Open(filepath.Join(testdata.Dir(t, "measured", "public"), "gemm.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := measured.Ops(f, "gemm.csv", "")
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(configs.FS, Options{})
	if err != nil {
		t.Fatal(err)
	}
	all, err := c.HalfTables(rows)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 5 {
		t.Fatalf("%d systems, want 5", len(all))
	}
	for _, h := range all {
		t.Logf("%s %s: %d rows; %.1f / %.1f, then %.1f / %.1f on %d others", h.System, h.Op, h.Rows, h.Before.MedianAPE, h.Before.P90APE, h.After.MedianAPE, h.After.P90APE, h.After.N)
		if h.After.MedianAPE >= h.Before.MedianAPE || h.After.P90APE >= h.Before.P90APE || h.After.MedianAPE > 8 {
			t.Errorf("%s: %+v, then %+v", h.System, h.Before, h.After)
		}
		if h.Rows < 1000 || h.After.N < 1000 || h.Before.N != h.After.N {
			t.Errorf("%s: %d rows and %d", h.System, h.Rows, h.After.N)
		}
	}
}
