package planner

import (
	"context"
	"errors"
	"strings"
	"testing"

	"rankmap/internal/parallel"
	"rankmap/layout"
)

// With a chunk the groups of prompts carry the sizes of a piece of the prompt, so that validate measures what will run.
func TestGroupsCarryTheSizesOfAPiece(t *testing.T) {
	sizes := func(chunk int) map[string]int64 {
		w := layout.Workload{Task: "serve", ISL: 4096, OSL: 512, Batch: 32, Objective: "throughput", Chunk: chunk}
		be := newBench(t)
		r := be.request(t, be.preset(t, "hgx-h100", 1), "llama-3.1-8b", w)
		r.Freedom.Fix = map[parallel.Dim]int{parallel.TP: 8}
		p, err := Search(context.Background(), r)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]int64{}
		doc, err := p.Document(r, layout.Inputs{Workload: w}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range doc.Groups {
			for _, c := range g.Collectives {
				out[c.Phase+" "+c.Name] = c.Bytes
			}
		}
		return out
	}
	whole, cut := sizes(0), sizes(1056)
	const ar = "prefill attention out-projection"
	if whole[ar] != 4096*4096*2 {
		t.Errorf("a whole prompt: %d bytes, want 4096 tokens x 4096 x 2", whole[ar])
	}
	if cut[ar] != 1024*4096*2 { // 1,056 tokens less 32 that decode leave 1,024: four pieces
		t.Errorf("a piece: %d bytes, want 1024 tokens x 4096 x 2", cut[ar])
	}
	const dec = "decode attention out-projection"
	if cut[dec] != whole[dec] || cut[dec] != 32*4096*2 {
		t.Errorf("decode: %d and %d bytes, want 32 tokens in both", cut[dec], whole[dec])
	}
}

func TestABudgetThatDecodeFillsIsRefused(t *testing.T) {
	w := layout.Workload{Task: "serve", ISL: 4096, OSL: 512, Batch: 256, Objective: "throughput", Chunk: 16}
	be := newBench(t)
	_, err := Search(context.Background(), be.request(t, be.preset(t, "hgx-h100", 1), "llama-3.1-8b", w))
	var no *Infeasible
	if !errors.As(err, &no) || !strings.Contains(no.Binding, "32 sequences a replica decode and take one each") || !strings.Contains(no.Nearest, "--chunk 64") {
		t.Errorf("256 sequences in steps of 16 tokens: %v", err)
	}
	for _, c := range []struct{ seqs, isl, osl, want int }{{64, 4096, 512, 128}, {64, 128, 4096, 66}, {1, 0, 0, 1}, {100, 1000, 1000, 200}} {
		s := &search{Request: Request{Workload: layout.Workload{ISL: c.isl, OSL: c.osl}}}
		if got := s.leastBudget(c.seqs); got != c.want {
			t.Errorf("%d sequences of %d and %d: %d tokens, want %d", c.seqs, c.isl, c.osl, got, c.want)
		}
	}
}
