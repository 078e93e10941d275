package accuracy

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"rankmap/compute"
	"rankmap/internal/hardware"
	"rankmap/internal/measured"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/layout"
	"rankmap/model"
	"rankmap/planner"
	"rankmap/planner/step"
)

// TrainingPoint is one published training step against three predictions; 0 where a row measured memory alone.
type TrainingPoint struct {
	Model     string         `json:"model" yaml:"model"`
	System    string         `json:"system" yaml:"system"`
	Layout    string         `json:"layout" yaml:"layout"`
	Recompute string         `json:"recompute" yaml:"recompute"`
	Measured  units.Duration `json:"measured" yaml:"measured"`
	Boost     units.Duration `json:"boost" yaml:"boost"` // tensor cores at boost clock: nothing fitted
	Ours      units.Duration `json:"ours" yaml:"ours"`   // the shipped sustained-clock factor
	Held      units.Duration `json:"held" yaml:"held"`   // the factor fitted on the other models of the table
	P10       units.Duration `json:"p10" yaml:"p10"`
	P90       units.Duration `json:"p90" yaml:"p90"`
	Factor    float64        `json:"factor" yaml:"factor"` // of Held

	nodes, gpus int
	price       func(sustained float64) (step.Result, error)
}

// MemoryPoint is one published memory figure of a training run.
type MemoryPoint struct {
	Model, What    string
	Measured, Ours units.Bytes
}

// Training is the confrontation with a table of training steps.
type Training struct {
	Points  []TrainingPoint
	Memory  []MemoryPoint
	Skipped []Skipped
}

// Mean and largest absolute error, percent.
type meanMax struct{ mean, max float64 }

// maxFactor and minFactor bound the sustained-clock factor that is fitted, as compute does.
const (
	minFactor  = 0.6
	maxFactor  = 1
	factorStep = 0.0025
)

// TrainingSteps confronts the step model and the memory model with a table of training steps. system is the GPU of tables
// that name none. The factor of the sustained clock is fitted three ways: not at all, as shipped, and on the other models of
// the table, so that no row is scored with a factor that it helped to fit.
func (c *Placer) TrainingSteps(rows []measured.TrainingStep, system string) (*Training, error) {
	out := &Training{}
	left := skips{}
	for i := range rows {
		r := &rows[i]
		p, err := c.trainingPoint(r, cmp.Or(r.System, system), out)
		if err != nil {
			left[err.Error()]++
			continue
		}
		if p != nil {
			out.Points = append(out.Points, *p)
		}
	}
	out.Skipped = left.list()
	return out, out.holdOut()
}

// trainingPoint prices a row, and files its memory.
func (c *Placer) trainingPoint(r *measured.TrainingStep, system string, out *Training) (*TrainingPoint, error) {
	shape := fmt.Sprintf("hidden=%d layers=%d heads=%d vocab=%d", r.Hidden, r.Layers, r.Heads, r.Vocab)
	if r.MLP > 0 && r.MLP != 4*r.Hidden {
		return nil, errors.New("the network's inner width is not four times its hidden size")
	}
	spec, err := shapeSpec(r.Model, shape)
	if err != nil {
		return nil, err
	}
	st := parallel.Strategy{TP: r.TP, PP: r.PP, DP: r.DP, SequenceParallel: r.SequenceParallel}.Normalize()
	if st.World() != r.GPUs {
		return nil, errors.New("the row's degrees do not multiply to its GPUs")
	}
	place := &measured.Placement{ID: r.Model, Model: r.Model, Task: "train", GPU: system, GPUs: r.GPUs}
	s, err := c.site(place, "")
	if err != nil {
		return nil, err
	}
	// What the code of 2022 does beside its degrees: attention through memory, gradients reduced after the last backward pass.
	held := planner.Held{
		MicroBatch: r.MicroBatch, Interleave: max(1, r.Interleave), Recompute: r.Recompute, Serial: !r.SequenceParallel,
		Unfused: true, SerialDP: true, PlainDP: true, BlockingHops: true,
	}
	work := layout.Workload{Task: string(planner.TrainStep), Objective: string(planner.StepTime), SeqLen: r.SeqLen, Batch: r.Batch}
	req := s.request(spec)
	req.Workload, req.GPUs = work, r.GPUs
	price := func(sustained float64) (*planner.Outcome, error) {
		q := req
		if sustained > 0 {
			k, err := c.trainKernels(s.sheet, sustained)
			if err != nil {
				return nil, err
			}
			q.Kernel = func(_ model.Phase, op model.ComputeOp) (step.Band, string, error) {
				e, err := k.Price(op)
				return step.Band{Time: e.Time, P10: e.P10, P90: e.P90}, e.Bound.String(), err
			}
		}
		k, err := planner.NewRanking(q)
		if err != nil {
			return nil, err
		}
		return k.Price(st, held, 0)
	}
	o, err := price(0)
	if err != nil {
		return nil, err
	}
	out.addMemory(r, o)
	if r.Time == 0 {
		return nil, nil
	}
	p := &TrainingPoint{
		Model: r.Model, System: s.sheet.System, Layout: tupleOf(o.Strategy).String(), Recompute: r.Recompute, Measured: r.Time,
		Ours: o.Step.Time, P10: o.Step.P10, P90: o.Step.P90, nodes: len(s.cluster.Nodes), gpus: r.GPUs,
	}
	p.price = func(f float64) (step.Result, error) {
		o, err := price(f)
		if err != nil {
			return step.Result{}, err
		}
		return o.Step, nil
	}
	boost, err := p.price(1)
	p.Boost = boost.Time
	return p, err
}

// trainKernels are the kernels of a GPU in training with a given sustained-clock factor.
func (c *Placer) trainKernels(sheet *hardware.GPU, sustained float64) (*compute.Model, error) {
	k, err := hardware.LoadKernels(c.configs, sheet.System)
	if err != nil {
		return nil, err
	}
	return compute.New(sheet, k, compute.Options{Phase: model.Train, Framework: compute.FrameworkFor(model.Train), Sustained: sustained})
}

// addMemory files what a row says of memory.
func (t *Training) addMemory(r *measured.TrainingStep, o *planner.Outcome) {
	name := r.Model + ", " + r.Recompute
	if r.States > 0 {
		t.Memory = append(t.Memory, MemoryPoint{name, "weights, gradients and optimizer", r.States, o.Memory.Weights + o.Memory.Gradients + o.Memory.Optimizer})
	}
	if r.Activations > 0 {
		t.Memory = append(t.Memory, MemoryPoint{name, "activations", r.Activations, o.Memory.Activations})
	}
}

// holdOut fits the factor for each model on the points of all others and prices its points with it.
func (t *Training) holdOut() error {
	var factors []float64
	for f := minFactor; f <= maxFactor+1e-9; f += factorStep {
		factors = append(factors, f)
	}
	times := make([][]units.Duration, len(t.Points))
	for i := range t.Points {
		times[i] = make([]units.Duration, len(factors))
		for j, f := range factors {
			r, err := t.Points[i].price(f)
			if err != nil {
				return err
			}
			times[i][j] = r.Time
		}
	}
	for i := range t.Points {
		best, least := -1, math.Inf(1)
		for j := range factors {
			sum, n := 0.0, 0
			for k := range t.Points {
				if t.Points[k].Model != t.Points[i].Model && t.Points[k].System == t.Points[i].System {
					sum += math.Abs(float64(times[k][j]/t.Points[k].Measured) - 1)
					n++
				}
			}
			if n > 0 && sum/float64(n) < least {
				best, least = j, sum/float64(n)
			}
		}
		if best >= 0 {
			t.Points[i].Held, t.Points[i].Factor = times[i][best], factors[best]
		}
	}
	return nil
}

// errors sums one prediction up.
func (t *Training) errors(get func(*TrainingPoint) units.Duration) (meanMax, bool) {
	var m meanMax
	for i := range t.Points {
		v := get(&t.Points[i])
		if v == 0 {
			return m, false
		}
		e := 100 * math.Abs(float64(v/t.Points[i].Measured)-1)
		m.mean += e / float64(len(t.Points))
		m.max = max(m.max, e)
	}
	return m, len(t.Points) > 0
}

// Cases are the points in the form of all confrontations, with the shipped factor.
func (t *Training) Cases() []Case {
	var out []Case
	for _, p := range t.Points {
		out = append(out, Case{
			System: p.System, Collective: "step", Nodes: p.nodes, Ranks: p.gpus, Source: p.Model,
			Measured: p.Measured, Ours: p.Ours, P10: p.P10, P90: p.P90,
		})
	}
	slices.SortStableFunc(out, func(a, b Case) int { return cmp.Compare(a.Ranks, b.Ranks) })
	return out
}
