package accuracy

import (
	"slices"
	"strings"
	"testing"

	"rankmap/internal/measured"
	"rankmap/internal/parallel"
	"rankmap/internal/testdata"
	"rankmap/internal/units"
)

// contended prices the measured table of collectives beside others.
func contended(t *testing.T) Result {
	t.Helper()
	return confronter(t, Options{System: "h200_sxm", NoMulticast: true}).Rows(readAll(t, testdata.Dir(t, "measured", "h200-x2")+"/contention.csv")...)
}

// Two collectives at once on the same GPUs, from 16 MiB up (target: 12 % in the median), and the bound on channels alone.
func TestContention(t *testing.T) {
	res := contended(t)
	s := Score(Shared(res.Cases), Ours)
	t.Logf("two at once: %d rows, %.1f / %.1f %%, bias %.1f, inside %.0f %%", s.N, s.MedianAPE, s.P90APE, s.Bias, s.Coverage)
	if s.N < 50 || s.MedianAPE > 12 {
		t.Errorf("two at once: %+v", s)
	}
	var forced []Case
	for _, c := range res.Cases {
		if strings.HasSuffix(c.Collective, "forced") && c.Row.Beside.Bytes == 0 && c.Row.Bytes >= SharedFrom {
			forced = append(forced, c)
		}
	}
	f := Score(forced, Ours)
	t.Logf("channels forced, alone: %d rows, %.1f / %.1f %%", f.N, f.MedianAPE, f.P90APE)
	if f.N < 20 || f.MedianAPE > 12 {
		t.Errorf("channels forced: %+v", f)
	}
	if !slices.ContainsFunc(res.Skipped, func(s Skipped) bool { return s.Reason == errBesideGEMM.Error() && s.N > 0 }) {
		t.Errorf("rows beside a GEMM are not listed: %v", res.Skipped)
	}
}

// One channel a collective leaves room for the other one.
func TestFewChannelsDoNotDisturbEachOther(t *testing.T) {
	r := row("h200_sxm", parallel.AllReduce, 2, 1, 256<<20)
	time := func(channels int, other units.Bytes) float64 {
		x := r
		x.Kind, x.Beside = measured.Contention, &measured.BesideShape{Op: parallel.AllReduce, Bytes: other, Channels: channels}
		res := confronter(t, Options{}).Rows(measured.File{Rows: []measured.Row{x}})
		if len(res.Cases) != 1 {
			t.Fatal(res.Skipped)
		}
		return res.Cases[0].Ours.Micros()
	}
	if alone, both := time(1, 0), time(1, 256<<20); both > 1.01*alone {
		t.Errorf("one channel: %.0f us alone, %.0f beside another", alone, both)
	}
	if alone, both := time(0, 0), time(0, 256<<20); both < 1.4*alone || both > 2*alone {
		t.Errorf("all channels: %.0f us alone, %.0f beside another", alone, both)
	}
}
