package accuracy

import (
	"strings"
	"testing"

	"rankmap/configs"
	"rankmap/internal/measured"
)

const servingHead = "id,model,system,backend,version,precision,isl,osl,concurrency,gpus,layout,ttft_ms,tpot_ms,est_output_tok_s_gpu,flag,provenance\n"

func servingPoints(t *testing.T, rows string) []measured.ServingPoint {
	t.Helper()
	pts, err := measured.ReadServingPoints(strings.NewReader(servingHead+rows), "s.csv")
	if err != nil {
		t.Fatal(err)
	}
	return pts
}

func TestBenchmarksAreToldApart(t *testing.T) {
	pts := servingPoints(t, "a,m,b200_sxm,sglang,1,fp8,1024,1024,64,8,tp8 pp1 dp1 moe_tp8 ep1,1,1,1,,source_file=x.csv\n"+
		"b,m,b200_sxm,sglang,1,fp8,1024,1024,8,8,tp8 pp1 dp1 moe_tp8 ep1,1,1,1,,db-dump/x\n"+
		"c,m,h200_sxm,vllm,1,fp8,1024,1024,64,8,tp8 pp1 dp1 moe_tp8 ep1,1,1,1,,source_file=x.csv\n"+
		"d,m,h100_sxm,vllm,1,fp8,1024,1024,64,8,tp8 pp1 dp1 moe_tp8 ep1,1,1,1,,source_file=data/x.csv\n")
	for i, want := range []protocol{{mean: 0.9, burst: 0.1, lag: 15}, {mean: 0.9, burst: 0.1, lag: 5}, {mean: 0.9, burst: 0.1}, {mean: 1, burst: 0.1, equal: true}} {
		if got := protocolOf(&pts[i]); got != want {
			t.Errorf("%s: %+v, want %+v", pts[i].ID, got, want)
		}
	}
}

func TestRepeatedAndSquaredLayoutsAreSkipped(t *testing.T) {
	tp1 := "tp1 pp1 dp1 moe_tp1 ep1"
	pts := servingPoints(t, "a,GPT tiny,h100_sxm,vllm,,bf16,1024,128,8,1,"+tp1+",20,5,100,,\n"+
		"b,GPT tiny,h100_sxm,vllm,,bf16,1024,128,8,2,tp2 pp1 dp1 moe_tp1 ep1,20,5,50,,\n"+
		"c,GPT tiny,h100_sxm,vllm,,bf16,1024,128,8,16,tp1 pp1 dp16 moe_tp4 ep4,21,6,50,,\n")
	p, err := NewPlacer(configs.FS, Models{Map: tiny})
	if err != nil {
		t.Fatal(err)
	}
	res := p.Runs(&measured.File{Serving: pts}, "")
	if len(res.Cases) != 3 || len(res.Skipped) != 2 {
		t.Fatalf("%d cases, skipped %+v", len(res.Cases), res.Skipped)
	}
	for i, kind := range []string{ServingTTFT, ServingTPOT, ServingTokens} {
		c := &res.Cases[i]
		if c.Collective != kind || !(c.P10 <= c.Ours && c.Ours <= c.P90) || c.Ours <= 0 || c.Apart {
			t.Errorf("%s: %+v", kind, c)
		}
	}
	// 8 requests of 128 tokens on one GPU: a token each ttft + 127 tpot over 8 x 128.
	want := (res.Cases[0].Ours + 127*res.Cases[1].Ours) / (8 * 128)
	if d := float64(res.Cases[2].Ours/want) - 1; d > 1e-9 || d < -1e-9 {
		t.Errorf("a token every %v, want %v", res.Cases[2].Ours, want)
	}
}
