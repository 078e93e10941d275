package step

import (
	"cmp"
	"fmt"
	"slices"

	"rankmap/internal/parallel"
	"rankmap/model"
)

// handsOver says that a collective moves an activation or a gradient between neighbouring stages.
func handsOver(op *model.CollectiveOp) bool {
	return op.Group == parallel.PP && op.Op == parallel.SendRecv
}

// boundaryOf is the boundary over which a stage sends: activations go up, gradients down.
func (in *Input) boundaryOf(stage int, op *model.CollectiveOp) int {
	pp := in.Strategy.PP
	if op.Name == model.GradientHop {
		return (stage + pp - 1) % pp
	}
	return stage
}

// handOver adds what a stage sends to its neighbours. Each boundary has its own price (model.CollectiveOp.Hop): one inside
// an NVLink domain is cheap beside one that crosses the network.
//
// Interleaved training sends beside the kernels of the next virtual stage (hopsBeside): what those do not cover is added here,
// and what the filling and the draining pipeline waits for, in Train.
func (r *Result) handOver(in Input, stage int, colls []model.CollectiveOp) error {
	beside, alone := in.hopsBeside(), r.Band
	owned := false
	for i := range colls {
		op := &colls[i]
		if op.Times == 0 || !handsOver(op) {
			continue
		}
		hop := *op
		hop.Hop = 1 + in.boundaryOf(stage, op)
		est, err := in.Comm(hop)
		if err != nil {
			return fmt.Errorf("%s: %w", op.Name, err)
		}
		b := Band{est.Time, est.P10, est.P90}.Scale(float64(op.Times))
		if beside {
			r.hops = r.hops.Add(b)
			b = Band{}
		}
		r.Band = r.Band.Add(b)
		if in.Brief {
			continue
		}
		if !owned { // the lists are shared with the stages that do the same
			r.Parts, r.Comms, owned = slices.Clone(r.Parts), slices.Clone(r.Comms), true
		}
		part := Part{Name: op.Name, Kind: op.Group.String(), Band: b, Bound: est.Bottleneck}
		if beside {
			part.Band = Band{est.Time, est.P10, est.P90}.Scale(float64(op.Times))
			r.hopParts = append(slices.Clip(r.hopParts), part)
		} else {
			r.Parts = append(r.Parts, part)
		}
		r.Comms = append(r.Comms, Used{Op: *op, Times: float64(op.Times), Est: est})
	}
	if left := (Band{rest(r.hops.Time, alone.Time), rest(r.hops.P10, alone.P90), rest(r.hops.P90, alone.P10)}); left.P90 > 0 {
		r.Band = r.Band.Add(left)
		if !in.Brief {
			r.Parts = append(slices.Clip(r.Parts), Part{Name: "exposed hand-over", Kind: parallel.PP.String(), Band: left})
		}
	}
	return nil
}

// hopsBeside says that stages send while they compute: Megatron-LM with virtual stages since 2023 (--overlap-p2p-communication,
// on by default; without virtual stages each send is waited for).
func (in *Input) hopsBeside() bool {
	return in.Work.Phase == model.Train && in.Strategy.Interleave > 1 && !in.BlockingHops
}

// fill adds what stages of an interleaved pipeline wait for while it fills and drains: there the forward passes follow each other with
// nothing of another micro-batch between them, and so do the backward passes, and each waits for what its neighbour sends
// (Megatron-LM's schedules hide these only with overlap_p2p_comm_warmup_flush, off by default). The dearest boundary paces them. r.hops has
// what a micro-batch sends, v pieces up and down.
func (r *Result) fill(all []Result, st *parallel.Strategy, microBatches int) {
	slow := slices.MaxFunc(all, func(a, b Result) int { return cmp.Compare(a.hops.Time, b.hops.Time) })
	share := float64(alonePieces(st, microBatches)) / float64(max(1, st.Interleave))
	r.Band = r.Band.Add(slow.hops.Scale(share))
	for _, p := range slow.hopParts {
		p.Band = p.Band.Scale(share)
		r.Parts = append(r.Parts, p)
	}
}

// alonePieces is how many virtual stages the first rank runs forward before its first backward pass, and backward after its last
// forward pass: 2 (p-1) + (v-1) p, at most all of its micro-batches (Megatron-LM, schedules.py, get_pp_rank_microbatches). Without
// virtual stages it is p-1, and one forward and one backward pass without a pipeline.
func alonePieces(st *parallel.Strategy, microBatches int) int {
	v := max(1, st.Interleave)
	n := 2*(st.PP-1) + (v-1)*st.PP
	if v == 1 {
		n = max(1, st.PP-1)
	}
	return min(n, microBatches*v)
}
