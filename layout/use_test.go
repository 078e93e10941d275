package layout

import (
	"os"
	"slices"
	"strings"
	"testing"

	"rankmap/internal/hardware"
	"rankmap/topology"
)

func twoBoxes(t *testing.T) *topology.Cluster {
	t.Helper()
	fsys := os.DirFS("../configs")
	cat, err := hardware.Load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	c, err := topology.Preset(fsys, "hgx-h100", 2, cat)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestUseBarsWhatItLeavesOut(t *testing.T) {
	c := twoBoxes(t)
	for _, x := range []struct {
		use     *Use
		barred  string // GPUs
		missing []string
	}{
		{nil, "", nil},
		{&Use{GPUs: 4}, "", nil},
		{&Use{Exclude: []string{"node1/3"}}, "11", nil},
		{&Use{Exclude: []string{"node[0-1]/3", "node1"}}, "8 9 10 11 12 13 14 15", []string{"node[0-1]/3"}},
		{&Use{Hosts: []string{"node1"}, Exclude: []string{"node1/0", "node1/9"}}, "0 1 2 3 4 5 6 7 8", []string{"node1/9"}},
		{&Use{Hosts: []string{"node[1-2]"}}, "0 1 2 3 4 5 6 7", []string{"node2"}},
	} {
		bars, missing := x.use.Barred(c)
		var got []string
		for id, b := range bars {
			if b {
				got = append(got, strings.TrimPrefix(c.GPUName(topology.GPUID(id)), ""))
			}
		}
		var want []string
		for _, f := range strings.Fields(x.barred) {
			n := 0
			for _, r := range f {
				n = 10*n + int(r-'0')
			}
			want = append(want, c.GPUName(topology.GPUID(n)))
		}
		if !slices.Equal(got, want) || !slices.Equal(missing, x.missing) {
			t.Errorf("%+v bars %v, want %v; missing %v, want %v", x.use, got, want, missing, x.missing)
		}
	}
}

func TestUseThenKeepsWhatIsLeftOut(t *testing.T) {
	var none *Use
	if u := none.Then(Use{}); u != nil {
		t.Errorf("nothing asked: %+v", u)
	}
	was := &Use{GPUs: 12, Hosts: []string{"a"}, Exclude: []string{"a/1"}}
	got := was.Then(Use{Exclude: []string{"a/1", "a/2"}})
	if got.GPUs != 12 || !slices.Equal(got.Hosts, was.Hosts) || !slices.Equal(got.Exclude, []string{"a/1", "a/2"}) {
		t.Errorf("%+v", got)
	}
	if got := was.Then(Use{GPUs: 8, Hosts: []string{"b"}}); got.GPUs != 8 || got.Text() != "at most 8 GPUs, only b, without a/1" {
		t.Errorf("%q", got.Text())
	}
}

func TestUseIsWrittenAndRead(t *testing.T) {
	l := sample()
	l.Inputs.Use = &Use{GPUs: 2, Hosts: []string{"n1"}, Exclude: []string{"n1/7", "n[2-4]"}}
	text := yamlOf(t, l)
	back, err := Read(strings.NewReader(text), "l.yaml")
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if again := yamlOf(t, back); again != text || back.Inputs.Use.GPUs != 2 {
		t.Errorf("read and written again differs:\n%s\n%s", text, again)
	}
	for _, bad := range []string{"gpus: 2", "[n1]"} {
		if !strings.Contains(text, bad) {
			t.Errorf("no %q in\n%s", bad, text)
		}
	}
	l.Inputs.Use = &Use{Hosts: []string{"n[1-"}, Exclude: []string{"/3"}}
	_, err = Read(strings.NewReader(yamlOf(t, l)), "l.yaml")
	for _, want := range []string{`"n[1-"`, `"/3"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
