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
	// Serial says that gradients are reduced and parameters gathered after the last backward pass, beside nothing.
	Serial bool
	// HostOp is the time in which the host starts one operation; 0 = no limit, as with CUDA graphs.
	HostOp units.Duration
	// Blocking says that the host waits for each operation before it starts the next (CUDA_LAUNCH_BLOCKING=1).
	Blocking bool
	// Limit ends a brief step early: what would take longer is not priced to its end, and comes out at least as long. 0 = none.
	Limit   units.Duration
	Formats model.Training
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
	in.serial = in.Serial
	in.unpaired = float64(alonePieces(&st, in.MicroBatches)) / float64(max(1, in.MicroBatches)*max(1, st.Interleave))
	if in.Brief && in.Limit > 0 {
		in.stopAt = in.Limit / units.Duration(max(1, in.MicroBatches))
	}
	all, err := stages(in.Input, in.Work)
	if err != nil {
		return Result{}, err
	}
	for i := range all {
		all[i].waitForHost(in.HostOp, in.Blocking)
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
		if in.hopsBeside() {
			out.fill(all, &st, in.MicroBatches)
		}
	}
	if in.Brief && in.Limit > 0 && out.Time > in.Limit {
		out.Parts, out.Comms = nil, nil
		return out, nil
	}
	if err := tail(in, &out, pace.Band); err != nil {
		return Result{}, err
	}
	out.widen(spreadOf(in.Spec, in.Serial))
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
		op := in.Spec.OptimizerOp(in.Strategy, s, in.Formats)
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
		var e exposure
		var us []Used
		for _, c := range t.grads {
			est, err := in.Comm(c)
			if err != nil {
				return fmt.Errorf("%s: %w", c.Name, err)
			}
			if !in.Brief {
				us = append(us, Used{Op: c, Times: float64(c.Times), Est: est, once: true})
			}
			e.add(&c, &est)
		}
		if sum := e.exposed(&in, pace); first || sum.Time > worst.Time {
			worst, used, first = sum, us, false
		}
	}
	out.add(opt)
	out.Comms = append(out.Comms, used...)
	if worst.P90 > 0 {
		bound := ""
		if len(used) > 0 {
			bound = used[0].Est.Bottleneck
		}
		out.add(Part{Name: "exposed gradient collectives", Kind: "dp", Band: worst, Bound: bound})
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
