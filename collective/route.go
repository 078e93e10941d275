package collective

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"rankmap/internal/hardware"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/topology"
)

// route is one group shape worked out: which form, with which parameters, and what to say about it.
type route struct {
	n          int
	pred       *predictor // inside one domain
	net        *networkForm
	corrected  bool // the correction applies: same link as in the profile
	minor      float64
	oneByte    bool
	prov       [numGridOps]Provenance
	bands      [numGridOps][numSizes]logBand
	floorUs    float64
	bottleneck string
	flags      []string // of the route
	misaligned []string // the same with the warning on chunks
	multicast  bool
}

// newRoute works a shape out.
func (m *Model) newRoute(key *routeKey) (*route, error) {
	s := &key.shape
	rt := &route{n: s.Ranks, oneByte: key.oneByte, minor: math.NaN()}
	p, prov, err := m.profileFor(s.GPU)
	if err != nil {
		if !m.opts.Assume {
			return nil, err
		}
		if p, err = m.nearest(s); err != nil {
			return nil, err
		}
		prov = Assumed
		rt.flags = append(rt.flags, "no profile for this GPU: priced like "+p.System+" on its own link")
	}
	if prov == Sibling || prov == OtherGen {
		rt.flags = append(rt.flags, fmt.Sprintf("no measurements of %s: priced like %s", s.GPU, p.System))
	}
	if s.Mixed {
		rt.flags = append(rt.flags, "members of different GPU models: priced like "+s.GPU)
	}
	if key.library != "" && len(p.Libraries) > 0 && !slices.Contains(p.Libraries, key.library) && !sameMinor(p.Libraries, key.library) {
		rt.flags = append(rt.flags, fmt.Sprintf("library %s outside the profile (measured: %s)", key.library, strings.Join(p.Libraries, ", ")))
	}
	pr := newPredictor(p)
	pr.form.Multicast = pr.form.Multicast && !m.opts.NoMulticast && (s.Multicast || s.Wiring == topology.NVLinkNone)
	rt.pred, rt.minor, rt.corrected = pr, pr.minorOf(key.library), true
	if err := m.domainLink(rt, s, p, &prov); err != nil {
		return nil, err
	}
	if s.Network {
		if err := m.networkLink(rt, s, &prov); err != nil {
			return nil, err
		}
	}
	rt.multicast = pr.form.Multicast
	if h := m.profiles.Host(s.GPU); h != nil {
		rt.floorUs = h.FloorUs
	}
	for op := range numGridOps {
		rt.prov[op] = opProvenance(prov, pr.grid, parallel.Op(op), s.Ranks, key.oneByte)
	}
	rt.setBands(p, s)
	rt.misaligned = append(slices.Clip(rt.flags), "chunks are not a multiple of 16 bytes: may be many times slower")
	return rt, nil
}

// domainLink decides what joins the members of one endpoint.
func (m *Model) domainLink(rt *route, s *topology.Shape, p *hardware.CollectiveProfile, prov *Provenance) error {
	link, name := s.LinkBW.GBps(), "NVLink"
	pcie := s.PCIeUsed || (s.Ranks > 1 && p.Link == "pcie")
	local := !s.Network || s.RanksPerEndpointMax > 1
	switch {
	case !local:
		return nil
	case pcie && p.Link == "pcie":
		link, name = p.LinkGBps, "PCIe"
		if s.PCIeShare > 1 {
			link /= float64(s.PCIeShare)
		}
		if s.PCIeBW > 0 && s.PCIeBW.GBps() < 0.9*link { // a slower slot than the one measured
			link, rt.corrected = s.PCIeBW.GBps(), false
		}
	case pcie:
		// The GPU was measured over NVLink; over PCIe only a band of several times is honest.
		if s.PCIeBW <= 0 {
			return m.unknownLink(rt, prov, "PCIe at an unknown rate", p, 32)
		}
		if !m.opts.Assume && !s.DomainsKnown {
			return fmt.Errorf("whether NVLink joins the GPUs is not known: the source cannot show it")
		}
		link, name, rt.corrected = s.PCIeBW.GBps()/float64(max(s.PCIeShare, 1)), "PCIe", false
		*prov = Assumed
		rt.flags = append(rt.flags, "joined by PCIe, which no profile of "+p.System+" covers")
	case !s.DomainsKnown && link <= 0:
		return m.unknownLink(rt, prov, "unknown NVLink", p, p.LinkGBps)
	default:
		if s.Wiring == topology.NVLinkCubeMesh && s.RingBW > 0 && s.Ranks > 2 {
			name = "NVLink (cube mesh)"
		}
		if link <= 0 {
			return m.unknownLink(rt, prov, "NVLink at an unknown rate", p, p.LinkGBps)
		}
	}
	if r := link / p.LinkGBps; r < 0.9 || r > 1.1 {
		rt.corrected = false // thresholds of the library sit elsewhere
	}
	rt.pred.form.LinkGBps = link
	rt.bottleneck = name + " " + units.GBps(link).String()
	return nil
}

// unknownLink refuses, or with Assume goes on with the given rate.
func (m *Model) unknownLink(rt *route, prov *Provenance, what string, p *hardware.CollectiveProfile, gbps float64) error {
	if !m.opts.Assume {
		return fmt.Errorf("%s between GPUs %s: no profile covers it (known: %s); --assume prices it with a wide interval",
			what, p.System, strings.Join(m.profiles.Systems(), ", "))
	}
	*prov = Assumed
	rt.corrected = false
	rt.pred.form.LinkGBps = gbps
	rt.bottleneck = what
	rt.flags = append(rt.flags, what+": assumed "+units.GBps(gbps).String())
	return nil
}

// networkLink adds the network between endpoints.
func (m *Model) networkLink(rt *route, s *topology.Shape, prov *Provenance) error {
	nic := s.NICBW.GBps()
	if nic <= 0 {
		if !m.opts.Assume {
			return fmt.Errorf("the group crosses nodes and the NIC rate is not known: state it (--nic-rate 400G)")
		}
		nic = 12.5 * float64(max(s.RanksPerEndpointMax, 1)) // 100 Gb/s a GPU, the slowest in use
		rt.flags = append(rt.flags, "NIC rate not known: assumed 100 Gb/s a GPU")
	}
	f := m.profiles.Fabric(string(s.Fabric))
	if f == nil {
		if f = m.profiles.Fabric("rdma"); f == nil {
			return fmt.Errorf("no fabric profile for %q (known: %s)", s.Fabric, strings.Join(m.profiles.Fabrics(), ", "))
		}
		if s.Fabric != topology.FabricUnknown {
			rt.flags = append(rt.flags, fmt.Sprintf("no profile for fabric %s: priced as RDMA", s.Fabric))
		}
	}
	g := max(s.RanksPerEndpointMax, 1)
	rt.net = &networkForm{domainForm: rt.pred.form, Fabric: &f.Params, Nodes: s.Endpoints, PerNode: g, NICGBps: nic}
	if *prov < Network {
		*prov = Network
	}
	if s.RanksPerEndpointMin < s.RanksPerEndpointMax {
		rt.flags = append(rt.flags, fmt.Sprintf("uneven group: %d to %d ranks a node", s.RanksPerEndpointMin, s.RanksPerEndpointMax))
	}
	if intra := rt.pred.form.LinkGBps; g == 1 || nic < intra*rt.pred.form.Params.EAR {
		rt.bottleneck = nicName(s, nic)
		if s.UplinksLimit {
			rt.bottleneck = "leaf uplinks " + units.GBps(nic).String()
		}
	}
	return nil
}

// nicName puts the NICs in words: "NIC 50 GB/s x 8".
func nicName(s *topology.Shape, gbps float64) string {
	if s.NICs > 1 {
		return "NIC " + units.GBps(gbps/float64(s.NICs)).String() + fmt.Sprintf(" x %d", s.NICs)
	}
	return "NIC " + units.GBps(gbps).String()
}

// nearest is the profile whose link is closest to the group's.
func (m *Model) nearest(s *topology.Shape) (*hardware.CollectiveProfile, error) {
	var best *hardware.CollectiveProfile
	want := s.LinkBW.GBps()
	kind := "nvlink"
	if want <= 0 {
		want, kind = max(s.PCIeBW.GBps(), 16), "pcie"
	}
	for _, sys := range m.profiles.Systems() {
		p := m.profiles.Collective(sys)
		if p.Domain == nil || p.Link != kind {
			continue
		}
		if best == nil || math.Abs(math.Log(p.LinkGBps/want)) < math.Abs(math.Log(best.LinkGBps/want)) {
			best = p
		}
	}
	if best == nil {
		return nil, fmt.Errorf("no profile with a link of this kind (known: %s)", strings.Join(m.profiles.Systems(), ", "))
	}
	return best, nil
}

// opProvenance lowers Measured to Calibrated where the correction does not cover the operation at this group size.
func opProvenance(prov Provenance, g *grid, op parallel.Op, n int, oneByte bool) Provenance {
	if prov == Measured && !g.covers(gridKey{op, oneByte}, n) {
		return Calibrated
	}
	return prov
}

// setBands fills the intervals.
func (rt *route) setBands(p *hardware.CollectiveProfile, s *topology.Shape) {
	for op := range rt.bands {
		rt.bands[op] = newBandTable(p.Bands, rt.prov[op])[op]
	}
	if p.Link == "pcie" && rt.prov[parallel.AllReduce] == OtherGen {
		for op := range rt.bands {
			rt.bands[op] = pcieUnmeasured
		}
	}
}

// pcieUnmeasured is the band of a PCIe box without measurements of its own: with peer-to-peer off such boxes measured up
// to six times slower than the profile (COLLECTIVE-MODEL, section 2, l40s).
var pcieUnmeasured = [numSizes]logBand{{-.4, 1.8}, {-.4, 1.8}, {-.4, 1.8}}

// sameMinor says whether a version of the list has the minor number of v.
func sameMinor(versions []string, v string) bool {
	m, ok := minorVersion(v)
	return ok && slices.ContainsFunc(versions, func(o string) bool {
		k, ok := minorVersion(o)
		return ok && k == m
	})
}

// micros is the time without launch floor, us.
func (rt *route) micros(op parallel.Op, bytes float64) float64 {
	if rt.net != nil {
		return rt.net.Micros(op, bytes, rt.oneByte)
	}
	if rt.corrected {
		return rt.pred.hybrid(op, rt.n, bytes, rt.oneByte, rt.minor)
	}
	return rt.pred.physical(op, rt.n, bytes, rt.oneByte)
}

// estimate answers a request. It allocates nothing.
func (rt *route) estimate(r *Request) Estimate {
	us := rt.micros(r.Op, float64(r.Bytes))
	t := units.Micros(us)
	band := rt.bands[r.Op][classOf(r.Bytes)]
	e := Estimate{Time: t, Provenance: rt.prov[r.Op], Bottleneck: rt.bottleneck, Flags: rt.flags}
	e.P10, e.P90 = band.interval(t)
	if r.Launch == Eager {
		floor := units.Micros(rt.floorUs)
		e.Time, e.P10, e.P90 = max(e.Time, floor), max(e.P10, floor), max(e.P90, floor)
	}
	if r.Op == parallel.AllToAll && !chunkAligned(r.Bytes, rt.n) {
		e.Flags = rt.misaligned
	}
	e.Algorithm, e.Protocol = rt.choice(r.Op, float64(r.Bytes))
	e.BusBW = BusBandwidth(r.Op, rt.n, r.Bytes, e.Time)
	return e
}
