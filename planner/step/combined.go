package step

import (
	"strings"

	"rankmap/model"
)

// Combined 1F1B (Megatron-LM --overlap-moe-expert-parallel-comm): layer by layer the forward pass of one micro-batch goes beside
// the backward pass of another, and each exchange of the one beside a piece of the other's kernels. An exchange must be over
// before the next piece starts, so each hides behind its own:
//
//	dispatch            experts, backward       combine             attention, backward
//	combine gradient    attention, forward      dispatch gradient   experts, forward
//
// What is longer than its piece stays, and so does what the kernels lose to the multiprocessors of the exchange (exchangeSMs);
// the exchange itself goes at besideRate, as all transfers beside kernels. What runs while the pipeline fills and drains has no
// partner (unpaired): its exchanges hide behind nothing.

// combined says that a step runs so: a pipeline allows it only with virtual stages, and full recomputation never.
func (in *Input) combined() bool {
	st := &in.Strategy
	return in.OverlapEP && in.Work.Phase == model.Train && (st.PP == 1 || st.Interleave > 1) && st.Recompute != "full"
}

// paired is the exchanges of a stage by the piece that they go beside: forward or gradient, dispatch or combine.
type paired [2][2]Band

// add files an exchange that takes b in all.
func (p *paired) add(op *model.CollectiveOp, b Band) {
	pass, kind := 0, 0
	if strings.HasSuffix(op.Name, "gradient") {
		pass = 1
	}
	if strings.HasPrefix(op.Name, "moe combine") {
		kind = 1
	}
	p[pass][kind] = p[pass][kind].Add(b)
}

// pair adds what is left of exchanges beside the kernels of a stage, of which others have taken their part.
func (r *Result) pair(in *Input, p *paired, others *hidden, kernels Band) {
	var left Band
	if kernels.Time <= 0 {
		return
	}
	share := float64(r.experts / kernels.Time)
	free := float64(rest(kernels.Time, others.cover.Time) / kernels.Time)
	for pass, kinds := range p {
		for kind, x := range kinds {
			if x.Time <= 0 {
				continue
			}
			piece := backwardShare * share // what a dispatch goes beside
			if kind == 1 {
				piece = backwardShare * (1 - share)
			}
			if pass == 1 {
				piece = (1 - backwardShare) * (1 - share) // the gradient of a combine comes first
				if kind == 0 {
					piece = (1 - backwardShare) * share
				}
			}
			h := hidden{alone: x, cover: x.Scale(1 / besideRate)}
			left = left.Add(h.exposed(kernels.Scale(piece*free), x.Scale(exchangeSMs)).Scale(1 - in.unpaired)).Add(x.Scale(in.unpaired))
		}
	}
	if left.P90 <= 0 {
		return
	}
	r.Band = r.Band.Add(left)
	if !in.Brief {
		r.Parts = append(r.Parts, Part{Name: "exposed expert exchange", Kind: "ep", Band: left, exchange: true})
	}
}
