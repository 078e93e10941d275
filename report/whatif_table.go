package report

import (
	"fmt"
	"io"
	"strings"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/planner/whatif"
)

// WhatIfOptions says how much of a comparison to print.
type WhatIfOptions struct {
	Width int // columns of the terminal, 0 unlimited
	Wide  bool
}

// WhatIf prints a comparison for a person: the columns side by side, the communication of each, what changed and why.
func WhatIf(w io.Writer, c *whatif.Comparison, o WhatIfOptions) error {
	b := &strings.Builder{}
	whatIfHead(b, c)
	if c.Sweep != nil {
		sweepTable(b, c, o)
	} else {
		whatIfColumns(b, c, o)
		whatIfDiff(b, c, o)
	}
	if len(c.Notes) > 0 {
		fmt.Fprintln(b, "\nnotes")
		for _, s := range c.Notes {
			fmt.Fprintf(b, "  - %s\n", Clean(s))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func whatIfHead(b *strings.Builder, c *whatif.Comparison) {
	wl := c.Workload
	fmt.Fprintf(b, "%s, %s", Clean(c.Model.Name), wl.Task)
	if wl.ISL > 0 {
		fmt.Fprintf(b, ", isl %d, osl %d", wl.ISL, wl.OSL)
	}
	if wl.SeqLen > 0 {
		fmt.Fprintf(b, ", sequence %d", wl.SeqLen)
	}
	if wl.Batch > 0 {
		fmt.Fprintf(b, ", batch %d", wl.Batch)
	}
	fmt.Fprintf(b, ", objective %s", wl.Objective)
	if wl.TTFTMs > 0 {
		fmt.Fprintf(b, ", TTFT at most %s", units.Millis(wl.TTFTMs))
	}
	if wl.TPOTMs > 0 {
		fmt.Fprintf(b, ", TPOT at most %s", units.Millis(wl.TPOTMs))
	}
	if c.Same != "" && len(c.Columns) > 1 {
		fmt.Fprintf(b, ", same %s", c.Same)
	}
	fmt.Fprintln(b)
	if len(c.Changes) > 0 {
		fmt.Fprintf(b, "changed: %s\n", Clean(strings.Join(c.Changes, ", ")))
	}
	fmt.Fprintln(b)
}

// whatIfRows sets the columns side by side: one row a quantity.
func whatIfRows(c *whatif.Comparison) *Table {
	t := &Table{Columns: []Column{{Title: ""}}}
	for _, col := range c.Columns {
		t.Columns = append(t.Columns, Column{Title: Clean(col.Name)})
	}
	row := func(title string, f func(*whatif.Column) string) {
		cells, some := []string{title}, false
		for _, col := range c.Columns {
			s := f(col)
			some = some || s != ""
			cells = append(cells, s)
		}
		if some {
			t.Add(cells...)
		}
	}
	planned := func(f func(*whatif.Column) string) func(*whatif.Column) string {
		return func(col *whatif.Column) string {
			if col.Predicted == nil {
				return "-"
			}
			return f(col)
		}
	}
	whatIfMachine(row)
	row("strategy", planned(func(col *whatif.Column) string { return col.Strategy.Parallel().String() }))
	row("GPUs in use", planned(func(col *whatif.Column) string {
		s := fmt.Sprint(col.GPUs)
		if col.Idle > 0 {
			s += fmt.Sprintf(" (%d idle)", col.Idle)
		}
		return s
	}))
	whatIfFigures(row, planned)
	for _, kind := range whatIfKinds(c) {
		row(kind, planned(func(col *whatif.Column) string { return communicationText(col, kind) }))
	}
	row("reach", planned(spanText))
	row("memory", planned(func(col *whatif.Column) string {
		return fmt.Sprintf("%s of %s GB", units.Signif(col.Memory.UsedGB, 3), units.Signif(col.Memory.CapacityGB, 3))
	}))
	row("GPU-hours", func(col *whatif.Column) string {
		if g := col.GPUHours; g != nil {
			return fmt.Sprintf("%s h, %s tokens (x%s)", units.Signif(g.Hours, 3), short(g.Tokens), units.Signif(g.Ratio, 3))
		}
		return ""
	})
	row("ranks moved", func(col *whatif.Column) string {
		if m := col.Moved; m != nil {
			return fmt.Sprintf("%d (%d GPUs load other weights)", m.Ranks, m.Reloads)
		}
		return ""
	})
	return t
}

// whatIfColumns prints the columns side by side, then what binds each.
func whatIfColumns(b *strings.Builder, c *whatif.Comparison, o WhatIfOptions) {
	writeSideBySide(b, whatIfRows(c), o)
	for _, col := range c.Columns {
		fmt.Fprintf(b, "\n%s binds: %s\n", Clean(col.Name), Clean(col.Binding))
		if col.Infeasible != "" && col.Infeasible != col.Binding {
			fmt.Fprintf(b, "  no plan: %s\n", Clean(col.Infeasible))
		}
		if m := col.Moved; m != nil && len(m.List) > 0 {
			fmt.Fprintf(b, "  moved: %s\n", Clean(strings.Join(m.List, ", ")))
		}
		for _, s := range col.Notes {
			fmt.Fprintf(b, "  - %s\n", Clean(s))
		}
	}
}

type rowFunc = func(title string, f func(*whatif.Column) string)

func whatIfMachine(row rowFunc) {
	row("machine", func(col *whatif.Column) string {
		m := col.Machine
		s := fmt.Sprintf("%d %s, %d nodes", m.GPUs, m.GPU, m.Nodes)
		if m.Nodes == 1 {
			s = strings.TrimSuffix(s, "s")
		}
		if m.Lost > 0 {
			s += fmt.Sprintf(", %d lost", m.Lost)
		}
		return s
	})
	row("NVLink", func(col *whatif.Column) string {
		m := col.Machine
		if m.NVLinkGBps == 0 {
			return "none"
		}
		if m.Domains == 1 {
			return fmt.Sprintf("1 domain of %d, %s GB/s", m.DomainGPUs, units.Signif(m.NVLinkGBps, 4))
		}
		return fmt.Sprintf("%d domains of %d, %s GB/s", m.Domains, m.DomainGPUs, units.Signif(m.NVLinkGBps, 4))
	})
	row("network a GPU", func(col *whatif.Column) string {
		if col.Machine.NetworkGBps == 0 {
			return "none known"
		}
		return units.Signif(col.Machine.NetworkGBps, 4) + " GB/s"
	})
}

func whatIfFigures(row rowFunc, planned func(func(*whatif.Column) string) func(*whatif.Column) string) {
	row("batch", planned(func(col *whatif.Column) string {
		return fmt.Sprintf("%d, %d a replica", col.Predicted.Batch, col.Predicted.BatchPerReplica)
	}))
	time := func(title string, get func(*whatif.Column) float64) {
		row(title, func(col *whatif.Column) string {
			if col.Predicted == nil || get(col) == 0 {
				return ""
			}
			return units.Millis(get(col)).String()
		})
	}
	time("TTFT", func(c *whatif.Column) float64 { return c.Predicted.TTFTMs })
	time("TPOT", func(c *whatif.Column) float64 { return c.Predicted.TPOTMs })
	row("step", planned(func(col *whatif.Column) string {
		p := col.Predicted
		return fmt.Sprintf("%s (%s..%s)", units.Millis(p.StepMs), units.Millis(p.StepP10Ms), units.Millis(p.StepP90Ms))
	}))
	row("tokens/s", planned(func(col *whatif.Column) string { return units.Signif(col.Predicted.TokensPerSecond, 4) }))
	row("tokens/s/GPU", planned(func(col *whatif.Column) string { return units.Signif(col.Predicted.TokensPerSecondPerGPU, 4) }))
	row("MFU", func(col *whatif.Column) string {
		if col.Predicted == nil || col.Predicted.MFU == 0 {
			return ""
		}
		return units.Trim(100*col.Predicted.MFU, 1) + " %"
	})
}

// whatIfKinds lists the kinds of communication of all columns, tp first.
func whatIfKinds(c *whatif.Comparison) []string {
	have := map[string]bool{}
	for _, col := range c.Columns {
		for _, x := range col.Communication {
			have[x.Kind] = true
		}
	}
	var out []string
	for _, k := range []string{"tp", "cp", "ep", "expert-tp", "expert-dp", "pp", "dp", "bubble", "overhead"} {
		if have[k] {
			out = append(out, k)
			delete(have, k)
		}
	}
	return append(out, sortedNames(have)...)
}

// communicationText is the time of a kind by link: "4.46 ms, 16.4 % over NVLink 900 GB/s".
func communicationText(col *whatif.Column, kind string) string {
	var parts []string
	for _, x := range col.Communication {
		if x.Kind != kind {
			continue
		}
		s := fmt.Sprintf("%s, %s %%", units.Millis(x.Ms), units.Trim(x.Share, 1))
		if x.Link != "" {
			s += " over " + x.Link
		}
		parts = append(parts, s)
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, " + ")
}

// spanText says which groups leave their NVLink domain.
func spanText(col *whatif.Column) string {
	var in, out []string
	for _, s := range col.Spans {
		if s.Crosses == 0 {
			in = append(in, s.Kind.String())
			continue
		}
		x := fmt.Sprintf("%s over %d domains", s.Kind, s.Domains)
		if s.Kind == parallel.PP {
			x = fmt.Sprintf("%d of %d pp hops", s.Crosses, s.Groups)
		}
		out = append(out, x)
	}
	switch {
	case len(out) == 0 && len(in) == 0:
		return "one GPU a replica"
	case len(out) == 0:
		return strings.Join(in, ", ") + " inside NVLink"
	case len(in) == 0:
		return strings.Join(out, ", ")
	}
	return strings.Join(in, ", ") + " inside NVLink; " + strings.Join(out, ", ")
}

// writeSideBySide prints the table in blocks of as many columns as the width holds; the titles stand in each.
func writeSideBySide(b *strings.Builder, t *Table, o WhatIfOptions) {
	if o.Width <= 0 {
		_ = t.Write(b, "  ", 0)
		return
	}
	size := func(i int) int {
		n := len([]rune(t.Columns[i].Title))
		for _, r := range t.Rows {
			n = max(n, len([]rune(r[i])))
		}
		return n + 2
	}
	for from := 1; from < len(t.Columns); {
		total := 2 + size(0) + size(from)
		to := from + 1
		for to < len(t.Columns) && total+size(to) <= o.Width {
			total += size(to)
			to++
		}
		part := Table{Columns: append([]Column{t.Columns[0]}, t.Columns[from:to]...)}
		for _, r := range t.Rows {
			part.Rows = append(part.Rows, append([]string{r[0]}, r[from:to]...))
		}
		if from > 1 {
			fmt.Fprintln(b)
		}
		_ = part.Write(b, "  ", 0)
		from = to
	}
}

// whatIfDiff prints what is not like the first column.
func whatIfDiff(b *strings.Builder, c *whatif.Comparison, o WhatIfOptions) {
	if len(c.Columns) < 2 {
		return
	}
	if len(c.Diff) == 0 {
		fmt.Fprintln(b, "\nnothing changes")
		return
	}
	fmt.Fprintln(b)
	_ = diffTable(c).Write(b, "  ", pick(o.Wide, 0, o.Width))
}

// diffTable lists the differences, one a row.
func diffTable(c *whatif.Comparison) *Table {
	t := &Table{Columns: []Column{{Title: "differs"}, {Title: "in"}, {Title: "from", Align: Right}, {Title: "to", Align: Right}, {Title: "by", Align: Right}, {Title: "why", Drop: 1}}}
	last := ""
	for _, d := range c.Diff {
		name := d.Column
		if name == last {
			name = ""
		}
		last = d.Column
		by := ""
		if d.Percent != 0 {
			by = units.Signif(d.Percent, 3) + " %"
			if d.Percent > 0 {
				by = "+" + by
			}
		}
		t.Add(name, d.What, d.Before, d.After, by, d.Why)
	}
	return t
}

// short prints a large count with three digits: "1.23e9" as "1.23 G".
func short(v float64) string {
	for _, u := range []struct {
		n float64
		s string
	}{{1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}} {
		if v >= u.n {
			return units.Signif(v/u.n, 3) + u.s
		}
	}
	return units.Signif(v, 3)
}
