package topology

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// FuzzReadYAML wants -fuzzminimizetime 10x: the presets are long, and shrinking them takes most of the time otherwise.
func FuzzReadYAML(f *testing.F) {
	files, _ := filepath.Glob("../configs/topologies/*.yaml")
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(smallDoc))
	f.Add([]byte("nodes: [{class: a, hosts: \"n[0-9][0-9]\"}]"))
	cat := catalog(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ReadYAML(bytes.NewReader(data), "f", cat)
		if err != nil || c.NumGPUs() > 4096 {
			return
		}
		var b bytes.Buffer
		if err := WriteYAML(&b, c); err != nil {
			t.Fatal(err)
		}
		back, err := ReadYAML(bytes.NewReader(b.Bytes()), "f", cat)
		if err != nil {
			t.Fatalf("%v\n%s", err, b.String())
		}
		if d := cmp.Diff(c, back, same); d != "" {
			t.Fatal(d)
		}
		all := ids(0, 1, c.NumGPUs())
		if _, err := c.NewShaper().Shape(all); err != nil {
			t.Fatal(err)
		}
		c.Findings()
		NewView(c)
	})
}

func FuzzExpandHosts(f *testing.F) {
	for _, s := range []string{"node[0-3,7],login1", "n[008-011]", "r[1-2]n[1-3]", "a", "a[", "a]b", "[1-2]", "x[1-2]y"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		names, err := ExpandHosts(s)
		if err != nil || len(names) > 10000 {
			return
		}
		for _, n := range names {
			if !listable(n) {
				return
			}
		}
		again, err := ExpandHosts(CompressHosts(names))
		if err != nil || strings.Join(again, " ") != strings.Join(names, " ") {
			t.Fatalf("%q: %q, compressed %q, %q %v", s, names, CompressHosts(names), again, err)
		}
	})
}

func TestDrawnClustersSurviveTheRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := drawCluster(t, rt)
		for i := range c.Nodes {
			if rapid.Bool().Draw(rt, "odd name") {
				c.Nodes[i].Name = rapid.String().Draw(rt, "name") + itoa(i)
			}
		}
		for i := range c.Classes[0].NICs {
			x := &c.Classes[0].NICs[i]
			x.Name, x.Device = rapid.StringMatching(`[a-z,\[ ]{0,4}[0-9]?`).Draw(rt, "nic"), rapid.StringMatching(`mlx5_[0-9]|`).Draw(rt, "device")
		}
		if c.Finish(catalog(t)) != nil {
			return
		}
		var b bytes.Buffer
		if err := WriteYAML(&b, c); err != nil {
			rt.Fatal(err)
		}
		back, err := ReadYAML(bytes.NewReader(b.Bytes()), "f", catalog(t))
		if err != nil {
			rt.Fatalf("%v\n%s", err, b.String())
		}
		if d := cmp.Diff(c, back, same); d != "" {
			rt.Fatalf("%s\n%s", d, b.String())
		}
	})
}

func TestHostsSortAsPeopleDo(t *testing.T) {
	for _, pair := range [][2]string{{"node2", "node10"}, {"a9b", "a10a"}, {"n", "n0"}, {"n01", "n1"}, {"n1", "n01a"}, {"gpu-9", "gpu-10"}, {"a", "b"}, {"r1n9", "r2n1"}} {
		if CompareNames(pair[0], pair[1]) >= 0 || CompareNames(pair[1], pair[0]) <= 0 {
			t.Errorf("%q before %q", pair[0], pair[1])
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		s := rapid.SliceOfN(rapid.StringMatching(`[a-c0-2]{0,5}`), 3, 3).Draw(rt, "names")
		if CompareNames(s[0], s[1]) < 0 && CompareNames(s[1], s[2]) < 0 && CompareNames(s[0], s[2]) >= 0 || (CompareNames(s[0], s[1]) == 0) != (s[0] == s[1]) {
			rt.Fatal("no total order", s)
		}
	})
}
