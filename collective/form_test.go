package collective

import (
	"encoding/csv"
	"encoding/json"
	"math"
	"os"
	"strconv"
	"testing"

	"rankmap/internal/hardware"
	"rankmap/internal/parallel"
	"rankmap/internal/testdata"
)

// paramFile is the layout of collective-params.json.
type paramFile struct {
	Node   map[string]map[string]any                `json:"nccl_node"`
	Fabric map[string]map[string]float64            `json:"fabric"`
	Custom map[string]map[string]map[string]float64 `json:"custom_all_reduce"`
	MoE    map[string]map[string]float64            `json:"moe"`
}

func readParams(t testing.TB) paramFile {
	t.Helper()
	b, err := os.ReadFile(testdata.Dir(t, "docs", "collective-params.json"))
	if err != nil {
		t.Fatal(err)
	}
	var f paramFile
	if err := json.Unmarshal(b, &f); err != nil {
		t.Fatal(err)
	}
	return f
}

func domainFrom(m map[string]any) domainForm {
	g := func(k string) float64 { v, _ := m[k].(float64); return v }
	p := hardware.DomainParams{
		B: g("b"), H: g("h"), D: g("d"), ELL: g("eLL"), BS: g("bS"), HS: g("hS"), P: g("p"),
		EAR: g("eAR"), EAG: g("eAG"), ERS: g("eRS"), FAR: g("fAR"), FAG: g("fAG"), G: g("g"), BN: g("bN"),
		BA: g("ba"), PA: g("pa"), DA: g("da"), EA: g("eA"), FA: g("fA"), RA: g("rA"), Q8: g("q8"), XS: g("xs"),
	}
	l := g("link_GBps")
	return domainForm{Params: &p, LinkGBps: l, Multicast: l >= 400}
}

// TestReferenceVectors checks the forms against the values of the prototype, from its rounded parameters. Across nodes the two share
// all_to_all alone: rings and trees got latencies of their own (fabricform_test.go). Over NVLink all_to_all knows its channels
// (pointtopoint_test.go).
func TestReferenceVectors(t *testing.T) {
	params := readParams(t)
	f, err := os.Open(testdata.Dir(t, "docs", "collective-vectors.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	col := map[string]int{}
	for i, h := range rows[0] {
		col[h] = i
	}
	checked := 0
	worst := 0.0
	for line, r := range rows[1:] {
		num := func(k string) float64 { v, _ := strconv.ParseFloat(r[col[k]], 64); return v }
		var op parallel.Op
		if err := op.UnmarshalText([]byte(r[col["collective"]])); err != nil {
			t.Fatal(err)
		}
		sys := r[col["system"]]
		m := params.Node[sys]
		if m == nil {
			t.Fatalf("no parameters of %q", sys)
		}
		d := domainFrom(m)
		oneByte := num("elem_bytes") == 1
		var got float64
		if fab := params.Fabric[r[col["fabric"]]]; fab != nil {
			if op != parallel.AllToAll {
				continue
			}
			b0 := fab["b0"] * hostBase / d.Params.B // the prototype adds b0 whatever the host; here it goes with the launch
			fp := hardware.FabricParams{AT: fab["aT"], AR: fab["aR"], B0: b0, S: fab["s"], E: fab["e"], P: fab["p"],
				BA: fab["ba"], PA: fab["pa"], EA: fab["ea"]}
			nw := networkForm{domainForm: d, Fabric: &fp, Nodes: int(num("nodes")), PerNode: int(num("gpus_per_node")), NICGBps: num("nic_GBps_node")}
			got = nw.Micros(op, num("bytes"), oneByte)
		} else {
			if op == parallel.AllToAll && d.LinkGBps >= pcieBelowGBps {
				continue
			}
			got = d.Micros(op, int(num("ranks")), num("bytes"), oneByte)
		}
		want := num("us")
		diff := math.Abs(got/want - 1)
		worst = math.Max(worst, diff)
		if diff > 1e-4 {
			t.Errorf("row %d %v: got %.4f us, want %.4f", line+2, r, got, want)
		}
		checked++
	}
	if checked != 692 {
		t.Errorf("checked %d rows, want 692", checked)
	}
	t.Logf("%d rows, worst relative difference %.1e", checked, worst)
}
