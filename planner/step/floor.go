package step

import (
	"fmt"

	"rankmap/internal/units"
	"rankmap/model"
)

// floorKinds is how many kinds of layer a network may have for the kernels of its stages to be remembered.
const floorKinds = 8

// stageKey is everything that the kernels of a training stage depend on.
type stageKey struct {
	tp, cp, ep, etp int
	sp, first, last bool
	recompute       string
	held, redone    [floorKinds]int16 // layers of each kind
	work            model.Work
}

// TrainFloor is a lower bound of Train: the kernels of its micro-batches alone, as if nothing were communicated. Stages
// that do the same are priced once for all strategies of a scratch.
func TrainFloor(in TrainInput) (units.Duration, error) {
	if in.Scratch == nil {
		in.Scratch = new(Scratch)
	}
	var most, sum, t units.Duration
	for s := range in.Strategy.PP {
		if !in.alike(s) {
			var err error
			if t, err = in.Scratch.stageKernels(&in.Input, s); err != nil {
				return 0, err
			}
		}
		most, sum = max(most, t), sum+t
	}
	return most*units.Duration(in.MicroBatches) + (sum-most)/units.Duration(max(1, in.Strategy.Interleave)), nil
}

// stageKernels is the time of a stage's kernels for one micro-batch.
func (sc *Scratch) stageKernels(in *Input, stage int) (units.Duration, error) {
	st := &in.Strategy
	k := stageKey{tp: st.TP, cp: st.CP, ep: st.EP, etp: st.ExpertTP, sp: st.SequenceParallel, first: stage == 0, last: stage == st.PP-1, recompute: st.Recompute, work: in.Work}
	known := in.Spec.StageKinds(st, stage, k.held[:], k.redone[:])
	if known {
		if sc.floorOf != in.Spec {
			sc.floors, sc.floorOf = map[stageKey]units.Duration{}, in.Spec
		}
		if t, ok := sc.floors[k]; ok {
			return t, nil
		}
	}
	sc.floorOps = in.Spec.AppendStepOps(sc.floorOps[:0], st, &in.Work, stage)
	var t units.Duration
	for i := range sc.floorOps {
		op := &sc.floorOps[i]
		b, _, err := in.Kernel(*op)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", op.Name, err)
		}
		t += b.Time * units.Duration(op.Times)
	}
	if known {
		sc.floors[k] = t
	}
	return t, nil
}
