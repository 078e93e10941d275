package accuracy

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"rankmap/internal/units"
)

// WriteTable prints the result for people: everything, each system, then each class with its group sizes, then computations by
// type and by whether a fit saw them. The first
// columns of errors are the textbook's and NCCL's own tuning model's, then ours. Numbers are percent: median / p90.
func (r *Result) WriteTable(w io.Writer) error {
	b := bufio.NewWriter(w)
	t := grid{head: []string{"system", "collective", "nodes", "ranks", "size", "rows", "textbook", "NCCL model", "rankmap", "bias", "in 80 %"}}
	add := func(cases []Case, labels ...string) {
		ours := Score(cases, Ours)
		t.rows = append(t.rows, append(labels, fmt.Sprint(ours.N), pair(Score(cases, Textbook)), pair(Score(cases, NCCL)), pair(ours),
			signed(ours.Bias), percents(ours.Coverage)))
	}
	if len(r.Cases) > 0 {
		add(r.Cases, "all", "", "", "", "")
	}
	for _, c := range Classes(r.Cases, func(c *Case) Key { return Key{System: c.System} }) {
		add(c.Cases, c.System, "all", "", "", "")
	}
	for _, c := range Classes(r.Cases, ByRanks) {
		add(c.Cases, c.System, c.Collective, fmt.Sprint(c.Nodes), fmt.Sprint(c.Ranks), c.Size.String())
	}
	t.write(b)
	if classes := OpClasses(r.Cases); len(classes) > 0 {
		fmt.Fprintln(b)
		if err := WriteOpClasses(b, classes); err != nil {
			return err
		}
	}
	if r.Training != nil {
		fmt.Fprintln(b)
		if err := r.Training.WriteTable(b); err != nil {
			return err
		}
	}
	if len(r.Skipped) > 0 {
		fmt.Fprintf(b, "\nnot counted:\n")
		for _, s := range r.Skipped {
			fmt.Fprintf(b, "  %6d  %s\n", s.N, s.Reason)
		}
	}
	fmt.Fprintf(b, "\nmedian / p90 of |predicted/measured - 1|, bias = median of predicted/measured - 1, all in percent\n")
	return b.Flush()
}

func pair(s Stats) string {
	if s.N == 0 {
		return "-"
	}
	return percents(s.MedianAPE) + " / " + percents(s.P90APE)
}

// percents prints one digit after the point below 100, none above.
func percents(v float64) string {
	if v < 100 {
		return units.Trim(v, 1)
	}
	return units.Trim(v, 0)
}

func signed(v float64) string {
	s := units.Trim(v, 1)
	if v > 0 && s != "0" {
		return "+" + s
	}
	return s
}

// grid is a table of text: the first columns to the left, numbers to the right.
type grid struct {
	head []string
	rows [][]string
}

const leftColumns = 2

func (g *grid) write(w io.Writer) {
	wide := make([]int, len(g.head))
	for _, row := range append([][]string{g.head}, g.rows...) {
		for i, s := range row {
			wide[i] = max(wide[i], utf8.RuneCountInString(s))
		}
	}
	for _, row := range append([][]string{g.head}, g.rows...) {
		var line strings.Builder
		for i, s := range row {
			pad := strings.Repeat(" ", wide[i]-utf8.RuneCountInString(s))
			if i > 0 {
				line.WriteString("  ")
			}
			if i < leftColumns {
				line.WriteString(s + pad)
			} else {
				line.WriteString(pad + s)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}
