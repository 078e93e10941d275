package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"rankmap/internal/accuracy"
	"rankmap/internal/units"
)

// table writes rows of cells as a Markdown table.
func table(w io.Writer, head []string, rows [][]string) {
	fmt.Fprintf(w, "|%s|\n|%s\n", strings.Join(head, "|"), strings.Repeat("---|", len(head)))
	for _, r := range rows {
		fmt.Fprintf(w, "|%s|\n", strings.Join(r, "|"))
	}
	fmt.Fprintln(w)
}

// errorsHead are the columns that errorCells fills.
var errorsHead = []string{"rows", "textbook", "NCCL's model", "**rankmap**", "bias", "in 80 %"}

func errorCells(cases []accuracy.Case) []string {
	ours := accuracy.Score(cases, accuracy.Ours)
	return []string{fmt.Sprint(ours.N), pair(accuracy.Score(cases, accuracy.Textbook)), pair(accuracy.Score(cases, accuracy.NCCL)),
		"**" + pair(ours) + "**", number(ours.Bias), number(ours.Coverage)}
}

func pair(s accuracy.Stats) string {
	if s.N == 0 {
		return "-"
	}
	return number(s.MedianAPE) + " / " + number(s.P90APE)
}

func number(v float64) string {
	if v >= 100 || v <= -100 {
		return units.Trim(v, 0)
	}
	return units.Trim(v, 1)
}

// byKey writes one line a class.
func byKey(w io.Writer, cases []accuracy.Case, head []string, key func(*accuracy.Case) accuracy.Key, labels func(accuracy.Key) []string) {
	var rows [][]string
	for _, c := range accuracy.Classes(cases, key) {
		rows = append(rows, append(labels(c.Key), errorCells(c.Cases)...))
	}
	table(w, append(head, errorsHead...), rows)
}

func bySystem(w io.Writer, cases []accuracy.Case) {
	byKey(w, cases, []string{"system"}, func(c *accuracy.Case) accuracy.Key { return accuracy.Key{System: c.System} },
		func(k accuracy.Key) []string { return []string{k.System} })
}

func byOpAndSize(w io.Writer, cases []accuracy.Case) {
	byKey(w, cases, []string{"collective", "size"}, func(c *accuracy.Case) accuracy.Key {
		return accuracy.Key{Collective: c.Collective, Size: c.Size}
	}, func(k accuracy.Key) []string { return []string{k.Collective, k.Size.String()} })
}

func byOp(w io.Writer, cases []accuracy.Case) {
	byKey(w, cases, []string{"collective", "system"}, func(c *accuracy.Case) accuracy.Key {
		return accuracy.Key{Collective: c.Collective, System: c.System}
	}, func(k accuracy.Key) []string { return []string{k.Collective, k.System} })
}

// byKernel has no baselines: neither the textbook nor NCCL prices computations.
func byKernel(w io.Writer, cases []accuracy.Case) {
	var rows [][]string
	for _, c := range accuracy.Classes(cases, func(c *accuracy.Case) accuracy.Key { return accuracy.Key{Collective: c.Collective, System: c.System} }) {
		s := accuracy.Score(c.Cases, accuracy.Ours)
		rows = append(rows, []string{c.Collective, c.System, fmt.Sprint(s.N), "**" + pair(s) + "**", number(s.Bias), number(s.Coverage)})
	}
	slices.SortStableFunc(rows, func(a, b []string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	table(w, []string{"operation", "system", "rows", "**rankmap**", "bias", "in 80 %"}, rows)
}

func byNodes(w io.Writer, cases []accuracy.Case) {
	byKey(w, cases, []string{"system", "nodes"}, func(c *accuracy.Case) accuracy.Key {
		return accuracy.Key{System: c.System, Nodes: c.Nodes}
	}, func(k accuracy.Key) []string { return []string{k.System, fmt.Sprint(k.Nodes)} })
}

// skipped lists what did not count.
func skipped(w io.Writer, r accuracy.Result) {
	if len(r.Skipped) == 0 {
		return
	}
	fmt.Fprintf(w, "Not counted: ")
	for i, s := range r.Skipped {
		if i > 0 {
			fmt.Fprint(w, "; ")
		}
		fmt.Fprintf(w, "%d %s", s.N, s.Reason)
	}
	fmt.Fprint(w, ".\n\n")
}
