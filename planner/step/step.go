// Package step adds up one step of a model on one strategy: kernels on the GPU plus collectives on their real groups,
// over the stages of the pipeline.
//
// Bands: the errors of one profile are common to all its predictions, so p10 and p90 of a step are the sums of the
// parts' p10 and p90, never added in quadrature.
package step

import (
	"cmp"
	"fmt"
	"slices"

	"rankmap/collective"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/model"
)

// Band is a time with its 80 % interval.
type Band struct{ Time, P10, P90 units.Duration }

// Add returns the sum of two bands.
func (b Band) Add(o Band) Band { return Band{b.Time + o.Time, b.P10 + o.P10, b.P90 + o.P90} }

// Scale returns the band times f.
func (b Band) Scale(f float64) Band {
	return Band{b.Time * units.Duration(f), b.P10 * units.Duration(f), b.P90 * units.Duration(f)}
}

// Kernel prices one computation on one GPU and says what binds it.
type Kernel func(model.ComputeOp) (Band, string, error)

// Comm prices one collective of a step on the slowest group of its kind.
type Comm func(model.CollectiveOp) (collective.Estimate, error)

// Part is a share of a step.
type Part struct {
	Name  string
	Kind  string // "compute", "tp", "ep", ..., "bubble", "overhead"
	Band  Band
	Bound string
}

// Used is one collective of the step with its price.
type Used struct {
	Op    model.CollectiveOp
	Times float64 // in a whole step of one rank
	Est   collective.Estimate
	once  bool // of a training step, not of each micro-batch
}

// Result is one step.
type Result struct {
	Band
	Parts []Part // sorted by kind, then name
	Comms []Used
	FLOPs float64 // of the GPU of the slowest stage
}

// Input is what a step depends on.
type Input struct {
	Spec     *model.Spec
	Strategy parallel.Strategy
	Work     model.Work // of one attention replica, the whole batch
	Kernel   Kernel
	Comm     Comm
	Overhead units.Duration // of the engine, each step
	// Brief leaves Parts and Comms empty: a search prices thousands of steps and shows a few.
	Brief   bool
	Scratch *Scratch // reused between calls; nil = none
}

// Scratch holds lists that one step leaves for the next.
type Scratch struct {
	ops, lastOps     []model.ComputeOp
	colls, lastColls []model.CollectiveOp
}

// Forward prices one forward step of an inference engine.
//
// The batch of a replica is cut into m = min(pp, batch) micro-batches that follow each other through the pipeline. With
// pp of them in flight the slowest stage paces: a token needs pp x that stage. With fewer, a step is the sum of the
// stages. Stage-to-stage transfers are on the critical path.
func Forward(in Input) (Result, error) {
	st := in.Strategy
	m := min(st.PP, max(1, in.Work.Batch))
	w := in.Work
	w.Batch = (in.Work.Batch + m - 1) / m
	all, err := stages(in, w)
	if err != nil {
		return Result{}, err
	}
	var out Result
	if m == st.PP {
		slow := slowest(all)
		out = slow
		out.Band = slow.Band.Scale(float64(st.PP))
		out.Parts = slices.Clone(slow.Parts)
		for i := range out.Parts {
			out.Parts[i].Band = out.Parts[i].Band.Scale(float64(st.PP))
		}
	} else {
		for _, r := range all {
			out = join(out, r)
		}
	}
	if in.Overhead > 0 {
		out.add(Part{Name: "engine overhead", Kind: "overhead", Band: Band{in.Overhead, in.Overhead, in.Overhead}})
	}
	if in.Brief {
		out.Parts, out.Comms = nil, nil
		return out, nil
	}
	out.Comms = comms(all)
	out.Parts = merge(out.Parts)
	return out, nil
}

// slowest returns the stage that paces the pipeline.
func slowest(all []Result) Result {
	return slices.MaxFunc(all, func(a, b Result) int { return cmp.Compare(a.Time, b.Time) })
}

// stages prices one micro-batch on every pipeline stage. A stage with the same work as the one before it is priced once.
func stages(in Input, w model.Work) ([]Result, error) {
	sc := in.Scratch
	if sc == nil {
		sc = new(Scratch)
	}
	out := make([]Result, in.Strategy.PP)
	for s := range out {
		sc.ops, sc.lastOps = sc.lastOps[:0], sc.ops
		sc.colls, sc.lastColls = sc.lastColls[:0], sc.colls
		sc.ops = in.Spec.AppendStepOps(sc.ops, &in.Strategy, &w, s)
		sc.colls = in.Spec.AppendStepCollectives(sc.colls, &in.Strategy, &w, s)
		if s > 0 && slices.Equal(sc.ops, sc.lastOps) && slices.EqualFunc(sc.colls, sc.lastColls, sameCollective) {
			out[s] = out[s-1]
			continue
		}
		r, err := stage(in, sc)
		if err != nil {
			return nil, err
		}
		out[s] = r
	}
	return out, nil
}

// sameCollective compares without the description of an exchange, which follows from the rest.
func sameCollective(a, b model.CollectiveOp) bool {
	a.Exchange, b.Exchange = nil, nil
	return a == b
}

// stage prices the lists of one stage.
func stage(in Input, sc *Scratch) (Result, error) {
	var out Result
	for i := range sc.ops {
		op := &sc.ops[i]
		b, bound, err := in.Kernel(*op)
		if err != nil {
			return Result{}, fmt.Errorf("%s: %w", op.Name, err)
		}
		b = b.Scale(float64(op.Times))
		out.Band = out.Band.Add(b)
		out.FLOPs += op.FLOPs * float64(op.Times)
		if !in.Brief {
			out.Parts = append(out.Parts, Part{Name: op.Name, Kind: "compute", Band: b, Bound: bound})
		}
	}
	for i := range sc.colls {
		op := &sc.colls[i]
		if op.Times == 0 {
			continue
		}
		est, err := in.Comm(*op)
		if err != nil {
			return Result{}, fmt.Errorf("%s: %w", op.Name, err)
		}
		if !in.Brief {
			out.Comms = append(out.Comms, Used{Op: *op, Times: float64(op.Times), Est: est})
		}
		if op.Overlappable {
			continue
		}
		b := Band{est.Time, est.P10, est.P90}.Scale(float64(op.Times))
		out.Band = out.Band.Add(b)
		if !in.Brief {
			out.Parts = append(out.Parts, Part{Name: op.Name, Kind: op.Group.String(), Band: b, Bound: est.Bottleneck})
		}
	}
	return out, nil
}

func join(a, b Result) Result {
	return Result{Band: a.Band.Add(b.Band), Parts: append(slices.Clone(a.Parts), b.Parts...), FLOPs: max(a.FLOPs, b.FLOPs)}
}

// merge adds parts of the same kind and name and sorts them.
func merge(parts []Part) []Part {
	slices.SortStableFunc(parts, func(a, b Part) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	var out []Part
	for _, p := range parts {
		if n := len(out); n > 0 && out[n-1].Kind == p.Kind && out[n-1].Name == p.Name {
			out[n-1].Band = out[n-1].Band.Add(p.Band)
			continue
		}
		out = append(out, p)
	}
	return out
}

// comms lists each distinct collective once with how often the busiest stage issues it in a step.
func comms(stages []Result) []Used {
	type key struct {
		name  string
		op    parallel.Op
		group parallel.Dim
		bytes units.Bytes
		dtype string
	}
	at := map[key]int{}
	var out []Used
	for _, r := range stages {
		for _, u := range r.Comms {
			k := key{u.Op.Name, u.Op.Op, u.Op.Group, u.Op.Bytes, u.Op.DType}
			i, ok := at[k]
			if !ok {
				at[k] = len(out)
				out = append(out, u)
				continue
			}
			out[i].Times = max(out[i].Times, u.Times)
		}
	}
	slices.SortStableFunc(out, func(a, b Used) int {
		return cmp.Or(cmp.Compare(a.Op.Group, b.Op.Group), cmp.Compare(a.Op.Name, b.Op.Name), cmp.Compare(a.Op.Bytes, b.Op.Bytes))
	})
	return out
}
