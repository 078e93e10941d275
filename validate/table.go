package validate

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"rankmap/internal/measured"
	"rankmap/internal/units"
)

// WriteTable prints a report for people. Wide adds mean, spread, algbw and what NCCL chose.
func WriteTable(w io.Writer, rep *measured.Report, wide bool) error {
	e := rep.Environment
	fmt.Fprintf(w, "%s on %s: %d ranks, %s, NCCL %s, CUDA %s, driver %s\n", orDash(rep.Layout.Name), orDash(strings.Join(e.Hosts, ", ")),
		len(rep.Ranks), orDash(e.GPU), orDash(e.NCCL), orDash(e.CUDA), orDash(e.Driver))
	if len(e.Env) > 0 {
		fmt.Fprintf(w, "environment: %s\n", printable(strings.Join(e.Env, " ")))
	}
	section := func(title string, rows []measured.ReportGroup) {
		if len(rows) == 0 {
			return
		}
		fmt.Fprintf(w, "\n%s\n", title)
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintf(t, "GROUP\tRANKS\tOP\tSIZE\tLAUNCH\tMEASURED\tPREDICTED\tP10 - P90\tERROR\tBUSBW\tEXPECTED\tVERDICT")
		if wide {
			fmt.Fprintf(t, "\tMEAN\tSPREAD\tALGBW\tCHOSEN")
		}
		fmt.Fprintln(t)
		for _, g := range rows {
			groupRow(t, g, wide)
		}
		t.Flush()
	}
	section("each group alone", rep.Groups)
	section("all groups of a kind at once", rep.Siblings)
	section("other calls for the same", rep.Variants)
	if len(rep.Mix) > 0 {
		fmt.Fprintf(w, "\nwhat one layer issues\n")
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "PHASE\tCOLLECTIVES\tLAUNCH\tMEASURED\tPREDICTED\tVERDICT")
		for _, m := range rep.Mix {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", orDash(m.Phase), strings.Join(m.Collectives, ", "), m.Launch,
				us(m.Times.MedianUs), clock(m.Predicted.Us), verdictWords[m.Verdict])
		}
		t.Flush()
	}
	if len(rep.Pairs) > 0 {
		fmt.Fprintf(w, "\npairs, one way\n")
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "TEST\tFROM\tTO\tROUND\tTIME\tRATE")
		for _, p := range rep.Pairs {
			fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%s\t%s\n", cmp.Or(p.Test, "blame"), p.From, p.To, p.Round, us(p.Us), units.GBps(p.GBps))
		}
		t.Flush()
	}
	if len(rep.Findings) > 0 {
		fmt.Fprintf(w, "\nfindings\n")
		for _, f := range rep.Findings {
			fmt.Fprintf(w, "%-7s  %s: %s\n         next: %s\n", f.Severity, f.ID, printable(f.Message), f.NextStep)
		}
	}
	count := map[string]int{}
	for _, rows := range [][]measured.ReportGroup{rep.Groups, rep.Siblings} {
		for _, g := range rows {
			count[g.Verdict]++
		}
	}
	var parts []string
	for i := range severityOrder {
		v := severityOrder[len(severityOrder)-1-i]
		if count[v] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[v], verdictWords[v]))
		}
	}
	if len(parts) == 0 {
		parts = append(parts, "nothing was measured")
	}
	_, err := fmt.Fprintf(w, "\n%s; exit code %d, %.1f s\n", strings.Join(parts, ", "), rep.ExitCode, rep.Seconds)
	return err
}

func groupRow(t io.Writer, g measured.ReportGroup, wide bool) {
	errText, interval := "-", "-"
	if g.Predicted.Us > 0 {
		interval = fmt.Sprintf("%s - %s", us(g.Predicted.P10Us), us(g.Predicted.P90Us))
		if g.Times.Repeats > 0 {
			errText = fmt.Sprintf("%+.1f%%", g.Error)
		}
	}
	verdict := verdictWords[g.Verdict]
	if g.Verdict == measured.VerdictSkipped && g.Times.Repeats > 0 {
		verdict += " (no prediction)"
	}
	fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s", g.Kind, rankList(g.Members), g.Op, units.Bytes(g.Bytes), g.Launch,
		clock(g.Times.MedianUs), clock(g.Predicted.Us), interval, errText, rate(g.BusGBps), rate(g.Predicted.BusGBps), verdict)
	if wide {
		chosen := "-"
		if c := g.Choice; c != nil {
			chosen = strings.Join(strings.Fields(fmt.Sprintf("%s %s %s", c.Algorithm, c.Protocol, c.Transport)), " ")
		}
		fmt.Fprintf(t, "\t%s\t%.1f%%\t%s\t%s", clock(g.Times.MeanUs), g.Times.Spread, rate(g.AlgGBps), chosen)
	}
	fmt.Fprintln(t)
}

// rankList prints consecutive ranks as a range.
func rankList(r []int) string {
	if len(r) > 2 && r[len(r)-1]-r[0] == len(r)-1 {
		return fmt.Sprintf("%d-%d", r[0], r[len(r)-1])
	}
	if len(r) > 8 {
		return fmt.Sprintf("%d,%d..%d (%d)", r[0], r[1], r[len(r)-1], len(r))
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(r), " ", ","), "[]")
}

func clock(v float64) string {
	if v <= 0 {
		return "-"
	}
	return us(v)
}

func rate(gbps float64) string {
	if gbps <= 0 {
		return "-"
	}
	return units.Signif(gbps, 4) + " GB/s"
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return printable(s)
}

// printable drops control characters, so that text from a library cannot drive the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r < 0x20 || r == 0x7f || r >= 0x80 && r < 0xa0:
			return -1
		}
		return r
	}, s)
}
