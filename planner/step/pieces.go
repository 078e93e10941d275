package step

import (
	"fmt"

	"rankmap/internal/parallel"
	"rankmap/model"
)

// copyCost is how much of a copy's time a product loses that runs beside it, though copy engines hold no multiprocessor: memory, caches and power
// are shared. On 2 x H200 whole products of 2,048 to 8,192 rows lost 0.19 to 0.58 of the time in which 3/4 or 7/8 of their
// input comes over NVLink at 390 GB/s, median 0.35 of 12 cases; products in pieces 0.30 to 0.59 with what the pieces wait
// (docs/measurements/h200-x2/2026-11-30-cut).
const copyCost = 0.35

// idleTail is the part of what pieces lose to waves that are not full which three streams do not fill: pieces of 512 rows and 13,312
// columns (1.6 waves of H200) took 15 % longer than the whole where one after the other would take 27 %, of 12,288 columns 11 of 33.
const idleTail = 0.5

// mostPieces is the most pieces of a product: wider groups take two at once (aggregate) or cut in four (num_splits) in NVIDIA's tuned
// settings (NeMo, nemo/collections/llm/recipes/tp_overlap_configs/userbuffers.py).
const mostPieces = 4

// inPieces says that a product is cut by rows, to run beside its gather or scatter: all forward ones, and the input gradients of those that
// scatter. The other gradients run whole beside a bulk transfer (Transformer Engine, default methods of initialize_ub: ring exchange or
// pipeline for qkv, proj, fc1 and fc2 forward and proj and fc2 dgrad, bulk for the rest).
func (in *Input) inPieces(op *model.ComputeOp) bool {
	if !in.OverlapTP || in.Strategy.TP < 2 || !in.Strategy.SequenceParallel || in.Work.Phase != model.Train || op.Kind != model.GEMM {
		return false
	}
	switch op.Name {
	case "qkv_proj", "mlp_up":
		return !op.Backward
	case "o_proj", "mlp_down":
		return !op.Backward || op.OutBytes == 0 // a weight gradient adds to a main gradient
	}
	return false
}

// pieces adds what a product loses that takes b whole.
func (sw *stageWork) pieces(in *Input, price Kernel, op *model.ComputeOp, b Band) error {
	n := min(in.Strategy.TP, mostPieces)
	one := *op
	one.M = max(1, op.M/n)
	one.FLOPs, one.Bytes = op.FLOPs/float64(n), 0
	p, _, err := price(one)
	if err != nil {
		return fmt.Errorf("%s: %w", op.Name, err)
	}
	p = p.Scale(float64(n * op.Times))
	if lost := p.Add(b.Scale(-1)); lost.Time > 0 {
		lost.P10, lost.P90 = max(0, min(lost.P10, lost.Time)), max(lost.P90, lost.Time)
		sw.cut = sw.cut.Add(lost.Scale(idleTail))
	}
	return nil
}

// slower adds what products lose beside the traffic of tensor parallelism.
func (r *Result) slower(in *Input, name string, b Band) {
	r.Band = r.Band.Add(b)
	if !in.Brief && b.P90 > 0 {
		r.Parts = append(r.Parts, Part{Name: name, Kind: parallel.TP.String(), Band: b})
	}
}
