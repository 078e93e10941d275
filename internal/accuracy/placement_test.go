package accuracy

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"rankmap/configs"
	"rankmap/internal/measured"
)

const placementHead = "id,source,model,task,gpus,gpu_type,nodes,interconnect,scaleup_domain,tp,pp,dp,ep,cp,sp,vpp,microbatch,global_batch,seq_len,precision,rank_order,metric,value,unit,metric2,value2,unit2,evidence,note\n"

// tiny is a GPT of 1.3 billion parameters, as a model table would give it.
var tiny = map[string]measured.ModelMap{"GPT tiny": {Shape: "hidden=2048 layers=24 heads=16 vocab=51200 mlp=4h gelu"}}

func confrontPlacements(t *testing.T, rows string) *Placements {
	t.Helper()
	ps, err := measured.ReadPlacements(strings.NewReader(placementHead+rows), "p.csv")
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPlacer(configs.FS, Models{Map: tiny})
	if err != nil {
		t.Fatal(err)
	}
	res, err := p.Rows(context.Background(), ps, nil)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestChoicesAreRankedAndExplained(t *testing.T) {
	res := confrontPlacements(t, ""+
		"mguide-001,s,GPT tiny,train,8,H100,1,,8,1,1,8,,1,no,,2,64,2048,BF16,,,,,,,,A,\n"+ // data parallel: nothing beats it
		"mguide-002,s,GPT tiny,train,8,H100,1,,8,8,1,1,,1,yes,,8,64,2048,BF16,,,,,,,,A,\n"+ // tp 8 for a network that fits one GPU
		"mguide-003,s,Unheard of,train,8,H100,1,,8,8,1,1,,1,yes,,2,64,2048,BF16,,,,,,,,A,\n"+
		"mguide-004,s,GPT tiny,train,8,MI300X,1,,8,8,1,1,,1,yes,,2,64,2048,BF16,,,,,,,,A,\n"+
		"mguide-005,s,GPT tiny,train,6-8,H100,1,,8,8,1,1,,1,yes,,2,64,2048,BF16,,,,,,,,A,\n"+
		"mguide-006,s,GPT tiny,train,8,H100,1,,8,3,1,1,,1,yes,,2,64,2048,BF16,,,,,,,,A,\n"+
		"mguide-007,s,GPT tiny,train,8,H100,1,,8,1,1,8,,1,yes,,2,64,2048,BF16,,,,,,,,A,LoRA Performance\n")
	s := res.Summary()
	if s.N != 3 || math.Abs(s.InTop3-66.7) > 0.1 || math.Abs(s.Within15-66.7) > 0.1 {
		t.Fatalf("n %d, top 3 %v, within 15 %v; want 3, 66.7, 66.7: %+v", s.N, s.InTop3, s.Within15, s.Rows)
	}
	if r := s.Rows[0]; r.Rank != 1 || *r.Ratio > 1.0001 || r.Reason != "" {
		t.Errorf("data parallel: %+v, want our best without a reason", r)
	}
	if r := s.Rows[1]; r.Rank < 4 || *r.Ratio < 1.15 || !strings.Contains(r.Reason, "would save") || !strings.Contains(r.Reason, "tensor-parallel traffic") {
		t.Errorf("tp 8: %+v, want a low rank because of tensor-parallel traffic", r)
	}
	if r := s.Rows[2]; r.Rank != 1 {
		t.Errorf("adapters, data parallel: %+v, want our best", r)
	}
	want := map[string]int{
		`model "Unheard of" is not in the model map`: 1, "hardware MI300X is not known": 1, "the row states no single number (gpus)": 1,
		"the row's degrees do not divide its GPUs": 1,
	}
	for _, k := range s.Skipped {
		if want[k.Reason] != k.N {
			t.Errorf("skipped %d for %q, want %v", k.N, k.Reason, want)
		}
		delete(want, k.Reason)
	}
	if len(want) > 0 {
		t.Errorf("not skipped: %v", want)
	}
}

func TestSweepsCorrelateWithinOneBatch(t *testing.T) {
	// Measured as the network behaves: less model parallelism is faster. The last row has another batch.
	rows := ""
	for i, r := range []string{"1,1,8|1.0", "2,1,4|1.2", "4,1,2|1.5", "8,1,1|2.2"} {
		deg, sec, _ := strings.Cut(r, "|")
		rows += "vtrain-single-00" + string(rune('1'+i)) + ",s,GPT tiny,train,8,A100,1,8x200G,8," + deg + ",,1,,,1,64,2048,FP16,,iteration time," + sec + ",s,,,,A,\n"
	}
	rows += "vtrain-single-009,s,GPT tiny,train,8,A100,1,8x200G,8,1,1,8,,1,,,1,128,2048,FP16,,iteration time,9,s,,,,A,\n"
	res := confrontPlacements(t, rows)
	if len(res.Sweeps) != 1 || res.Sweeps[0].N != 4 || res.Sweeps[0].Spearman != 1 || res.Sweeps[0].Right != 6 {
		t.Fatalf("%+v, want one sweep of 4 in the measured order", res.Sweeps)
	}
	s := res.Summary()
	if s.Spearman == nil || *s.Spearman != 1 || s.PairsRight != 100 || len(res.Times) != 5 {
		t.Errorf("summary %+v, %d times", s, len(res.Times))
	}
}

func TestSpearmanOfTiesAndOfNothing(t *testing.T) {
	p := func(v ...float64) (out []SweepPoint) {
		for i := 0; i < len(v); i += 2 {
			out = append(out, SweepPoint{Measured: v[i], Predicted: v[i+1]})
		}
		return out
	}
	if r := spearman(p(1, 3, 2, 2, 3, 1)); r != -1 {
		t.Errorf("reversed: %v", r)
	}
	// scipy.stats.spearmanr([1, 2, 2, 4], [1, 3, 2, 4]) = 0.9486832980505138
	if r := spearman(p(1, 1, 2, 3, 2, 2, 4, 4)); math.Abs(r-0.9486832980505138) > 1e-12 {
		t.Errorf("ties: %v", r)
	}
	if r := spearman(p(1, 1, 1, 2, 1, 3)); !math.IsNaN(r) {
		t.Errorf("all measured alike: %v, want NaN", r)
	}
}

func TestServingPointsArePricedByTheirParts(t *testing.T) {
	pts, err := measured.ReadServingPoints(strings.NewReader("id,model,system,backend,precision,isl,osl,concurrency,gpus,layout,ttft_ms,tpot_ms,flag\n"+
		"a,GPT tiny,h100_sxm,vllm,bf16,1024,128,8,1,tp1 pp1 dp1 moe_tp1 ep1,20,5,\n"+
		"b,GPT tiny,h100_sxm,sglang,bf16,1024,128,8,4,P 2x(tp1 pp1 dp1 ep1) + D 1x(tp2 pp1 dp1 ep1),20,5,\n"+
		"c,GPT tiny,h100_sxm,sglang,bf16,1024,128,8,1,tp1 pp1 dp1 moe_tp1 ep1,20,5,worker counts missing\n"+
		"d,GPT tiny,h100_sxm,sglang,bf16,1024,128,0,1,tp1 pp1 dp1 moe_tp1 ep1,20,5,\n"), "s.csv")
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPlacer(configs.FS, Models{Map: tiny})
	if err != nil {
		t.Fatal(err)
	}
	res := p.Runs(&measured.File{Serving: pts}, "")
	if len(res.Cases) != 4 || len(res.Skipped) != 2 {
		t.Fatalf("%d cases, skipped %v; want 4 and two reasons", len(res.Cases), res.Skipped)
	}
	whole, disagg := res.Cases[1], res.Cases[3]
	if whole.Collective != "tpot" || disagg.Collective != "tpot" || disagg.Ranks != 4 || disagg.Ours >= whole.Ours {
		t.Errorf("decode on 2 GPUs without prompts %v on %d, decode and prompts on 1 %v: want the former shorter", disagg.Ours, disagg.Ranks, whole.Ours)
	}
}

func TestPlacementReportsAgree(t *testing.T) {
	res := confrontPlacements(t, "mguide-001,s,GPT tiny,train,8,H100,1,,8,8,1,1,,1,yes,,8,64,2048,BF16,,,,,,,,A,\n")
	var table, doc bytes.Buffer
	if err := res.WriteTable(&table, true); err != nil {
		t.Fatal(err)
	}
	if err := res.WriteMarkdown(&doc, "a test"); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(res.Summary())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(doc.String(), "| tensor-parallel traffic | 1 |") || strings.Contains(doc.String(), "mguide-001") {
		t.Errorf("the document should count the reason and leave the published row out:\n%s", doc.String())
	}
	for _, out := range []string{table.String(), string(data)} {
		if !strings.Contains(out, "mguide-001") || !strings.Contains(out, res.Choices[0].Reason) {
			t.Errorf("the row or its reason is missing in\n%s", out)
		}
	}
	for _, key := range []string{`"n":1`, `"inTop3":0`, `"within15":0`, `"spearman":null`, `"rows":[{"id":"mguide-001","rank":`, `"skipped":[]`} {
		if !strings.Contains(string(data), key) {
			t.Errorf("%s is missing in %s", key, data)
		}
	}
}

func TestMachinesOfRows(t *testing.T) {
	p, err := NewPlacer(configs.FS, Models{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		gpu, net          string
		gpus, domain      int
		node, nodes, nics int
		gbps              float64
	}{
		{"A100 80GB", "NVLink3 x8; 4x100G Omni-Path per node", 384, 8, 8, 48, 4, 12.5 * omniPathShare},
		{"H100", "8x400G IB/RoCE per node", 16, 8, 8, 2, 8, 50},
		{"H100", "", 4, 8, 4, 1, 0, 0},
		{"H200", "NVSWITCH Gen3; Storage: 2x ConnectX-7 IB NDR 200Gb/s, Compute: 8x ConnectX-7 IB NDR 400Gb/s, Management: 100Gb/s", 64, 8, 8, 8, 8, 50},
		{"GB300", "NVL72 (4 GPUs/tray); 800G per GPU", 256, 72, 4, 64, 4, 100},
	} {
		row := &measured.Placement{GPU: c.gpu, GPUs: c.gpus, Interconnect: c.net, Domain: c.domain}
		name, _, _ := strings.Cut(c.gpu, " ")
		sheet, err := p.catalog.GPU(name)
		if err != nil {
			t.Fatal(err)
		}
		m, err := machineOfPlacement(row, sheet)
		if err != nil {
			t.Fatal(err)
		}
		if m.gpus != c.node || m.nodes != c.nodes || m.nics != c.nics || float64(m.rate) != c.gbps*1e9 {
			t.Errorf("%d x %s, %q: %d GPUs a node, %d nodes, %d NICs of %v; want %d, %d, %d, %v GB/s", c.gpus, c.gpu, c.net, m.gpus, m.nodes, m.nics, m.rate, c.node, c.nodes, c.nics, c.gbps)
		}
	}
}
