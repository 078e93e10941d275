package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"
	"pgregory.net/rapid"
)

type colour string

func (c *colour) UnmarshalText(b []byte) error {
	if string(b) != "red" {
		return errors.New("no colour but red")
	}
	*c = colour(b)
	return nil
}

type twice int

func (t *twice) UnmarshalStrict(d *Decoder, n *yaml.Node) {
	var i int
	d.Value(n, &i)
	*t = twice(2 * i)
}

type inner struct {
	A    int `yaml:"a" strict:"required,min=1,max=9"`
	Line int `yaml:"-" strict:"line"`
}

type doc struct {
	Name    string           `yaml:"name" strict:"required"`
	Count   int              `yaml:"count"`
	Shift   int              `yaml:"shift" strict:"negative"`
	Small   int8             `yaml:"small"`
	Share   float64          `yaml:"share" strict:"max=1"`
	On      bool             `yaml:"on"`
	Colour  colour           `yaml:"colour"`
	Twice   twice            `yaml:"twice"`
	List    []inner          `yaml:"list"`
	Map     map[string]inner `yaml:"map"`
	Pointer *int             `yaml:"pointer"`
	Raw     yaml.Node        `yaml:"raw"`
}

func TestAGoodDocumentIsRead(t *testing.T) {
	var d doc
	err := Read(strings.NewReader("name: 007\ncount: 3\nshift: -2\nshare: 0.5\non: true\ncolour: red\ntwice: 4\nlist:\n  - {a: 1}\n  - a: 2\nmap: {x: {a: 3}}\npointer: 0\n"), "f", HandWritten, &d)
	if err != nil {
		t.Fatal(err)
	}
	zero := 0
	want := doc{Name: "007", Count: 3, Shift: -2, Share: 0.5, On: true, Colour: "red", Twice: 8, List: []inner{{1, 9}, {2, 10}},
		Map: map[string]inner{"x": {3, 11}}, Pointer: &zero}
	if diff := cmp.Diff(want, d, cmp.AllowUnexported(doc{})); diff != "" {
		t.Error(diff)
	}
}

func TestEachRuleHasAMessageWithItsLine(t *testing.T) {
	tests := []struct{ name, doc, want string }{
		{"unknown key", "name: x\ncuont: 1", `f:2: unknown key "cuont", did you mean "count"? (known: `},
		{"missing key", "count: 1", `f:1: key "name" is missing`},
		{"missing key in a list", "name: x\nlist:\n  - {}", `f:3: list: key "a" is missing`},
		{"key twice", "name: x\ncount: 1\ncount: 2", `f:3: key "count" stands twice, first in line 2`},
		{"key twice deep", "name: x\nraw:\n  y: 1\n  y: 2", `f:4: key "y" stands twice, first in line 3`},
		{"alias", "name: &a x\ncolour: *a", "f:1: anchor &a: write the value out where it is used\nf:2: alias *a: write the value out"},
		{"merge key", "name: x\nraw:\n  <<: {a: 1}", `f:3: merge key <<`},
		{"custom tag", "name: !x y", `f:1: tag !x`},
		{"core tag", "name: !!str y", `f:1: tag`},
		{"list key", "name: x\nraw:\n  [a]: 1", `f:3: a key must be a plain word`},
		{"fraction", "name: x\ncount: 8.5", `f:2: count: want a whole number in plain decimal digits, not 8.5`},
		{"whole float", "name: x\ncount: 8.0", `not 8.0`},
		{"octal", "name: x\ncount: 010", `not 010`},
		{"hexadecimal", "name: x\ncount: 0x10", `not 0x10`},
		{"underscore", "name: x\ncount: 1_000", `want a whole number`},
		{"plus", "name: x\ncount: +1", `want a whole number`},
		{"quoted number", "name: x\ncount: \"1\"", `f:2: count: want a whole number, not "1"`},
		{"negative", "name: x\ncount: -1", `f:2: count: -1, want at least 0`},
		{"out of range", "name: x\nlist: [{a: 10}]", `f:2: a: 10, want 1 to 9`},
		{"overflow", "name: x\nsmall: 300", `f:2: small: 300 is out of range`},
		{"huge", "name: x\ncount: 99999999999999999999", `out of range`},
		{"infinity", "name: x\nshare: .inf", `f:2: share: want a finite number, not .inf`},
		{"nan", "name: x\nshare: .nan", `want a finite number`},
		{"too large", "name: x\nshare: 1.5", `f:2: share: 1.5, want 0 to 1`},
		{"huge float", "name: x\nshare: 1e400", `f:2: share: want a number`},
		{"no number", "name: x\nshare: much", `f:2: share: want a number, not "much"`},
		{"no bool", "name: x\non: yes please", `f:2: on: want true or false`},
		{"text type", "name: x\ncolour: blue", `f:2: colour: no colour but red`},
		{"null", "name:", `f:1: name: want text, not nothing`},
		{"list for text", "name: [a]", `f:1: name: want text, not a list`},
		{"text for list", "name: x\nlist: a", `f:2: list: want a list, not "a"`},
		{"text for map", "name: x\nmap: a", `f:2: map: want keys and values, not "a"`},
		{"list for struct", "- a", `f:1: want keys and values, not a list`},
		{"empty", "", `f: empty: it holds no YAML document`},
		{"comments only", "# x\n\n# y\n", `f: empty`},
		{"second document", "name: x\n---\nname: y\n", `f:2: a second document starts here, want one`},
		{"broken second document", "name: x\n---\n[", `not YAML`},
		{"syntax", "name: x\n  y: : z\n", `f:2: not YAML`},
		{"tab", "name: x\nlist:\n\t- {a: 1}\n", `not YAML`},
		{"nul", "name: x\x00", `f:1: not text`},
		{"latin 1", "name: x\ncolour: gr\xfcn", `f:2: not text`},
		{"deep", strings.Repeat("[", 70) + strings.Repeat("]", 70), `f:1: nested deeper than 64 levels`},
		{"pdf", "%PDF-1.4\n1 0 obj\n<< /Type >>\n", `not YAML`},
	}
	for _, tt := range tests {
		var d doc
		err := Read(strings.NewReader(tt.doc), "f", HandWritten, &d)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v\nwant %s", tt.name, err, tt.want)
		}
	}
	for _, good := range []string{"\ufeffname: x\n", "name: x\r\ncount: 1\r\n", "---\nname: x\n...\n", "name: x"} {
		var d doc
		if err := Read(strings.NewReader(good), "f", HandWritten, &d); err != nil || d.Name != "x" {
			t.Errorf("%q: %v", good, err)
		}
	}
}

func TestProblemsComeTogetherByLineAndAreCapped(t *testing.T) {
	var b strings.Builder
	b.WriteString("count: -1\n")
	for i := range 50 {
		fmt.Fprintf(&b, "k%d: 1\n", i)
	}
	b.WriteString("name: x\n")
	var d doc
	err := Read(strings.NewReader(b.String()), "f", HandWritten, &d)
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 21 || !strings.HasPrefix(lines[0], "f:1: count") || !strings.HasPrefix(lines[19], "f:20: ") || lines[20] != "f: and 31 more problems" {
		t.Errorf("%d lines:\n%v", len(lines), err)
	}
}

func TestSizeCapHoldsBeforeParsing(t *testing.T) {
	start := time.Now()
	_, err := Parse(bytes.NewReader(make([]byte, 64<<20)), "f", HandWritten)
	if err == nil || !strings.Contains(err.Error(), "larger than 4194304 bytes") || time.Since(start) > 30*time.Second {
		t.Errorf("%v after %v", err, time.Since(start))
	}
}

func TestSuggestionsAreNearAndStable(t *testing.T) {
	known := []string{"count", "name", "share", "shift", "list"}
	for word, want := range map[string]string{"cuont": "count", "Name": "name", "shaer": "share", "zzz": "", "x": "", "counts": "count", "lst": "list"} {
		if got := Suggest(word, known); got != want {
			t.Errorf("%s: %q, want %q", word, got, want)
		}
	}
}

func TestWhatIsWrittenReadsBack(t *testing.T) {
	type text struct {
		S string            `yaml:"s"`
		N int               `yaml:"n" strict:"negative"`
		F float64           `yaml:"f" strict:"negative"`
		L []string          `yaml:"l,omitempty" strict:"lines"`
		M map[string]string `yaml:"m,omitempty,flow"`
		B bool              `yaml:"b,omitempty"`
	}
	rapid.Check(t, func(rt *rapid.T) {
		want := text{S: rapid.String().Draw(rt, "s"), N: rapid.Int().Draw(rt, "n"), F: rapid.Float64().Draw(rt, "f"), B: rapid.Bool().Draw(rt, "b")}
		if n := rapid.IntRange(0, 3).Draw(rt, "len"); n > 0 {
			want.L = rapid.SliceOfN(rapid.String(), n, n).Draw(rt, "l")
			want.M = map[string]string{rapid.String().Draw(rt, "k"): rapid.String().Draw(rt, "v")}
		}
		var b bytes.Buffer
		if err := Write(&b, want); err != nil {
			rt.Fatal(err)
		}
		var got text
		if err := Read(&b, "f", HandWritten, &got); err != nil {
			rt.Fatalf("%v\n%s", err, b.String())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatal(diff)
		}
	})
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("name: x\nlist: [{a: 1}, {a: 2}]\nmap: {x: {a: 1}}\n"))
	f.Add([]byte("name: &a x\ncolour: *a\n<<: {a: 1}\n---\n? [a]\n: !x b"))
	f.Add([]byte("\ufeffname: \"\\u00e9\"\r\nshare: 1e3\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var d doc
		if err := Read(bytes.NewReader(data), "f", 1<<16, &d); err == nil && (d.Name == "" && !bytes.Contains(data, []byte("name"))) {
			t.Fatal("a required key is missing")
		}
	})
}
