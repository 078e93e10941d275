package topology

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gopkg.in/yaml.v3"

	"rankmap/internal/strictyaml"
)

// same ignores what Finish derives.
var same = cmpopts.IgnoreUnexported(Cluster{})

func TestEveryPresetSurvivesTheRoundTrip(t *testing.T) {
	fsys := os.DirFS("../configs")
	for _, name := range Presets(fsys) {
		c, err := Preset(fsys, name, 3, catalog(t))
		if err != nil {
			t.Fatal(err)
		}
		var b, again bytes.Buffer
		if err := WriteYAML(&b, c); err != nil {
			t.Fatal(err)
		}
		back, err := ReadYAML(bytes.NewReader(b.Bytes()), name, catalog(t))
		if err != nil {
			t.Fatalf("%v\n%s", err, b.String())
		}
		if d := cmp.Diff(c, back, same); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		if WriteYAML(&again, back); !bytes.Equal(b.Bytes(), again.Bytes()) {
			t.Errorf("%s: second writing differs", name)
		}
	}
}

const smallDoc = `apiVersion: rankmap/v1
kind: Cluster
name: two boxes
classes:
  - name: box
    gpus:
      - {count: 2, model: h100_sxm, numa: 0}
    nvlink:
      pairs:
        - {a: 0, b: 1, count: 18}
nodes:
  - {class: box, hosts: "n[1-2]"}
`

func TestBadDocumentsNameTheLineAndWhatWouldBeRight(t *testing.T) {
	edit := func(old, new string) string {
		if !strings.Contains(smallDoc, old) {
			t.Fatalf("no %q", old)
		}
		return strings.Replace(smallDoc, old, new, 1)
	}
	tests := []struct{ name, doc, want string }{
		{"unknown key", edit("numa: 0", "nuam: 0"), `f:7: unknown key "nuam", did you mean "numa"?`},
		{"unknown class", edit("class: box", "class: bxo"), `f:12: unknown class "bxo", did you mean "box"?`},
		{"key twice", edit("count: 2, model", "count: 2, count: 3, model"), `f:7: key "count" stands twice, first in line 7`},
		{"alias", edit("name: box\n", "name: &x box\n"), `f:5: anchor &x`},
		{"fraction", edit("count: 2", "count: 2.5"), `f:7: count: want a whole number in plain decimal digits, not 2.5`},
		{"octal", edit("count: 2", "count: 010"), `f:7: count: want a whole number in plain decimal digits, not 010`},
		{"infinity", edit("count: 18}", "count: 18, gbps: .inf}"), `f:10: gbps: want a finite number, not .inf`},
		{"huge", edit("count: 18}", "count: 18, gbps: 1e400}"), `f:10: gbps: want a number, not "1e400"`},
		{"negative", edit("count: 18", "count: -1"), `f:10: count: -1, want 0 to 1024`},
		{"second document", smallDoc + "---\na: 1\n", `f:13: a second document starts here`},
		{"other kind", edit("kind: Cluster", "kind: RankLayout"), `want "rankmap/v1" and "Cluster"`},
		{"asymmetric link", edit("count: 18}", "count: 18}\n        - {a: 1, b: 0, count: 17}"), `f:10: class "box": NVLink 0-1 has 18 links one way and 17 the other`},
		{"self link", edit("b: 1", "b: 0"), `f:10: class "box": NVLink from GPU 0 to itself`},
		{"dangling link", edit("b: 1", "b: 7"), `f:10: class "box": NVLink 0-7: there are GPUs 0 to 1 only`},
		{"host twice", edit("n[1-2]", "n[1-2],n1"), `f:12: node "n1" is listed twice`},
		{"uuid twice", edit("{count: 2, model: h100_sxm, numa: 0}", "{uuid: GPU-1}\n      - {uuid: GPU-1}"), `GPU UUID "GPU-1" belongs to both n1/0 and n1/1`},
		{"unknown model", edit("h100_sxm", "h101_sxm"), `f:5: class "box": GPU 0: unknown gpu "h101_sxm"`},
		{"tag", edit("name: box", "name: !!str box"), `f:5: tag`},
		{"empty", "", `f: empty`},
		{"only comments", "# nothing\n", `f: empty`},
		{"list", "- 1\n", `f:1: want keys and values, not a list`},
		{"tabs", "a:\n\t- b\n", `f:2: not YAML`},
		{"binary", "\x00\x01", `f:1: not text`},
		{"no nodes", edit("  - {class: box, hosts: \"n[1-2]\"}", "  []"), `cluster "two boxes" has no nodes`},
	}
	for _, tt := range tests {
		_, err := ReadYAML(strings.NewReader(tt.doc), "f", catalog(t))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v\nwant %s", tt.name, err, tt.want)
		}
	}
	for _, doc := range []string{"\ufeff" + smallDoc, strings.ReplaceAll(smallDoc, "\n", "\r\n")} {
		if _, err := ReadYAML(strings.NewReader(doc), "f", catalog(t)); err != nil {
			t.Errorf("byte order mark and CRLF are allowed: %v", err)
		}
	}
}

func TestAllProblemsAreReportedInOneRun(t *testing.T) {
	doc := strings.NewReplacer("b: 1, count: 18", "b: 9, count: 18}\n        - {a: 0, b: 0, count: 1}\n        - {a: 0, b: 1, count: 18}\n        - {a: 1, b: 0, count: 17",
		"n[1-2]", "n1,n1", "numa: 0}", "numa: 0}\n      - {uuid: u}\n      - {uuid: u}").Replace(smallDoc)
	_, err := ReadYAML(strings.NewReader(doc), "f", catalog(t))
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"there are GPUs", "to itself", "one way and 17", "listed twice", "belongs to both"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}

func TestHostileDocumentsAreRefusedQuickly(t *testing.T) {
	bomb := "a0: &a0 x\n"
	for i := 1; i < 10; i++ {
		bomb += "a" + itoa(i) + ": &a" + itoa(i) + " [" + strings.Repeat("*a"+itoa(i-1)+", ", 9) + "*a" + itoa(i-1) + "]\n"
	}
	for name, doc := range map[string]string{
		"alias bomb": bomb, "deep list": strings.Repeat("[", 100000), "deep blocks": strings.Repeat("- ", 100000) + "x",
		"large": strings.Repeat("#", 5<<20), "many hosts": strings.Replace(smallDoc, "n[1-2]", "n[0-999999][0-999999]", 1),
	} {
		start := time.Now()
		if _, err := ReadYAML(strings.NewReader(doc), "f", nil); err == nil || len(err.Error()) > 8000 {
			t.Errorf("%s: %v", name, err)
		}
		if d := time.Since(start); d > 30*time.Second { // hangs, not slowness
			t.Errorf("%s took %v", name, d)
		}
	}
}

func TestAPartialRackIsExpressible(t *testing.T) {
	doc := `apiVersion: rankmap/v1
kind: Cluster
name: partial
classes:
  - name: tray
    gpus: [{count: 4, model: gb200}]
    nvlink: {links: 18}
  - name: split
    gpus: [{count: 2, model: gb200, clique: .1}, {count: 2, model: gb200, clique: .2}]
    nvlink: {links: 18}
  - name: three
    gpus: [{count: 3, model: gb200}, {model: gb200, bad: fell off the bus}]
    nvlink:
      pairs: [{a: 0, b: 1, count: 18}, {a: 0, b: 2, count: 18}, {a: 1, b: 2, count: 18}]
nodes:
  - {class: tray, hosts: "t[0-9]", clique: r0}
  - {class: three, hosts: t10, clique: r0}
  - {class: split, hosts: "s[0-3]", clique: r1}
`
	c, err := ReadYAML(strings.NewReader(doc), "f", catalog(t))
	if err != nil {
		t.Fatal(err)
	}
	var sizes []int
	for _, d := range c.Domains {
		sizes = append(sizes, len(d))
	}
	if !reflect.DeepEqual(sizes, []int{8, 8, 43, 1}) {
		t.Errorf("domain sizes %v", sizes)
	}
	for i := range c.Classes {
		if c.Classes[i].Wiring != NVLinkSwitched {
			t.Errorf("class %s is %s", c.Classes[i].Name, c.Classes[i].Wiring)
		}
	}
	sh, err := c.NewShaper().Shape([]GPUID{0, 2, 4, 6})
	if err != nil || !sh.Network || sh.Endpoints != 2 {
		t.Errorf("%+v %v", sh, err)
	}
}

func BenchmarkReadYAML12500Nodes(b *testing.B) {
	c := cluster(b, hgx("h100_sxm", 8, 18, 50e9), 12500, func(c *Cluster) {
		for i := range c.Nodes {
			c.Nodes[i].Leaf = "leaf" + itoa(i/32)
		}
	})
	var buf bytes.Buffer
	if err := WriteYAML(&buf, c); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(buf.Len()), "bytes")
	cat := catalog(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ReadYAML(bytes.NewReader(buf.Bytes()), "f", cat); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPreset100000GPUs(b *testing.B) {
	cat := catalog(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Preset(os.DirFS("../configs"), "hgx-h100", 12500, cat); err != nil {
			b.Fatal(err)
		}
	}
}

func TestADocInsideAnotherDocumentLooksTheSame(t *testing.T) {
	c := preset(t, "hgx-h100", 2)
	c.Nodes[0].Name = "\nodd"
	var b bytes.Buffer
	if err := yaml.NewEncoder(&b).Encode(map[string]any{"cluster": NewDoc(c)}); err != nil {
		t.Fatal(err)
	}
	var back struct {
		Cluster *Doc `yaml:"cluster"`
	}
	if err := strictyaml.Read(&b, "f", strictyaml.HandWritten, &back); err != nil {
		t.Fatal(err)
	}
	got, err := back.Cluster.Cluster("f", catalog(t))
	if err != nil || got.Nodes[0].Name != "\nodd" || got.NumGPUs() != 16 {
		t.Errorf("%v", err)
	}
	j, err := json.Marshal(NewDoc(c))
	if err != nil {
		t.Fatal(err)
	}
	var d Doc
	if err := json.Unmarshal(j, &d); err != nil {
		t.Fatal(err)
	}
	if got, err = d.Cluster("f", catalog(t)); err != nil || cmp.Diff(got.Classes, c.Classes) != "" {
		t.Errorf("by JSON: %v", err)
	}
}
