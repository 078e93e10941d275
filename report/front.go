package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"

	"rankmap/internal/units"
	"rankmap/planner"
)

// Front prints a Pareto front: one line a plan, the fastest for a user first.
func Front(w io.Writer, d *planner.FrontDocument, width int) error {
	b := &strings.Builder{}
	wl := d.Inputs.Workload
	fmt.Fprintf(b, "%s on %s, %s, isl %d, osl %d: %d plans of %d, none both faster and more productive\n\n",
		Clean(d.Inputs.Model.Name), Clean(d.Inputs.Cluster.Name), wl.Task, wl.ISL, wl.OSL, len(d.Points), d.Of)
	t := Table{Columns: []Column{
		{Title: "tokens/s/user", Align: Right}, {Title: "TPOT", Align: Right}, {Title: "TTFT", Align: Right}, {Title: "tokens/s/GPU", Align: Right},
		{Title: "batch", Align: Right}, {Title: "GPUs", Align: Right}, {Title: "strategy"}, {Title: "order", Drop: 1}, {Title: "GB a GPU", Align: Right, Drop: 2},
	}}
	for _, p := range d.Points {
		user, tpot := "-", "-"
		if p.TPOTMs > 0 {
			user, tpot = units.Signif(p.TokensPerSecondPerUser, 3), units.Millis(p.TPOTMs).String()
		}
		ttft := "-"
		if p.TTFTMs > 0 {
			ttft = units.Millis(p.TTFTMs).String()
		}
		t.Add(user, tpot, ttft, units.Signif(p.TokensPerSecondPerGPU, 4), strconv.Itoa(p.Batch), strconv.Itoa(p.GPUs), p.Strategy.Parallel().String(),
			orderText(p.Strategy), units.Signif(p.MemoryGB, 3))
	}
	if err := t.Write(b, "  ", width); err != nil {
		return err
	}
	if len(d.Notes) > 0 {
		fmt.Fprintln(b, "\nnotes")
		for _, s := range d.Notes {
			fmt.Fprintf(b, "  - %s\n", Clean(s))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// FrontCSV writes one line a plan of the front with a title line. Times are milliseconds.
func FrontCSV(w io.Writer, d *planner.FrontDocument) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"tokens_per_second_per_user", "tpot_ms", "ttft_ms", "tokens_per_second_per_gpu", "batch", "gpus", "strategy",
		"tp", "pp", "dp", "cp", "ep", "expert_tp", "redundant_experts", "order", "memory_gb"}) // Flush reports errors
	for _, p := range d.Points {
		s := p.Strategy
		line := []string{csvNumber(p.TokensPerSecondPerUser), csvNumber(p.TPOTMs), csvNumber(p.TTFTMs), csvNumber(p.TokensPerSecondPerGPU)}
		for _, v := range []int{p.Batch, p.GPUs} {
			line = append(line, strconv.Itoa(v))
		}
		line = append(line, s.Parallel().String())
		for _, v := range []int{s.TP, s.PP, s.DP, s.CP, s.EP, s.ExpertTP, s.RedundantExperts} {
			line = append(line, strconv.Itoa(v))
		}
		_ = out.Write(append(line, orderText(s), csvNumber(p.MemoryGB)))
	}
	out.Flush()
	return out.Error()
}
