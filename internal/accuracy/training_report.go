package accuracy

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strings"

	"rankmap/internal/units"
)

// trainingGoals are the targets of the published table, percent: mean and largest error with one clock scalar.
const (
	trainingMean = 2
	trainingMax  = 4
)

// three predictions of a point, as the report prints them.
var trainingViews = []struct {
	name string
	get  func(*TrainingPoint) units.Duration
}{
	{"boost clock, nothing fitted", func(p *TrainingPoint) units.Duration { return p.Boost }},
	{"shipped factor", func(p *TrainingPoint) units.Duration { return p.Ours }},
	{"factor of the other models", func(p *TrainingPoint) units.Duration { return p.Held }},
}

func (t *Training) grid() grid {
	g := grid{head: []string{"model", "layout", "recomputed", "measured s", "boost clock", "error", "shipped", "error", "other models'", "factor", "error"}}
	for i := range t.Points {
		p := &t.Points[i]
		row := []string{p.Model, p.Layout, p.Recompute, seconds(p.Measured)}
		for k, v := range trainingViews {
			d := v.get(p)
			row = append(row, seconds(d))
			if k == 2 {
				row = append(row, units.Trim(p.Factor, 4))
			}
			row = append(row, errorOf(d, p.Measured))
		}
		g.rows = append(g.rows, row)
	}
	return g
}

func (t *Training) summary() grid {
	g := grid{head: []string{"sustained-clock factor", "mean", "largest"}}
	for _, v := range trainingViews {
		if m, ok := t.errors(v.get); ok {
			g.rows = append(g.rows, []string{v.name, percents(m.mean), percents(m.max)})
		}
	}
	return g
}

func (t *Training) memory() grid {
	g := grid{head: []string{"model", "what", "measured GiB", "ours", "error"}}
	for _, m := range t.Memory {
		g.rows = append(g.rows, []string{m.Model, m.What, gib(m.Measured), gib(m.Ours), signed(100 * (float64(m.Ours)/float64(m.Measured) - 1))})
	}
	return g
}

func seconds(d units.Duration) string {
	if d == 0 {
		return "-"
	}
	return units.Signif(d.Seconds(), 4)
}

func gib(b units.Bytes) string { return units.Trim(math.Round(float64(b)/(1<<30)*100)/100, 2) }

func errorOf(d, measured units.Duration) string {
	if d == 0 {
		return "-"
	}
	return signed(100 * (float64(d/measured) - 1))
}

// TrainingSummary is the machine-readable form; errors are percent.
type TrainingSummary struct {
	Points []TrainingRow   `json:"points" yaml:"points"`
	Errors []TrainingError `json:"errors" yaml:"errors"`
	Memory []MemoryRow     `json:"memory" yaml:"memory"`
}

// TrainingRow is one point: seconds and errors at boost clock, with the shipped factor, and with that of the other models.
type TrainingRow struct {
	Model     string  `json:"model" yaml:"model"`
	System    string  `json:"system" yaml:"system"`
	Layout    string  `json:"layout" yaml:"layout"`
	Recompute string  `json:"recompute" yaml:"recompute"`
	Measured  float64 `json:"measuredS" yaml:"measuredS"`
	Ours      float64 `json:"oursS" yaml:"oursS"`
	Boost     float64 `json:"boostErrorPercent" yaml:"boostErrorPercent"`
	Shipped   float64 `json:"errorPercent" yaml:"errorPercent"`
	Held      float64 `json:"heldErrorPercent" yaml:"heldErrorPercent"`
	Factor    float64 `json:"heldFactor" yaml:"heldFactor"`
}

// TrainingError is the mean and the largest absolute error of all points.
type TrainingError struct {
	Factor string  `json:"factor" yaml:"factor"`
	Mean   float64 `json:"meanAPE" yaml:"meanAPE"`
	Max    float64 `json:"maxAPE" yaml:"maxAPE"`
}

// MemoryRow is one memory figure, GiB.
type MemoryRow struct {
	Model    string  `json:"model" yaml:"model"`
	What     string  `json:"what" yaml:"what"`
	Measured float64 `json:"measuredGiB" yaml:"measuredGiB"`
	Ours     float64 `json:"oursGiB" yaml:"oursGiB"`
}

// Summary is the machine-readable form.
func (t *Training) Summary() *TrainingSummary {
	s := &TrainingSummary{Points: []TrainingRow{}, Errors: []TrainingError{}, Memory: []MemoryRow{}}
	two := func(v float64) float64 { return math.Round(v*100) / 100 }
	for i := range t.Points {
		p := &t.Points[i]
		off := func(d units.Duration) float64 { return two(100 * (float64(d/p.Measured) - 1)) }
		r := TrainingRow{
			Model: p.Model, System: p.System, Layout: p.Layout, Recompute: p.Recompute, Measured: p.Measured.Seconds(),
			Ours: math.Round(p.Ours.Seconds()*1e4) / 1e4, Boost: off(p.Boost), Shipped: off(p.Ours), Factor: math.Round(p.Factor*1e4) / 1e4,
		}
		if p.Held > 0 {
			r.Held = off(p.Held)
		}
		s.Points = append(s.Points, r)
	}
	for _, v := range trainingViews {
		if m, ok := t.errors(v.get); ok {
			s.Errors = append(s.Errors, TrainingError{v.name, two(m.mean), two(m.max)})
		}
	}
	for _, m := range t.Memory {
		s.Memory = append(s.Memory, MemoryRow{m.Model, m.What, two(float64(m.Measured) / (1 << 30)), two(float64(m.Ours) / (1 << 30))})
	}
	return s
}

// WriteTable prints each point, what they sum up to, and memory.
func (t *Training) WriteTable(w io.Writer) error {
	b := bufio.NewWriter(w)
	t.writeWith(b, func(g *grid) { g.write(b) })
	return b.Flush()
}

func (t *Training) writeWith(b *bufio.Writer, write func(*grid)) {
	if len(t.Points) > 0 {
		fmt.Fprintf(b, "Training steps, errors in percent:\n\n")
		g := t.grid()
		write(&g)
		fmt.Fprintf(b, "\nMean and largest absolute error of %d points (targets with one clock scalar: %d and %d):\n\n", len(t.Points), trainingMean, trainingMax)
		g = t.summary()
		write(&g)
	}
	if len(t.Memory) > 0 {
		fmt.Fprintf(b, "\nMemory of the fullest GPU:\n\n")
		g := t.memory()
		write(&g)
	}
}

// markdown writes a table for documents.
func (g *grid) markdown(w io.Writer) {
	fmt.Fprintf(w, "| %s |\n|%s\n", strings.Join(g.head, " | "), strings.Repeat("---|", len(g.head)))
	for _, row := range g.rows {
		fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
	}
}

// WriteMarkdown is WriteTable for docs/accuracy.md.
func (t *Training) WriteMarkdown(w io.Writer) error {
	b := bufio.NewWriter(w)
	t.writeWith(b, func(g *grid) { g.markdown(b) })
	fmt.Fprintln(b)
	return b.Flush()
}
