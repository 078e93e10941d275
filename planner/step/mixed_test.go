package step

import (
	"testing"

	"rankmap/internal/units"
	"rankmap/model"
)

func TestMixedProductsReadTheirWeightsOnce(t *testing.T) {
	product := func(m int) model.ComputeOp {
		return model.ComputeOp{Name: "up", Kind: model.GEMM, DType: "bf16", Times: 2, M: m, N: 10, K: 20, FLOPs: float64(2 * m * 10 * 20), Bytes: units.Bytes(400 + 60*m)}
	}
	decode := []model.ComputeOp{product(8), {Name: "attention", Kind: model.AttnDecode, Times: 2}, {Name: "norm", Kind: model.Elementwise, Times: 4, Bytes: 100, Kernels: 1},
		{Name: "moe", Kind: model.MoE, Times: 2, MoETokens: 8, Hidden: 4, Inter: 8}}
	chunk := []model.ComputeOp{product(100), {Name: "attention", Kind: model.AttnPrefill, Times: 2}, {Name: "norm", Kind: model.Elementwise, Times: 4, Bytes: 900, Kernels: 1},
		{Name: "moe", Kind: model.MoE, Times: 2, MoETokens: 100, Hidden: 4, Inter: 8}}
	ops, chunked := joinOps(decode, chunk, nil)
	if len(ops) != 5 {
		t.Fatalf("%d operations, want both attentions and three joined", len(ops))
	}
	if want := product(108); ops[0].M != 108 || ops[0].Bytes != want.Bytes || ops[0].FLOPs != want.FLOPs {
		t.Errorf("product %+v, want %+v", ops[0], want)
	}
	if ops[2].Bytes != 1000 || ops[3].MoETokens != 108 || ops[4].Kind != model.AttnPrefill {
		t.Errorf("norm %v, experts %d tokens, last %v", ops[2].Bytes, ops[3].MoETokens, ops[4].Kind)
	}
	for i, want := range []bool{true, false, true, true, true} {
		if chunked[i] != want {
			t.Errorf("operation %d: part of the chunk %v", i, chunked[i])
		}
	}
}

// A step with a chunk costs more than either alone, and less than both one after the other.
func TestAPassWithAChunkLiesBetween(t *testing.T) {
	in := input(t, st8(), 32)
	perToken := func(op model.ComputeOp) (Band, string, error) {
		us := 5.0
		switch op.Kind {
		case model.GEMM:
			us += 0.01 * float64(op.M)
		case model.AttnPrefill, model.AttnDecode:
			us += 0.02 * float64(op.Tokens*op.Batch)
		}
		return Band{units.Micros(us), units.Micros(us), units.Micros(us)}, "", nil
	}
	in.Kernel, in.ChunkKernel = perToken, perToken
	decode, err := Pass(in)
	if err != nil {
		t.Fatal(err)
	}
	chunk := in
	chunk.Work = model.Work{Phase: model.Prefill, Batch: 1, Tokens: 512, Context: 512}
	alone, err := Pass(chunk)
	if err != nil {
		t.Fatal(err)
	}
	in.Chunk, in.Scratch = chunk.Work, new(Scratch)
	both, err := Pass(in)
	if err != nil {
		t.Fatal(err)
	}
	if !(both.Pace.Time > decode.Pace.Time && both.Pace.Time > alone.Pace.Time && both.Pace.Time < decode.Pace.Time+alone.Pace.Time) {
		t.Errorf("decode %v, prompt %v, both %v", decode.Pace.Time, alone.Pace.Time, both.Pace.Time)
	}
	if again, err := Pass(in); err != nil || again != both {
		t.Errorf("from the scratch %+v, %v", again, err)
	}
	if both.Kernels <= decode.Kernels || decode.Kernels < 32*8 {
		t.Errorf("%d kernels, with the chunk %d", decode.Kernels, both.Kernels)
	}
}

func TestThinLeavesTheExchange(t *testing.T) {
	ops := []model.ComputeOp{{Kind: model.MoE, Dispatched: true, MoETokens: 100, FLOPs: 10}, {Kind: model.MoE, MoETokens: 100}, {Kind: model.GEMM, M: 100}}
	thin(ops, 0.25)
	if ops[0].MoETokens != 25 || ops[0].FLOPs != 2.5 || ops[1].MoETokens != 100 || ops[2].M != 100 {
		t.Errorf("%+v", ops)
	}
}
