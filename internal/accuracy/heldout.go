package accuracy

import (
	"slices"
	"strings"

	"rankmap/collective"
	"rankmap/internal/hardware"
	"rankmap/internal/measured"
	"rankmap/internal/units"
	"rankmap/topology"
)

// HeldOut scores predictions on rows that the fit did not see. Each split fits a profile again from the other rows, with
// the program's own fit, and prices the rows that were left out with it.
type HeldOut struct {
	base   *Confronter
	single []measured.Row // completed, NCCL, one domain, of systems that have a fitted profile
	multi  []measured.Row // completed, several domains
	custom []measured.Row // completed, frameworks' own all-reduces
	moe    []measured.Row // completed, expert-parallel exchanges that can be priced
}

// NewHeldOut takes the rows of all files.
func NewHeldOut(c *Confronter, files ...measured.File) *HeldOut {
	h := &HeldOut{base: c}
	for i := range files {
		for j := range files[i].Rows {
			r := c.Complete(files[i].Rows[j])
			p, ok := PointOf(&r)
			switch {
			case r.Kind == measured.Exchange:
				if _, err := c.price(&r); err == nil {
					h.moe = append(h.moe, r)
				}
			case r.Kind == measured.Collective && r.Library != "nccl":
				if _, err := c.price(&r); err == nil {
					h.custom = append(h.custom, r)
				}
			case reducedInNetwork(&r) && r.Nodes > 1 && r.Library == "nccl": // no fit uses them
				h.multi = append(h.multi, r)
			case !ok:
			case p.Nodes > 1:
				h.multi = append(h.multi, r)
			case r.Launch == measured.LaunchGraph:
				if q := c.profiles.Collective(r.Hardware); q != nil && q.Domain != nil {
					h.single = append(h.single, r)
				}
			}
		}
	}
	return h
}

// rows keeps the single-domain rows that pass.
func (h *HeldOut) rows(keep func(*measured.Row) bool) []measured.Row {
	var out []measured.Row
	for i := range h.single {
		if keep(&h.single[i]) {
			out = append(out, h.single[i])
		}
	}
	return out
}

// fit makes a profile of a system from rows; with its siblings' curves unless alone.
func (h *HeldOut) fit(system string, rows []measured.Row, alone bool) *hardware.CollectiveProfile {
	shipped := h.base.profiles.Collective(system)
	t := hardware.CollectiveProfile{
		System: shipped.System, Link: shipped.Link, LinkGBps: shipped.LinkGBps, Multicast: shipped.Multicast, NVLSFromRanks: shipped.NVLSFromRanks,
		Bands: shipped.Bands, Source: shipped.Source,
	}
	if !alone {
		t.Siblings = shipped.Siblings
	}
	return collective.FitDomain(t, pointsOf(rows), collective.DefaultTolerance)
}

func pointsOf(rows []measured.Row) []collective.Point {
	var points []collective.Point
	for i := range rows {
		if p, ok := PointOf(&rows[i]); ok {
			points = append(points, p)
		}
	}
	return points
}

// score prices rows with other profiles.
func (h *HeldOut) score(profiles *hardware.Profiles, rows []measured.Row) []Case {
	c := NewWith(h.base.catalog, profiles, h.base.opts)
	return c.Rows(measured.File{Rows: rows}).Cases
}

// split fits a system without the rows that are left out and scores those. Rows of a collective of which nothing remains
// do not count: no profile knows it.
func (h *HeldOut) split(system string, alone bool, out func(*measured.Row) bool) []Case {
	train := h.rows(func(r *measured.Row) bool { return r.Hardware == system && !out(r) })
	test := h.rows(func(r *measured.Row) bool {
		return r.Hardware == system && out(r) && slices.ContainsFunc(train, func(t measured.Row) bool { return t.Op == r.Op })
	})
	if len(train) == 0 || len(test) == 0 {
		return nil
	}
	return h.score(h.base.profiles.With(h.fit(system, train, alone)), test)
}

// VersionLeftOut leaves out each library version of the systems in turn.
func (h *HeldOut) VersionLeftOut(systems ...string) []Case {
	var cases []Case
	for _, s := range systems {
		for _, v := range h.versions(s) {
			cases = append(cases, h.split(s, false, func(r *measured.Row) bool { return r.Version == v })...)
		}
	}
	return cases
}

// versions lists a system's library versions.
func (h *HeldOut) versions(system string) []string {
	var vs []string
	for i := range h.single {
		if r := &h.single[i]; r.Hardware == system && !slices.Contains(vs, r.Version) {
			vs = append(vs, r.Version)
		}
	}
	slices.Sort(vs)
	return vs
}

// RunLeftOut leaves out each repeat of every measurement in turn: a new run of a version that was measured.
func (h *HeldOut) RunLeftOut() []Case {
	var cases []Case
	for _, s := range h.base.profiles.Systems() {
		nth, most := h.repeats(s)
		for k := 0; most > 0 && k <= most; k++ {
			cases = append(cases, h.split(s, false, func(r *measured.Row) bool { return nth[r.Place()] == k })...)
		}
	}
	return cases
}

// repeats numbers the repeats of each measurement of a system by place; -1 for what was measured once.
func (h *HeldOut) repeats(system string) (nth map[string]int, most int) {
	type key struct {
		op, dtype, version string
		ranks              int
		bytes              units.Bytes
	}
	count := map[key]int{}
	nth = map[string]int{}
	keys := map[string]key{}
	for i := range h.single {
		if r := &h.single[i]; r.Hardware == system {
			k := key{r.Op.String(), r.DType, r.Version, r.Ranks, r.Bytes}
			keys[r.Place()], nth[r.Place()] = k, count[k]
			count[k]++
			most = max(most, nth[r.Place()])
		}
	}
	for place, k := range keys {
		if count[k] == 1 {
			nth[place] = -1
		}
	}
	return nth, most
}

// RanksLeftOut leaves out one group size of every system; the siblings' curves do not help.
func (h *HeldOut) RanksLeftOut(n int) []Case {
	var cases []Case
	for _, s := range h.base.profiles.Systems() {
		cases = append(cases, h.split(s, true, func(r *measured.Row) bool { return r.Ranks == n })...)
	}
	return cases
}

// FromSibling prices each of the second system's rows with the first system's profile.
func (h *HeldOut) FromSibling(pairs ...[2]string) []Case {
	var cases []Case
	for _, p := range pairs {
		from := h.fit(p[0], h.rows(func(r *measured.Row) bool { return r.Hardware == p[0] }), true)
		like := &hardware.CollectiveProfile{System: p[1], Like: p[0], Relation: "sibling", Source: from.Source}
		test := h.rows(func(r *measured.Row) bool { return r.Hardware == p[1] })
		cases = append(cases, h.score(h.base.profiles.With(from).With(like), test)...)
	}
	return cases
}

// SourceLeftOut leaves out each publisher of rows over one kind of network in turn, fits the network's profile from the
// others and scores the publisher's rows. among tells which rows the network is about.
func (h *HeldOut) SourceLeftOut(profile string, among func(*measured.Row) bool) []Case {
	var cases []Case
	f := h.base.profiles.Fabric(profile)
	if f == nil {
		return nil
	}
	var publishers []string
	for i := range h.multi {
		if r := &h.multi[i]; among(r) && !slices.Contains(publishers, publisher(r)) {
			publishers = append(publishers, publisher(r))
		}
	}
	slices.Sort(publishers)
	for _, p := range publishers {
		var train, test []measured.Row
		for _, r := range h.multi {
			switch {
			case !among(&r):
			case publisher(&r) == p:
				test = append(test, r)
			default:
				train = append(train, r)
			}
		}
		if len(train) == 0 {
			continue
		}
		// The prior, too, must not have seen the publisher.
		rdma := collective.FitFabric(hardware.FabricProfile{}, pointsOf(h.rdmaWithout(p)), h.base.profiles, hardware.FabricParams{})
		t := *f
		fitted := collective.FitFabric(t, pointsOf(train), h.base.profiles, rdma.Params)
		cases = append(cases, h.score(h.base.profiles.WithFabric(fitted), test)...)
	}
	return cases
}

// rdmaWithout is what the RDMA default is fitted to, without one publisher's rows: InfiniBand, RoCE and EFA of the p5 generation.
func (h *HeldOut) rdmaWithout(left string) []measured.Row {
	return filter(h.multi, func(r *measured.Row) bool {
		verbs := r.Fabric == string(topology.FabricInfiniBand) || r.Fabric == string(topology.FabricRoCE) || r.Fabric == string(topology.FabricEFA)
		return verbs && publisher(r) != left && !firstEFA(r)
	})
}

// firstEFA recognises p4d: 100 Gb/s adapters, one for two GPUs.
func firstEFA(r *measured.Row) bool {
	return r.Fabric == string(topology.FabricEFA) && r.NICRate <= units.Gbps(100) && r.NICs < r.GPUsPerNode
}

// publisher is the repository or site that a row came from.
func publisher(r *measured.Row) string {
	repo, _, _ := strings.Cut(r.Origin, ":")
	return repo
}
