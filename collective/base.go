package collective

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"rankmap/internal/hardware"
)

// transferShare is how much of another generation's correction is kept. Another generation with eight all_reduce points
// is then predicted to 5.1 % in the median; 5.3 with half of the correction, 5.4 without, 6 with all of it.
const transferShare = 0.3

// BaseFor returns the profile from which a system's calibration starts: its own; else its sibling's; else the one with
// the nearest link of the same kind, brought to the system's link. The link kind decides: no NVLink profile serves a PCIe
// machine. relation says which it was.
func BaseFor(profiles *hardware.Profiles, gpu *hardware.GPU) (p *hardware.CollectiveProfile, relation Provenance, err error) {
	own := profiles.Collective(gpu.System)
	if own != nil && own.Domain != nil {
		return Resolve(profiles, own), Measured, nil
	}
	if own != nil && own.Like != "" {
		if like := profiles.Collective(own.Like); like != nil && like.Domain != nil {
			if own.Relation == "sibling" {
				return Transfer(Resolve(profiles, like), gpu, true), Sibling, nil
			}
			return Transfer(Resolve(profiles, like), gpu, false), OtherGen, nil
		}
	}
	kind, link := linkOf(gpu)
	best := nearestProfile(profiles, kind, link, gpu.System)
	if best == nil {
		return nil, Assumed, fmt.Errorf("no profile with a link like that of %s (known: %s)", gpu.System, strings.Join(profiles.Systems(), ", "))
	}
	return Transfer(Resolve(profiles, best), gpu, false), OtherGen, nil
}

// Resolve returns a copy that holds its siblings' curves itself.
func Resolve(profiles *hardware.Profiles, p *hardware.CollectiveProfile) *hardware.CollectiveProfile {
	c := *p
	c.Curves = slices.Clone(p.Curves)
	for _, name := range p.Siblings {
		s := profiles.Collective(name)
		if s == nil || s.Domain == nil {
			continue
		}
		c.Curves = append(c.Curves, borrowed(s.Curves)...)
	}
	c.Siblings = nil
	return &c
}

// borrowed copies a sibling's curves and marks them.
func borrowed(curves []hardware.Curve) []hardware.Curve {
	out := slices.Clone(curves)
	for i := range out {
		out[i].Other, out[i].Sibling = true, true
	}
	return out
}

// Transfer brings a profile to another system: same parameters, that system's link, the correction moved to the sizes
// at which the other link has the same times (all of it for a sibling, a part for another generation). Local shares grow
// with the link (see localAR): with its root, half way between what sibling and strange systems show.
func Transfer(from *hardware.CollectiveProfile, gpu *hardware.GPU, sibling bool) *hardware.CollectiveProfile {
	kind, link := linkOf(gpu)
	share := transferShare
	if sibling {
		share = 1
	}
	p := relinked(from, link, share)
	shift := math.Log2(link / from.LinkGBps)
	for i := range p.Curves {
		for k := range p.Curves[i].Log2 {
			p.Curves[i].Log2[k] = decimals(p.Curves[i].Log2[k]+shift, 4)
		}
	}
	for i := range p.Curves {
		p.Curves[i].Other = true
	}
	d := *from.Domain
	if !sibling {
		for _, f := range []*float64{&d.FAR, &d.FAG} {
			*f = min(*f*math.Sqrt(link/from.LinkGBps), 0.9)
		}
	}
	p.System, p.Link, p.Multicast, p.Domain = gpu.System, kind, gpu.Multicast, &d
	p.Source = "taken over from " + from.System + ": " + from.Source
	return p
}

// relinked is a profile on another link rate (GB/s), with a share of its correction at the sizes where it was: that a link
// with fewer lanes is never faster then follows from the form.
func relinked(from *hardware.CollectiveProfile, link, share float64) *hardware.CollectiveProfile {
	p := *from
	p.LinkGBps, p.Siblings = link, nil
	p.Curves = make([]hardware.Curve, len(from.Curves))
	for i, c := range from.Curves {
		c.Log2, c.R = slices.Clone(c.Log2), slices.Clone(c.R)
		for k := range c.R {
			c.R[k] = decimals(c.R[k]*share, 4)
		}
		p.Curves[i] = c
	}
	return &p
}

// linkOf is the kind and rate of the link that profiles of a GPU refer to. PCIe counts 64 GB/s for 16 lanes of
// generation 5 and half for each older one.
func linkOf(gpu *hardware.GPU) (kind string, gbps float64) {
	if gpu.NVLinks > 0 {
		return "nvlink", gpu.NVLink().GBps()
	}
	return "pcie", 64 * float64(gpu.PCIeWidth) / 16 * math.Pow(2, float64(gpu.PCIeGen-5))
}

// nearestProfile is the fitted profile whose link of the kind is closest to the rate; nil if there is none.
func nearestProfile(profiles *hardware.Profiles, kind string, gbps float64, except string) *hardware.CollectiveProfile {
	var best *hardware.CollectiveProfile
	for _, sys := range profiles.Systems() {
		p := profiles.Collective(sys)
		if p.Domain == nil || p.Link != kind || p.System == except {
			continue
		}
		if best == nil || math.Abs(math.Log(p.LinkGBps/gbps)) < math.Abs(math.Log(best.LinkGBps/gbps)) {
			best = p
		}
	}
	return best
}

// Target is an empty profile of a GPU for FitDomain: what is known of a system before any measurement.
func Target(gpu *hardware.GPU, source string) hardware.CollectiveProfile {
	kind, link := linkOf(gpu)
	return hardware.CollectiveProfile{System: gpu.System, Link: kind, LinkGBps: link, Multicast: gpu.Multicast, NVLSFromRanks: nvlsRanks, Source: source}
}
