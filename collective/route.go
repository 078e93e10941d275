package collective

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"rankmap/collective/nccltune"
	"rankmap/internal/hardware"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/topology"
)

// route is one group shape worked out: which form, with which parameters, and what to say about it.
type route struct {
	n            int
	pred         *Predictor   // inside one domain
	net          *networkForm // across domains; nil inside one
	extrapolated bool         // more ranks than the fabric's form was seen to hold for
	tables       timeTables   // inside one domain
	compute      func(op parallel.Op, bytes float64) float64
	tuner        *nccltune.Tuner // NCCL's own choice; nil where the machine is not known well enough
	minor        float64         // library version at which the correction is asked
	oneByte      bool
	prov         [numGridOps]Provenance
	bands        [numGridOps][numSizes]logBand // launched from a graph
	eager        [numGridOps][numSizes]logBand // launched by the host
	floorUs      float64
	custom       *customRoute // a framework's all_reduce; nil = NCCL's
	portShare    int          // groups on its busiest NVLink port, itself included
	bottleneck   string
	flags        []string // of the route
	misaligned   []string // the same with the warning on chunks
	special      []string // the same with the word that the way across nodes is an estimate
	fused        []string // the same with the word that the norm fused into the kernel is one
}

// newRoute works a shape out.
func (m *Model) newRoute(key *routeKey) (*route, error) {
	s := &key.shape
	rt := &route{n: s.Ranks, oneByte: key.oneByte}
	p, prov, err := m.profileFor(s.GPU)
	if err != nil {
		if !m.opts.Assume {
			return nil, err
		}
		if p, err = m.nearest(s); err != nil {
			return nil, err
		}
		prov = Assumed
		rt.flag("no profile for this GPU: priced like %s on its own link", p.System)
	}
	if prov == Sibling || prov == OtherGen {
		rt.flag("no measurements of %s: priced like %s", s.GPU, p.System)
	}
	if s.Mixed {
		rt.flag("members of different GPU models: priced like %s", s.GPU)
	}
	link, err := m.findLink(rt, s, p, prov)
	if err != nil {
		return nil, err
	}
	p, prov = link.profile, link.prov
	version := versionMeasured(p.Libraries, key.library)
	if version == versionOutside {
		rt.flag("library %s outside the profile (measured: %s)", key.library, strings.Join(p.Libraries, ", "))
	}
	pr := NewPredictor(p)
	pr.form.Multicast = pr.form.Multicast && !m.opts.NoMulticast && (s.Multicast || s.RanksPerEndpointMax < 2)
	rt.pred, rt.minor = pr, pr.minorOf(key.library)
	rt.compute = func(op parallel.Op, bytes float64) float64 { return pr.hybrid(op, rt.n, bytes, rt.oneByte, rt.minor) }
	var fabric *hardware.FabricProfile
	if s.Network {
		if fabric, err = m.networkLink(rt, s, &prov); err != nil {
			return nil, err
		}
		rt.net.BulkTree = p.Multicast
	}
	rt.portShare = s.PortShare
	if s.PortShare > 1 && !s.PCIeUsed {
		rt.flag("%d groups on one NVLink port at the same time", s.PortShare)
	}
	rt.tuner = m.tuner(s, key)
	rt.floorUs = p.FloorUs
	host := m.profiles.Host(s.GPU)
	if host != nil && rt.floorUs == 0 {
		rt.floorUs = host.FloorUs
	}
	for op := range numGridOps {
		rt.prov[op] = opProvenance(prov, pr.grid, parallel.Op(op), s.Ranks, key.oneByte)
	}
	rt.setBands(p, fabric, host, version)
	m.takeKernels(rt, s, p)
	if s.Wiring == topology.NVLinkCubeMesh && s.PairBW == 0 && !s.PCIeUsed {
		rt.flag("some pairs of members have no direct NVLink: all_to_all may take longer")
	}
	if rt.net != nil && rt.net.SHARP {
		rt.special = append(slices.Clip(rt.flags), flagSHARP)
	} else {
		rt.special = append(slices.Clip(rt.flags), flagPAT)
	}
	rt.fused = append(slices.Clip(rt.flags), flagFused)
	rt.misaligned = append(slices.Clip(rt.flags), "chunks are not a multiple of 16 bytes: may be many times slower")
	return rt, nil
}

func (rt *route) flag(format string, args ...any) {
	rt.flags = append(rt.flags, fmt.Sprintf(format, args...))
}

// opProvenance lowers Measured to Calibrated where the correction does not cover the operation at this group size.
func opProvenance(prov Provenance, g *grid, op parallel.Op, n int, oneByte bool) Provenance {
	if prov == Measured && !g.covers(gridKey{op, oneByte}, n) {
		return Calibrated
	}
	return prov
}

// versionState says how the library asked for relates to those measured.
type versionState uint8

const (
	versionKnown   versionState = iota // its minor number was measured
	versionUnknown                     // not stated
	versionOutside                     // stated, and another one
)

func versionMeasured(measured []string, library string) versionState {
	switch {
	case library == "":
		return versionUnknown
	case len(measured) == 0 || slices.Contains(measured, library) || sameMinor(measured, library):
		return versionKnown
	}
	return versionOutside
}

// sameMinor says whether a version of the list has the minor number of v.
func sameMinor(versions []string, v string) bool {
	m, ok := minorVersion(v)
	return ok && slices.ContainsFunc(versions, func(o string) bool {
		k, ok := minorVersion(o)
		return ok && k == m
	})
}

// setBands fills the intervals: by provenance and operation from the profile, by fabric across nodes; eager launches also
// vary with the host.
func (rt *route) setBands(p *hardware.CollectiveProfile, fabric *hardware.FabricProfile, host *hardware.HostProfile, version versionState) {
	for op := range rt.bands {
		prov := rt.prov[op]
		name := prov.String()
		if prov == Measured && version != versionKnown {
			name = "version"
		}
		if prov == Calibrated && rt.pred.grid.between(gridKey{parallel.Op(op), rt.oneByte}, rt.n) && hasBands(p.Bands, "between") {
			name = "between"
		}
		switch {
		case prov == Network && rt.extrapolated && fabric != nil:
			rt.bands[op] = newBandTable(fabric.Bands, prov)[op]
			for c := range rt.bands[op] { // congestion only adds
				b := &rt.bands[op][c]
				b.high = max(b.high, b.low+beyondReach.high-beyondReach.low)
			}
		case prov == Network && rt.extrapolated:
			rt.bands[op] = [numSizes]logBand{beyondReach, beyondReach, beyondReach}
		case prov == Network && fabric != nil:
			rt.bands[op] = newBandTable(fabric.Bands, prov)[op]
		case p.Link == "pcie" && prov >= OtherGen && prov != Network:
			rt.bands[op] = pcieUnmeasured
		default:
			rt.bands[op] = namedBandTable(p.Bands, name, prov)[op]
		}
		rt.eager[op] = rt.bands[op]
		if host == nil || prov >= Network {
			continue
		}
		table := new(bandTable)
		table.spreadBands(host.Bands, "eager")
		for c := range numSizes {
			e := &rt.eager[op][c]
			e.low, e.high = min(e.low, table[op][c].low), max(e.high, table[op][c].high)
		}
	}
}

// beyondReach is the band of groups larger than any for which the form holds. Congestion only adds: twenty racks measured 2.2
// times as long as the form says. No wider than a factor of 3.
var beyondReach = logBand{-0.1, 0.99}

// pcieUnmeasured is the band of a PCIe box without measurements of its own: with peer-to-peer off such boxes measured up
// to six times slower than the profile (docs/collective-model.md, section 8).
var pcieUnmeasured = [numSizes]logBand{{-.4, 1.8}, {-.4, 1.8}, {-.4, 1.8}}

// micros is the time without launch floor, us.
func (rt *route) micros(op parallel.Op, bytes float64) float64 {
	if rt.net != nil {
		return rt.net.Micros(op, bytes, rt.oneByte)
	}
	return rt.tables.micros(op, bytes, rt.compute)
}

// shared is the time without launch floor under the request's bound on channels and beside siblings on the same NVLink
// ports, us.
func (rt *route) shared(r *Request) float64 {
	bytes := float64(r.Bytes)
	t := rt.micros(r.Op, bytes)
	if r.Channels > 0 {
		t = norm4(t, channelMicros(r.Op, rt.n, bytes, r.Channels))
	}
	if rt.portShare > 1 {
		busy := rt.load(r.Op, bytes).port / t
		t *= slowdown(busy, float64(rt.portShare-1)*busy)
	}
	return t
}

// estimate answers a request. It allocates nothing.
func (rt *route) estimate(r *Request) Estimate {
	t := units.Micros(rt.shared(r))
	band := rt.bands[r.Op][classOf(r.Bytes)]
	if r.Launch == Eager {
		t = max(t, units.Micros(rt.floorUs))
		band = rt.eager[r.Op][classOf(r.Bytes)]
	}
	e := Estimate{Time: t, Provenance: rt.prov[r.Op], Bottleneck: rt.bottleneck, Flags: rt.flags}
	if rt.custom != nil && r.Op == parallel.AllReduce {
		return rt.customEstimate(r, e, band)
	}
	e.P10, e.P90 = band.interval(t)
	if r.Op == parallel.AllToAll && !chunkAligned(r.Bytes, rt.n) {
		e.Flags = rt.misaligned
	}
	e.Algorithm, e.Protocol = rt.choice(r.Op, r.Bytes)
	if rt.net != nil {
		if special, name, ok := rt.net.inNetwork(r.Op, float64(r.Bytes)); ok && special <= rt.net.plain(r.Op, float64(r.Bytes), rt.oneByte) {
			e.Algorithm, e.Protocol, e.Flags = name.String(), nccltune.Simple.String(), rt.special
			e.P10, e.P90 = estimated.interval(t)
		}
	}
	e.BusBW = BusBandwidth(r.Op, rt.n, r.Bytes, e.Time)
	return e
}

// estimated is the band of what no measurement stands behind: a factor of 2 either way.
var estimated = logBand{-0.7, 0.7}

// customEstimate puts a framework's own kernel in the place of NCCL's, whose estimate is e.
func (rt *route) customEstimate(r *Request, e Estimate, band logBand) Estimate {
	us, kernel := rt.custom.rising(r.Bytes, rt.shared(r))
	start := "graph"
	if r.Launch == Eager {
		start = "eager"
		us = max(customEager(rt.custom.k, us, r.Bytes), rt.floorUs)
	}
	e.Time = units.Micros(us)
	if kernel != "nccl" {
		band = kernelBand(rt.custom.k.Bands, start, r.Bytes)
		e.Algorithm, e.Protocol = kernel, rt.custom.k.Kernel
	} else {
		e.Algorithm, e.Protocol = rt.choice(r.Op, r.Bytes)
	}
	e.P10, e.P90 = band.interval(e.Time)
	if saved := rt.custom.norm.Saves(r.Bytes); saved > 0 && kernel != "nccl" {
		_, apart := band.interval(e.Time + units.Micros(saved))
		e.P90, e.Algorithm, e.Flags = max(e.P90, apart), fusedName(kernel), rt.fused
	}
	e.BusBW = BusBandwidth(r.Op, rt.n, r.Bytes, e.Time)
	return e
}

// takeKernels finds the framework's all_reduce that Options.Kernels asks for; groups over nodes, over PCIe or of one-byte types
// stay with NCCL.
func (m *Model) takeKernels(rt *route, s *topology.Shape, p *hardware.CollectiveProfile) {
	if m.opts.Kernels == "" || m.opts.Kernels == "nccl" || s.Network || s.PCIeUsed || rt.oneByte || p.Link != "nvlink" {
		return
	}
	c, ok := customOf(p, m.opts.Kernels, s.Ranks, m.opts.KernelVersion)
	if !ok {
		return
	}
	if (!s.Multicast || m.opts.NoMulticast) && c.multicast.to > 0 {
		c.multicast = window{}
	} else { // the tables of such versions are of machines whose switch reduces
		c.correct(siblingKernels(m.profiles, p.System, m.opts.Kernels), m.opts.KernelVersion)
	}
	if c.k.Kernel != symmetric {
		c.norm = m.opts.Fused
	}
	rt.custom = &c
	if c.k.Kernel == symmetric && s.Ranks > symmetricOn {
		rt.flag("symmetric-memory kernels were measured on %d ranks only", symmetricOn)
	}
	if versionMeasured(c.k.Libraries, m.opts.KernelVersion) == versionOutside {
		rt.flag("%s %s outside the profile (measured: %s)", m.opts.Kernels, m.opts.KernelVersion, strings.Join(c.k.Libraries, ", "))
	}
}

// tuner is NCCL's tuning model of the group; nil when the GPU's datasheet or a rate is not known, and for one-byte types,
// whose choice it does not know.
func (m *Model) tuner(s *topology.Shape, key *routeKey) *nccltune.Tuner {
	minor, _ := minorVersion(key.library)
	g, err := nccltune.GroupOf(*s, m.sheets[s.GPU], minor)
	if err != nil || key.oneByte {
		return nil
	}
	g.Multicast = g.Multicast && !m.opts.NoMulticast
	g.CollNet = s.Fabric == topology.FabricInfiniBand && (m.opts.SHARP || m.cluster != nil && m.cluster.Fabric.SHARP)
	t, err := nccltune.New(g)
	if err != nil {
		return nil
	}
	return t
}

// nearest is the profile whose link is closest to the group's.
func (m *Model) nearest(s *topology.Shape) (*hardware.CollectiveProfile, error) {
	kind, want := "nvlink", s.LinkBW.GBps()
	if want <= 0 {
		kind, want = "pcie", cmp.Or(s.PCIeBW.GBps(), 16)
	}
	if best := nearestProfile(m.profiles, kind, want, ""); best != nil {
		return best, nil
	}
	return nil, fmt.Errorf("no profile with a link of this kind (known: %s)", strings.Join(m.profiles.Systems(), ", "))
}
