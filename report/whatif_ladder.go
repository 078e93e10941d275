package report

import (
	"fmt"
	"io"
	"strings"

	"rankmap/internal/units"
	"rankmap/planner/whatif"
)

// Ladder prints the bandwidths of a machine from the memory outwards, and what one layer's all-reduce costs on each.
func Ladder(w io.Writer, l *whatif.Ladder) error {
	b := &strings.Builder{}
	fmt.Fprintf(b, "%s, %s", Clean(l.Cluster), l.GPU)
	if l.Model != "" {
		fmt.Fprintf(b, ", %s", Clean(l.Model))
	}
	how := "one way"
	if l.Convention == whatif.Vendor {
		how = "as vendors quote them: NVLink both ways, PCIe raw"
	}
	fmt.Fprintf(b, "; bandwidths of one GPU, %s\n\n", how)
	t := Table{Columns: []Column{{Title: "level"}, {Title: "joins"}, {Title: "GB/s", Align: Right}, {Title: "to the next", Align: Right}, {Title: ""}}}
	for _, r := range l.Rungs {
		ratio, mark := "", ""
		if r.Ratio > 0 {
			ratio = units.Signif(r.Ratio, 2) + "x"
		}
		if r.Boundary {
			mark = "<- NVLink ends here"
		}
		t.Add(r.Name, r.Between, units.Signif(r.GBps, 4), ratio, mark)
	}
	_ = t.Write(b, "  ", 0)
	if x := l.Cliff(); x > 0 {
		fmt.Fprintf(b, "\n  NVLink against the network: %sx\n", units.Signif(x, 2))
	}
	costs := Table{Columns: []Column{
		{Title: "all-reduce on 8 GPUs"}, {Title: "level"}, {Title: "buffer", Align: Right}, {Title: "moved a GPU", Align: Right},
		{Title: "moved / bandwidth", Align: Right}, {Title: "x", Align: Right}, {Title: "a step", Align: Right}, {Title: "predicted", Align: Right}, {Title: "a step", Align: Right}, {Title: "basis"},
	}}
	for i := range l.Rungs[0].Costs {
		for j, r := range l.Rungs {
			c := r.Costs[i]
			what, predicted, step := c.What, "", ""
			if j > 0 {
				what = ""
			}
			if c.PredictedUs > 0 {
				predicted, step = units.Micros(c.PredictedUs).String(), units.Micros(c.PredictedUs*float64(c.Layers)).String()
			}
			costs.Add(what, r.Name, units.Bytes(c.Bytes).Decimal(), units.Bytes(c.MovedBytes).Decimal(), units.Millis(c.Ms).String(), fmt.Sprint(c.Layers),
				units.Millis(c.StepMs).String(), predicted, step, c.Basis)
		}
	}
	fmt.Fprintln(b)
	_ = costs.Write(b, "  ", 0)
	for i, s := range l.Notes {
		if i == 0 {
			fmt.Fprintln(b, "\nnotes")
		}
		fmt.Fprintf(b, "  - %s\n", Clean(s))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
