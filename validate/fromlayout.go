package validate

import (
	"fmt"

	"rankmap/layout"
)

// FromLayout takes the measurable part of a layout. Digest is the SHA-256 of the document's bytes. Groups of one rank are
// left out.
func FromLayout(l *layout.Layout, name, digest string) *Job {
	j := &Job{Name: name, Digest: digest}
	for _, r := range l.Ranks {
		j.Ranks = append(j.Ranks, JobRank{Rank: r.Rank, Host: r.Host, LocalRank: r.LocalRank, GPU: r.GPU, UUID: r.UUID, PCI: r.PCI, NICs: r.NICs})
	}
	for _, g := range l.Groups {
		if len(g.Members) < 2 {
			continue
		}
		jg := JobGroup{Kind: g.Kind, Members: g.Members}
		for _, c := range g.Collectives {
			jc := JobCollective{
				Name: c.Name, Phase: c.Phase, Op: c.Op, Bytes: c.Bytes, DType: c.DType, TimesPerStep: c.TimesPerStep,
			}
			switch {
			case c.Us > 0 && !nccls(c.Protocol):
				jc.Kernel = fmt.Sprintf("%s %s, %.4g us", c.Protocol, c.Algorithm, c.Us)
			case c.Us > 0:
				jc.Predicted = &Prediction{Us: c.Us, P10Us: c.P10Us, P90Us: c.P90Us, Algorithm: c.Algorithm, Protocol: c.Protocol, Basis: c.Basis}
			}
			jg.Collectives = append(jg.Collectives, jc)
		}
		j.Groups = append(j.Groups, jg)
	}
	return j
}

// nccls says whether a protocol is one of NCCL's; a library's own kernel has the library's name in its place.
func nccls(protocol string) bool {
	switch protocol {
	case "", "LL", "LL128", "Simple":
		return true
	}
	return false
}
