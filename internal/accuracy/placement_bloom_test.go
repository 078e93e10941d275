package accuracy

import (
	"testing"

	"rankmap/internal/measured"
)

func trial(size string, pp, heads int, note string, seconds, tflops float64) *measured.Placement {
	p := &measured.Placement{Model: "GPT " + size + " (BLOOM pre-study)", GPUs: 384, TP: 8, PP: pp, GlobalBatch: 2048, SeqLen: 2048, Note: note}
	if seconds > 0 {
		p.Metrics = []measured.Metric{{Name: "step time", Value: seconds, Unit: "s"}, {Name: "TFLOP/s/GPU", Value: tflops, Unit: "TFLOP/s"}}
	}
	return p
}

func TestTrialNetworksOfOneNameAreToldApart(t *testing.T) {
	deep, wide := network{84, 13312, 64}, network{78, 13824, 64}
	rate := func(n network, seconds float64) float64 {
		return n.flops(trial("182B", 6, 0, "", 0, 0)) / 384 / seconds / 1e12
	}
	for _, c := range []struct {
		name string
		p    *measured.Placement
		want network
	}{
		{"by the operations that the row's numbers multiply to", trial("182B", 6, 0, "", 120, rate(wide, 120)), wide},
		{"the other one", trial("182B", 6, 0, "", 120, rate(deep, 120)), deep},
		{"even where its stages do not divide", trial("182B", 12, 0, "heads 128", 120, rate(wide, 120)), network{78, 13824, 128}},
		{"else by heads", trial("182B", 6, 0, "heads 96", 0, 0), network{78, 13824, 96}},
		{"else by stages", trial("195B", 11, 0, "", 0, 0), network{77, 14400, 96}},
		{"embedding and head may count as layers", trial("195B", 12, 0, "", 0, 0), network{106, 12288, 64}},
		{"the only one", trial("176B", 12, 0, "heads 128", 0, 0), network{70, 14336, 128}},
	} {
		got, ok := bloomShape(c.p.Model[4:8], c.p)
		if !ok || got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if _, ok := bloomShape("999B", trial("999B", 1, 0, "", 0, 0)); ok {
		t.Error("an unknown size has a network")
	}
}

func TestRowsThatContradictThemselvesAreNotScored(t *testing.T) {
	row := func(seconds, tflops string) string {
		return "mguide-001,s,GPT tiny,train,8,H100,1,,8,1,1,8,,1,no,,2,64,2048,BF16,,step time," + seconds + ",s,TFLOP/s/GPU," + tflops + ",TFLOP/s,A,\n"
	}
	// 64 sequences of 2,048 tokens of a network of 1.4 billion parameters are some 1.2e15 operations: 0.4 s on 8 GPUs of 400 TFLOP/s.
	if res := confrontPlacements(t, row("0.4", "400")); len(res.Times) != 1 {
		t.Errorf("a sound row has %d times", len(res.Times))
	}
	if res := confrontPlacements(t, row("1.6", "400")); len(res.Times) != 0 {
		t.Errorf("a row of a quarter of its batch has %d times", len(res.Times))
	}
}
