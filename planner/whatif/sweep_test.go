package whatif

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestAxes(t *testing.T) {
	text := func(a *Axis) string {
		var out []string
		for _, v := range a.Values {
			out = append(out, v.Text)
		}
		return strings.Join(out, " ")
	}
	for s, want := range map[string]string{
		"gpus=8..64:x2":               "8 16 32 64",
		"gpus=8..40:x2":               "8 16 32 40",
		"gpus=8..32:+8":               "8 16 24 32",
		"nic.rate=200G..800G":         "200G 400G 800G",
		"nic.rate=25GB/s..100GB/s:x4": "200G 800G",
		"nic.rate=100G..400G:+100G":   "100G 200G 300G 400G",
		"nvlink.rate=450GB/s,900GB/s": "450GB/s 900GB/s",
		"nccl=2.27,2.28":              "2.27 2.28",
		"isl=1000..4000:x1.5":         "1000 1500 2250 3375 4000",
		"experts.redundant=0..8":      "0 1 2 4 8",
		"experts.redundant=0..8:+4":   "0 4 8",
		"nvlink.scale=0.5..2:x2":      "0.5 1 2",
	} {
		a, err := ParseAxis(s)
		if err != nil || text(a) != want {
			t.Errorf("%s: %v, want %s (%v)", s, a, want, err)
		}
	}
	for s, want := range map[string]string{
		"gpus":              "want key=FROM..TO",
		"gpu=8..16":         "words have no range",
		"gpus=16..8":        "below TO",
		"gpus=8..16:x1":     "factor above 1",
		"gpus=8..16:y2":     "want :xFACTOR",
		"gpus=8..16:+0":     "want a step",
		"gpus=1..100000:+1": "larger step",
		"gpus=8,4":          "rising",
		"nic.rates=1G..2G":  "did you mean",
		"nic.rate=1..2":     "want gigabits",
		"gpus=8..":          "want both ends",
		"nic.rate=0G..8G":   "rate",
	} {
		if _, err := ParseAxis(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", s, err, want)
		}
	}
}

func FuzzParseAxis(f *testing.F) {
	for _, s := range []string{"gpus=8..1024:x2", "nic.rate=200G..1600G:+200G", "nccl=2.27,2.28", "isl=1..9:x1.01", "a=b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseAxis(s)
		if err != nil {
			return
		}
		if len(a.Values) == 0 || len(a.Values) > maxPoints+1 {
			t.Errorf("%q: %d values", s, len(a.Values))
		}
		for i := 1; i < len(a.Values); i++ {
			if a.key.unit != word && a.Values[i].Num <= a.Values[i-1].Num {
				t.Errorf("%q: %v does not rise", s, a.Values)
			}
		}
	})
}

// On eight HGX boxes, experts stay inside a box while the network is slow and spread over boxes once it is fast enough.
// The bisected point must be what two plain plans at its ends say.
func TestTheCrossingOfExpertsOverTheNetworkIsFound(t *testing.T) {
	p := problem(t, "deepseek-v3")
	p.Workload.TPOTMs = 40
	axis, err := ParseAxis("nic.rate=100G..1600G:x4")
	if err != nil {
		t.Fatal(err)
	}
	m := machine(t, "hgx-h100", 8)
	out, err := Sweep(t.Context(), p, []Machine{m}, axis, Changes{}, Whole)
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Columns) != 3 || len(out.Sweep.Crossings) == 0 {
		t.Fatalf("%d columns, crossings %+v", len(out.Columns), out.Sweep.Crossings)
	}
	x := out.Sweep.Crossings[0]
	if x.Above > x.Below*1.011 || strings.Contains(x.Before, "ep over") || !strings.Contains(x.After, "over the network") {
		t.Errorf("%+v", x)
	}
	for _, side := range []struct {
		at   float64
		want string
	}{{x.Below, x.Before}, {x.Above, x.After}} {
		k, _ := find("nic.rate")
		cm, q, err := Changes{Set: []string{"nic.rate=" + k.at(side.at*1e9/8).Text}}.Apply(m, p)
		if err != nil {
			t.Fatal(err)
		}
		col, _, _, err := q.best(t.Context(), &cm, 0)
		if err != nil || label(col) != side.want {
			t.Errorf("at %v Gb/s the plan is %s, the crossing says %s", side.at, label(col), side.want)
		}
	}
}

func TestSweepsNameTheBestMachine(t *testing.T) {
	p := problem(t, "llama-3.1-70b")
	axis, err := ParseAxis("batch=8..64:x8")
	if err != nil {
		t.Fatal(err)
	}
	out, err := Sweep(t.Context(), p, []Machine{machine(t, "hgx-h100", 1), machine(t, "hgx-b200", 1)}, axis, Changes{}, Whole)
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Columns) != 4 || out.Columns[0].Name != "hgx-h100" || out.Columns[3].At.Text != "64" || out.Sweep.Metric != "tokensPerSecondPerGpu" {
		t.Errorf("%+v", out.Sweep)
	}
	for _, x := range out.Sweep.Crossings {
		if x.Machine == "" {
			t.Errorf("a B200 box loses to an H100 box somewhere: %s", x.Text)
		}
	}
}

func TestSweepsDoNotDependOnTheNumberOfWorkers(t *testing.T) {
	axis, err := ParseAxis("gpus=8..64:x2")
	if err != nil {
		t.Fatal(err)
	}
	var want string
	for _, workers := range []int{1, 2, 7} {
		p := problem(t, "llama-3.1-70b")
		p.Workers = workers
		cmp, err := Sweep(t.Context(), p, []Machine{machine(t, "hgx-h100", 1), machine(t, "gb200-nvl72", 1)}, axis, Changes{}, EqualBudget)
		if err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(cmp)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(data); want == "" {
			want = got
		} else if got != want {
			t.Errorf("%d workers: another answer", workers)
		}
	}
}

// Counts between two round ones that have fewer divisors say nothing about the size of a machine.
func TestGPUCountsAreCutAtRoundOnes(t *testing.T) {
	s := &sweeper{axis: &Axis{Key: "gpus"}, machines: []Machine{machine(t, "hgx-h100", 1)}}
	for _, tt := range []struct{ lo, hi, want float64 }{{512, 1024, 32}, {8, 16, 8}, {256, 512, 16}, {100, 1000, 8}, {576, 1152, 32}} {
		if got := s.unit(tt.lo, tt.hi); got != tt.want {
			t.Errorf("%v to %v: steps of %v, want %v", tt.lo, tt.hi, got, tt.want)
		}
	}
}
