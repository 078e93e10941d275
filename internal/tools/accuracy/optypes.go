package main

import (
	"fmt"
	"io"

	"rankmap/internal/accuracy"
	"rankmap/internal/measured"
)

// byType writes computations by kind, type and system, rows that a fit saw apart from rows that none did.
func byType(w io.Writer, cases []accuracy.Case) {
	var rows [][]string
	for _, c := range accuracy.OpClasses(cases) {
		seen := "yes"
		if c.HeldOut {
			seen = "no"
		}
		rows = append(rows, []string{c.Op, c.DType, c.System, seen, fmt.Sprint(c.N), "**" + pair(c.Stats) + "**", number(c.Bias), number(c.Coverage)})
	}
	table(w, []string{"operation", "type", "system", "fitted", "rows", "**rankmap**", "bias", "in 80 %"}, rows)
}

// halfTables writes what half of a table does for a GPU without measurements.
func halfTables(w io.Writer, c *accuracy.Confronter, tables []measured.File) error {
	var rows []measured.OpRow
	for _, f := range tables {
		rows = append(rows, f.Ops...)
	}
	all, err := c.HalfTables(rows)
	if err != nil {
		return err
	}
	fmt.Fprint(w, "### Calibrated from half of one table\n\nEach GPU as if no table had measured it: its parameters estimated from the other GPUs, then calibrated (`rankmap calibrate`) with half\nof the shapes of its own tables; errors on the other half. A table of nvfp4 expert layers mixes two kernels, of which a calibration\ntakes the faster.\n\n")
	var cells [][]string
	for _, h := range all {
		cells = append(cells, []string{h.Op, h.System, fmt.Sprint(h.Rows), fmt.Sprint(h.After.N), pair(h.Before), "**" + pair(h.After) + "**", number(h.After.Bias), number(h.After.Coverage)})
	}
	table(w, []string{"operation", "system", "rows seen", "rows tested", "estimated", "**calibrated**", "bias", "in 80 %"}, cells)
	return nil
}

// contention writes collectives at once on the same GPUs, and the bound on channels.
func contention(w io.Writer, c *accuracy.Confronter, file string) error {
	files, err := read(file)
	if err != nil {
		return err
	}
	res := c.Rows(files...)
	var alone, large, free []accuracy.Case
	for _, x := range res.Cases {
		switch b := x.Row.Beside; {
		case b != nil && b.Bytes == 0 && x.Row.Bytes >= accuracy.SharedFrom:
			alone = append(alone, x)
		}
	}
	large = accuracy.Shared(res.Cases)
	for _, x := range large {
		if x.Row.Beside.Channels == 0 {
			free = append(free, x)
		}
	}
	ownChannels := target{what: "default channels", cases: free, median: 12}
	shared := target{what: "two collectives at once, 16 MiB and up", cases: large, median: 12}
	fmt.Fprint(w, "Two collectives at once on the same GPUs, and collectives with their channels forced (eager, through PyTorch; smaller ones time the\nhost). The sharing of links has no fitted constant; the rate of a channel was read off the rows of one to eight channels alone.\nBaselines stand for the collective alone. Rows with the\ndefault number of channels stand apart: they are what a deployment sees, and there are few. The interval of shared links is set, not\nfitted.\n\n")
	table(w, append(append([]string{"what"}, errorsHead...), "target", ""), [][]string{
		append(append([]string{shared.what}, errorCells(large)...), "12 / -", shared.verdict()),
		append(append([]string{"of these with the default channels"}, errorCells(free)...), "12 / -", ownChannels.verdict()),
		append(append([]string{"channels forced, alone, 16 MiB and up"}, errorCells(alone)...), "-", ""),
	})
	byOpAndSize(w, large)
	skipped(w, res)
	return nil
}

// steps writes the measured stacks of layers.
func steps(w io.Writer, file string) error {
	c, err := confronter(accuracy.Options{System: "h200_sxm", NoMulticast: true})
	if err != nil {
		return err
	}
	files, err := read(file)
	if err != nil {
		return err
	}
	res := c.Rows(files...)
	all := target{what: "all", cases: res.Cases, median: 4, p90: 10}
	s := accuracy.Score(res.Cases, accuracy.Ours)
	fmt.Fprintf(w, "## Steps\n\nStacks of Llama layers in plain PyTorch from a CUDA graph, on one and two H200, with and without their all-reduces: kernels and\nall-reduces both predicted (goal: 4 / 10): **%s**, bias %s: %s\n\n", pair(s), number(s.Bias), all.verdict())
	byKernel(w, res.Cases)
	skipped(w, res)
	return nil
}
