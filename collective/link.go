package collective

import (
	"errors"
	"fmt"
	"strings"

	"rankmap/internal/hardware"
	"rankmap/internal/units"
	"rankmap/topology"
)

// Which link joins the members of a group decides which form and which profile answers.

// linked is the answer: the profile brought to the group's link, and what the estimate rests on.
type linked struct {
	profile *hardware.CollectiveProfile
	prov    Provenance
}

// findLink decides what joins the members of one endpoint and brings the profile to it.
func (m *Model) findLink(rt *route, s *topology.Shape, p *hardware.CollectiveProfile, prov Provenance) (linked, error) {
	kind, rate, name, err := m.groupLink(s, p)
	if err != nil {
		if !m.opts.Assume {
			return linked{}, fmt.Errorf("%w; --assume prices it with a wide interval", err)
		}
		kind, rate, prov = p.Link, p.LinkGBps, Assumed
		name = "link at an unknown rate, assumed"
		rt.flag("%v: assumed %v like %s", err, units.GBps(rate), p.System)
	}
	share := 1.0
	if kind != p.Link {
		// The GPU was measured on the other kind of link.
		near := nearestProfile(m.profiles, kind, rate, "")
		if near == nil {
			return linked{}, fmt.Errorf("no profile of a %s link (known: %s)", kind, strings.Join(m.profiles.Systems(), ", "))
		}
		rt.flag("joined by %s, which no measurement of %s covers: priced like %s", name, s.GPU, near.System)
		p, prov = near, max(prov, OtherGen)
	}
	p = Resolve(m.profiles, p)
	if prov >= OtherGen {
		share = transferShare
	}
	if r := rate / p.LinkGBps; share < 1 || r != 1 {
		p = relinked(p, rate, share)
		for i := range p.Curves {
			p.Curves[i].Other = p.Curves[i].Other || share < 1 || r < 0.9 || r > 1.1 // no longer what was measured
		}
	}
	rt.bottleneck = name + " " + units.GBps(rate).String()
	return linked{p, prov}, nil
}

// groupLink is the kind, rate (GB/s one way a GPU) and name of the link inside an endpoint. Groups with one rank an endpoint
// have none; for them it is the profile's own, which the form then does not use.
func (m *Model) groupLink(s *topology.Shape, p *hardware.CollectiveProfile) (kind string, rate float64, name string, err error) {
	switch {
	case s.Network && s.RanksPerEndpointMax < 2:
		return p.Link, p.LinkGBps, "no link inside a node", nil
	case s.PCIeUsed || (p.Link == "pcie" && s.LinkBW == 0):
		rate = s.PCIeBW.GBps()
		if p.Link == "pcie" && (rate == 0 || rate > 0.9*p.LinkGBps) {
			rate = p.LinkGBps // profiles count the nominal rate
		}
		if rate <= 0 {
			return "", 0, "", errors.New("members joined by PCIe at an unknown rate")
		}
		if s.PCIeShare > 1 {
			rate /= float64(s.PCIeShare)
		}
		return "pcie", rate, "PCIe", nil
	case s.LinkBW > 0:
		return "nvlink", s.LinkBW.GBps(), "NVLink", nil
	case !s.DomainsKnown:
		return "", 0, "", errors.New("the source does not show whether NVLink joins the members")
	}
	return "", 0, "", fmt.Errorf("members joined by NVLink at an unknown rate (known GPUs: %s)", strings.Join(m.profiles.Systems(), ", "))
}

// networkLink adds the network between endpoints.
func (m *Model) networkLink(rt *route, s *topology.Shape, prov *Provenance) (*hardware.FabricProfile, error) {
	nic := s.NICBW.GBps()
	if nic <= 0 {
		if !m.opts.Assume {
			return nil, errors.New("the group crosses nodes and the NIC rate is not known: state it (--nic-rate 400G)")
		}
		*prov = Assumed
		nic = 12.5 * float64(max(s.RanksPerEndpointMin, 1)) // 100 Gb/s a GPU, the slowest in use
		rt.flag("NIC rate not known: assumed 100 Gb/s a GPU")
	}
	f := m.profiles.Fabric(string(s.Fabric))
	if f == nil {
		if f = m.profiles.Fabric("rdma"); f == nil {
			return nil, fmt.Errorf("no fabric profile for %q (known: %s)", s.Fabric, strings.Join(m.profiles.Fabrics(), ", "))
		}
		if s.Fabric != topology.FabricUnknown {
			rt.flag("no profile for fabric %s: priced as RDMA", s.Fabric)
		}
	}
	g := max(s.RanksPerEndpointMax, 1)
	rt.net = &networkForm{domainForm: rt.pred.form, Fabric: &f.Params, Nodes: s.Endpoints, PerNode: g, NICGBps: nic, PAT: rt.minor >= patSinceMinor,
		SHARP: s.Fabric == topology.FabricInfiniBand && (m.opts.SHARP || m.cluster != nil && m.cluster.Fabric.SHARP) && !rt.oneByte}
	*prov = max(*prov, Network)
	if s.RanksPerEndpointMin < s.RanksPerEndpointMax {
		rt.flag("uneven group: %d to %d ranks a node", s.RanksPerEndpointMin, s.RanksPerEndpointMax)
	}
	if f.MaxRanks > 0 && s.Ranks > f.MaxRanks {
		rt.extrapolated = true
		rt.flag("extrapolated: %d ranks, the largest group on this fabric for which the form holds has %d; congestion beyond it is not in the time", s.Ranks, f.MaxRanks)
	}
	outside := nicName(s, nic)
	if s.UplinksLimit {
		outside = "leaf uplinks " + units.GBps(nic).String()
	}
	if intra := rt.pred.form.LinkGBps * rt.pred.form.Params.EAR; g == 1 || nic < intra {
		rt.bottleneck = outside
	} else {
		rt.bottleneck += " in the node, " + outside + " between nodes"
	}
	return f, nil
}

// nicName puts the NICs in words: "NIC 50 GB/s x 8".
func nicName(s *topology.Shape, gbps float64) string {
	if s.NICs > 1 {
		return "NIC " + units.GBps(gbps/float64(s.NICs)).String() + fmt.Sprintf(" x %d", s.NICs)
	}
	return "NIC " + units.GBps(gbps).String()
}
