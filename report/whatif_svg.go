package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"rankmap/internal/units"
	"rankmap/planner/whatif"
)

// kindColors are the colours of Okabe and Ito, which people with any colour vision tell apart.
var kindColors = map[string]string{
	"compute": "#b8b8b8", "tp": "#0072b2", "ep": "#d55e00", "pp": "#009e73", "dp": "#cc79a7", "cp": "#56b4e9",
	"expert-tp": "#e69f00", "expert-dp": "#7a5195", "bubble": "#f0e442", "overhead": "#444444",
}

// seriesColors and seriesDashes tell machines apart in colour and in grey.
var (
	seriesColors = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#444444"}
	seriesDashes = []string{"", "7 3", "2 3", "9 3 2 3", "4 2", "1 2"}
)

// tokenBars draws a stacked bar a column: GPU-microseconds of a token by kind of time.
func tokenBars(b *strings.Builder, cols []*whatif.Column) {
	const left, width, row = 210, 760, 40
	most := 0.0
	cost := func(c *whatif.Column) float64 {
		if c.Predicted == nil || c.Predicted.TokensPerSecondPerGPU == 0 {
			return 0
		}
		return 1e6 / c.Predicted.TokensPerSecondPerGPU
	}
	for _, c := range cols {
		_, slow := tokenInterval(c)
		most = max(most, cost(c), slow)
	}
	if most == 0 {
		return
	}
	height := row*len(cols) + 64
	openSVG(b, left+width+150, height, "what a token costs by kind of time")
	scale := float64(width) / most
	ticks := niceTicks(0, most, 6)
	for _, v := range ticks {
		x := left + v*scale
		fmt.Fprintf(b, "<line x1=\"%.1f\" y1=\"24\" x2=\"%.1f\" y2=\"%d\" stroke=\"#e3e3e3\"/><text class=\"s\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
			x, x, row*len(cols)+28, x, row*len(cols)+42, units.Signif(v, 3))
	}
	fmt.Fprintf(b, "<text class=\"s\" x=\"%d\" y=\"%d\" text-anchor=\"end\">GPU-us a token</text>\n", left+width, row*len(cols)+58)
	for i, c := range cols {
		y := 28 + i*row
		fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", left-8, y+18, esc(clipText(c.Name, 30)))
		if c.Predicted == nil {
			fmt.Fprintf(b, "<text class=\"s\" x=\"%d\" y=\"%d\">no plan</text>\n", left+4, y+18)
			continue
		}
		x := float64(left)
		for _, k := range stackKinds(cols) {
			w := cost(c) * scale * kindTimes(c)[k] / c.Predicted.StepMs
			if w <= 0 {
				continue
			}
			fmt.Fprintf(b, "<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"24\" fill=\"%s\"><title>%s: %s GPU-us</title></rect>\n",
				x, y, w, colorOf(k), esc(k), units.Signif(w/scale, 3))
			x += w
		}
		lo, hi := tokenInterval(c)
		fmt.Fprintf(b, "<path d=\"M%.1f %d H%.1f M%.1f %d v8 M%.1f %d v8\" stroke=\"#1a1a1a\" fill=\"none\"/>\n",
			left+lo*scale, y+12, left+hi*scale, left+lo*scale, y+8, left+hi*scale, y+8)
		fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%d\">%s tokens/s/GPU</text>\n", left+max(hi*scale, x-left)+8, y+16, units.Signif(c.Predicted.TokensPerSecondPerGPU, 4))
	}
	legend(b, left, 14, stackKinds(cols), colorOf, nil)
	fmt.Fprint(b, "</svg>\n")
}

// tokenInterval is the 80 % interval of what a token costs.
func tokenInterval(c *whatif.Column) (lo, hi float64) {
	slow, fast := whatif.Interval(c, "tokensPerSecondPerGpu")
	if slow == 0 || fast == 0 {
		return 0, 0
	}
	return 1e6 / fast, 1e6 / slow
}

// shareBars draws an upright stacked bar a value: percent of the step by kind.
func shareBars(b *strings.Builder, cols []*whatif.Column) {
	const left, height, top = 48, 170, 26
	step := min(90, max(18, 940/max(1, len(cols))))
	openSVG(b, left+step*len(cols)+20, top+height+40, "share of the step by kind of time")
	for _, v := range []float64{0, 25, 50, 75, 100} {
		y := top + height*(1-v/100)
		fmt.Fprintf(b, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#e3e3e3\"/><text class=\"s\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s %%</text>\n",
			left, y, left+step*len(cols), y, left-6, y+4, units.Trim(v, 0))
	}
	every := 1 + 44/step
	for i, c := range cols {
		x := left + i*step
		if i%every == 0 {
			fmt.Fprintf(b, "<text class=\"s\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", x+step/2, top+height+16, esc(clipText(c.At.Text, 12)))
		}
		if c.Predicted == nil {
			continue
		}
		y := float64(top + height)
		for _, k := range stackKinds(cols) {
			h := height * kindTimes(c)[k] / c.Predicted.StepMs
			if h <= 0 {
				continue
			}
			y -= h
			fmt.Fprintf(b, "<rect x=\"%d\" y=\"%.2f\" width=\"%d\" height=\"%.2f\" fill=\"%s\"><title>%s: %s %%</title></rect>\n",
				x+step/8, y, step-step/4, h, colorOf(k), esc(k), units.Trim(100*h/height, 1))
		}
	}
	legend(b, left, 14, stackKinds(cols), colorOf, nil)
	fmt.Fprint(b, "</svg>\n")
}

// stackKinds lists the kinds of time of some columns: compute first, the others in a fixed order.
func stackKinds(cols []*whatif.Column) []string {
	var out []string
	have := map[string]bool{}
	for _, c := range cols {
		if c.Predicted == nil {
			continue
		}
		for _, p := range c.Predicted.Parts {
			have[p.Kind] = true
		}
	}
	for _, k := range whatIfKindColumns {
		if have[k] {
			out = append(out, k)
			delete(have, k)
		}
	}
	return append(out, sortedNames(have)...)
}

func colorOf(kind string) string {
	if c, ok := kindColors[kind]; ok {
		return c
	}
	return "#888888"
}

// legend draws coloured squares with names, or lines where dashes are given.
func legend(b *strings.Builder, x, y int, names []string, color func(string) string, dash func(string) string) {
	for _, n := range names {
		if dash == nil {
			fmt.Fprintf(b, "<rect x=\"%d\" y=\"%d\" width=\"11\" height=\"11\" fill=\"%s\"/>", x, y-10, color(n))
		} else {
			fmt.Fprintf(b, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"%s\" stroke-width=\"2.5\" stroke-dasharray=\"%s\"/>", x, y-4, x+24, y-4, color(n), dash(n))
			x += 14
		}
		fmt.Fprintf(b, "<text class=\"s\" x=\"%d\" y=\"%d\">%s</text>\n", x+15, y, esc(n))
		x += 34 + 7*len([]rune(n))
	}
}

func openSVG(b *strings.Builder, w, h int, title string) {
	fmt.Fprintf(b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n", w, h, w, h, esc(title))
}

// clipText keeps n runes.
func clipText(s string, n int) string {
	r := []rune(Clean(s))
	if len(r) <= n {
		return string(r)
	}
	return string(r[:n-1]) + "…"
}

// niceTicks lists about n round values from lo to hi.
func niceTicks(lo, hi float64, n int) []float64 {
	if !(hi > lo) {
		return []float64{lo}
	}
	raw := (hi - lo) / float64(n)
	mag := math.Pow(10, math.Floor(math.Log10(raw)))
	step := mag
	for _, m := range []float64{1, 2, 5, 10} {
		if step = m * mag; step >= raw {
			break
		}
	}
	var out []float64
	for v := math.Ceil(lo/step-1e-9) * step; v <= hi*(1+1e-9); v += step {
		out = append(out, v+0) // -0 becomes 0
	}
	return slices.Clip(out)
}
