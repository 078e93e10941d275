package planner

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"rankmap/layout"
	"rankmap/model"
	"rankmap/topology"
)

// Budgets (ARCHITECTURE.md, 2 cores): DeepSeek-V3 serving on 64 GPUs 1 s; 16,384 GPUs 2 s; 100,000 GPUs 10 s and 1 GiB,
// topology load, search and layout written.

func benchmarkPlan(b *testing.B, preset string, nodes int, name string, w layout.Workload) {
	be := newBench(b)
	b.ReportAllocs()
	for b.Loop() {
		c := be.preset(b, preset, nodes)
		r := be.request(b, c, name, w)
		p, err := Search(context.Background(), r)
		if err != nil {
			b.Fatal(err)
		}
		doc, err := p.Document(r, layout.Inputs{Workload: r.Workload}, topology.NewDoc(c))
		if err != nil {
			b.Fatal(err)
		}
		var out bytes.Buffer
		if err := doc.WriteYAML(&out); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(p.Searched.Priced), "priced")
		b.ReportMetric(float64(out.Len()), "bytes")
	}
}

func BenchmarkDeepSeekServe64(b *testing.B) {
	benchmarkPlan(b, "hgx-h200", 8, "deepseek-v3", layout.Workload{Task: "serve", ISL: 4096, OSL: 1024})
}

func BenchmarkTrain1024(b *testing.B) {
	benchmarkPlan(b, "hgx-h100", 128, "llama-3.1-405b", layout.Workload{Task: "train", SeqLen: 8192, Batch: 1024})
}

func BenchmarkTrain16384(b *testing.B) {
	benchmarkPlan(b, "hgx-h100", 2048, "llama-3.1-405b", layout.Workload{Task: "train", SeqLen: 8192, Batch: 2048})
}

func BenchmarkServe100000(b *testing.B) {
	benchmarkPlan(b, "hgx-h100", 12500, "llama-3.1-70b", layout.Workload{Task: "serve", ISL: 4096, OSL: 1024})
}

// mtnlg is Megatron-Turing NLG 530B (arXiv 2201.11990 section 2): 105 layers, hidden 20480, 128 heads, sequence 2048.
const mtnlg = `{"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_layer": 105, "n_embd": 20480, "n_head": 128,
 "n_positions": 2048, "vocab_size": 51200, "tie_word_embeddings": true}`

// BenchmarkMTNLG is Calculon's own search: 5,040 A100, global batch 2,520 (budget 0.1 s; Calculon takes 33 to 81 s for
// 8,112 executions).
func BenchmarkMTNLG(b *testing.B) {
	be := newBench(b)
	c := be.preset(b, "hgx-a100", 630)
	spec, err := model.Parse(strings.NewReader(mtnlg), "mtnlg.json", model.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		r := be.request(b, c, "llama-3.1-8b", layout.Workload{Task: "train", SeqLen: 2048, Batch: 2520})
		r.Spec, r.GPUs = spec, 5040
		p, err := Search(context.Background(), r)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(p.Searched.Priced), "priced")
		b.ReportMetric(float64(p.Searched.Bounded), "bounded")
		b.ReportMetric(float64(p.Searched.Strategies), "strategies")
	}
}

// irregular1024 is 128 boxes of which two have a GPU with half its NVLinks down and one has seven GPUs.
func irregular1024(tb testing.TB, be *bench) *topology.Cluster {
	c := be.preset(tb, "hgx-h100", 128)
	for _, e := range []topology.Edit{
		{Kind: topology.SetLinks, Node: "node17", GPU: 3, Links: 9},
		{Kind: topology.SetLinks, Node: "node90", GPU: 6, Links: 9},
		{Kind: topology.DropGPU, Node: "node64", GPU: 5},
	} {
		var err error
		if c, _, err = c.Edit(e, be.cat); err != nil {
			tb.Fatal(err)
		}
	}
	return c
}

// BenchmarkIrregular1024 plans on 1,023 usable GPUs of which two are slow (budget 1 s).
func BenchmarkIrregular1024(b *testing.B) {
	be := newBench(b)
	c := irregular1024(b, be)
	b.ReportAllocs()
	for b.Loop() {
		r := be.request(b, c, "llama-3.1-70b", layout.Workload{Task: "serve", ISL: 4096, OSL: 1024})
		r.Skip = func(id topology.GPUID) bool { return c.GPUBad(id) != "" }
		p, err := Search(context.Background(), r)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(p.Searched.Priced), "priced")
		b.ReportMetric(float64(p.Best.GPUs), "GPUs")
		b.ReportMetric(100*(float64(p.Best.Step.Time/p.Best.Bound)-1), "gap-%")
	}
}

// BenchmarkRackWithCopies searches a rack whose 72 GPUs need redundant experts.
func BenchmarkRackWithCopies(b *testing.B) {
	benchmarkPlan(b, "gb200-nvl72", 1, "deepseek-v3", layout.Workload{Task: "decode", ISL: 4096, OSL: 1024})
}

// BenchmarkSensitivity64 is the analysis alone, on DeepSeek-V3 over 64 GPUs with transparent prices.
func BenchmarkSensitivity64(b *testing.B) {
	be := newBench(b)
	r := be.request(b, be.preset(b, "hgx-h200", 8), "deepseek-v3", layout.Workload{Task: "serve", ISL: 4096, OSL: 1024})
	p, err := Search(context.Background(), r)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		q := *p
		if err := Sensitivity(context.Background(), r, &q, varyCheap(r)); err != nil {
			b.Fatal(err)
		}
	}
}
