package layout

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"rankmap/internal/parallel"
	"rankmap/topology"
)

// sample is a small layout written by hand: two ranks on one host.
func sample() *Layout {
	numa := 0
	return &Layout{
		APIVersion: APIVersion, Kind: Kind,
		Inputs: Inputs{
			Cluster: Source{"box", "sha256:00"}, Model: Source{"m", "sha256:01"}, Cost: "calibrated",
			Workload: Workload{Task: "decode", ISL: 1024, OSL: 512, Batch: 4, Objective: "latency"},
		},
		Cluster: &topology.Doc{
			Name:    "box",
			Classes: []topology.ClassDoc{{Name: "box", GPUs: []topology.GPUDoc{{Count: 2, Model: "h200_sxm"}}}},
			Nodes:   []topology.NodeDoc{{Class: "box", Hosts: "n1"}},
		},
		Strategy: Of(parallel.Strategy{TP: 2}.Normalize()),
		Ranks: []Rank{
			{Rank: 0, Host: "n1", LocalRank: 0, GPU: 0, UUID: "GPU-a", NUMA: &numa, NICs: []string{"mlx5_0"}},
			{Rank: 1, Host: "n1", LocalRank: 1, GPU: 1, Coords: parallel.Coords{TP: 1}},
		},
		Groups: []Group{{
			Kind: parallel.TP, Members: []int{0, 1}, Domain: "NVLink domain 0", Path: "NVLink", Slowest: "n1", Concurrent: 1,
			Collectives: []Collective{{Name: "x", Op: parallel.AllReduce, Phase: "decode", DType: "bf16", Bytes: 4096, TimesPerStep: 2, Us: 7.5, P10Us: 7, P90Us: 8, Algorithm: "ring", Protocol: "LL", BusGBps: 0.5, Basis: "measured"}},
		}},
		Predicted: Predicted{TPOTMs: 3, StepMs: 3, StepP10Ms: 2.5, StepP90Ms: 3.5, Batch: 4, BatchPerReplica: 4, Parts: []Part{{Name: "p", Kind: "tp", Ms: 1, Share: 33.3}}},
		Memory:    Memory{CapacityGB: 141, UsedGB: 20, Parts: []MemoryPart{{"weights", 20}}},
		Env:       []EnvVar{}, Launchers: []Launcher{{Target: "vllm", Expressible: true, Why: "tp first"}},
		Rejected: []Rejected{{Strategy: Of(parallel.Strategy{PP: 2}.Normalize()), Why: "slower"}},
	}
}

func yamlOf(t testing.TB, l *Layout) string {
	t.Helper()
	var b bytes.Buffer
	if err := l.WriteYAML(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestRoundTrip(t *testing.T) {
	l := sample()
	text := yamlOf(t, l)
	back, err := Read(strings.NewReader(text), "l.yaml")
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if again := yamlOf(t, back); again != text {
		t.Errorf("read and written again differs:\n%s", cmp.Diff(text, again))
	}
	var b bytes.Buffer
	if err := l.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	fromJSON, err := Read(&b, "l.json")
	if err != nil {
		t.Fatal(err)
	}
	if again := yamlOf(t, fromJSON); again != text {
		t.Errorf("JSON is not the same document:\n%s", cmp.Diff(text, again))
	}
}

func TestSchemaIsCurrentAndHolds(t *testing.T) {
	want, err := GenerateSchema()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, Schema) {
		t.Error("layout/schema.json is old: go run ./internal/tools/layoutschema > layout/schema.json")
	}
	var b bytes.Buffer
	if err := sample().WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	if err := validate(t, b.Bytes()); err != nil {
		t.Errorf("the sample breaks the schema: %v", err)
	}
	if err := validate(t, bytes.Replace(b.Bytes(), []byte(`"ranks"`), []byte(`"rank5"`), 1)); err == nil {
		t.Error("the schema accepts an unknown key")
	}
}

func validate(t *testing.T, doc []byte) error {
	t.Helper()
	var schema, v any
	if err := json.Unmarshal(Schema, &schema); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(doc, &v); err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("layout.json", schema); err != nil {
		t.Fatal(err)
	}
	return c.MustCompile("layout.json").Validate(v)
}

func TestReadRefuses(t *testing.T) {
	good := yamlOf(t, sample())
	for name, c := range map[string]struct{ from, to, want string }{
		"unknown key":      {"strategy:", "strategi:", "strategy"},
		"float for an int": {"  tp: 2\n", "  tp: 2.5\n", "tp"},
		"octal":            {"  tp: 2\n", "  tp: 02\n", "tp"},
		"duplicate key":    {"  tp: 2\n", "  tp: 2\n  tp: 2\n", "tp"},
		"other kind":       {"kind: RankLayout", "kind: Pod", "RankLayout"},
		"doubled GPU":      {"gpu: 1,", "gpu: 0,", "both on n1 GPU 0"},
		"missing rank":     {"  - {rank: 1, host: n1, localRank: 1, gpu: 1, coords: {tp: 1, pp: 0, dp: 0, cp: 0, ep: 0}}\n", "", "1 listed"},
		"wrong coords":     {"coords: {tp: 1,", "coords: {tp: 0,", "coords"},
		"member no rank":   {"members: [0, 1]", "members: [0, 7]", "member 7"},
		"alone":            {"members: [0, 1]", "members: [0]", "at least 2"},
		"second document":  {"apiVersion:", "a: 1\n---\napiVersion:", "document"},
		"degrees":          {"  ep: 1\n", "  ep: 5\n", "does not divide"},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(good, c.from) {
				t.Fatalf("the sample has no %q", c.from)
			}
			_, err := Read(strings.NewReader(strings.Replace(good, c.from, c.to, 1)), "l.yaml")
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "l.yaml") {
				t.Errorf("got %v, want an error with l.yaml and %q", err, c.want)
			}
		})
	}
}

// A large layout in compact form reads back equal to the full one.
func TestCompactLosesNothing(t *testing.T) {
	st := parallel.Strategy{TP: 8, PP: 4, DP: 160}.Normalize()
	l := sample()
	l.Strategy, l.Ranks, l.Groups = Of(st), nil, nil
	for r := range st.World() {
		numa := r % 8 / 4
		c := CoordsOf(st, r)
		l.Ranks = append(l.Ranks, Rank{
			Rank: r, Host: fmt.Sprintf("gpu-%03d", r/8), LocalRank: r % 8, GPU: r % 8, NUMA: &numa, NICs: []string{fmt.Sprintf("mlx5_%d", r%8)}, Coords: c,
		})
	}
	l.Ranks[17].UUID = "GPU-17" // one host differs
	for _, kind := range []parallel.Dim{parallel.TP, parallel.PP} {
		same := sample().Groups[0].Collectives
		for i, m := range Lists(st, kind) {
			g := Group{Kind: kind, Members: m, Domain: "d", Path: "p", Slowest: "s", Concurrent: 9, Collectives: same}
			if i == 5 {
				g.Slowest = "a slow one"
			}
			l.Groups = append(l.Groups, g)
		}
	}
	text := yamlOf(t, l)
	if len(text) > 20000 || !strings.Contains(text, "rankBlocks:") {
		t.Errorf("%d bytes for %d ranks", len(text), len(l.Ranks))
	}
	back, err := Read(strings.NewReader(text), "big.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(l.Ranks, back.Ranks); d != "" {
		t.Errorf("ranks differ:\n%s", d)
	}
	if d := cmp.Diff(l.Groups, back.Groups); d != "" {
		t.Errorf("groups differ:\n%.2000s", d)
	}
	if again := yamlOf(t, back); again != text {
		t.Error("written again it differs")
	}
	for name, c := range map[string]struct{ from, to, want string }{
		"missing group": {"index: 0-4", "index: 0-3", "missing"},
		"doubled group": {"index: 0-4", "index: 0-5", "two classes"},
		"beyond":        {"index: 0-4", "index: 0-99999", "below"},
		"too many":      {"gpu-[000-001]", "gpu-[000-900]", "more ranks"},
	} {
		if !strings.Contains(text, c.from) {
			t.Fatalf("%s: the text has no %q:\n%.3000s", name, c.from, text)
		}
		if _, err := Read(strings.NewReader(strings.Replace(text, c.from, c.to, 1)), "big.yaml"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestSchemaFileMatchesEmbedded(t *testing.T) {
	b, err := os.ReadFile("schema.json")
	if err != nil || !bytes.Equal(b, Schema) {
		t.Errorf("schema.json: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(yamlOf(f, sample()))
	f.Add("apiVersion: rankmap/v1\nkind: RankLayout\n")
	f.Add("{}")
	f.Fuzz(func(t *testing.T, s string) {
		l, err := Read(strings.NewReader(s), "fuzz")
		if err == nil {
			_ = yamlOf(t, l)
		}
	})
}
