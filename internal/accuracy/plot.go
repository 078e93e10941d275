package accuracy

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strings"

	"rankmap/internal/measured"
	"rankmap/internal/units"
)

// Curve is one line of a plot: what was measured, what is predicted between, and the 80 % interval.
type Curve struct {
	Label  string
	Points []PlotPoint // measured
	Line   []PlotPoint // predicted
	Low    []PlotPoint // p10
	High   []PlotPoint // p90
}

// PlotPoint is a size and a time.
type PlotPoint struct {
	Bytes units.Bytes
	Time  units.Duration
}

// Curve predicts a row's collective over all sizes between its least and its largest measured one and gathers the
// measured points. Rows must differ in size and time only; the newest library counts where they differ in that as well.
func (c *Confronter) Curve(label string, rows []measured.Row) (Curve, error) {
	out := Curve{Label: label}
	if len(rows) == 0 {
		return out, fmt.Errorf("%s: no measurements", label)
	}
	lo, hi := rows[0].Bytes, rows[0].Bytes
	for i := range rows {
		lo, hi = min(lo, rows[i].Bytes), max(hi, rows[i].Bytes)
		out.Points = append(out.Points, PlotPoint{rows[i].Bytes, rows[i].Time})
	}
	template := c.Complete(slices.MaxFunc(rows, func(a, b measured.Row) int { return cmp.Compare(minorOf(a.Version), minorOf(b.Version)) }))
	const perOctave = 4
	octaves := math.Log2(float64(hi) / float64(lo))
	steps := max(int(octaves*perOctave), 1)
	for i := range steps + 1 {
		r := template
		r.Bytes = units.Bytes(math.Round(float64(lo) * math.Exp2(octaves*float64(i)/float64(steps))))
		r.Bytes = (r.Bytes + 15) / 16 * 16 // whole chunks, as the tables have
		x, err := c.price(&r)
		if err != nil {
			return out, fmt.Errorf("%s: %w", label, err)
		}
		out.Line = append(out.Line, PlotPoint{r.Bytes, x.Ours})
		out.Low = append(out.Low, PlotPoint{r.Bytes, x.P10})
		out.High = append(out.High, PlotPoint{r.Bytes, x.P90})
	}
	return out, nil
}

// Colours of the curves, from Okabe and Ito's palette, which colour-blind readers can tell apart.
var colours = []string{"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"}

// Size of a plot in pixels, and its margins.
const (
	plotWidth, plotHeight                      = 760, 480
	marginLeft, marginRight, marginTop, bottom = 64, 16, 40, 72
)

// frame maps sizes and times to pixels, both logarithmic.
type frame struct{ x0, x1, y0, y1 float64 } // log2 bytes, log10 us

func (f *frame) x(b units.Bytes) float64 {
	return marginLeft + (math.Log2(float64(b))-f.x0)/(f.x1-f.x0)*(plotWidth-marginLeft-marginRight)
}

func (f *frame) y(d units.Duration) float64 {
	return plotHeight - bottom - (math.Log10(d.Micros())-f.y0)/(f.y1-f.y0)*(plotHeight-marginTop-bottom)
}

// SVG draws curves over logarithmic axes: lines predicted, shades the 80 % interval, dots measured. The output depends
// on the input alone.
func SVG(title string, curves []Curve) []byte {
	f := fit(curves)
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(&b, `<text x="%d" y="22" font-size="15" font-weight="bold">%s</text>`+"\n", marginLeft, escape(title))
	f.axes(&b)
	for i, c := range curves {
		colour := colours[i%len(colours)]
		if len(c.Low) > 0 {
			back := slices.Clone(c.Low)
			slices.Reverse(back)
			fmt.Fprintf(&b, `<polygon points="%s" fill="%s" fill-opacity="0.16"/>`+"\n", f.path(append(slices.Clone(c.High), back...)), colour)
		}
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="1.6"/>`+"\n", f.path(c.Line), colour)
		for _, p := range c.Points {
			fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="2.6" fill="%s" fill-opacity="0.75"/>`+"\n", f.x(p.Bytes), f.y(p.Time), colour)
		}
	}
	f.legend(&b, curves)
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// fit chooses whole octaves and decades around everything drawn.
func fit(curves []Curve) frame {
	f := frame{math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)}
	for _, c := range curves {
		for _, set := range [][]PlotPoint{c.Points, c.Line, c.Low, c.High} {
			for _, p := range set {
				x, y := math.Log2(float64(p.Bytes)), math.Log10(p.Time.Micros())
				f.x0, f.x1, f.y0, f.y1 = min(f.x0, x), max(f.x1, x), min(f.y0, y), max(f.y1, y)
			}
		}
	}
	if f.x0 > f.x1 {
		return frame{0, 1, 0, 1}
	}
	f.x0, f.x1 = math.Floor(f.x0), math.Ceil(f.x1+.01)
	f.y0, f.y1 = math.Floor(f.y0*3)/3, math.Ceil(f.y1*3+.01)/3
	return f
}

// axes draws the grid: powers of 16 of the size, 1-2-5 of the time.
func (f *frame) axes(b *bytes.Buffer) {
	left, right, top, low := marginLeft, plotWidth-marginRight, marginTop, plotHeight-bottom
	for e := math.Ceil(f.x0); e <= f.x1; e++ {
		if math.Mod(e, 2) != 0 {
			continue
		}
		size := units.Bytes(math.Exp2(e))
		x := f.x(size)
		fmt.Fprintf(b, `<path d="M%.1f %dV%d" stroke="#e4e4e4"/>`, x, top, low)
		if math.Mod(e, 4) == 0 {
			fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`, x, low+16, size)
		}
		b.WriteByte('\n')
	}
	for d := math.Floor(f.y0); d <= f.y1; d++ {
		for _, m := range []float64{1, 2, 5} {
			us := m * math.Pow(10, d)
			if v := math.Log10(us); v < f.y0-1e-9 || v > f.y1+1e-9 {
				continue
			}
			y := f.y(units.Micros(us))
			fmt.Fprintf(b, `<path d="M%d %.1fH%d" stroke="#e4e4e4"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", left, y, right, left-6, y+4, units.Trim(us, 3))
		}
	}
	fmt.Fprintf(b, `<path d="M%d %dV%dH%d" fill="none" stroke="#555"/>`+"\n", left, top, low, right)
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle">bytes</text>`+"\n", (left+right)/2, low+32)
	fmt.Fprintf(b, `<text transform="translate(14 %d) rotate(-90)" text-anchor="middle">us</text>`+"\n", (top+low)/2)
}

// legend names the curves below the axis.
func (f *frame) legend(b *bytes.Buffer, curves []Curve) {
	x := float64(marginLeft)
	for i, c := range curves {
		colour := colours[i%len(colours)]
		y := plotHeight - 14
		fmt.Fprintf(b, `<path d="M%.0f %dh18" stroke="%s" stroke-width="2"/><circle cx="%.0f" cy="%d" r="2.6" fill="%s"/><text x="%.0f" y="%d">%s</text>`+"\n",
			x, y-4, colour, x+9, y-4, colour, x+24, y, escape(c.Label))
		x += 24 + 7*float64(len(c.Label)) + 18
	}
}

func (f *frame) path(points []PlotPoint) string {
	var s strings.Builder
	for i, p := range points {
		if i > 0 {
			s.WriteByte(' ')
		}
		fmt.Fprintf(&s, "%.1f,%.1f", f.x(p.Bytes), f.y(p.Time))
	}
	return s.String()
}

func escape(s string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s)) // writes to memory: cannot fail
	return b.String()
}
