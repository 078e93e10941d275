package accuracy

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"rankmap/internal/units"
)

func someCases() []Case {
	at := func(system string, size Size, measured, ours, low, high float64) Case {
		return Case{System: system, Collective: "all_reduce", Size: size, Nodes: 1, Ranks: 8, Measured: units.Micros(measured), Ours: units.Micros(ours),
			P10: units.Micros(low), P90: units.Micros(high), Textbook: units.Micros(measured / 2)}
	}
	return []Case{
		at("h100_sxm", Small, 10, 11, 9, 12), at("h100_sxm", Small, 10, 12, 11, 13), at("h100_sxm", Large, 100, 100, 90, 110),
		at("a100_sxm", Small, 20, 10, 9, 11),
	}
}

func TestScore(t *testing.T) {
	s := Score(someCases(), Ours)
	want := Stats{N: 4, MedianAPE: 15, P90APE: 41, Bias: 5, Coverage: 50} // APE 0 10 20 50, errors -50 0 10 20
	if s != want {
		t.Errorf("%+v, want %+v", s, want)
	}
	if s := Score(someCases(), NCCL); s != (Stats{}) {
		t.Errorf("a column without predictions has no rows: %+v", s)
	}
	if s := Score(someCases(), Textbook); s.MedianAPE != 50 || s.Bias != -50 || s.Coverage != 0 {
		t.Errorf("%+v", s)
	}
}

// The quantile against its definition: a share q of the values lies at or below it, up to one value.
func TestQuantile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOfN(rapid.Float64Range(0, 100), 1, 60).Draw(t, "values")
		q := rapid.SampledFrom([]float64{0, .1, .5, .9, 1}).Draw(t, "q")
		slices.Sort(v)
		x := quantile(v, q)
		below, upTo := 0, 0
		for _, y := range v {
			if y < x {
				below++
			}
			if y <= x {
				upTo++
			}
		}
		at := q * float64(len(v)-1)
		if float64(below) > math.Ceil(at) || float64(upTo) < math.Floor(at)+1 {
			t.Fatalf("%v of %v is %v: %d below, %d up to it", q, v, x, below, upTo)
		}
	})
}

func TestClassesAreSortedAndComplete(t *testing.T) {
	cases := someCases()
	n := 0
	var keys []string
	for _, c := range Classes(cases, ByClass) {
		n += len(c.Cases)
		keys = append(keys, c.System+" "+c.Size.String())
	}
	if n != len(cases) || strings.Join(keys, ",") != "a100_sxm <=256 KiB,h100_sxm <=256 KiB,h100_sxm >16 MiB" {
		t.Errorf("%d cases in %v", n, keys)
	}
}

// The machine-readable form is a contract: these keys and no others.
func TestSummaryForm(t *testing.T) {
	r := Result{Cases: someCases()[2:3], Skipped: []Skipped{{"one rank", 3}}}
	got, err := json.Marshal(r.Summary())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"all":{"n":1,"medianAPE":0,"p90APE":0,"bias":0,"coverage80":100},` +
		`"classes":[{"system":"h100_sxm","collective":"all_reduce","sizeClass":"\u003e16 MiB","nodes":1,"n":1,"medianAPE":0,"p90APE":0,"coverage80":100}],` +
		`"skipped":[{"reason":"one rank","n":3}]}`
	if string(got) != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	empty, _ := json.Marshal((&Result{}).Summary())
	if string(empty) != `{"all":{"n":0,"medianAPE":0,"p90APE":0,"bias":0,"coverage80":0},"classes":[],"skipped":[]}` {
		t.Errorf("%s", empty)
	}
}

func TestTable(t *testing.T) {
	var b strings.Builder
	r := Result{Cases: someCases(), Skipped: []Skipped{{"one rank", 3}}}
	if err := r.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{
		"system    collective  nodes  ranks       size  rows  textbook  NCCL model  rankmap  bias  in 80 %\n",
		"all                                               4   50 / 50           -  15 / 41    +5       50\n",
		"     3  one rank\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no line %q in\n%s", want, text)
		}
	}
}
