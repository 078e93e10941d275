package step

import (
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
func (r *Result) handOver(in Input, stage int, colls []model.CollectiveOp) error {
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
		r.Band = r.Band.Add(b)
		if in.Brief {
			continue
		}
		if !owned { // the lists are shared with the stages that do the same
			r.Parts, r.Comms, owned = slices.Clone(r.Parts), slices.Clone(r.Comms), true
		}
		r.Parts = append(r.Parts, Part{Name: op.Name, Kind: op.Group.String(), Band: b, Bound: est.Bottleneck})
		r.Comms = append(r.Comms, Used{Op: *op, Times: float64(op.Times), Est: est})
	}
	return nil
}
