package accuracy

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"

	"rankmap/planner"
)

// Sweep is one group of measured layouts: a model on one machine with one batch.
type Sweep struct {
	Family, Model, GPU, Task string
	Batch                    string
	N                        int
	Spearman                 float64 // NaN below three layouts or when all are measured alike
	Pairs, Right             int     // pairs that differ by more than 1 % when measured, and those that we order alike
	Points                   []SweepPoint
}

// SweepPoint is one layout; both numbers count up with cost.
type SweepPoint struct {
	ID, Layout          string
	Measured, Predicted float64
}

// minSweep is how many layouts a rank correlation needs.
const minSweep = 3

type sweepKey struct {
	family, model, gpu, task, precision, batch string
	gpus                                       int
	metric                                     string
}

func newSweeps() *sweepGroups { return &sweepGroups{at: map[sweepKey]int{}} }

// sweepGroups collects groups in the order of their first rows.
type sweepGroups struct {
	at     map[sweepKey]int
	groups []Sweep
}

// add files a priced row; false when it measures nothing that can be ordered.
func (s *sweepGroups) add(j *job, o *planner.Outcome) bool {
	p := j.row
	cost, predicted, metric, ok := orderBy(j, o)
	if !ok {
		return false
	}
	k := sweepKey{family: p.Family(), model: p.Model, gpu: p.GPU, task: p.Task, precision: p.Precision, metric: metric, gpus: p.GPUs}
	switch {
	case p.Task == "train":
		k.batch = fmt.Sprintf("batch %d, sequence %d", p.GlobalBatch, p.SeqLen)
	default:
		k.gpus = 0 // layouts of a model on any number of these GPUs, at one load
		k.batch = fmt.Sprintf("%d/%d tokens, concurrency %d", p.ISL, p.OSL, max(p.Concurrency, p.MicroBatch))
	}
	i, known := s.at[k]
	if !known {
		i = len(s.groups)
		s.at[k] = i
		gpu := p.GPU
		if k.gpus > 0 {
			gpu = fmt.Sprintf("%d x %s", p.GPUs, p.GPU)
		}
		s.groups = append(s.groups, Sweep{Family: k.family, Model: p.Model, GPU: gpu, Task: p.Task, Batch: k.batch})
	}
	layout := tupleOf(o.Strategy).String()
	if o.Strategy.MicroBatch > 0 {
		layout += fmt.Sprintf(" mb%d", o.Strategy.MicroBatch)
	}
	s.groups[i].Points = append(s.groups[i].Points, SweepPoint{p.ID, layout, cost, predicted})
	return true
}

// orderBy is what a row's layouts are ordered by: time of a step or token, else the inverse of throughput.
func orderBy(j *job, o *planner.Outcome) (measured, predicted float64, metric string, ok bool) {
	p := j.row
	if p.Task == "train" {
		t, ok := stepTime(j)
		return t, o.Step.Time.Seconds(), "step", ok
	}
	if m, ok := p.Metric("TPOT", "TPOT median"); ok {
		return m.Value, o.TPOT.Time.Millis(), m.Name, true
	}
	if m, ok := p.Metric("input tokens/s/node", "output tokens/s/node", "tokens/s/GPU", "tokens/s (system)"); ok && o.PerGPU > 0 {
		return 1 / m.Value, 1 / o.PerGPU, m.Name, true
	}
	return 0, 0, "", false
}

// list sums the groups up: those of a single layout are left out.
func (s *sweepGroups) list() []Sweep {
	var out []Sweep
	for _, g := range s.groups {
		if len(g.Points) < 2 {
			continue
		}
		g.N = len(g.Points)
		g.Spearman = math.NaN()
		if g.N >= minSweep {
			g.Spearman = spearman(g.Points)
		}
		for a := range g.Points {
			for b := range a {
				x, y := g.Points[a], g.Points[b]
				if math.Abs(x.Measured/y.Measured-1) <= 0.01 {
					continue
				}
				g.Pairs++
				if (x.Measured < y.Measured) == (x.Predicted < y.Predicted) {
					g.Right++
				}
			}
		}
		out = append(out, g)
	}
	return out
}

// spearman is Spearman's rank correlation with mean ranks for ties; NaN when one side does not vary.
func spearman(p []SweepPoint) float64 {
	x := ranks(p, func(q SweepPoint) float64 { return q.Measured })
	y := ranks(p, func(q SweepPoint) float64 { return q.Predicted })
	var sx, sy, sxx, syy, sxy float64
	n := float64(len(p))
	for i := range x {
		sx, sy = sx+x[i], sy+y[i]
	}
	for i := range x {
		a, b := x[i]-sx/n, y[i]-sy/n
		sxx, syy, sxy = sxx+a*a, syy+b*b, sxy+a*b
	}
	if sxx == 0 || syy == 0 {
		return math.NaN()
	}
	return sxy / math.Sqrt(sxx*syy)
}

func ranks(p []SweepPoint, f func(SweepPoint) float64) []float64 {
	idx := make([]int, len(p))
	for i := range idx {
		idx[i] = i
	}
	slices.SortStableFunc(idx, func(a, b int) int { return cmp.Compare(f(p[a]), f(p[b])) })
	out := make([]float64, len(p))
	for i := 0; i < len(idx); {
		k := i
		for k < len(idx) && f(p[idx[k]]) == f(p[idx[i]]) {
			k++
		}
		for m := i; m < k; m++ {
			out[idx[m]] = float64(i+k-1)/2 + 1
		}
		i = k
	}
	return out
}

// medianSpearman is the median over the groups that have one.
func medianSpearman(s []Sweep) (median float64, groups int) {
	var v []float64
	for _, g := range s {
		if !math.IsNaN(g.Spearman) {
			v = append(v, g.Spearman)
		}
	}
	if len(v) == 0 {
		return math.NaN(), 0
	}
	sort.Float64s(v)
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2, n
	}
	return v[len(v)/2], len(v)
}
