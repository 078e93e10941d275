package main

import (
	"fmt"
	"io"
	"math"
	"sort"
)

// summary is the error of some residuals: median and 90th percentile of |predicted/measured - 1|, percent.
func summary(res []residual) (n int, medianAPE, p90 float64) {
	ape := make([]float64, len(res))
	for i, r := range res {
		ape[i] = 100 * math.Abs(math.Exp(-r.log)-1)
	}
	return len(res), quantile(ape, 0.5), quantile(ape, 0.9)
}

// quantile of v with linear interpolation; it sorts v. NaN when empty.
func quantile(v []float64, p float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	sort.Float64s(v)
	x := p * float64(len(v)-1)
	i := int(x)
	if i+1 >= len(v) {
		return v[len(v)-1]
	}
	return v[i] + (x-float64(i))*(v[i+1]-v[i])
}

// print writes the cross-validation as a table, by kind and by system, operation and size.
func (fs *folds) print(w io.Writer, detail bool) {
	fmt.Fprintf(w, "%-34s %6s %7s %7s\n", "left out", "points", "median", "p90")
	for _, f := range []*fold{fs.run, fs.version, fs.ranks4, fs.ranks2, fs.ranks8, fs.sibling, fs.generation, fs.generation8, fs.generation24} {
		n, m, p := summary(f.res)
		fmt.Fprintf(w, "%-34s %6d %6.1f%% %6.1f%%\n", f.name, n, m, p)
		if !detail {
			continue
		}
		by := map[string][]residual{}
		for _, r := range f.res {
			for _, k := range []string{"1 " + r.system, "2 " + r.op.String(), "3 " + r.size} {
				by[k] = append(by[k], r)
			}
		}
		for _, k := range sortedKeys(by) {
			n, m, p := summary(by[k])
			fmt.Fprintf(w, "    %-30s %6d %6.1f%% %6.1f%%\n", k[2:], n, m, p)
		}
	}
}
