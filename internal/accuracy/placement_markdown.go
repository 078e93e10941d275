package accuracy

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strings"
)

// WriteMarkdown writes the confrontation as a document: how it is scored, the totals, each family, each sweep, times, and
// every published decision that we would not have taken.
func (r *Placements) WriteMarkdown(w io.Writer, command string) error {
	b := bufio.NewWriter(w)
	s := r.Summary()
	fmt.Fprintf(b, `# Published placements

What people chose and measured against what rankmap would choose. Written by %s; do not edit.

- **Decisions**: one published layout each. Every layout of the same GPUs that the same engine can run is priced with the
  precision, batch, sequence length and micro-batch that the row states; distinct (tp, pp, cp, ep) are ranked by their best
  settings. *Top 3*: the published degrees are among our first three. *Within 15 %%*: the published layout fits the memory
  as we count it and its predicted cost, priced exactly as stated, is at most 1.15 of our best.
- **Sweeps**: layouts of one model on one machine with one batch. Spearman's rank correlation of predicted and measured
  order where three or more were measured.
- **Times**: |predicted/measured - 1| of the rows' own layouts.

Nothing is fitted to these rows.

| | |
|---|---|
| decisions | %d |
| in our top 3 | %s %% |
| within 15 %% of our best | %s %% |
`, command, s.N, percents(s.InTop3), percents(s.Within15))
	if s.Spearman != nil {
		fmt.Fprintf(b, "| sweeps of 3 or more, median rank correlation | %d, %.2f |\n| pairs of a sweep in the measured order | %s %% |\n", s.Sweeps, *s.Spearman, percents(s.PairsRight))
	}
	fmt.Fprintf(b, "\n## Decisions by source\n\n| source | rows | top 3 %% | within 15 %% |\n|---|---|---|---|\n")
	for _, f := range s.Families {
		fmt.Fprintf(b, "| %s | %d | %s | %s |\n", f.Family, f.N, percents(f.InTop3), percents(f.Within15))
	}
	fmt.Fprintf(b, "\n## Sweeps\n\n| source | model | machine | batch | layouts | rank correlation | pairs right |\n|---|---|---|---|---|---|---|\n")
	for _, g := range r.Sweeps {
		if math.IsNaN(g.Spearman) {
			continue
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %d | %.2f | %d of %d |\n", g.Family, cell(g.Model), g.GPU, g.Batch, g.N, g.Spearman, g.Right, g.Pairs)
	}
	fmt.Fprintf(b, "\n## Times\n\n| source | what | rows | median / p90 %% | bias %% | in the 80 %% interval |\n|---|---|---|---|---|---|\n")
	for _, x := range s.Times {
		fmt.Fprintf(b, "| %s | %s | %d | %s / %s | %s | %s %% |\n", x.Family, x.Kind, x.N, percents(x.MedianAPE), percents(x.P90APE), signed(x.Bias), percents(x.Coverage))
	}
	fmt.Fprintf(b, "\n## Decisions that we would not have taken\n\nOutside our top 3 or over 15 %% dearer. *Rank* among distinct degrees; - = the search drops them.\n\n| row | model | GPUs | theirs | ours | rank | cost | why |\n|---|---|---|---|---|---|---|---|\n")
	for i := range r.Choices {
		c := &r.Choices[i]
		if c.top() && c.near() {
			continue
		}
		rank, ratio := "-", "-"
		if c.Rank > 0 {
			rank = fmt.Sprintf("%d of %d", c.Rank, c.Of)
		}
		if c.Ratio > 0 {
			ratio = fmt.Sprintf("%.2f", c.Ratio)
		}
		fmt.Fprintf(b, "| %s | %s | %d %s | %s | %s | %s | %s | %s |\n", c.ID, cell(c.Model), c.GPUs, c.GPU, c.Row, c.Ours, rank, ratio, cell(c.Reason))
	}
	fmt.Fprintf(b, "\n## Not counted\n\n| rows | why |\n|---|---|\n")
	for _, k := range r.Skipped {
		fmt.Fprintf(b, "| %d | %s |\n", k.N, cell(k.Reason))
	}
	return b.Flush()
}

// cell keeps text inside one table cell.
func cell(s string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ").Replace(s)
}
