package report

import (
	"fmt"
	"strings"

	"rankmap/internal/units"
	"rankmap/planner/whatif"
)

// sweepTable prints a sweep: one line a value, one block a machine, then the crossing points.
func sweepTable(b *strings.Builder, c *whatif.Comparison, o WhatIfOptions) {
	for i, name := range c.Sweep.Machines {
		t := Table{Columns: []Column{
			{Title: c.Sweep.Axis, Align: Right}, {Title: "strategy"}, {Title: "GPUs", Align: Right}, {Title: "batch", Align: Right, Drop: 3},
			{Title: "TTFT", Align: Right, Drop: 2}, {Title: "TPOT", Align: Right}, {Title: "step", Align: Right, Drop: 1},
			{Title: "tokens/s/GPU", Align: Right}, {Title: "comm", Align: Right}, {Title: "reach", Drop: 4},
		}}
		for _, col := range machineColumns(c, i) {
			if col.Predicted == nil {
				t.Add(col.At.Text, "no plan: "+col.Binding)
				continue
			}
			p := col.Predicted
			gpus := fmt.Sprint(col.GPUs)
			if col.Idle > 0 {
				gpus += fmt.Sprintf("+%d idle", col.Idle)
			}
			t.Add(col.At.Text, col.Strategy.Parallel().String(), gpus, fmt.Sprint(p.Batch), millisText(p.TTFTMs), millisText(p.TPOTMs),
				millisText(p.StepMs), units.Signif(p.TokensPerSecondPerGPU, 4), units.Trim(commShare(col), 1)+" %", spanText(col))
		}
		if i > 0 {
			fmt.Fprintln(b)
		}
		fmt.Fprintf(b, "%s\n", Clean(name))
		_ = withoutEmpty(&t).Write(b, "  ", pick(o.Wide, 0, o.Width))
	}
	fmt.Fprintln(b, "\ncrossing points")
	if len(c.Sweep.Crossings) == 0 {
		fmt.Fprintln(b, "  none: the best plan is of one kind over the whole range")
	}
	for _, x := range c.Sweep.Crossings {
		fmt.Fprintf(b, "  - %s\n", Clean(x.Text))
	}
	fmt.Fprintf(b, "  (%d plans searched)\n", c.Sweep.Evaluated)
}

// machineColumns is the part of a sweep's columns that belongs to the i-th machine.
func machineColumns(c *whatif.Comparison, i int) []*whatif.Column {
	n := len(c.Columns) / len(c.Sweep.Machines)
	return c.Columns[i*n : (i+1)*n]
}

func millisText(v float64) string {
	if v == 0 {
		return ""
	}
	return units.Millis(v).String()
}

// commShare is the percent of the step that is not computation.
func commShare(c *whatif.Column) float64 {
	s := 0.0
	for _, x := range c.Communication {
		s += x.Share
	}
	return s
}
