package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/layout"
)

// PlanOptions says how much of a plan to print.
type PlanOptions struct {
	Width   int      // columns, 0 unlimited
	Wide    bool     // every column and every group
	Explain []string // sentences of the planner
}

// Plan prints a layout for a person: the choice, the seats, the groups with their collectives, memory, and the nearest
// losers.
func Plan(w io.Writer, l *layout.Layout, o PlanOptions) error {
	b := &strings.Builder{}
	planHead(b, l)
	planSeats(b, l, o)
	planGroups(b, l, o)
	planParts(b, l, o)
	planLosers(b, l, o)
	if len(o.Explain) > 0 {
		fmt.Fprintln(b, "\nwhy")
		for _, s := range o.Explain {
			fmt.Fprintf(b, "  - %s\n", Clean(s))
		}
	}
	if len(l.Notes) > 0 {
		fmt.Fprintln(b, "\nnotes")
		for _, s := range l.Notes {
			fmt.Fprintf(b, "  - %s\n", Clean(s))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func planHead(b *strings.Builder, l *layout.Layout) {
	wl := l.Inputs.Workload
	fmt.Fprintf(b, "%s on %s, %s", Clean(l.Inputs.Model.Name), Clean(l.Inputs.Cluster.Name), wl.Task)
	if wl.ISL > 0 {
		fmt.Fprintf(b, ", isl %d, osl %d", wl.ISL, wl.OSL)
	}
	fmt.Fprintf(b, ", objective %s\n\n", wl.Objective)
	s, p := l.Strategy, l.Predicted
	fmt.Fprintf(b, "  strategy    %s   (%d GPUs", s.Parallel(), len(l.Ranks))
	if n := len(l.IdleGPUs); n > 0 {
		fmt.Fprintf(b, ", %d idle", n)
	}
	fmt.Fprintf(b, ")   rank order %s\n", orderText(s))
	if s.EP > 1 || s.ExpertTP > 1 {
		fmt.Fprintf(b, "  experts     ep %d x expert-tp %d over attention tp %d x dp %d (attention-dp %d)\n", s.EP, s.ExpertTP, s.TP, s.DP, s.AttentionDP)
	}
	fmt.Fprintf(b, "  batch       %d sequences, %d a replica\n", p.Batch, p.BatchPerReplica)
	if p.TTFTMs > 0 {
		fmt.Fprintf(b, "  TTFT        %s%s\n", units.Millis(p.TTFTMs), interval(p.TTFTP10Ms, p.TTFTP90Ms))
	}
	if p.TPOTMs > 0 {
		lo, hi := p.TPOTP10Ms, p.TPOTP90Ms
		if hi == 0 && p.TPOTMs == p.StepMs { // a document that states the step's alone
			lo, hi = p.StepP10Ms, p.StepP90Ms
		}
		fmt.Fprintf(b, "  TPOT        %s%s\n", units.Millis(p.TPOTMs), interval(lo, hi))
	} else {
		fmt.Fprintf(b, "  step        %s%s\n", units.Millis(p.StepMs), interval(p.StepP10Ms, p.StepP90Ms))
	}
	fmt.Fprintf(b, "  throughput  %s tokens/s, %s tokens/s/GPU\n", units.Signif(p.TokensPerSecond, 4), units.Signif(p.TokensPerSecondPerGPU, 4))
	var mem []string
	for _, m := range l.Memory.Parts {
		if m.GB >= 0.05 {
			mem = append(mem, fmt.Sprintf("%s %s", m.Name, units.Signif(m.GB, 3)))
		}
	}
	fmt.Fprintf(b, "  memory      %s of %s GB a GPU: %s\n", units.Signif(l.Memory.UsedGB, 3), units.Signif(l.Memory.CapacityGB, 3), strings.Join(mem, ", "))
	if b0 := p.BoundMs; b0 > 0 {
		fmt.Fprintf(b, "  seats       %s over the lower bound of any seating of these degrees\n", units.Trim(100*(p.StepMs/b0-1), 1)+" %")
	}
	var can, cannot []string
	for _, x := range l.Launchers {
		if x.Expressible {
			can = append(can, x.Target)
		} else {
			name := x.Target
			if x.Best != nil && x.LossPercent >= 0.05 {
				name += fmt.Sprintf(" +%s %%", units.Signif(x.LossPercent, 2))
			}
			cannot = append(cannot, name)
		}
	}
	if len(can) > 0 {
		fmt.Fprintf(b, "  launchers   %s", strings.Join(can, ", "))
		if len(cannot) > 0 {
			fmt.Fprintf(b, "   (not: %s)", strings.Join(cannot, ", "))
		}
		fmt.Fprintln(b)
	}
}

// orderText prints the order of the dimensions that are split, fastest first.
func orderText(s layout.Strategy) string {
	deg := map[parallel.Dim]int{parallel.TP: s.TP, parallel.CP: s.CP, parallel.DP: s.DP, parallel.PP: s.PP}
	var out []string
	for _, d := range s.Order {
		if deg[d] > 1 {
			out = append(out, d.String())
		}
	}
	if len(out) == 0 {
		return "-"
	}
	return strings.Join(out, "-")
}

// planSeats draws hosts as rows and GPUs as columns.
func planSeats(b *strings.Builder, l *layout.Layout, o PlanOptions) {
	type host struct {
		name  string
		ranks []layout.Rank
	}
	var hosts []host
	at := map[string]int{}
	cols := map[int]bool{}
	for _, r := range l.Ranks {
		i, ok := at[r.Host]
		if !ok {
			i = len(hosts)
			at[r.Host] = i
			hosts = append(hosts, host{name: r.Host})
		}
		hosts[i].ranks = append(hosts[i].ranks, r)
		cols[r.GPU] = true
	}
	t := Table{Columns: []Column{{Title: "seats"}}}
	var idx []int
	for c := range cols {
		idx = append(idx, c)
	}
	slices.Sort(idx)
	pos := map[int]int{}
	for i, c := range idx {
		pos[c] = i + 1
		t.Columns = append(t.Columns, Column{Title: fmt.Sprintf("GPU%d", c)})
	}
	limit := 20
	if o.Wide {
		limit = len(hosts)
	}
	for _, h := range hosts[:min(limit, len(hosts))] {
		row := make([]string, len(idx)+1)
		row[0] = h.name
		for i := range idx {
			row[i+1] = "-"
		}
		for _, r := range h.ranks {
			row[pos[r.GPU]] = seatText(l.Strategy, r)
		}
		t.Add(row...)
	}
	fmt.Fprintln(b)
	_ = t.Write(b, "  ", 0)
	if n := len(hosts) - limit; n > 0 {
		fmt.Fprintf(b, "  ... and %d hosts more (-o wide)\n", n)
	}
}

// seatText is a rank with the coordinates that are split: "r9 t1 d1".
func seatText(s layout.Strategy, r layout.Rank) string {
	out := fmt.Sprintf("r%d", r.Rank)
	for _, x := range []struct {
		letter string
		deg, v int
	}{{"t", s.TP, r.Coords.TP}, {"c", s.CP, r.Coords.CP}, {"e", s.EP, r.Coords.EP}, {"d", s.DP, r.Coords.DP}, {"p", s.PP, r.Coords.PP}} {
		if x.deg > 1 {
			out += fmt.Sprintf(" %s%d", x.letter, x.v)
		}
	}
	return out
}

// planGroups prints one line a collective for the slowest group of each kind; wide prints every group.
func planGroups(b *strings.Builder, l *layout.Layout, o PlanOptions) {
	if len(l.Groups) == 0 {
		return
	}
	t := Table{Columns: []Column{
		{Title: "group"}, {Title: "of", Align: Right}, {Title: "members", Drop: 3}, {Title: "path", Drop: 4}, {Title: "slowest link", Drop: 5},
		{Title: "collective"}, {Title: "bytes", Align: Right}, {Title: "x/step", Align: Right}, {Title: "time", Align: Right},
		{Title: "p10..p90", Align: Right, Drop: 2}, {Title: "busbw GB/s", Align: Right, Drop: 1}, {Title: "algo/proto", Drop: 6}, {Title: "basis", Drop: 7},
	}}
	for _, g := range shownGroups(l, o.Wide) {
		for i, c := range g.Collectives {
			head := []string{g.Kind.String(), fmt.Sprint(g.Concurrent), members(g.Members), g.Path, g.Slowest}
			if i > 0 {
				head = []string{"", "", "", "", ""}
			}
			name := c.Name
			if c.Overlapped {
				name += " (overlapped)"
			}
			if len(l.Groups) > 0 && c.Phase != "" && l.Inputs.Workload.Task == "serve" {
				name = c.Phase + " " + name
			}
			t.Add(append(head, name, units.Bytes(c.Bytes).String(), units.Signif(c.TimesPerStep, 4), units.Micros(c.Us).String(),
				groupInterval(&c), units.Signif(c.BusGBps, 3), algo(c), c.Basis)...)
		}
	}
	fmt.Fprintln(b)
	_ = t.Write(b, "  ", pick(o.Wide, 0, o.Width))
}

// groupInterval is p10 and p90 in the unit in which the time beside them is printed.
func groupInterval(c *layout.Collective) string {
	scale := 1.0
	for _, unit := range []float64{1e-3, 1e-6} {
		if c.Us*unit >= 1 {
			scale = unit
		}
	}
	return units.Signif(c.P10Us*scale, 3) + ".." + units.Signif(c.P90Us*scale, 3)
}

func algo(c layout.Collective) string {
	return strings.TrimSuffix(c.Algorithm+"/"+c.Protocol, "/")
}

func pick(cond bool, a, b int) int {
	if cond {
		return a
	}
	return b
}

// shownGroups keeps the slowest group of each kind.
func shownGroups(l *layout.Layout, wide bool) []layout.Group {
	if wide {
		return l.Groups
	}
	var out []layout.Group
	for _, g := range l.Groups {
		i := slices.IndexFunc(out, func(x layout.Group) bool { return x.Kind == g.Kind })
		switch {
		case i < 0:
			out = append(out, g)
		case cost(g) > cost(out[i]):
			out[i] = g
		}
	}
	return out
}

func cost(g layout.Group) float64 {
	t := 0.0
	for _, c := range g.Collectives {
		t += c.Us * c.TimesPerStep
	}
	return t
}

// members prints ranks as ranges with a stride: "0-7", "0,8..56", "0,5,9".
func members(m []int) string {
	if len(m) < 3 {
		return strings.Trim(strings.ReplaceAll(fmt.Sprint(m), " ", ","), "[]")
	}
	step := m[1] - m[0]
	for i := 2; i < len(m); i++ {
		if m[i]-m[i-1] != step {
			if len(m) > 8 {
				return fmt.Sprintf("%d,%d,... %d ranks", m[0], m[1], len(m))
			}
			return strings.Trim(strings.ReplaceAll(fmt.Sprint(m), " ", ","), "[]")
		}
	}
	if step == 1 {
		return fmt.Sprintf("%d-%d", m[0], m[len(m)-1])
	}
	return fmt.Sprintf("%d,%d..%d", m[0], m[1], m[len(m)-1])
}

// planParts prints where the time of the step goes.
func planParts(b *strings.Builder, l *layout.Layout, o PlanOptions) {
	t := Table{Columns: []Column{{Title: "step"}, {Title: "part"}, {Title: "time", Align: Right}, {Title: "share", Align: Right}, {Title: "bound by", Drop: 1}}}
	parts := slices.Clone(l.Predicted.Parts)
	slices.SortStableFunc(parts, func(x, y layout.Part) int {
		switch {
		case x.Ms > y.Ms:
			return -1
		case x.Ms < y.Ms:
			return 1
		}
		return 0
	})
	for i, p := range parts {
		if !o.Wide && i >= 12 {
			t.Add("", fmt.Sprintf("and %d smaller", len(parts)-i))
			break
		}
		t.Add(p.Kind, p.Name, units.Millis(p.Ms).String(), units.Trim(p.Share, 1)+" %", p.Bound)
	}
	fmt.Fprintln(b)
	_ = t.Write(b, "  ", pick(o.Wide, 0, o.Width))
}

// planLosers prints what was not chosen.
func planLosers(b *strings.Builder, l *layout.Layout, o PlanOptions) {
	if len(l.Rejected) == 0 {
		return
	}
	t := Table{Columns: []Column{{Title: "not chosen"}, {Title: "TPOT/step", Align: Right}, {Title: "tokens/s/GPU", Align: Right}, {Title: "why"}}}
	for _, r := range l.Rejected {
		ms, tok := "", ""
		if p := r.Predicted; p != nil {
			v := p.TPOTMs
			if v == 0 {
				v = p.StepMs
			}
			ms, tok = units.Millis(v).String(), units.Signif(p.TokensPerSecondPerGPU, 4)
		}
		t.Add(r.Strategy.Parallel().String(), ms, tok, r.Why)
	}
	fmt.Fprintln(b)
	_ = t.Write(b, "  ", pick(o.Wide, 0, o.Width))
}

// interval says between which times, in ms, four of five measurements should lie; "" where that is not known.
func interval(lo, hi float64) string {
	if hi <= 0 {
		return ""
	}
	return fmt.Sprintf("   (80 %% interval %s to %s)", units.Millis(lo), units.Millis(hi))
}
