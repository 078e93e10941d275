package whatif

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"rankmap/layout"
	"rankmap/planner"
	"rankmap/topology"
)

// APIVersion and Kind head the document.
const (
	APIVersion = "rankmap/v1"
	Kind       = "Comparison"
)

// Comparison is the answer to a what-if question, as JSON and YAML hold it. Columns and diff are always there; the first
// column is the one that the others are compared with.
type Comparison struct {
	APIVersion string          `yaml:"apiVersion" json:"apiVersion"`
	Kind       string          `yaml:"kind" json:"kind"`
	Model      layout.Source   `yaml:"model" json:"model"`
	Workload   layout.Workload `yaml:"workload" json:"workload"`
	Cost       string          `yaml:"cost" json:"cost"`
	Same       Same            `yaml:"same,omitempty" json:"same,omitempty"`
	Changes    []string        `yaml:"changes,omitempty" json:"changes,omitempty"` // what was changed, as asked
	Columns    []*Column       `yaml:"columns" json:"columns"`
	Diff       []Difference    `yaml:"diff" json:"diff"`
	Sweep      *SweepResult    `yaml:"sweep,omitempty" json:"sweep,omitempty"`
	Notes      []string        `yaml:"notes,omitempty" json:"notes,omitempty"`
}

// Same says what is equal between compared machines.
type Same string

// The ways.
const (
	Whole       Same = "whole"     // each machine with all its GPUs
	EqualGPUs   Same = "gpus"      // as many GPUs as the smallest has
	EqualBudget Same = "gpu-hours" // each whole, for as long as equal GPU-hours last
)

// Sames lists the ways.
func Sames() []string { return []string{string(Whole), string(EqualGPUs), string(EqualBudget)} }

// newComparison starts a document.
func (p *Problem) newComparison() *Comparison {
	return &Comparison{
		APIVersion: APIVersion, Kind: Kind, Model: p.Model, Workload: p.Workload, Cost: p.Costs.Cost,
		Columns: []*Column{}, Diff: []Difference{},
	}
}

// Case is one column to be: a machine with its problem, compared with an earlier case.
type Case struct {
	Machine Machine
	Problem *Problem
	Base    int
}

// Compare plans the problem on every machine, and on every machine as the changes make it. A machine on which nothing fits
// gets a column that says so; when that is every one, the error is a *planner.Infeasible.
func Compare(ctx context.Context, p *Problem, machines []Machine, ch Changes, same Same) (*Comparison, error) {
	var cases []Case
	for i := range machines {
		cases = append(cases, Case{Machine: machines[i], Problem: p})
		if ch.Empty() {
			continue
		}
		m, q, err := ch.Apply(machines[i], p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", machines[i].Name, err)
		}
		m.Name += ", changed"
		cases = append(cases, Case{Machine: m, Problem: q, Base: len(cases) - 1})
	}
	out, err := CompareCases(ctx, cases, same)
	if err != nil {
		return nil, err
	}
	out.Changes = ch.Texts()
	return out, nil
}

// CompareCases plans every case and compares it with its base.
func CompareCases(ctx context.Context, cases []Case, same Same) (*Comparison, error) {
	out := cases[0].Problem.newComparison()
	out.Same = same
	budget := 0
	for _, c := range cases {
		if n := min(c.Machine.paid(c.Problem, 0), c.Machine.numFree()); same == EqualGPUs && c.Problem.GPUs == 0 && (budget == 0 || n < budget) {
			budget = n
		}
	}
	var last *planner.Infeasible
	requests := make([]*planner.Request, len(cases))
	for i := range cases {
		r, err := cases[i].Problem.request(&cases[i].Machine, budget)
		if err != nil {
			return nil, err
		}
		requests[i] = &r
	}
	out.Columns = make([]*Column, len(cases))
	reasons := make([]*planner.Infeasible, len(cases))
	errs := make([]error, len(cases))
	cases[0].Problem.each(len(cases), func(i int) {
		out.Columns[i], reasons[i], errs[i] = cases[i].Problem.search(ctx, &cases[i].Machine, requests[i], budget)
	})
	for i := range cases {
		if errs[i] != nil {
			return nil, errs[i]
		}
		if reasons[i] != nil {
			last = reasons[i]
		}
		out.Columns[i].index = i
	}
	if !slices.ContainsFunc(out.Columns, func(c *Column) bool { return c.Infeasible == "" }) {
		return nil, last
	}
	if same == EqualBudget {
		equalBudget(out.Columns)
	}
	for i, col := range out.Columns[1:] {
		c := &cases[i+1]
		base := out.Columns[c.Base]
		if c.Base > 0 || c.Machine.changed() {
			out.Diff = append(out.Diff, clusterDiff(col.Name, cases[c.Base].Machine.Cluster, c.Machine.Cluster)...)
		}
		why, err := c.Problem.whyOther(ctx, requests[i+1], base, col)
		if err != nil {
			return nil, err
		}
		out.Diff = append(out.Diff, diffColumns(base, col, why)...)
	}
	return out, nil
}

// best plans the problem on a machine; no is the reason when nothing fits.
func (p *Problem) best(ctx context.Context, m *Machine, budget int) (col *Column, r *planner.Request, no *planner.Infeasible, err error) {
	req, err := p.request(m, budget)
	if err != nil {
		return nil, nil, nil, err
	}
	col, no, err = p.search(ctx, m, &req, budget)
	return col, &req, no, err
}

// search plans a request on its machine.
func (p *Problem) search(ctx context.Context, m *Machine, r *planner.Request, budget int) (col *Column, no *planner.Infeasible, err error) {
	return p.searchWith(m, r, budget, func() (*planner.Plan, error) { return planner.Search(ctx, *r) })
}

// searchWith is search by another way to plan.
func (p *Problem) searchWith(m *Machine, r *planner.Request, budget int, plans func() (*planner.Plan, error)) (col *Column, no *planner.Infeasible, err error) {
	paid := m.paid(p, budget)
	plan, err := plans()
	if err != nil {
		if no, ok := infeasible(err); ok {
			return noPlan(m, paid, no), no, nil
		}
		return nil, nil, fmt.Errorf("%s: %w", m.Name, err)
	}
	col = column(m, r, plan, paid)
	col.Notes = plan.Notes
	if _, why := m.island(); why != "" {
		col.Notes = append(slices.Clone(col.Notes), why)
	}
	return col, nil, nil
}

// equalBudget fills in how much each machine makes for the GPU-hours that the first column uses in an hour.
func equalBudget(cols []*Column) {
	budget := float64(cols[0].Machine.Paid)
	first := 0.0
	for _, c := range cols {
		if c.Predicted == nil {
			continue
		}
		g := &GPUHours{Hours: round(budget/float64(c.Machine.Paid), 4)}
		g.Tokens = round(c.Predicted.TokensPerSecondPerGPU*3600*budget, 5)
		if first == 0 {
			first = g.Tokens
		}
		g.Ratio = round(g.Tokens/first, 4)
		c.GPUHours = g
	}
}

// whyOther says why a machine's best strategy is not that of the base: what the base's strategy would cost there.
func (p *Problem) whyOther(ctx context.Context, r *planner.Request, base, col *Column) (string, error) {
	if base.Strategy == nil || col.Strategy == nil || degrees(base.Strategy) == degrees(col.Strategy) {
		return "", nil
	}
	st := base.Strategy.Parallel()
	world := st.World()
	usable := 0
	for id := range topology.GPUID(r.Cluster.NumGPUs()) {
		if !r.Skip(id) {
			usable++
		}
	}
	q := *r
	q.Freedom = planner.Freedom{Fix: fixed(st), Forbid: r.Freedom.Forbid, MaxTP: r.Freedom.MaxTP}
	q.GPUs = world
	if world > usable { // the same cuts with fewer replicas
		fewer := usable / (world / st.DP)
		if fewer == 0 || st.EP*st.ExpertTP > st.TP*st.CP*fewer {
			return fmt.Sprintf("%s needs %d GPUs, here are %d", st, world, usable), nil
		}
		st.DP = fewer
		q.Freedom.Fix, q.GPUs = fixed(st), st.World()
	}
	plan, err := planner.Search(ctx, q)
	if err != nil {
		if no, ok := infeasible(err); ok {
			return fmt.Sprintf("%s does not fit here: %s", st, no.Binding), nil
		}
		return "", err
	}
	there := column(&Machine{Name: col.Name, Cluster: r.Cluster}, &q, plan, col.Machine.Paid)
	return fmt.Sprintf("%s here: %s", there.Strategy.Parallel(), versus(there, col)), nil
}

// versus says how a column falls short of a better one on the same machine.
func versus(c, better *Column) string {
	a, b := c.Predicted, better.Predicted
	s := fmt.Sprintf("%s against %s tokens/s/GPU", figure(a.TokensPerSecondPerGPU), figure(b.TokensPerSecondPerGPU))
	if a.TPOTMs > 0 {
		s += fmt.Sprintf(", TPOT %s against %s", ms(a.TPOTMs), ms(b.TPOTMs))
	} else {
		s += fmt.Sprintf(", step %s against %s", ms(a.StepMs), ms(b.StepMs))
	}
	var parts []string
	for _, x := range c.Communication {
		part := fmt.Sprintf("%s %s %%", x.Kind, figure(x.Share))
		if x.Link != "" { // a bubble and the engine's overhead have none
			part += " over " + x.Link
		}
		parts = append(parts, part)
	}
	if len(parts) > 0 {
		s += "; " + strings.Join(parts, ", ")
	}
	return s
}
