package accuracy

import (
	"cmp"
	"fmt"
	"slices"

	"rankmap/compute"
	"rankmap/internal/hardware"
	"rankmap/internal/measured"
	"rankmap/model"
)

// HalfTable is what calibrating a GPU that no table measured does: its parameters estimated from the other GPUs, then
// fitted to half of the shapes of its own table as rankmap calibrate does; errors on the other half.
type HalfTable struct {
	System string `json:"system" yaml:"system"`
	Op     string `json:"op" yaml:"op"`
	Rows   int    `json:"rows" yaml:"rows"` // that the calibration saw
	Before Stats  `json:"before" yaml:"before"`
	After  Stats  `json:"after" yaml:"after"`
}

// HalfTables does so for every GPU with fitted records that rows are of, sorted by computation and system.
func (c *Confronter) HalfTables(rows []measured.OpRow) ([]HalfTable, error) {
	var fitted []compute.Fitting
	for _, s := range c.catalog.Systems() {
		g, err := c.catalog.GPU(s)
		if err != nil {
			return nil, err
		}
		if k, err := hardware.LoadKernels(c.configs, s); err == nil && k.Estimate == "" {
			fitted = append(fitted, compute.Fitting{GPU: g, Kernels: k})
		}
	}
	var out []HalfTable
	for i, f := range fitted {
		var learn, test []measured.OpRow
		for _, r := range rows {
			switch {
			case hardwareKey(r.System) != f.GPU.System || r.Framework != compute.DefaultFramework:
			case compute.FirstHalf(&r):
				learn = append(learn, r)
			default:
				test = append(test, r)
			}
		}
		if len(learn) == 0 {
			continue
		}
		base, err := compute.Estimated(f.GPU, slices.Delete(slices.Clone(fitted), i, i+1))
		if err != nil {
			return nil, err
		}
		fit, err := compute.FitUser(f.GPU, base, compute.DefaultFramework, learn, false)
		if err != nil {
			return nil, err
		}
		before, err := scoreOps(f.GPU, base, test)
		if err != nil {
			return nil, err
		}
		after, err := scoreOps(f.GPU, fit.Kernels, test)
		if err != nil {
			return nil, err
		}
		for op, s := range before {
			n := 0
			for j := range learn {
				if learn[j].Kind == op {
					n++
				}
			}
			out = append(out, HalfTable{f.GPU.System, op, n, s, after[op]})
		}
	}
	slices.SortFunc(out, func(a, b HalfTable) int { return cmp.Or(cmp.Compare(a.Op, b.Op), cmp.Compare(a.System, b.System)) })
	return out, nil
}

// scoreOps scores rows of one GPU by kind.
func scoreOps(g *hardware.GPU, k *hardware.Kernels, rows []measured.OpRow) (map[string]Stats, error) {
	m, err := compute.New(g, k, compute.Options{Phase: model.Decode, Table: true})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", g.System, err)
	}
	cases := map[string][]Case{}
	for i := range rows {
		if x, err := opCaseOf(m, g.System, &rows[i]); err == nil { // the rest has no form: not scored anywhere
			cases[rows[i].Kind] = append(cases[rows[i].Kind], x)
		}
	}
	out := map[string]Stats{}
	for op, cs := range cases {
		out[op] = Score(cs, Ours)
	}
	return out, nil
}
