package whatif

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/layout"
	"rankmap/topology"
)

// Difference is one thing in which a column is not like the first.
type Difference struct {
	Column  string  `yaml:"column" json:"column"`
	What    string  `yaml:"what" json:"what"` // "strategy", "tpotMs", "memory.usedGB", "cluster node3 GPU 5", ...
	Before  string  `yaml:"before,omitempty" json:"before,omitempty"`
	After   string  `yaml:"after,omitempty" json:"after,omitempty"`
	Percent float64 `yaml:"percent,omitempty" json:"percent,omitempty"` // of a figure's change
	Why     string  `yaml:"why,omitempty" json:"why,omitempty"`
}

// tolerance is the share below which two figures are the same: the figures of a document keep four digits.
const tolerance = 2e-4

// diffColumns lists in what b differs from a. why explains another strategy.
func diffColumns(a, b *Column, why string) []Difference {
	out := []Difference{}
	text := func(what, x, y, why string) {
		if x != y {
			out = append(out, Difference{Column: b.Name, What: what, Before: x, After: y, Why: why})
		}
	}
	num := func(what string, x, y float64, why string) {
		if x == 0 && y == 0 || x != 0 && abs(y-x) <= tolerance*abs(x) {
			return
		}
		d := Difference{Column: b.Name, What: what, Before: units.Signif(x, 4), After: units.Signif(y, 4), Why: why}
		if x != 0 {
			d.Percent = round(100*(y-x)/x, 3)
		}
		out = append(out, d)
	}
	text("machine.gpu", a.Machine.GPU, b.Machine.GPU, "")
	text("infeasible", a.Infeasible, b.Infeasible, "")
	if a.Predicted == nil || b.Predicted == nil {
		return out
	}
	num("machine.gpus", float64(a.Machine.GPUs), float64(b.Machine.GPUs), "")
	num("machine.lost", float64(a.Machine.Lost), float64(b.Machine.Lost), "")
	num("machine.domainGpus", float64(a.Machine.DomainGPUs), float64(b.Machine.DomainGPUs), "")
	num("machine.nvlinkGBps", a.Machine.NVLinkGBps, b.Machine.NVLinkGBps, "")
	num("machine.networkGBps", a.Machine.NetworkGBps, b.Machine.NetworkGBps, "")
	text("strategy", degrees(a.Strategy), degrees(b.Strategy), why)
	text("order", order(a.Strategy), order(b.Strategy), "")
	num("gpus", float64(a.GPUs), float64(b.GPUs), "")
	num("idle", float64(a.Idle), float64(b.Idle), "")
	x, y := a.Predicted, b.Predicted
	num("batch", float64(x.Batch), float64(y.Batch), "")
	num("ttftMs", x.TTFTMs, y.TTFTMs, "")
	num("tpotMs", x.TPOTMs, y.TPOTMs, "")
	num("stepMs", x.StepMs, y.StepMs, "")
	num("tokensPerSecond", x.TokensPerSecond, y.TokensPerSecond, "")
	num("tokensPerSecondPerGpu", x.TokensPerSecondPerGPU, y.TokensPerSecondPerGPU, tokenWhy(a, b))
	num("mfu", x.MFU, y.MFU, "")
	num("memory.usedGB", a.Memory.UsedGB, b.Memory.UsedGB, "")
	for _, k := range kindsOf(a, b) {
		num("communication."+k+" ms", kindMs(a, k), kindMs(b, k), linkChange(a, b, k))
	}
	if n := b.Moved; n != nil && n.Ranks > 0 {
		out = append(out, Difference{Column: b.Name, What: "ranks moved", Before: "0", After: fmt.Sprint(n.Ranks)})
	}
	return out
}

// clusterDiff lists in what a machine changed, under the name of a column. Changes that are alike but for numbers (eight
// NICs of two nodes) share an entry, named after the first.
func clusterDiff(column string, before, after *topology.Cluster) []Difference {
	type kind struct{ what, before, after string }
	digits := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' {
				return -1
			}
			return r
		}, s)
	}
	var out []Difference
	at, more := map[kind]int{}, map[kind]int{}
	for _, d := range topology.Diff(before, after) {
		k := kind{digits(d.What), d.Before, d.After}
		if i, ok := at[k]; ok {
			more[k]++
			first, _, _ := strings.Cut(out[i].What, " (and ")
			out[i].What = fmt.Sprintf("%s (and %d like it)", first, more[k])
			continue
		}
		at[k] = len(out)
		out = append(out, Difference{Column: column, What: "cluster " + d.What, Before: d.Before, After: d.After})
	}
	return out
}

// tokenWhy says what a token costs on both sides, in microseconds of all GPUs that are paid for, and which kinds of time
// make the difference, largest first.
func tokenWhy(a, b *Column) string {
	per := func(c *Column, kind string) float64 { // share of the step times the cost of a token
		return 1e6 / c.Predicted.TokensPerSecondPerGPU * kindMs(c, kind) / c.Predicted.StepMs
	}
	if a.Predicted.TokensPerSecondPerGPU == 0 || b.Predicted.TokensPerSecondPerGPU == 0 {
		return ""
	}
	kinds := append([]string{"compute"}, kindsOf(a, b)...)
	slices.SortStableFunc(kinds, func(x, y string) int {
		return cmp.Compare(abs(per(b, y)-per(a, y)), abs(per(b, x)-per(a, x)))
	})
	total := func(c *Column) float64 { return 1e6 / c.Predicted.TokensPerSecondPerGPU }
	s := fmt.Sprintf("a token costs %s GPU-us, was %s", units.Signif(total(b), 3), units.Signif(total(a), 3))
	for i, k := range kinds {
		d := per(b, k) - per(a, k)
		if i == 2 || abs(d) < 0.02*abs(total(b)-total(a)) {
			break
		}
		sign := "+"
		if d < 0 {
			sign = "-"
		}
		s += fmt.Sprintf("; %s %s%s", k, sign, units.Signif(abs(d), 3))
	}
	return s
}

// kindsOf lists the kinds of communication of two columns.
func kindsOf(a, b *Column) []string {
	var out []string
	for _, c := range append(slices.Clone(a.Communication), b.Communication...) {
		if !slices.Contains(out, c.Kind) {
			out = append(out, c.Kind)
		}
	}
	slices.Sort(out)
	return out
}

// kindMs adds the parts of a kind.
func kindMs(c *Column, kind string) float64 {
	t := 0.0
	for _, p := range c.Predicted.Parts {
		if p.Kind == kind {
			t += p.Ms
		}
	}
	return t
}

// linkChange names the link of a kind on both sides where it is another one.
func linkChange(a, b *Column, kind string) string {
	link := func(c *Column) string {
		for _, x := range c.Communication {
			if x.Kind == kind {
				return x.Link
			}
		}
		return ""
	}
	if x, y := link(a), link(b); x != y && x != "" && y != "" {
		return "over " + y + ", was over " + x
	}
	return ""
}

// degrees is a strategy in words; empty when there is none.
func degrees(s *layout.Strategy) string {
	if s == nil {
		return ""
	}
	return s.Parallel().String()
}

func order(s *layout.Strategy) string {
	st := s.Parallel()
	var live []parallel.Dim
	for _, d := range st.Order {
		if d != parallel.EP && st.Size(d) > 1 {
			live = append(live, d)
		}
	}
	return fmt.Sprint(live)
}

// fixed is a strategy as degrees that must hold.
func fixed(st parallel.Strategy) map[parallel.Dim]int {
	return map[parallel.Dim]int{
		parallel.TP: st.TP, parallel.PP: st.PP, parallel.DP: st.DP, parallel.CP: st.CP, parallel.EP: st.EP, parallel.ExpertTP: st.ExpertTP,
	}
}

func abs(v float64) float64 {
	if v < 0 {
		return -v
	}
	return v
}

// figure prints four significant digits.
func figure(v float64) string { return units.Signif(v, 4) }

// ms prints a time given in milliseconds.
func ms(v float64) string { return units.Millis(v).String() }
