package whatif

import (
	"context"
	"slices"
	"strings"

	"rankmap/planner"
)

// SweepResult is what a sweep found beside its columns, which stand machine by machine in the order of the axis.
type SweepResult struct {
	Axis      string     `yaml:"axis" json:"axis"`
	Unit      string     `yaml:"unit,omitempty" json:"unit,omitempty"`
	Machines  []string   `yaml:"machines" json:"machines"`
	Metric    string     `yaml:"metric" json:"metric"` // what decides: a key of predicted
	Crossings []Crossing `yaml:"crossings" json:"crossings"`
	Evaluated int        `yaml:"evaluated" json:"evaluated"` // plans searched, those between the points included
}

// Sweep plans the problem at every value of the axis on every machine and finds where the best strategy of a machine, or
// the best machine, changes: between neighbouring values it bisects until the two sides are neighbours too (counts) or a
// hundredth apart (rates). Changes that come and go between two values where the best is the same are not seen.
//
// Points are searched at the same time, p.Workers of them; the result does not depend on how many.
func Sweep(ctx context.Context, p *Problem, machines []Machine, axis *Axis, ch Changes, same Same) (*Comparison, error) {
	s := &sweeper{ctx: ctx, p: p, machines: machines, axis: axis, changes: ch, same: same, seen: map[float64]*point{}}
	out := p.newComparison()
	out.Same, out.Changes = same, ch.Texts()
	res := &SweepResult{Axis: axis.Key, Unit: unitOf(axis.Key), Metric: metricOf(p).name, Crossings: []Crossing{}}
	for i := range machines {
		res.Machines = append(res.Machines, machines[i].Name)
	}
	points := make([]*point, len(axis.Values))
	for i, v := range axis.Values {
		points[i] = s.at(i, v)
	}
	n := len(machines)
	p.each(n*len(points), func(i int) { points[i/n].column(i % n) })
	var last *planner.Infeasible
	for i := range machines {
		for _, pt := range points {
			col, no, err := pt.column(i)
			if err != nil {
				return nil, err
			}
			if no != nil {
				last = no
			}
			out.Columns = append(out.Columns, col)
		}
	}
	if !slices.ContainsFunc(out.Columns, func(c *Column) bool { return c.Infeasible == "" }) {
		return nil, last
	}
	if same == EqualBudget {
		for _, pt := range points {
			equalBudget(pt.all())
		}
	}
	var err error
	if res.Crossings, err = s.crossings(points); err != nil {
		return nil, err
	}
	res.Evaluated = int(s.count.Load())
	out.Sweep = res
	return out, nil
}

// metric is what makes one column better than another.
type metric struct {
	name   string
	get    func(*Column) float64
	larger bool
}

// metricOf follows the objective. Training at an equal number of GPUs is about the step; on machines of different size
// about tokens a second and GPU.
func metricOf(p *Problem) metric {
	perGPU := metric{"tokensPerSecondPerGpu", func(c *Column) float64 { return c.Predicted.TokensPerSecondPerGPU }, true}
	switch planner.Objective(p.Workload.Objective) {
	case planner.Latency:
		if p.Workload.Task == string(planner.PrefillOnly) {
			return metric{"ttftMs", func(c *Column) float64 { return c.Predicted.TTFTMs }, false}
		}
		return metric{"tpotMs", func(c *Column) float64 { return c.Predicted.TPOTMs }, false}
	case planner.StepTime:
		return metric{"stepMs", func(c *Column) float64 { return c.Predicted.StepMs }, false}
	}
	return perGPU
}

// unitOf is how an axis is labelled.
func unitOf(key string) string {
	switch key {
	case "nic.rate":
		return "Gb/s"
	case "nvlink.rate":
		return "GB/s"
	case "isl", "osl", "seq-len":
		return "tokens"
	case "batch":
		return "sequences"
	}
	return ""
}

// label names the kind of plan that a column has: all degrees but dp, which follows the number of GPUs, with what leaves
// its NVLink domain.
func label(c *Column) string {
	if c.Strategy == nil {
		return "no plan"
	}
	st := c.Strategy.Parallel()
	dp := st.DP
	st.DP = 1
	name := st.String()
	if name == "1 GPU" {
		name = "dp alone"
		if dp == 1 {
			name = "one GPU"
		}
	}
	var out []string
	for _, s := range c.Spans {
		if s.Crosses > 0 && s.Kind.String() != "dp" {
			out = append(out, s.Kind.String())
		}
	}
	if len(out) > 0 {
		name += " (" + strings.Join(out, ", ") + " over the network)"
	}
	return name
}
