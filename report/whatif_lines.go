package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"rankmap/internal/units"
	"rankmap/planner/whatif"
)

// The plot area of a sweep, pixels.
const (
	plotLeft, plotTop     = 78, 44
	plotWidth, plotHeight = 900, 360
)

// sweepLines draws the metric of each machine over the axis, with its 80 % band and the crossing points.
func sweepLines(b *strings.Builder, c *whatif.Comparison) {
	x, y, ok := sweepScales(c)
	openSVG(b, plotLeft+plotWidth+30, plotTop+plotHeight+56, metricTitle(c.Sweep.Metric)+" over "+axisTitle(c))
	defer fmt.Fprint(b, "</svg>\n")
	if !ok {
		fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\">no plan at any value</text>\n", plotLeft, plotTop)
		return
	}
	for _, v := range y.ticks() {
		fmt.Fprintf(b, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#e3e3e3\"/><text class=\"s\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
			plotLeft, y.at(v), plotLeft+plotWidth, y.at(v), plotLeft-6, y.at(v)+4, units.Signif(v, 4))
	}
	last := -100.0
	for _, col := range machineColumns(c, 0) {
		px := x.at(col.At.Value)
		fmt.Fprintf(b, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"#999\"/>", px, plotTop+plotHeight, px, plotTop+plotHeight+5)
		if px-last >= 52 {
			fmt.Fprintf(b, "<text class=\"s\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", px, plotTop+plotHeight+19, esc(clipText(col.At.Text, 12)))
			last = px
		}
	}
	fmt.Fprintf(b, "<text class=\"s\" x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", plotLeft+plotWidth, plotTop+plotHeight+38, esc(axisTitle(c)))
	fmt.Fprintf(b, "<text class=\"s\" x=\"%d\" y=\"%d\">%s</text>\n", plotLeft, plotTop-8, esc(metricTitle(c.Sweep.Metric)))
	for i := range c.Sweep.Machines {
		sweepSeries(b, c, i, x, y)
	}
	sweepCrossings(b, c, x)
	at := func(n string) int { return slices.Index(c.Sweep.Machines, n) }
	legend(b, plotLeft, 16, c.Sweep.Machines,
		func(n string) string { return seriesColors[at(n)%len(seriesColors)] },
		func(n string) string { return seriesDashes[at(n)%len(seriesDashes)] })
}

// sweepSeries draws one machine; a value without a plan breaks the line.
func sweepSeries(b *strings.Builder, c *whatif.Comparison, i int, x, y scale) {
	color, dash := seriesColors[i%len(seriesColors)], seriesDashes[i%len(seriesDashes)]
	var run []*whatif.Column
	flush := func() {
		if len(run) == 0 {
			return
		}
		var line, up, down []string
		for _, col := range run {
			lo, hi := whatif.Interval(col, c.Sweep.Metric)
			px := x.at(col.At.Value)
			line = append(line, fmt.Sprintf("%.1f,%.1f", px, y.at(metricValue(col, c.Sweep.Metric))))
			up = append(up, fmt.Sprintf("%.1f,%.1f", px, y.at(hi)))
			down = append(down, fmt.Sprintf("%.1f,%.1f", px, y.at(lo)))
		}
		slices.Reverse(down)
		fmt.Fprintf(b, "<polygon points=\"%s %s\" fill=\"%s\" fill-opacity=\"0.14\"/>\n", strings.Join(up, " "), strings.Join(down, " "), color)
		fmt.Fprintf(b, "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\" stroke-dasharray=\"%s\"/>\n", strings.Join(line, " "), color, dash)
		for _, col := range run {
			v := metricValue(col, c.Sweep.Metric)
			fmt.Fprintf(b, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"><title>%s at %s: %s, %s</title></circle>\n", x.at(col.At.Value), y.at(v), color,
				esc(col.Name), esc(col.At.Text), esc(col.Strategy.Parallel().String()), units.Signif(v, 4))
		}
		run = nil
	}
	for _, col := range machineColumns(c, i) {
		if col.Predicted == nil {
			flush()
			continue
		}
		run = append(run, col)
	}
	flush()
}

// sweepCrossings draws a numbered dashed line a crossing; numbers that would touch go to a second and third row.
func sweepCrossings(b *strings.Builder, c *whatif.Comparison, x scale) {
	type mark struct {
		px float64
		n  int
	}
	var marks []mark
	for i, k := range c.Sweep.Crossings {
		if k.Above > 0 {
			marks = append(marks, mark{x.at((k.Below + k.Above) / 2), i + 1})
		}
	}
	slices.SortStableFunc(marks, func(a, b mark) int { return int(math.Copysign(1, a.px-b.px)) })
	row, last := 0, -100.0
	for _, m := range marks {
		if m.px-last < 16 {
			row = (row + 1) % 4
		} else {
			row = 0
		}
		last = m.px
		fmt.Fprintf(b, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"#777\" stroke-dasharray=\"3 3\"/><text class=\"s\" x=\"%.1f\" y=\"%d\">%d</text>\n",
			m.px, plotTop, m.px, plotTop+plotHeight, m.px+3, plotTop+12+13*row, m.n)
	}
}

// scale maps values to pixels, linearly or by logarithm.
type scale struct {
	lo, hi   float64
	from, to float64
	log      bool
}

func (s scale) at(v float64) float64 {
	lo, hi := s.lo, s.hi
	if s.log {
		v, lo, hi = math.Log(max(v, s.lo*1e-3)), math.Log(lo), math.Log(hi)
	}
	if hi == lo {
		return (s.from + s.to) / 2
	}
	return s.from + (v-lo)/(hi-lo)*(s.to-s.from)
}

// ticks are round values: 1, 2 and 5 of each power of ten by logarithm (1 alone over many of them).
func (s scale) ticks() []float64 {
	if !s.log {
		return niceTicks(s.lo, s.hi, 6)
	}
	steps := []float64{1, 2, 5}
	if s.hi/s.lo > 1e4 {
		steps = steps[:1]
	}
	var out []float64
	for p := math.Floor(math.Log10(s.lo)); p <= math.Log10(s.hi); p++ {
		for _, k := range steps {
			if v := k * math.Pow(10, p); v >= s.lo && v <= s.hi {
				out = append(out, v)
			}
		}
	}
	return out
}

// logFrom is the ratio of the largest to the smallest figure from which on y goes by logarithm: on a linear axis the small
// ones would lie on the ground.
const logFrom = 30

// sweepScales fits the axes: x by logarithm from a factor of eight on, y from zero unless its figures are far apart.
func sweepScales(c *whatif.Comparison) (x, y scale, ok bool) {
	x = scale{lo: math.Inf(1), hi: math.Inf(-1), from: plotLeft, to: plotLeft + plotWidth}
	y = scale{hi: math.Inf(-1), from: plotTop + plotHeight, to: plotTop}
	least := math.Inf(1)
	for _, col := range c.Columns {
		x.lo, x.hi = min(x.lo, col.At.Value), max(x.hi, col.At.Value)
		if col.Predicted == nil {
			continue
		}
		lo, hi := whatif.Interval(col, c.Sweep.Metric)
		y.hi = max(y.hi, hi, metricValue(col, c.Sweep.Metric))
		least = min(least, lo, metricValue(col, c.Sweep.Metric))
		ok = true
	}
	if least > 0 && y.hi/least >= logFrom {
		y.lo, y.log = least/1.1, true
	}
	x.log = x.lo > 0 && x.hi/x.lo >= 8
	return x, y, ok
}

// metricValue is the figure that decides.
func metricValue(c *whatif.Column, name string) float64 {
	switch p := c.Predicted; name {
	case "ttftMs":
		return p.TTFTMs
	case "tpotMs":
		return p.TPOTMs
	case "stepMs":
		return p.StepMs
	default:
		return p.TokensPerSecondPerGPU
	}
}

func metricTitle(name string) string {
	switch name {
	case "ttftMs":
		return "TTFT, ms"
	case "tpotMs":
		return "TPOT, ms"
	case "stepMs":
		return "step, ms"
	}
	return "tokens/s/GPU"
}

func axisTitle(c *whatif.Comparison) string {
	if c.Sweep.Unit == "" {
		return c.Sweep.Axis
	}
	return c.Sweep.Axis + ", " + c.Sweep.Unit
}
