package model

import (
	"testing"

	"rankmap/internal/parallel"
)

func BenchmarkStepOps(b *testing.B) {
	s := embedded(b, "deepseek-v3")
	st := parallel.Strategy{DP: 32, EP: 32}.Normalize()
	w := Work{Phase: Decode, Batch: 128, Tokens: 1, Context: 4096}
	ops := make([]ComputeOp, 0, 64)
	b.ReportAllocs()
	for b.Loop() {
		ops = s.AppendStepOps(ops[:0], &st, &w, 0)
	}
	b.ReportMetric(float64(len(ops)), "ops")
}

func BenchmarkStepCollectives(b *testing.B) {
	s := embedded(b, "deepseek-v3")
	st := parallel.Strategy{TP: 8, DP: 4, EP: 32}.Normalize()
	w := Work{Phase: Decode, Batch: 128, Tokens: 1, Context: 4096}
	ops := make([]CollectiveOp, 0, 64)
	b.ReportAllocs()
	for b.Loop() {
		ops = s.AppendStepCollectives(ops[:0], &st, &w, 0)
	}
	b.ReportMetric(float64(len(ops)), "ops")
}

func BenchmarkMemory(b *testing.B) {
	s := embedded(b, "deepseek-v3")
	st := parallel.Strategy{TP: 8, PP: 4}.Normalize()
	w := Work{Phase: Decode, Batch: 128, Tokens: 1, Context: 4096}
	b.ReportAllocs()
	for b.Loop() {
		_ = s.Memory(st, w, MemoryOptions{Capacity: 80 << 30})
	}
}

func BenchmarkCheck(b *testing.B) {
	s := embedded(b, "deepseek-v3")
	st := parallel.Strategy{TP: 8, PP: 4, EP: 8}.Normalize()
	b.ReportAllocs()
	for b.Loop() {
		_ = s.Check(st)
	}
}

func BenchmarkTrainOps(b *testing.B) {
	s := embedded(b, "llama-3.1-405b")
	st := parallel.Strategy{TP: 8, PP: 16, DP: 8, SequenceParallel: true}.Normalize()
	w := Work{Phase: Train, Batch: 1, Tokens: 8192, Context: 8192}
	ops := make([]ComputeOp, 0, 64)
	b.ReportAllocs()
	for b.Loop() {
		ops = s.AppendStepOps(ops[:0], &st, &w, 0)
	}
}

func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		embedded(b, "deepseek-v3")
	}
}
