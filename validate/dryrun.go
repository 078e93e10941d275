package validate

import (
	"fmt"
	"io"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
)

// Rehearsal is what a run would do: who is started, and what is measured.
type Rehearsal struct {
	Processes int               `yaml:"processes" json:"processes"` // child processes, on all nodes
	Program   string            `yaml:"program" json:"program"`
	Limit     string            `yaml:"limit" json:"limit"` // of the whole run
	Ranks     []RehearsedRank   `yaml:"ranks" json:"ranks"`
	Families  []RehearsedFamily `yaml:"families" json:"families"`
	Mixes     []RehearsedMix    `yaml:"mixes" json:"mixes"`
}

// RehearsedRank is a rank and its GPU.
type RehearsedRank struct {
	Rank int    `yaml:"rank" json:"rank"`
	Host string `yaml:"host" json:"host"`
	GPU  int    `yaml:"gpu" json:"gpu"`
	PCI  string `yaml:"pci,omitempty" json:"pci,omitempty"`
	UUID string `yaml:"uuid,omitempty" json:"uuid,omitempty"`
}

// RehearsedFamily is the groups of one kind, one communicator each, and what is measured on them.
type RehearsedFamily struct {
	Kind     parallel.Dim         `yaml:"kind" json:"kind"`
	Groups   [][]int              `yaml:"groups,flow" json:"groups"` // ranks
	Measures []RehearsedMeasuring `yaml:"measures" json:"measures"`
}

// RehearsedMeasuring is a collective that is verified once and timed.
type RehearsedMeasuring struct {
	Op       parallel.Op `yaml:"op" json:"op"`
	Bytes    int64       `yaml:"bytes" json:"bytes"`
	DType    string      `yaml:"dtype" json:"dtype"`
	From     string      `yaml:"from" json:"from"`   // layout, or sweep
	Units    int         `yaml:"units" json:"units"` // groups or pairs that are timed alone
	Launches []string    `yaml:"launches,flow" json:"launches"`
}

// RehearsedMix is a phase whose collectives are timed as a layer issues them.
type RehearsedMix struct {
	Phase       string   `yaml:"phase" json:"phase"`
	Collectives []string `yaml:"collectives" json:"collectives"`
}

// Rehearse works out what a run of the job would do. It opens nothing.
func Rehearse(j *Job, m Measuring, d Deadlines, launch Launch) *Rehearsal {
	out := &Rehearsal{Processes: j.World(), Program: launch.Exe, Limit: d.Total.String(), Ranks: []RehearsedRank{}, Families: []RehearsedFamily{}, Mixes: []RehearsedMix{}}
	for _, r := range j.Ranks {
		out.Ranks = append(out.Ranks, RehearsedRank{Rank: r.Rank, Host: r.Host, GPU: r.GPU, PCI: r.PCI, UUID: r.UUID})
	}
	families := j.families()
	for i, f := range families {
		x := RehearsedFamily{Kind: f.kind, Groups: [][]int{}, Measures: []RehearsedMeasuring{}}
		for _, g := range f.groups {
			x.Groups = append(x.Groups, g.Members)
		}
		for _, s := range f.specs(m.Sweep) {
			from := "layout"
			if s.sweep {
				from = "sweep"
			}
			x.Measures = append(x.Measures, RehearsedMeasuring{Op: s.op, Bytes: s.bytes, DType: s.dtype, From: from, Units: len(f.units(i, s.op)), Launches: launches(m)})
		}
		out.Families = append(out.Families, x)
	}
	if m.Mix {
		for _, x := range mixes(families) {
			out.Mixes = append(out.Mixes, RehearsedMix{Phase: x.phase, Collectives: x.words})
		}
	}
	return out
}

// nodes is over how many nodes the ranks are spread.
func (r *Rehearsal) nodes() int {
	hosts := map[string]bool{}
	for i := range r.Ranks {
		hosts[r.Ranks[i].Host] = true
	}
	return len(hosts)
}

// WriteText prints a rehearsal for people.
func (r *Rehearsal) WriteText(w io.Writer) error {
	var err error
	say := func(format string, a ...any) {
		if err == nil {
			_, err = fmt.Fprintf(w, format, a...)
		}
	}
	if n := r.nodes(); n > 1 {
		say("under a launcher, which starts a copy of %s for each rank or node, %d child processes on %d nodes; without one it is refused; stops after at most %s\n", r.Program, r.Processes, n, r.Limit)
	} else {
		say("would start %d child processes of %s on this node, joined at 127.0.0.1 (a free port), and stop after at most %s\n", r.Processes, r.Program, r.Limit)
	}
	for _, x := range r.Ranks {
		gpu := fmt.Sprintf("GPU %d", x.GPU)
		if x.PCI != "" {
			gpu += " " + x.PCI
		}
		if x.UUID != "" {
			gpu += " " + x.UUID
		}
		say("  rank %d on %s: %s\n", x.Rank, x.Host, gpu)
	}
	for _, f := range r.Families {
		say("%s: %d group(s), one communicator each\n", f.Kind, len(f.Groups))
		for _, g := range f.Groups {
			say("  ranks %s\n", rankList(g))
		}
		for _, s := range f.Measures {
			say("  %s %s %s (%s): verify, then time %d unit(s) alone, %v\n", s.Op, units.Bytes(s.Bytes), s.DType, s.From, s.Units, s.Launches)
		}
	}
	for _, x := range r.Mixes {
		say("mix of phase %s: %v\n", orDash(x.Phase), x.Collectives)
	}
	return err
}

func launches(m Measuring) []string {
	l := []string{}
	if m.Graph {
		l = append(l, "graph")
	}
	if m.Eager {
		l = append(l, "eager")
	}
	return l
}
