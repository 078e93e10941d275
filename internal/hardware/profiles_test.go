package hardware

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// small is a profile with one of everything.
const small = `system: x100
link: nvlink
linkGBps: 450
multicast: true
nvlsFromRanks: 8
domain: {b: 5, h: 0.8, d: 0.2, eLL: 0.4, bS: 12, hS: 0.5, p: 0.8, eAR: 0.87, eAG: 0.83, eRS: 0.83, fAR: 0.2, fAG: 0.45, g: 1.1, bN: 65, ba: 6.5, pa: 0.4, da: 0.4, eA: 0.75, fA: 0.2, rA: 0.8, q8: 1.05, xs: 0.6}
notIdentified: [xs]
libraries: [2.27.3]
ranks: [2, 8]
curves:
  - {op: all_gather, ranks: 8, library: 2.27.3, log2: [9, 20, 29], r: [0.01, -0.1, 0]}
bands:
  - {provenance: measured, op: all_gather, size: small, low: -0.05, high: 0.06, points: 40}
source: a test
`

func read(t *testing.T, text string) (*CollectiveProfile, error) {
	t.Helper()
	return ReadCollective(strings.NewReader(text), "x100.yaml")
}

func TestProfileRoundTrip(t *testing.T) {
	p, err := read(t, small)
	if err != nil {
		t.Fatal(err)
	}
	var a, b bytes.Buffer
	if err := WriteCollective(&a, p, "two\nlines"); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(a.String(), "# two\n# lines\nsystem: x100\n") {
		t.Errorf("head: %.60q", a.String())
	}
	q, err := read(t, a.String())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(p, q); d != "" {
		t.Error(d)
	}
	if err := WriteCollective(&b, q, "two\nlines"); err != nil || a.String() != b.String() {
		t.Errorf("the same profile gives other bytes (%v)", err)
	}
}

func TestBadProfilesAreRefused(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{"unknown key", "source: a test", "source: a test\nspeed: 3", "speed"},
		{"duplicate key", "link: nvlink", "link: nvlink\nlink: pcie", "already defined"},
		{"no source", "source: a test\n", "", "source"},
		{"no system", "system: x100\n", "", "system"},
		{"link kind", "link: nvlink", "link: token-ring", "want nvlink or pcie"},
		{"link rate", "linkGBps: 450", "linkGBps: -1", "linkGBps"},
		{"zero parameter", "eAR: 0.87", "eAR: 0", "eAR"},
		{"not a number", "eAR: 0.87", "eAR: .nan", "eAR"},
		{"missing parameter", "h: 0.8, ", "", "domain: h"},
		{"share of one", "fAR: 0.2", "fAR: 1", "less than 1"},
		{"falling sizes", "log2: [9, 20, 29]", "log2: [9, 8, 29]", "rising"},
		{"lengths", "r: [0.01, -0.1, 0]", "r: [0.01]", "as many r"},
		{"huge correction", "-0.1", "-100", "within -10..10"},
		{"band upside down", "low: -0.05", "low: 0.5", "low <= high"},
		{"band size", "size: small", "size: tiny", "size small"},
		{"two documents", "source: a test\n", "source: a test\n---\nsystem: y\n", "one document"},
		{"like with a fit", "link: nvlink", "link: nvlink\nlike: y100\nrelation: sibling", "exclude"},
	} {
		text := strings.Replace(small, c.old, c.new, 1)
		if text == small {
			t.Fatalf("%s: nothing replaced", c.name)
		}
		if _, err := read(t, text); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "x100.yaml") {
			t.Errorf("%s: want an error with %q and the file, got %v", c.name, c.want, err)
		}
	}
	for _, text := range []string{"", "\x00\x01", "%PDF-1.7", "<html>", "[1, 2]", strings.Repeat("a", MaxProfileBytes+1)} {
		if _, err := read(t, text); err == nil {
			t.Errorf("%.20q must be refused", text)
		}
	}
}

func TestAllProblemsComeAtOnce(t *testing.T) {
	_, err := read(t, strings.NewReplacer("eAR: 0.87", "eAR: 0", "eAG: 0.83", "eAG: -1", "linkGBps: 450", "linkGBps: 0").Replace(small))
	if err == nil || strings.Count(err.Error(), "\n") < 2 {
		t.Errorf("want three lines, got %v", err)
	}
}

func TestLoadProfilesChecksNamesAndReferences(t *testing.T) {
	fs := fstest.MapFS{
		"hardware/x100.yaml":            {Data: []byte("not a profile")},
		"hardware/x100.collective.yaml": {Data: []byte(small)},
		"hardware/y100.collective.yaml": {Data: []byte("system: y100\nlike: x100\nrelation: sibling\nsource: a test\n")},
		"hardware/host-x86.yaml":        {Data: []byte("name: x86\nsystems: [x100]\nfloorUs: 18\nsource: a test\n")},
		"hardware/fabric-ib.yaml":       {Data: []byte("name: ib\nkinds: [InfiniBand]\nparams: {aT: 1, aR: 1, b0: 1, s: 1, k: 1, e: 1, p: 1, ba: 1, pa: 1, ea: 1}\nsource: a test\n")},
	}
	ps, err := LoadProfiles(fs)
	if err != nil {
		t.Fatal(err)
	}
	if ps.Collective("y100").Like != "x100" || ps.Collective("z") != nil || ps.Host("x100").FloorUs != 18 || ps.Host("z") != nil {
		t.Error("not found again")
	}
	if ps.Fabric("infiniband") == nil || ps.Fabric("IB") == nil || ps.Fabric("token-ring") != nil {
		t.Error("fabrics are found by name and kind, whatever the case")
	}
	if p := ps.Fabric("ib").Params; p.AS != 4.2 || p.E1 != p.E {
		t.Errorf("a profile from before these: %+v", p)
	}
	mine := *ps.Collective("x100")
	mine.LinkGBps = 400
	with := ps.With(&mine)
	if with.Collective("x100").LinkGBps != 400 || ps.Collective("x100").LinkGBps != 450 || len(with.Systems()) != 2 {
		t.Error("With must replace in a copy")
	}
	ib := *ps.Fabric("ib")
	ib.Params.AT = 7
	if got := ps.WithFabric(&ib); got.Fabric("ib").Params.AT != 7 || ps.Fabric("ib").Params.AT != 1 {
		t.Error("WithFabric must replace in a copy")
	}
	fs["hardware/y100.collective.yaml"] = &fstest.MapFile{Data: []byte("system: y100\nlike: q\nrelation: sibling\nsource: a test\n")}
	fs["hardware/z100.collective.yaml"] = &fstest.MapFile{Data: []byte(small)}
	_, err = LoadProfiles(fs)
	for _, want := range []string{`like "q"`, `system is "x100"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q in %v", want, err)
		}
	}
}

// TestShippedProfiles reads what the repository ships.
func TestShippedProfiles(t *testing.T) {
	ps, err := LoadProfiles(os.DirFS("../../configs"))
	if err != nil {
		t.Fatal(err)
	}
	cat, err := Load(os.DirFS("../../configs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range cat.Systems() {
		if ps.Collective(s) == nil {
			t.Errorf("datasheet %s has no collective profile", s)
		}
		if ps.Host(s) == nil {
			t.Errorf("datasheet %s sits in no host profile", s)
		}
	}
	for _, s := range ps.Systems() {
		p := ps.Collective(s)
		if p.Like == "" && (len(p.Curves) == 0 || len(p.Bands) == 0 || len(p.Libraries) == 0 || p.Points < 100) {
			t.Errorf("%s: incomplete", s)
		}
		if p.Like == "" && !strings.Contains(p.Source, "Apache-2.0") {
			t.Errorf("%s: the source must name the licence of the tables", s)
		}
	}
	for _, f := range []string{"rdma", "InfiniBand", "RoCE", "EFA", "Slingshot", "TCP"} {
		if ps.Fabric(f) == nil {
			t.Errorf("no profile of fabric %s", f)
		}
	}
}

// FuzzReadCollective: any bytes give a profile that can be written and read again, or an error.
func FuzzReadCollective(f *testing.F) {
	f.Add([]byte(small))
	f.Add([]byte("system: y100\nlike: x100\nrelation: sibling\nsource: a test\n"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := ReadCollective(bytes.NewReader(b), "f")
		if err != nil {
			return
		}
		var w bytes.Buffer
		if err := WriteCollective(&w, p, ""); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadCollective(&w, "again"); err != nil {
			t.Fatalf("%v\n%s", err, w.String())
		}
	})
}

// A correction of an exchange that cannot be evaluated is refused.
func TestLocalCorrectionIsChecked(t *testing.T) {
	const head = "system: x\nlink: nvlink\nlinkGBps: 100\nsource: s\n"
	for name, local := range map[string]string{
		"short mean":   "{log2: [0, 1], mean: [0]}",
		"short slope":  "{log2: [0, 1], mean: [0, 0], factors: [{name: sms, low: 0, high: 1, slope: [1]}]}",
		"falling":      "{log2: [1, 0], mean: [0, 0]}",
		"no knot":      "{log2: [], mean: []}",
		"not a number": "{log2: [0, 1], mean: [0, .nan]}",
	} {
		fsys := fstest.MapFS{"hardware/x.collective.yaml": {Data: []byte(head + "dispatch:\n  - {mode: normal, phase: combine, e: 1, p: 1, points: 1, bands: [], local: " + local + "}\n")}}
		if _, err := LoadProfiles(fsys); err == nil || !strings.Contains(err.Error(), "dispatch[0]: local: want rising log2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
