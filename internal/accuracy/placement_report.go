package accuracy

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"sort"
)

// within is what a choice may cost over our best and still count as near.
const within = 1.15

// PlacementSummary is the machine-readable form. Shares are percent.
type PlacementSummary struct {
	N          int           `json:"n" yaml:"n"`               // published decisions that could be compared
	InTop3     float64       `json:"inTop3" yaml:"inTop3"`     // share whose degrees are among our first three
	Within15   float64       `json:"within15" yaml:"within15"` // share that fits and costs at most 15 % more than our best
	Chance     float64       `json:"chance" yaml:"chance"`     // share of all layouts of the same GPUs that would count as in our top 3
	Spearman   *float64      `json:"spearman" yaml:"spearman"` // median over the sweeps of three layouts or more; null without
	Sweeps     int           `json:"sweeps" yaml:"sweeps"`
	PairsRight float64       `json:"pairsRight" yaml:"pairsRight"` // share of measured pairs that we order alike
	Rows       []ChoiceRow   `json:"rows" yaml:"rows"`
	Groups     []SweepRow    `json:"groups" yaml:"groups"`
	Times      []TimeStats   `json:"times" yaml:"times"`
	Families   []ChoiceStats `json:"families" yaml:"families"`
	Skipped    []Skipped     `json:"skipped" yaml:"skipped"`
}

// ChoiceRow is one decision in the machine-readable form.
type ChoiceRow struct {
	ID     string   `json:"id" yaml:"id"`
	Rank   int      `json:"rank" yaml:"rank"`   // 0 = dropped by the search
	Ratio  *float64 `json:"ratio" yaml:"ratio"` // null when the layout cannot be priced
	Row    string   `json:"row" yaml:"row"`
	Ours   string   `json:"ours" yaml:"ours"`
	Reason string   `json:"reason" yaml:"reason"`
}

// SweepRow is one sweep in the machine-readable form.
type SweepRow struct {
	Family   string   `json:"family" yaml:"family"`
	Model    string   `json:"model" yaml:"model"`
	GPU      string   `json:"gpu" yaml:"gpu"`
	Batch    string   `json:"batch" yaml:"batch"`
	N        int      `json:"n" yaml:"n"`
	Spearman *float64 `json:"spearman" yaml:"spearman"`
}

// ChoiceStats sums a family of decisions up.
type ChoiceStats struct {
	Family   string  `json:"family" yaml:"family"`
	N        int     `json:"n" yaml:"n"`
	InTop3   float64 `json:"inTop3" yaml:"inTop3"`
	Within15 float64 `json:"within15" yaml:"within15"`
	Chance   float64 `json:"chance" yaml:"chance"`
}

func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	v = math.Round(v*1e4) / 1e4
	return &v
}

// near says whether a choice fits and costs about as little as our best.
func (c *Choice) near() bool { return c.Fits && c.Ratio > 0 && c.Ratio <= within }

// top says whether a choice is among our first three.
func (c *Choice) top() bool { return c.Rank >= 1 && c.Rank <= topRank }

// topRank is the last place that counts as among our first.
const topRank = 3

// Summary sums the confrontation up.
func (r *Placements) Summary() PlacementSummary {
	s := PlacementSummary{N: len(r.Choices), Skipped: r.Skipped, Rows: []ChoiceRow{}, Groups: []SweepRow{}, Times: TimeScores(r.Times)}
	if s.Skipped == nil {
		s.Skipped = []Skipped{}
	}
	if s.Times == nil {
		s.Times = []TimeStats{}
	}
	all := choiceStats("", r.Choices)
	s.InTop3, s.Within15, s.Chance = all.InTop3, all.Within15, all.Chance
	s.Families = r.families()
	for _, c := range r.Choices {
		row := ChoiceRow{ID: c.ID, Rank: c.Rank, Row: c.Row, Ours: c.Ours, Reason: c.Reason}
		if c.Ratio > 0 {
			row.Ratio = finite(c.Ratio)
		}
		s.Rows = append(s.Rows, row)
	}
	med, n := medianSpearman(r.Sweeps)
	s.Spearman, s.Sweeps = finite(med), n
	pairs, right := 0, 0
	for _, g := range r.Sweeps {
		pairs, right = pairs+g.Pairs, right+g.Right
		s.Groups = append(s.Groups, SweepRow{g.Family, g.Model, g.GPU, g.Batch, g.N, finite(g.Spearman)})
	}
	s.PairsRight = share(right, pairs)
	return s
}

func share(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return math.Round(1000*float64(n)/float64(of)) / 10
}

func choiceStats(family string, cs []Choice) ChoiceStats {
	top, near, chance := 0, 0, 0.0
	for i := range cs {
		chance += cs[i].Chance
		if cs[i].top() {
			top++
		}
		if cs[i].near() {
			near++
		}
	}
	return ChoiceStats{family, len(cs), share(top, len(cs)), share(near, len(cs)), math.Round(1000*chance/float64(max(1, len(cs)))) / 10}
}

func (r *Placements) families() []ChoiceStats {
	by := map[string][]Choice{}
	var names []string
	for _, c := range r.Choices {
		if by[c.Family] == nil {
			names = append(names, c.Family)
		}
		by[c.Family] = append(by[c.Family], c)
	}
	sort.Strings(names)
	out := []ChoiceStats{}
	for _, n := range names {
		out = append(out, choiceStats(n, by[n]))
	}
	return out
}

// WriteTable prints the confrontation for people; wide adds every row and sweep point.
func (r *Placements) WriteTable(w io.Writer, wide bool) error {
	b := bufio.NewWriter(w)
	s := r.Summary()
	fmt.Fprintf(b, "%d published decisions: %s %% in our top 3 (%s %% of all layouts would be), %s %% within 15 %% of our best\n", s.N, percents(s.InTop3), percents(s.Chance), percents(s.Within15))
	if s.Spearman != nil {
		fmt.Fprintf(b, "%d sweeps of 3 layouts or more: median rank correlation %.2f; %s %% of all pairs in the right order\n", s.Sweeps, *s.Spearman, percents(s.PairsRight))
	}
	t := grid{head: []string{"decisions of", "rows", "top 3", "within 15 %"}}
	for _, f := range s.Families {
		t.rows = append(t.rows, []string{f.Family, fmt.Sprint(f.N), percents(f.InTop3), percents(f.Within15)})
	}
	if len(t.rows) > 0 {
		fmt.Fprintln(b)
		t.write(b)
	}
	r.writeChoices(b, wide)
	r.writeSweeps(b, wide)
	if len(s.Times) > 0 {
		fmt.Fprintln(b)
		t := grid{head: []string{"measured times of", "what", "rows", "median / p90 %", "bias", "in 80 %"}}
		for _, x := range s.Times {
			t.rows = append(t.rows, []string{x.Family, x.Kind, fmt.Sprint(x.N), percents(x.MedianAPE) + " / " + percents(x.P90APE), signed(x.Bias), percents(x.Coverage)})
		}
		t.write(b)
	}
	if len(r.Skipped) > 0 {
		fmt.Fprintf(b, "\nnot counted:\n")
		for _, k := range r.Skipped {
			fmt.Fprintf(b, "  %6d  %s\n", k.N, k.Reason)
		}
	}
	return b.Flush()
}

func (r *Placements) writeChoices(b *bufio.Writer, wide bool) {
	t := grid{head: []string{"row", "model", "GPUs", "theirs", "ours", "rank", "cost", "why"}}
	for i := range r.Choices {
		c := &r.Choices[i]
		if !wide && c.top() && c.near() {
			continue
		}
		rank, ratio := "-", "-"
		if c.Rank > 0 {
			rank = fmt.Sprintf("%d of %d", c.Rank, c.Of)
		}
		if c.Ratio > 0 {
			ratio = fmt.Sprintf("%.2f", c.Ratio)
		}
		t.rows = append(t.rows, []string{c.ID, c.Model, fmt.Sprintf("%d %s", c.GPUs, c.GPU), c.Row, c.Ours, rank, ratio, c.Reason})
	}
	if len(t.rows) > 0 {
		fmt.Fprintln(b)
		t.write(b)
	}
}

func (r *Placements) writeSweeps(b *bufio.Writer, wide bool) {
	t := grid{head: []string{"sweep", "model", "machine", "batch", "layouts", "correlation", "pairs right"}}
	for _, g := range r.Sweeps {
		if !wide && g.N < minSweep {
			continue
		}
		rho := "-"
		if !math.IsNaN(g.Spearman) {
			rho = fmt.Sprintf("%.2f", g.Spearman)
		}
		t.rows = append(t.rows, []string{g.Family, g.Model, g.GPU, g.Batch, fmt.Sprint(g.N), rho, fmt.Sprintf("%d of %d", g.Right, g.Pairs)})
		if wide {
			for _, p := range g.Points {
				t.rows = append(t.rows, []string{"", p.ID, p.Layout, "", "", fmt.Sprintf("%.4g", p.Measured), fmt.Sprintf("%.4g", p.Predicted)})
			}
		}
	}
	if len(t.rows) > 0 {
		fmt.Fprintln(b)
		t.write(b)
	}
}
