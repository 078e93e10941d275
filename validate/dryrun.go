package validate

import (
	"fmt"
	"io"

	"rankmap/internal/units"
)

// DryRun prints what a run would do. It opens no socket and loads no library.
func DryRun(w io.Writer, j *Job, m Measuring, d Deadlines, launch Launch) error {
	fmt.Fprintf(w, "would start %d child processes of %s on this node, joined at 127.0.0.1 (a free port), and stop after at most %v\n", j.World(), launch.Exe, d.Total)
	for _, r := range j.Ranks {
		gpu := fmt.Sprintf("GPU %d", r.GPU)
		if r.PCI != "" {
			gpu += " " + r.PCI
		}
		if r.UUID != "" {
			gpu += " " + r.UUID
		}
		fmt.Fprintf(w, "  rank %d on %s: %s\n", r.Rank, r.Host, gpu)
	}
	for i, f := range j.families() {
		fmt.Fprintf(w, "%s: %d group(s), one communicator each\n", f.kind, len(f.groups))
		for _, g := range f.groups {
			fmt.Fprintf(w, "  ranks %s\n", rankList(g.Members))
		}
		for _, s := range f.specs(m.Sweep) {
			from := "layout"
			if s.sweep {
				from = "sweep"
			}
			fmt.Fprintf(w, "  %s %s %s (%s): verify, then time %d unit(s) alone, %v\n", s.op, units.Bytes(s.bytes), s.dtype, from, len(f.units(i, s.op)), launches(m))
		}
	}
	for _, x := range mixes(j.families()) {
		if m.Mix {
			fmt.Fprintf(w, "mix of phase %s: %v\n", orDash(x.phase), x.words)
		}
	}
	return nil
}

func launches(m Measuring) []string {
	var l []string
	if m.Graph {
		l = append(l, "graph")
	}
	if m.Eager {
		l = append(l, "eager")
	}
	return l
}
