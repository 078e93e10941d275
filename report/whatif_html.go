package report

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html"
	"io"
	"strings"

	"rankmap/internal/units"
	"rankmap/planner/whatif"
)

// whatIfStyle is the page's only style sheet. It prints on A4 and Letter, landscape, in grey as well as in colour.
const whatIfStyle = `
:root { color-scheme: light; }
body { font: 14px/1.45 system-ui, sans-serif; color: #1a1a1a; background: #fff; max-width: 1120px; margin: 24px auto; padding: 0 16px; }
h1 { font-size: 21px; margin: 0 0 4px; } h2 { font-size: 16px; margin: 28px 0 8px; }
p.lead { color: #555; margin: 0 0 16px; }
table { border-collapse: collapse; margin: 0 0 8px; }
th, td { text-align: left; vertical-align: top; padding: 4px 12px 4px 0; border-bottom: 1px solid #ddd; }
thead th { border-bottom: 2px solid #444; } tbody th { font-weight: 600; color: #444; white-space: nowrap; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
div.wide { overflow-x: auto; }
figure { margin: 0 0 16px; break-inside: avoid; } figcaption { color: #555; font-size: 12.5px; }
svg { max-width: 100%; height: auto; }
svg text { font: 12px system-ui, sans-serif; fill: #1a1a1a; } svg text.s { font-size: 11px; fill: #555; }
ol, ul { padding-left: 22px; } li { margin: 2px 0; }
@page { size: landscape; margin: 12mm; }
@media print { body { max-width: none; margin: 0; font-size: 11px; } h2 { break-after: avoid; } tr { break-inside: avoid; } div.wide { overflow: visible; } }
`

// WhatIfHTML writes a comparison as one page without scripts or outside parts: tables, and plots as SVG.
func WhatIfHTML(w io.Writer, c *whatif.Comparison) error {
	b := &strings.Builder{}
	sum := sha256.Sum256([]byte(whatIfStyle))
	title := "What if: " + c.Model.Name
	fmt.Fprintf(b, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n")
	fmt.Fprintf(b, "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-%s'; base-uri 'none'; form-action 'none'\">\n",
		base64.StdEncoding.EncodeToString(sum[:]))
	fmt.Fprintf(b, "<meta name=\"viewport\" content=\"width=device-width\">\n<title>%s</title>\n<style>%s</style>\n</head>\n<body>\n", esc(title), whatIfStyle)
	head := &strings.Builder{}
	whatIfHead(head, c)
	fmt.Fprintf(b, "<h1>%s</h1>\n<p class=\"lead\">%s</p>\n", esc(title), strings.ReplaceAll(esc2(strings.TrimSpace(head.String())), "\n", "<br>"))
	if c.Sweep != nil {
		sweepHTML(b, c)
	} else {
		compareHTML(b, c)
	}
	if len(c.Notes) > 0 {
		fmt.Fprint(b, "<h2>Notes</h2>\n<ul>\n")
		for _, s := range c.Notes {
			fmt.Fprintf(b, "<li>%s</li>\n", esc(s))
		}
		fmt.Fprint(b, "</ul>\n")
	}
	fmt.Fprint(b, "</body>\n</html>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// esc makes a name safe for HTML.
func esc(s string) string { return html.EscapeString(Clean(s)) }

// esc2 is esc for text of several lines.
func esc2(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = esc(lines[i])
	}
	return strings.Join(lines, "\n")
}

// compareHTML is the body of a comparison.
func compareHTML(b *strings.Builder, c *whatif.Comparison) {
	fmt.Fprint(b, "<figure>\n")
	tokenBars(b, c.Columns)
	fmt.Fprint(b, "<figcaption>What a token costs, in microseconds of every GPU that is paid for: shorter is better. Thin lines: 80 % interval.</figcaption>\n</figure>\n")
	t := whatIfRows(c)
	fmt.Fprint(b, "<h2>Side by side</h2>\n")
	tableHTML(b, t, true)
	fmt.Fprint(b, "<h2>What binds</h2>\n<ul>\n")
	for _, col := range c.Columns {
		fmt.Fprintf(b, "<li><b>%s</b>: %s", esc(col.Name), esc(col.Binding))
		if col.Infeasible != "" {
			fmt.Fprintf(b, ". No plan: %s", esc(col.Infeasible))
		}
		for _, s := range col.Notes {
			fmt.Fprintf(b, "; %s", esc(s))
		}
		if m := col.Moved; m != nil && len(m.List) > 0 {
			fmt.Fprintf(b, "<br>moved: %s", esc(strings.Join(m.List, ", ")))
		}
		fmt.Fprint(b, "</li>\n")
	}
	fmt.Fprint(b, "</ul>\n")
	if len(c.Columns) < 2 {
		return
	}
	fmt.Fprint(b, "<h2>What changes, and why</h2>\n")
	if len(c.Diff) == 0 {
		fmt.Fprint(b, "<p>Nothing changes.</p>\n")
		return
	}
	tableHTML(b, diffTable(c), false)
}

// sweepHTML is the body of a sweep.
func sweepHTML(b *strings.Builder, c *whatif.Comparison) {
	fmt.Fprint(b, "<figure>\n")
	sweepLines(b, c)
	fmt.Fprintf(b, "<figcaption>%s over %s. Bands: 80 %% interval. Dashed lines: crossing points, numbered as below.</figcaption>\n</figure>\n",
		esc(metricTitle(c.Sweep.Metric)), esc(axisTitle(c)))
	fmt.Fprint(b, "<h2>Crossing points</h2>\n")
	if len(c.Sweep.Crossings) == 0 {
		fmt.Fprint(b, "<p>None: the best plan is of one kind over the whole range.</p>\n")
	} else {
		fmt.Fprint(b, "<ol>\n")
		for _, x := range c.Sweep.Crossings {
			fmt.Fprintf(b, "<li>%s</li>\n", esc(x.Text))
		}
		fmt.Fprint(b, "</ol>\n")
	}
	for i, name := range c.Sweep.Machines {
		cols := machineColumns(c, i)
		fmt.Fprintf(b, "<h2>%s</h2>\n<figure>\n", esc(name))
		shareBars(b, cols)
		fmt.Fprint(b, "<figcaption>Where the time of the step goes, percent.</figcaption>\n</figure>\n")
		t := &Table{Columns: []Column{{Title: c.Sweep.Axis, Align: Right}, {Title: "strategy"}, {Title: "GPUs", Align: Right}, {Title: "batch", Align: Right},
			{Title: "TTFT", Align: Right}, {Title: "TPOT", Align: Right}, {Title: "step, 80 % interval", Align: Right}, {Title: "tokens/s/GPU", Align: Right}, {Title: "reach"}}}
		for _, col := range cols {
			if col.Predicted == nil {
				t.Add(col.At.Text, "no plan: "+col.Binding)
				continue
			}
			p := col.Predicted
			t.Add(col.At.Text, col.Strategy.Parallel().String(), fmt.Sprint(col.GPUs), fmt.Sprint(p.Batch), millisText(p.TTFTMs), millisText(p.TPOTMs),
				fmt.Sprintf("%s (%s..%s)", millisText(p.StepMs), millisText(p.StepP10Ms), millisText(p.StepP90Ms)), units.Signif(p.TokensPerSecondPerGPU, 4), spanText(col))
		}
		tableHTML(b, withoutEmpty(t), false)
	}
}

// withoutEmpty leaves out the columns that no row fills.
func withoutEmpty(t *Table) *Table {
	out := &Table{}
	var keep []int
	for i, c := range t.Columns {
		for _, r := range t.Rows {
			if i < len(r) && r[i] != "" {
				keep = append(keep, i)
				out.Columns = append(out.Columns, c)
				break
			}
		}
	}
	for _, r := range t.Rows {
		var row []string
		for _, i := range keep {
			if i < len(r) {
				row = append(row, r[i])
			}
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

// tableHTML writes a table; with heads the first cell of a row is its heading.
func tableHTML(b *strings.Builder, t *Table, heads bool) {
	fmt.Fprint(b, "<div class=\"wide\"><table>\n<thead><tr>")
	class := func(i int) string {
		if t.Columns[i].Align == Right {
			return " class=\"n\""
		}
		return ""
	}
	for i, c := range t.Columns {
		fmt.Fprintf(b, "<th%s>%s</th>", class(i), esc(c.Title))
	}
	fmt.Fprint(b, "</tr></thead>\n<tbody>\n")
	for _, r := range t.Rows {
		fmt.Fprint(b, "<tr>")
		for i, s := range r {
			tag := "td"
			if heads && i == 0 {
				tag = "th"
			}
			fmt.Fprintf(b, "<%s%s>%s</%s>", tag, class(i), esc(s), tag)
		}
		fmt.Fprint(b, "</tr>\n")
	}
	fmt.Fprint(b, "</tbody></table></div>\n")
}
