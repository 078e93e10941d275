package report

import (
	"encoding/csv"
	"io"
	"strconv"

	"rankmap/planner/whatif"
)

// whatIfKindColumns are the kinds of time that have a column of their own in CSV.
var whatIfKindColumns = []string{"compute", "tp", "cp", "ep", "expert-tp", "expert-dp", "pp", "dp", "bubble", "overhead"}

// WhatIfCSV writes one line a column of the comparison, with a title line. Times are milliseconds, bandwidths GB/s one
// way. Cells that a spreadsheet would take for a formula begin with a quote mark.
func WhatIfCSV(w io.Writer, c *whatif.Comparison) error {
	out := csv.NewWriter(w)
	head := []string{
		"name", "axis", "value", "gpu", "machine_gpus", "lost_gpus", "paid_gpus", "nodes", "nvlink_domains", "domain_gpus", "nvlink_gbps", "network_gbps",
		"strategy", "tp", "pp", "dp", "cp", "ep", "expert_tp", "gpus", "idle", "batch", "ttft_ms", "tpot_ms", "step_ms", "step_p10_ms", "step_p90_ms",
		"tokens_per_second", "tokens_per_second_per_gpu", "mfu", "memory_used_gb", "memory_capacity_gb",
	}
	for _, k := range whatIfKindColumns {
		head = append(head, k+"_ms")
	}
	head = append(head, "binding", "infeasible")
	_ = out.Write(head) // Flush reports errors
	for _, col := range c.Columns {
		_ = out.Write(csvLine(col))
	}
	out.Flush()
	return out.Error()
}

func csvLine(col *whatif.Column) []string {
	m := col.Machine
	axis, value := "", ""
	if col.At != nil {
		axis, value = col.At.Axis, col.At.Text
	}
	line := []string{
		cell(col.Name), axis, cell(value), m.GPU, strconv.Itoa(m.GPUs), strconv.Itoa(m.Lost), strconv.Itoa(m.Paid), strconv.Itoa(m.Nodes),
		strconv.Itoa(m.Domains), strconv.Itoa(m.DomainGPUs), csvNumber(m.NVLinkGBps), csvNumber(m.NetworkGBps),
	}
	if col.Predicted == nil {
		for range 20 + len(whatIfKindColumns) {
			line = append(line, "")
		}
		return append(line, cell(col.Binding), cell(col.Infeasible))
	}
	s, p := col.Strategy, col.Predicted
	line = append(line, s.Parallel().String())
	for _, v := range []int{s.TP, s.PP, s.DP, s.CP, s.EP, s.ExpertTP, col.GPUs, col.Idle, p.Batch} {
		line = append(line, strconv.Itoa(v))
	}
	for _, v := range []float64{
		p.TTFTMs, p.TPOTMs, p.StepMs, p.StepP10Ms, p.StepP90Ms, p.TokensPerSecond, p.TokensPerSecondPerGPU, p.MFU, col.Memory.UsedGB, col.Memory.CapacityGB,
	} {
		line = append(line, csvNumber(v))
	}
	ms := kindTimes(col)
	for _, k := range whatIfKindColumns {
		line = append(line, csvNumber(ms[k]))
	}
	return append(line, cell(col.Binding), "")
}

// kindTimes adds the parts of the step by kind, ms.
func kindTimes(col *whatif.Column) map[string]float64 {
	ms := map[string]float64{}
	for _, p := range col.Predicted.Parts {
		ms[p.Kind] += p.Ms
	}
	return ms
}

// csvNumber prints a figure with at most six digits, empty for 0.
func csvNumber(v float64) string {
	if v == 0 {
		return ""
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

// cell keeps a text from being read as a formula.
func cell(s string) string {
	s = Clean(s)
	if s != "" && (s[0] == '=' || s[0] == '+' || s[0] == '-' || s[0] == '@') {
		return "'" + s
	}
	return s
}
