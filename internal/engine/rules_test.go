package engine

import (
	"os"
	"strings"
	"testing"

	"rankmap/internal/parallel"
)

// Networks by what the rules need: Llama-3.1-70B, DeepSeek-V3 (latent attention, 256 experts), Qwen3-235B (4 KV heads).
var (
	llama    = Facts{Layers: 80, Heads: 64, KVHeads: 8}
	deepseek = Facts{Layers: 61, Heads: 128, Experts: 256}
	qwen     = Facts{Layers: 94, Heads: 64, KVHeads: 4, Experts: 128}
)

func training(f Facts, batch, seq int) Facts {
	f.Training, f.GlobalBatch, f.SeqLen = true, batch, seq
	return f
}

func TestEveryRuleRejectsWhatTheEngineCannotRun(t *testing.T) {
	type st = parallel.Strategy
	for _, c := range []struct {
		about, target string
		st            st
		facts         Facts
		rule          string // "" = runs
	}{
		{"64 heads over 8", "vllm", st{TP: 8}, llama, ""},
		{"64 heads over 3", "vllm", st{TP: 3}, llama, "heads % tp"},
		{"8 KV heads over 12 ranks", "vllm", st{TP: 12}, Facts{Heads: 96, KVHeads: 8}, "kv heads and tp"},
		{"8 KV heads copied twice", "vllm", st{TP: 16}, llama, ""},
		{"experts over tp x dp", "vllm@0.24", st{TP: 2, DP: 4, EP: 8}, deepseek, ""},
		{"experts cut over tp x dp", "vllm", st{TP: 2, DP: 4, ExpertTP: 8}, deepseek, ""},
		{"several instances of tp x dp", "vllm", st{TP: 2, DP: 8, EP: 8}, deepseek, ""},
		{"half cut, half spread", "vllm@0.24", st{TP: 8, EP: 4, ExpertTP: 2}, deepseek, "ep = tp x dp"},
		{"experts on part of tp", "vllm", st{TP: 8, EP: 4}, deepseek, "ep = tp x dp"},
		{"a pipeline that only decodes", "vllm", st{TP: 4, PP: 2}, Facts{Heads: 64, KVHeads: 8, Decode: true}, "no pipeline in decode instances"},
		{"a pipeline that serves", "vllm", st{TP: 4, PP: 2}, llama, ""},
		{"training", "vllm", st{TP: 8}, training(llama, 64, 4096), "inference only"},
		{"context parallelism", "vllm", st{TP: 2, CP: 2}, llama, "no context parallelism"},

		{"attention tp 4 of 16, ep 16", "sglang", st{TP: 4, DP: 4, EP: 16}, deepseek, ""},
		{"ep 4 x expert-tp 2 of 8", "sglang", st{TP: 8, EP: 4, ExpertTP: 2}, deepseek, ""},
		{"attention tp 4 of an instance of 6", "sglang", st{TP: 4, DP: 3, EP: 6}, Facts{Heads: 128, Experts: 252}, "tp % dp"},
		{"experts on half of the instance", "sglang", st{TP: 8, EP: 4}, deepseek, "tp % ep"},
		{"96 experts over 36", "sglang", st{TP: 1, DP: 36, EP: 36}, Facts{Heads: 128, Experts: 96}, "experts % ep"},

		{"attention copied to 8, ep 8", "trtllm", st{DP: 8, EP: 8}, deepseek, ""},
		{"tp 8, ep 4 x expert-tp 2", "trtllm@1.2.0rc6", st{TP: 8, EP: 4, ExpertTP: 2}, deepseek, ""},
		{"attention tp 2 beside dp 4", "trtllm", st{TP: 2, DP: 4, EP: 8}, deepseek, "attention dp = tp or 1"},
		{"ep 4 alone under tp 8", "trtllm", st{TP: 8, EP: 4}, deepseek, "moe_tp x moe_ep = tp"},
		{"two attention tp, no experts", "trtllm", st{TP: 2, DP: 4}, llama, ""},

		{"a usual run", "megatron", st{TP: 8, PP: 8, DP: 2, MicroBatch: 1, SequenceParallel: true}, training(llama, 128, 4096), ""},
		{"ep with tp, serial", "megatron", st{TP: 2, DP: 4, EP: 4}, training(qwen, 128, 4096), "ep and tp need sequence parallelism"},
		{"ep with tp and sp", "megatron", st{TP: 2, DP: 4, EP: 4, SequenceParallel: true}, training(qwen, 128, 4096), ""},
		{"batch 100 over 8 replicas", "megatron", st{DP: 8, MicroBatch: 1}, training(llama, 100, 4096), "global batch % (micro-batch x dp)"},
		{"80 layers in 12 pieces, old", "megatron@0.12", st{PP: 12, MicroBatch: 1}, training(llama, 96, 4096), "layers % (pp x virtual stages)"},
		{"80 layers in 12 pieces, with a layout flag", "megatron@0.13", st{PP: 12, MicroBatch: 1}, training(llama, 96, 4096), ""},
		{"126 layers, embedding and loss counted", "megatron@0.12", st{PP: 16, MicroBatch: 1}, training(Facts{Layers: 126, Heads: 128, KVHeads: 8}, 64, 8192), ""},
		{"80 layers in 12 pieces, 4 on the last and 6 on the first", "megatron@0.12", st{PP: 12, MicroBatch: 1, FirstStage: 6, LastStage: 4}, training(llama, 96, 4096), ""},
		{"80 layers in 12 pieces, 4 on the last", "megatron@0.12", st{PP: 12, MicroBatch: 1, LastStage: 4}, training(llama, 96, 4096), "layers % (pp x virtual stages)"},
		{"virtual stages without a pipeline", "megatron", st{Interleave: 4, MicroBatch: 1}, training(llama, 64, 4096), "virtual stages need a pipeline"},
		{"too few micro-batches to interleave", "megatron", st{PP: 8, Interleave: 2, MicroBatch: 1}, training(llama, 4, 4096), "micro-batches >= pp when interleaved"},
		{"an odd sequence over cp 4", "megatron", st{CP: 4, MicroBatch: 1}, training(llama, 64, 4100), "sequence % (2 x cp)"},
		{"ep 3 of 8 ranks", "megatron", st{DP: 8, EP: 3}, training(Facts{Experts: 9}, 64, 4096), "world % (expert-tp x ep x pp)"},
		{"8 KV heads are not copied", "megatron", st{TP: 16, MicroBatch: 1, SequenceParallel: true}, training(llama, 64, 4096), "kv heads % tp"},
		{"8 KV heads copied by an engine", "sglang", st{TP: 16}, llama, ""},
		{"a sequence that tp does not divide", "megatron", st{TP: 8, MicroBatch: 1, SequenceParallel: true}, training(llama, 64, 4100), "sequence % (tp x cp)"},
		{"8 state groups over 16", "megatron", st{TP: 16, MicroBatch: 1, SequenceParallel: true}, training(Facts{Heads: 32, StateHeads: 128, StateGroups: 8}, 64, 4096), "state groups and tp x cp"},
		{"one state group a rank, copied over cp 4", "megatron", st{TP: 8, CP: 4, MicroBatch: 1, SequenceParallel: true}, training(Facts{Heads: 32, StateHeads: 128, StateGroups: 8}, 64, 4096), ""},
		{"3 state groups a rank over cp 2", "megatron", st{TP: 4, CP: 2, MicroBatch: 1, SequenceParallel: true}, training(Facts{Heads: 32, StateHeads: 96, StateGroups: 12}, 64, 4096), "state groups and tp x cp"},
		{"4 state groups over 8", "vllm", st{TP: 8}, Facts{Heads: 32, KVHeads: 8, StateHeads: 64, StateGroups: 4}, "state groups and tp"},
		{"one state group over 8", "vllm", st{TP: 8}, Facts{Heads: 32, KVHeads: 8, StateHeads: 64, StateGroups: 1}, ""},
		{"one state group over 8, copied", "sglang", st{TP: 8}, Facts{Heads: 32, KVHeads: 8, StateHeads: 64, StateGroups: 1}, ""},
		{"8 state groups over 16, copied", "sglang", st{TP: 16}, Facts{Heads: 32, KVHeads: 8, StateHeads: 64, StateGroups: 8}, "state groups and tp"},
		{"one state group over 8, not copied", "trtllm", st{TP: 8}, Facts{Heads: 32, KVHeads: 8, StateHeads: 64, StateGroups: 1}, "state groups % tp"},
		{"serving", "megatron", st{TP: 8}, Facts{Heads: 64, KVHeads: 8, Serving: true}, "training only"},
		{"100 experts over 8", "megatron", st{DP: 8, EP: 8}, training(Facts{Experts: 100}, 64, 4096), "experts % ep"},
		{"no rules of its own", "torchrun", st{TP: 3, CP: 5}, llama, ""},
	} {
		e, err := Find(c.target)
		if err != nil {
			t.Fatal(err)
		}
		v := e.Check(c.st, c.facts)
		switch {
		case c.rule == "" && len(v) > 0:
			t.Errorf("%s on %s: rejected by %s, want accepted", c.about, c.target, v[0])
		case c.rule != "" && (len(v) == 0 || v[0].Rule != c.rule):
			t.Errorf("%s on %s: %v, want rule %q", c.about, c.target, v, c.rule)
		case c.rule != "" && (v[0].Source == "" || !strings.HasPrefix(v[0].String(), c.target+": "+c.rule+": ")):
			t.Errorf("%s: violation %+v names no source or reads badly", c.about, v[0])
		}
	}
}

func TestFindReadsTargetsAndNamesTheKnown(t *testing.T) {
	if _, err := Find("vlm"); err == nil || !strings.Contains(err.Error(), "vllm") {
		t.Errorf("unknown engine: %v, want the known names", err)
	}
	if _, err := Find("vllm@new"); err == nil || !strings.Contains(err.Error(), "0.24") {
		t.Errorf("bad version: %v, want an example", err)
	}
	for _, v := range []string{"vllm", "sglang@0.5.8.post1", "trtllm@1.2.0rc6", "megatron@v0.13.1"} {
		if _, err := Find(v); err != nil {
			t.Errorf("%s: %v", v, err)
		}
	}
}

func TestVersionsCompareByNumbers(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{{"0.9", "0.13", true}, {"0.13", "0.13", false}, {"0.13.1", "0.13", false}, {"1.0.0rc3", "1.0.1", true}, {"v0.5.8.post1", "0.5.9", true}} {
		if got := older(c.a, c.b); got != c.want {
			t.Errorf("%s older than %s: %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

func TestOrdersThatEnginesProduce(t *testing.T) {
	m, _ := Find("megatron")
	v, _ := Find("vllm")
	anywhere, _ := Find("mpi")
	st := parallel.Strategy{TP: 2, PP: 2, DP: 2, CP: 1}
	tpdppp := []parallel.Dim{parallel.TP, parallel.DP, parallel.PP, parallel.CP}
	tpppdp := []parallel.Dim{parallel.TP, parallel.PP, parallel.DP, parallel.CP}
	dpfirst := []parallel.Dim{parallel.DP, parallel.TP, parallel.PP, parallel.CP}
	if !m.Permits(tpdppp, st) || !m.Permits(tpppdp, st) || m.Permits(dpfirst, st) {
		t.Error("megatron: want tp-dp-pp and tp-pp-dp, nothing else")
	}
	if v.Permits(tpdppp, st) || !v.Permits(tpppdp, st) {
		t.Error("vllm: want tp-pp-dp alone")
	}
	if !anywhere.Permits(dpfirst, st) {
		t.Error("mpi places every rank")
	}
}

// Every rule is in the document that users read.
func TestRulesAreDocumented(t *testing.T) {
	data, err := os.ReadFile("../../docs/engine-rules.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, list := range rules {
		for _, r := range list {
			if !strings.Contains(string(data), "`"+r.name+"`") {
				t.Errorf("docs/engine-rules.md: the rule %q of %s is missing", r.name, name)
			}
		}
	}
}
