package measured

import (
	"strings"
	"testing"
)

const placementHead = "id,source,model,task,gpus,gpu_type,nodes,interconnect,scaleup_domain,tp,pp,dp,ep,cp,sp,vpp,microbatch,global_batch,seq_len,precision,rank_order,metric,value,unit,metric2,value2,unit2,evidence,note\n"

func TestPlacementsAreReadByHeader(t *testing.T) {
	in := placementHead +
		`mill-001,book,Net A,train,16,H100,2,8x400G,8,4,2,2,,1,yes,3,1,64,4K,BF16,,step time,1.5,s,MFU,40,%,A,"full recompute, twice"` + "\n" +
		`mill-002,book,Net A,train,16-24,H100,,,8,prefill 2,,,,,,,,16M tokens,8192,FP8,,,,,,,,B,` + "\n" +
		`mill-x-003,book,Net B,serve,4,B200,,,8,4,1,1,1,,,,concurrency 128,,1K/2K,fp4,,TPOT,14.5,ms,,,,A,` + "\n" +
		`mill-004,book,Net B,decode,4,B200,,,8,4,,,,,,,32,,/,fp4,,TPOT,NaN,ms,,,,A,` + "\n"
	rows, err := ReadPlacements(strings.NewReader(in), "p.csv")
	if err != nil || len(rows) != 4 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	a, b, c, d := rows[0], rows[1], rows[2], rows[3]
	if a.GPUs != 16 || a.TP != 4 || a.EP != 0 || a.VPP != 3 || a.SeqLen != 4096 || a.GlobalBatch != 64 || a.MicroBatch != 1 || len(a.Unclear) != 0 {
		t.Errorf("first row: %+v", a)
	}
	if m, ok := a.Metric("step time"); !ok || m.Value != 1.5 || m.Unit != "s" {
		t.Errorf("metric: %+v", a.Metrics)
	}
	if b.GPUs != 0 || len(b.Unclear) != 2 || b.BatchTokens != 16<<20 {
		t.Errorf("row with words for numbers: %+v", b)
	}
	if c.Concurrency != 128 || c.MicroBatch != 0 || c.ISL != 1024 || c.OSL != 2048 || c.Family() != "mill-x" {
		t.Errorf("serving row: %+v", c)
	}
	if d.ISL != 0 || d.MicroBatch != 32 || len(d.Metrics) != 0 || len(d.Unclear) != 0 {
		t.Errorf("row without lengths: %+v", d)
	}
}

func TestPlacementsNameEveryProblem(t *testing.T) {
	in := placementHead + ",x" + strings.Repeat(",", 27) + "\nshort,row\n" + "a-1" + strings.Repeat(",", 28) + "\n" + "a-1" + strings.Repeat(",", 28) + "\n"
	_, err := ReadPlacements(strings.NewReader(in), "p.csv")
	for _, want := range []string{"p.csv:2: the row has no id", "p.csv:3: 2 fields, want 29", `p.csv:5: id "a-1" is also on line 4`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
	if _, err := ReadPlacements(strings.NewReader("id,model\n"), "p.csv"); err == nil || !strings.Contains(err.Error(), `no column "gpus"`) {
		t.Errorf("missing columns: %v", err)
	}
}

func TestModelMapTakesConfigsAndShapes(t *testing.T) {
	m, err := ReadModelMap(strings.NewReader("model\tconfig\tshape\nNet A\ta.json\t\nNet B\t\thidden=8 layers=2 heads=2 vocab=16\r\nNet C\n"), "m.tsv")
	if err != nil || m["Net A"].Config != "a.json" || m["Net B"].Shape != "hidden=8 layers=2 heads=2 vocab=16" {
		t.Errorf("%v, %v", m, err)
	}
	if c, ok := m["Net C"]; !ok || c != (ModelMap{}) {
		t.Error("a model without either is listed")
	}
	if _, err := ReadModelMap(strings.NewReader("name\nx\ta\tb\tc\n"), "m.tsv"); err == nil || !strings.Contains(err.Error(), "m.tsv:2: 4 fields") {
		t.Errorf("bad table: %v", err)
	}
}

func FuzzPlacements(f *testing.F) {
	f.Add(placementHead + "a-1,s,m,train,8,H100,1,,8,8,1,1,,,,,1,8,4K,BF16,,step time,1,s,,,,A,n\n")
	f.Add("id,model,task,gpus,gpu_type,tp,pp,dp\n\"a\nb\",,,,,,,\n")
	f.Fuzz(func(t *testing.T, in string) {
		rows, err := ReadPlacements(strings.NewReader(in), "p.csv")
		if err != nil {
			return
		}
		for _, p := range rows {
			if p.ID == "" || p.GPUs < 0 || p.ISL < 0 || p.BatchTokens < 0 {
				t.Fatalf("%+v", p)
			}
		}
	})
}

func FuzzModelMap(f *testing.F) {
	f.Add("model\tconfig\tshape\na\tb\tc\n")
	f.Fuzz(func(_ *testing.T, in string) { _, _ = ReadModelMap(strings.NewReader(in), "m.tsv") })
}
