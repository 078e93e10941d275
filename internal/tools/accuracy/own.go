package main

import (
	"fmt"
	"io"
	"math/bits"
	"path/filepath"

	"rankmap/internal/accuracy"
	"rankmap/internal/measured"
	"rankmap/internal/units"
)

// ownPart compares with our own two H200: never fitted.
func ownPart(w io.Writer, dir string) error {
	c, err := confronter(accuracy.Options{System: "h200_sxm", NoMulticast: true})
	if err != nil {
		return err
	}
	fmt.Fprint(w, "## Our own two H200\n\nMeasured by us (`internal/accuracy/testdata/h200-x2`), never fitted: the shipped h200_sxm profile.\n\n")
	raw, err := read(filepath.Join(dir, "raw_graph.csv"))
	if err != nil {
		return err
	}
	res := c.Rows(raw...)
	var rows [][]string
	for i := range res.Cases {
		x := &res.Cases[i]
		rows = append(rows, []string{x.Row.Bytes.String(), us(x.Measured), us(x.Ours), us(x.P10) + " to " + us(x.P90), number(100 * (float64(x.Ours/x.Measured) - 1))})
	}
	fmt.Fprint(w, "All-reduce through NCCL's C interface from a CUDA graph (target: within 10 % each):\n\n")
	table(w, []string{"bytes", "measured us", "predicted us", "80 % interval", "off by %"}, rows)

	graph, err := read(filepath.Join(dir, "nccl-tests", "nt_all_reduce_graph.txt"))
	if err != nil {
		return err
	}
	after, err := c.AfterCalibration(graph, everyThird)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "nccl-tests all-reduce from a graph: calibrated with 8 of its 24 sizes, the other 16 predicted (target: 5 %% median):\n\n")
	table(w, errorsHead, [][]string{errorCells(after)})

	groups := []struct {
		what, pattern string
	}{
		{"nccl-tests, graph", "nccl-tests/*_graph.txt"},
		{"nccl-tests, eager", "nccl-tests/*[a-z][a-fi-z].txt"},
		{"through PyTorch", "sweep.csv"},
	}
	for _, g := range groups {
		files, err := read(filepath.Join(dir, g.pattern))
		if err != nil {
			return err
		}
		res := c.Rows(files...)
		fmt.Fprintf(w, "%s:\n\n", g.what)
		byLaunch(w, res.Cases)
		skipped(w, res)
	}
	return contention(w, c, filepath.Join(dir, "contention.csv"))
}

// byLaunch tells graph from eager launches.
func byLaunch(w io.Writer, cases []accuracy.Case) {
	for _, l := range []measured.Launch{measured.LaunchGraph, measured.LaunchEager} {
		var some []accuracy.Case
		for _, c := range cases {
			if c.Row.Launch == l {
				some = append(some, c)
			}
		}
		if len(some) > 0 {
			fmt.Fprintf(w, "%s launches\n\n", l)
			byOpAndSize(w, some)
		}
	}
}

// everyThird picks 8 of the 24 sizes from 8 B to 64 MiB: 8 B, 64 B, 512 B, ...
func everyThird(b units.Bytes) bool { return (bits.Len64(uint64(b))-4)%3 == 0 }

func us(d units.Duration) string { return units.Signif(d.Micros(), 3) }
