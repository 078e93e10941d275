package collective

import (
	"slices"
	"testing"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
)

func TestMinorVersion(t *testing.T) {
	for v, want := range map[string]int{"2.28.9": 28, "2.23": 23, "22803": 28, "2.27.3+cuda12": 27} {
		if got, ok := minorVersion(v); !ok || got != want {
			t.Errorf("%q: %d %v, want %d", v, got, ok, want)
		}
	}
	for _, v := range []string{"", "2", "x.y", "2.-1", "latest", "999999"} {
		if m, ok := minorVersion(v); ok {
			t.Errorf("%q: got %d", v, m)
		}
	}
}

func TestVersionsSortByNumber(t *testing.T) {
	v := []string{"2.27.3", "2.4.8", "2.27", "2.10.1", "2.28.9", "1.3.0rc10", "1.3.0rc2"}
	slices.SortFunc(v, compareVersions)
	if want := []string{"1.3.0rc10", "1.3.0rc2", "2.4.8", "2.10.1", "2.27", "2.27.3", "2.28.9"}; !slices.Equal(v, want) {
		t.Errorf("got %v, want %v", v, want)
	}
	if newest(v) != "2.28.9" || newest(nil) != "" {
		t.Error(newest(v))
	}
}

func TestRepeatsBecomeTheirMedian(t *testing.T) {
	p := func(us float64, dtype string) Point {
		return Point{Op: parallel.AllGather, DType: dtype, Ranks: 2, Bytes: 8, Time: units.Micros(us)}
	}
	got := mergeRepeats([]Point{p(9, "half"), p(5, "int8"), p(6, "half")})
	if len(got) != 1 || got[0].Time != units.Micros(6) {
		t.Errorf("all_gather moves bytes whatever their type: %v", got)
	}
	r := func(us float64, dtype string) Point {
		return Point{Op: parallel.AllReduce, DType: dtype, Ranks: 2, Bytes: 8, Time: units.Micros(us)}
	}
	if got := mergeRepeats([]Point{r(9, "half"), r(5, "int8"), r(7, "bf16")}); len(got) != 2 {
		t.Errorf("all_reduce of one-byte types is another measurement: %v", got)
	}
}
