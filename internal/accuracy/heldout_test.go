package accuracy

import (
	"math/bits"
	"path/filepath"
	"testing"

	"rankmap/internal/measured"
	"rankmap/internal/testdata"
	"rankmap/internal/units"
)

// A split never scores a row that it was fitted to, and every line has the rows that the tables hold.
func TestHeldOut(t *testing.T) {
	dir := testdata.Dir(t, "measured", "public")
	c := confronter(t, Options{})
	h := NewHeldOut(c, readAll(t, filepath.Join(dir, "collectives.csv"))...)
	four := h.RanksLeftOut(4)
	for _, x := range four {
		if x.Ranks != 4 {
			t.Fatalf("%+v", x)
		}
	}
	if s := Score(four, Ours); s.N != 2679 || s.MedianAPE > 10 || s.MedianAPE < .5 {
		t.Errorf("%+v", s)
	}
	for _, v := range h.versions("h100_sxm") {
		for _, x := range h.split("h100_sxm", false, func(r *measured.Row) bool { return r.Version == v }) {
			if x.Row.Version != v || x.System != "h100_sxm" {
				t.Fatalf("%+v", x.Row)
			}
		}
	}
	given, others := eight(h.rows(func(r *measured.Row) bool { return r.Hardware == "h200_sxm" }))
	if len(given) != 8 || len(others) != 1342 {
		t.Errorf("%d rows to calibrate with, %d others", len(given), len(others))
	}
	run, once := h.repeats("h100_sxm")
	if once != 1 || run[h.rows(func(r *measured.Row) bool { return r.Hardware == "h100_sxm" })[0].Place()] > 1 {
		t.Errorf("most repeats %d", once)
	}
	if cases := h.split("gb200", false, func(r *measured.Row) bool { return true }); cases != nil {
		t.Errorf("nothing left to fit: %d cases", len(cases))
	}
}

// Kernels: the version, group size or hidden size that is scored took no part in its fit, and nothing is scored twice.
func TestHeldOutKernels(t *testing.T) {
	dir := testdata.Dir(t, "measured", "public")
	h := NewHeldOut(confronter(t, Options{}), readAll(t, filepath.Join(dir, "collectives.csv"), filepath.Join(dir, "nvl_alltoall.csv"))...)
	custom := h.CustomVersionLeftOut()
	seen := map[string]bool{}
	for _, c := range custom {
		if seen[c.Row.Place()] || c.Row.Launch != measured.LaunchGraph || c.Row.Library == "nccl" {
			t.Fatalf("%+v", c.Row)
		}
		seen[c.Row.Place()] = true
	}
	if len(custom) < 500 {
		t.Errorf("%d rows", len(custom))
	}
	moe := h.ExchangeLeftOut("trtllm", false, func(r *measured.Row) int { return r.Ranks })
	if len(moe) != 1290 {
		t.Errorf("%d rows, want all 1740 but 450 of the preparation", len(moe))
	}
	all := h.base.Rows(measured.File{Rows: h.moe})
	if in, out := Score(all.Cases, Ours), Score(moe, Ours); out.MedianAPE <= in.MedianAPE {
		t.Errorf("left out %.1f %% is no worse than remembered %.1f %%: did the fit see the rows?", out.MedianAPE, in.MedianAPE)
	}
}

// Our own machine needs no tables: calibrated with every third size, the others are within 5 % in the median.
func TestAfterCalibration(t *testing.T) {
	c := confronter(t, Options{})
	files := readAll(t, "testdata/h200-x2/nccl-tests/nt_all_reduce_graph.txt")
	given := func(b units.Bytes) bool { return (bits.Len64(uint64(b))-4)%3 == 0 }
	cases, err := c.AfterCalibration(files, given)
	if err != nil {
		t.Fatal(err)
	}
	if s := Score(cases, Ours); s.N != 32 || s.MedianAPE > 5 {
		t.Errorf("%+v", s)
	}
	if _, err := c.AfterCalibration(files, func(units.Bytes) bool { return false }); err == nil {
		t.Error("nothing given: want an error")
	}
}
