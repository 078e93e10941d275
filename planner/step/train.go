package step

import (
	"fmt"

	"rankmap/internal/units"
	"rankmap/model"
)

// TrainInput is a training step: Input.Work is ONE micro-batch of one replica.
type TrainInput struct {
	Input
	MicroBatches int // micro-batches a replica runs in a step
	Formats      model.Training
}

// Train prices one training step with the 1F1B schedule, interleaved when Strategy.Interleave is above 1.
//
// With v virtual stages, the slowest stage paces m micro-batches and the pipeline fills and drains once:
//
//	step = m max(t) + (sum(t) - max(t))/v + optimizer + exposed gradients
//
// (Narayanan et al., SC21, section 2.2: the bubble is (p-1)/v of a stage for equal stages.) Gradient reduction and
// parameter gathers run beside the last backward and the first forward pass; what is longer than one micro-batch of the
// slowest stage is exposed.
func Train(in TrainInput) (Result, error) {
	st := in.Strategy
	all, err := stages(in.Input, in.Work)
	if err != nil {
		return Result{}, err
	}
	pace := slowest(all)
	m := float64(in.MicroBatches)
	out := Result{FLOPs: pace.FLOPs * m, Band: pace.Band.Scale(m)}
	for _, p := range pace.Parts {
		p.Band = p.Band.Scale(m)
		out.Parts = append(out.Parts, p)
	}
	if st.PP > 1 {
		var sum Band
		for _, r := range all {
			sum = sum.Add(r.Band)
		}
		bubble := sum.Add(pace.Band.Scale(-1)).Scale(1 / float64(max(1, st.Interleave)))
		out.add(Part{Name: "pipeline bubble", Kind: "bubble", Band: bubble})
	}
	if err := tail(in, &out, pace.Band); err != nil {
		return Result{}, err
	}
	if in.Brief {
		out.Parts, out.Comms = nil, nil
		return out, nil
	}
	out.Comms = append(out.Comms, comms(all)...)
	for i := range out.Comms {
		if out.Comms[i].perMicroBatch() {
			out.Comms[i].Times *= m
		}
	}
	out.Parts = merge(out.Parts)
	return out, nil
}

// tail adds what happens once a step: optimizer and the exposed part of the gradient collectives of the worst stage.
func tail(in TrainInput, out *Result, pace Band) error {
	var worst Band
	var used []Used
	var opt Part
	for s := range in.Strategy.PP {
		op := in.Spec.OptimizerOp(in.Strategy, s)
		b, bound, err := in.Kernel(op)
		if err != nil {
			return fmt.Errorf("%s: %w", op.Name, err)
		}
		if b.Time > opt.Band.Time {
			opt = Part{Name: op.Name, Kind: "compute", Band: b, Bound: bound}
		}
		var sum Band
		var us []Used
		for _, c := range in.Spec.GradientCollectives(in.Strategy, s, in.Formats) {
			c = bucketed(c, in.Strategy.DP)
			est, err := in.Comm(c)
			if err != nil {
				return fmt.Errorf("%s: %w", c.Name, err)
			}
			us = append(us, Used{Op: c, Times: float64(c.Times), Est: est, once: true})
			sum = sum.Add(Band{est.Time, est.P10, est.P90}.Scale(float64(c.Times)))
		}
		if used == nil || sum.Time > worst.Time {
			worst, used = sum, us
		}
	}
	out.add(opt)
	out.Comms = append(out.Comms, used...)
	exposed := Band{rest(worst.Time, pace.Time), rest(worst.P10, pace.P90), rest(worst.P90, pace.P10)}
	if exposed.P90 > 0 {
		bound := ""
		if len(used) > 0 {
			bound = used[0].Est.Bottleneck
		}
		out.add(Part{Name: "exposed gradient collectives", Kind: "dp", Band: exposed, Bound: bound})
	}
	return nil
}

func rest(a, b units.Duration) units.Duration { return max(0, a-b) }

// add appends a part and its time.
func (r *Result) add(p Part) {
	r.Parts = append(r.Parts, p)
	r.Band = r.Band.Add(p.Band)
}

// perMicroBatch says whether the collective runs in every micro-batch.
func (u Used) perMicroBatch() bool { return !u.once }
