package whatif

import (
	"context"
	"fmt"
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
func Sweep(ctx context.Context, p *Problem, machines []Machine, axis *Axis, ch Changes, same Same) (*Comparison, error) {
	s := &sweeper{ctx: ctx, p: p, machines: machines, axis: axis, changes: ch, same: same, seen: map[float64][]*Column{}}
	out := p.newComparison()
	out.Same, out.Changes = same, ch.Texts()
	res := &SweepResult{Axis: axis.Key, Unit: unitOf(axis.Key), Metric: metricOf(p).name, Crossings: []Crossing{}}
	for i := range machines {
		res.Machines = append(res.Machines, machines[i].Name)
	}
	points := make([][]*Column, len(axis.Values))
	for i, v := range axis.Values {
		cols, err := s.at(i, v)
		if err != nil {
			return nil, err
		}
		points[i] = cols
	}
	for i := range machines {
		for j := range points {
			out.Columns = append(out.Columns, points[j][i])
		}
	}
	if !slices.ContainsFunc(out.Columns, func(c *Column) bool { return c.Infeasible == "" }) {
		return nil, s.last
	}
	var err error
	if res.Crossings, err = s.crossings(points); err != nil {
		return nil, err
	}
	res.Evaluated = s.count
	out.Sweep = res
	return out, nil
}

type sweeper struct {
	ctx      context.Context
	p        *Problem
	machines []Machine
	axis     *Axis
	changes  Changes
	same     Same
	seen     map[float64][]*Column // by value; words by place
	count    int
	last     *planner.Infeasible
}

// at returns the columns at a value. place is where it stands in the axis, -1 between two values.
func (s *sweeper) at(place int, v Setting) ([]*Column, error) {
	where := v.Num
	if s.axis.key.unit == word {
		where = float64(place)
	}
	if cols, ok := s.seen[where]; ok {
		return cols, nil
	}
	ch := s.changes
	ch.Set = append(slices.Clone(ch.Set), v.Key+"="+v.Text)
	changed := make([]Machine, len(s.machines))
	var q *Problem
	budget := 0
	for i := range s.machines {
		m, p, err := ch.Apply(s.machines[i], s.p)
		if err != nil {
			return nil, fmt.Errorf("%s=%s: %w", v.Key, v.Text, err)
		}
		changed[i], q = m, p
		if n := m.paid(p, 0); s.same == EqualGPUs && p.GPUs == 0 && (budget == 0 || n < budget) {
			budget = n
		}
	}
	cols := make([]*Column, len(changed))
	for i := range changed {
		col, _, no, err := q.best(s.ctx, &changed[i], budget)
		if err != nil {
			return nil, fmt.Errorf("%s=%s: %w", v.Key, v.Text, err)
		}
		if no != nil {
			s.last = no
		}
		s.count++
		col.index = i
		col.At = &Position{Axis: v.Key, Value: v.Shown(), Text: v.Text}
		if s.axis.key.unit == word {
			col.At.Value = where
		}
		col.plan, col.seats = nil, nil
		cols[i] = col
	}
	if s.same == EqualBudget {
		equalBudget(cols)
	}
	s.seen[where] = cols
	return cols, nil
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
