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
	if in.Scratch == nil {
		in.Scratch = new(Scratch)
	}
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

// tailWork is what a stage does once a step: its optimizer priced, its gradient collectives listed.
type tailWork struct {
	optimizer Part
	grads     []model.CollectiveOp
}

// prepareTails lists the tails of the distinct stages.
func (sc *Scratch) prepareTails(in TrainInput) error {
	if len(sc.tails) > 0 {
		return nil
	}
	for s := range in.Strategy.PP {
		if s > 0 && s < in.Strategy.PP-1 && sc.stages[s].twin {
			continue // as the stage before it: embeddings and head make the first and the last one different
		}
		op := in.Spec.OptimizerOp(in.Strategy, s)
		b, bound, err := in.Kernel(op)
		if err != nil {
			return fmt.Errorf("%s: %w", op.Name, err)
		}
		t := tailWork{optimizer: Part{Name: op.Name, Kind: "compute", Band: b, Bound: bound}}
		for _, c := range in.Spec.GradientCollectives(in.Strategy, s, in.Formats) {
			t.grads = append(t.grads, bucketed(c, in.Strategy.DP))
		}
		sc.tails = append(sc.tails, t)
	}
	return nil
}

// tail adds what happens once a step: optimizer and the exposed part of the gradient collectives of the worst stage.
func tail(in TrainInput, out *Result, pace Band) error {
	if err := in.Scratch.prepareTails(in); err != nil {
		return err
	}
	var worst Band
	var used []Used
	var opt Part
	first := true
	for i := range in.Scratch.tails {
		t := &in.Scratch.tails[i]
		if t.optimizer.Band.Time > opt.Band.Time {
			opt = t.optimizer
		}
		var sum Band
		var us []Used
		for _, c := range t.grads {
			est, err := in.Comm(c)
			if err != nil {
				return fmt.Errorf("%s: %w", c.Name, err)
			}
			if !in.Brief {
				us = append(us, Used{Op: c, Times: float64(c.Times), Est: est, once: true})
			}
			sum = sum.Add(Band{est.Time, est.P10, est.P90}.Scale(float64(c.Times)))
		}
		if first || sum.Time > worst.Time {
			worst, used, first = sum, us, false
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

// TrainFloor is a lower bound of Train: its kernels alone, as if nothing were communicated.
func TrainFloor(in TrainInput) (units.Duration, error) {
	in.Brief = true
	if err := in.Scratch.prepare(in.Input, in.Work); err != nil {
		return 0, err
	}
	if err := in.Scratch.prepareTails(in); err != nil {
		return 0, err
	}
	var most, sum, opt units.Duration
	for i := range in.Scratch.stages {
		most = max(most, in.Scratch.stages[i].kernels.Time)
		sum += in.Scratch.stages[i].kernels.Time
	}
	for i := range in.Scratch.tails {
		opt = max(opt, in.Scratch.tails[i].optimizer.Band.Time)
	}
	return most*units.Duration(in.MicroBatches) + (sum-most)/units.Duration(max(1, in.Strategy.Interleave)) + opt, nil
}

func rest(a, b units.Duration) units.Duration { return max(0, a-b) }

// add appends a part and its time.
func (r *Result) add(p Part) {
	r.Parts = append(r.Parts, p)
	r.Band = r.Band.Add(p.Band)
}

// perMicroBatch says whether the collective runs in every micro-batch.
func (u Used) perMicroBatch() bool { return !u.once }
