package planner

import (
	"context"
	"testing"

	"rankmap/layout"
)

// BenchmarkKeep512 plans DeepSeek-V3 again on 512 GPUs of which two are lost.
func BenchmarkKeep512(b *testing.B) {
	be := newBench(b)
	c := be.preset(b, "hgx-h200", 64)
	r := be.request(b, c, "deepseek-v3", layout.Workload{Task: "decode", ISL: 4096, OSL: 1024})
	p, err := Search(context.Background(), r)
	if err != nil {
		b.Fatal(err)
	}
	f := Former{p.Best.Strategy, p.Seats, p.Best.Batch}
	r.Skip = without(139, 322)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Replan(context.Background(), r, f); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAvoid512 is the search of BenchmarkKeep512 alone.
func BenchmarkAvoid512(b *testing.B) {
	be := newBench(b)
	c := be.preset(b, "hgx-h200", 64)
	r := be.request(b, c, "deepseek-v3", layout.Workload{Task: "decode", ISL: 4096, OSL: 1024})
	r.Skip = without(139, 322)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Search(context.Background(), r); err != nil {
			b.Fatal(err)
		}
	}
}
