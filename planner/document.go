package planner

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"rankmap/collective"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/layout"
	"rankmap/model"
	"rankmap/planner/step"
	"rankmap/topology"
)

// Document turns a plan into the rank layout. in names the sources; cluster is the compact topology to embed.
func (p *Plan) Document(r Request, in layout.Inputs, cluster *topology.Doc) (*layout.Layout, error) {
	b := p.Best
	groups, err := p.documentGroups(r)
	if err != nil {
		return nil, err
	}
	l := &layout.Layout{
		APIVersion: layout.APIVersion, Kind: layout.Kind,
		Inputs: in, Cluster: cluster, Strategy: layout.Of(b.Strategy),
		Ranks: p.documentRanks(r.Cluster), Groups: groups,
		Predicted: predicted(b), Memory: documentMemory(b, r.Capacity),
		Env: p.environment(r.Cluster), Launchers: p.Launchers, Notes: p.Notes,
		Rejected: []layout.Rejected{}, Avoided: p.Avoided, Sensitivity: p.Flips,
	}
	if k := p.Kept; k != nil {
		l.Kept = &layout.Kept{From: r.Former, Stay: k.Stay, Moved: k.Moved, Gone: k.Gone, Moves: k.Moves, Anew: k.Anew}
	}
	for _, id := range p.Idle {
		l.IdleGPUs = append(l.IdleGPUs, r.Cluster.GPUName(id))
	}
	for _, x := range p.Losers {
		rej := layout.Rejected{Strategy: layout.Of(x.Strategy), Why: x.Why}
		if x.Outcome != nil {
			pr := predicted(x.Outcome)
			pr.Parts = []layout.Part{}
			rej.Predicted = &pr
		}
		l.Rejected = append(l.Rejected, rej)
	}
	return l, nil
}

// documentRanks names the GPU of every rank. Local ranks count the ranks of a host in rank order.
func (p *Plan) documentRanks(c *topology.Cluster) []layout.Rank {
	local := map[topology.NodeID]int{}
	out := make([]layout.Rank, len(p.Seats))
	for r, id := range p.Seats {
		n := c.NodeOf(id)
		node, _ := c.Node(n)
		gi := c.GPUIdent(id)
		rk := layout.Rank{
			Rank: r, Host: node.Name, LocalRank: local[n], GPU: gi.Index, PCI: gi.PCI, UUID: gi.UUID,
			Coords: layout.CoordsOf(p.Best.Strategy, r),
		}
		local[n]++
		if gi.NUMA >= 0 {
			numa := gi.NUMA
			rk.NUMA = &numa
		}
		near, _ := c.NearNICs(id)
		for _, x := range near {
			rk.NICs = append(rk.NICs, c.NICIdent(n, x).Label())
		}
		out[r] = rk
	}
	return out
}

// documentKinds is the order of group kinds in a document.
var documentKinds = []parallel.Dim{
	parallel.TP, parallel.CP, parallel.EP, parallel.ExpertTP, parallel.ExpertDP, parallel.DP, parallel.PP,
}

// documentGroups lists every group of every kind with the price of its collectives on its own members.
func (p *Plan) documentGroups(r Request) ([]layout.Group, error) {
	out := []layout.Group{}
	for _, kind := range documentKinds {
		used := usedBy(p.Best, kind)
		if len(used) == 0 {
			continue
		}
		d := groupWriter{p: p, r: r, kind: kind, used: used, shaper: r.Cluster.NewShaper(), like: map[uint64]*layout.Group{}}
		lists := layout.Lists(p.Best.Strategy, kind)
		for _, ranks := range lists {
			g, err := d.group(ranks, len(lists))
			if err != nil {
				return nil, err
			}
			out = append(out, g)
		}
	}
	return out, nil
}

// groupWriter writes the groups of a kind; groups that look alike share their prices.
type groupWriter struct {
	p      *Plan
	r      Request
	kind   parallel.Dim
	used   []phaseUsed
	shaper *topology.Shaper
	like   map[uint64]*layout.Group
}

func (d *groupWriter) group(ranks []int, concurrent int) (layout.Group, error) {
	sig := d.p.seats.signature(ranks)
	if g := d.like[sig]; g != nil {
		twin := *g
		twin.Members = ranks
		return twin, nil
	}
	members := d.p.seats.seat(ranks)
	siblings := d.p.seats.neighbours(d.p.Best.Strategy, d.kind, ranks)
	shape, err := d.shaper.ShapeWith(members, siblings)
	if err != nil {
		return layout.Group{}, err
	}
	g := layout.Group{Kind: d.kind, Members: ranks, Concurrent: concurrent}
	g.Domain, g.Path, g.Slowest = describe(d.r.Cluster, shape)
	for _, u := range d.used {
		e, err := d.price(&u.used.Op, members, siblings)
		if err != nil {
			return layout.Group{}, err
		}
		u.used.Op.Bytes = wireBytes(d.r.Cluster, members, &u.used.Op)
		g.Collectives = append(g.Collectives, documentCollective(u, e))
	}
	d.like[sig] = &g
	return g, nil
}

// price is the time of a collective on a group. What passes from rank to rank inside a larger group takes as long as its
// slowest neighbours do.
func (d *groupWriter) price(op *model.CollectiveOp, members []topology.GPUID, siblings [][]topology.GPUID) (collective.Estimate, error) {
	r := collective.Request{Op: op.Op, Bytes: wireBytes(d.r.Cluster, members, op), DType: op.DType, Launch: graphLaunch, Members: members, Siblings: siblings}
	if op.Op != parallel.SendRecv || len(members) == 2 {
		return d.r.Pricer.Price(r)
	}
	group := kindComm{members: [][]topology.GPUID{members}, siblings: [][][]topology.GPUID{siblings}}
	pairs := group.pairs()
	var worst collective.Estimate
	for i, pair := range pairs.members {
		r.Members, r.Siblings, r.Bytes = pair, pairs.siblings[i], wireBytes(d.r.Cluster, pair, op)
		e, err := d.r.Pricer.Price(r)
		if err != nil {
			return worst, err
		}
		if e.Time >= worst.Time {
			worst = e
		}
	}
	return worst, nil
}

type phaseUsed struct {
	phase string
	used  step.Used
}

// usedBy lists the collectives of a group kind in the plan's steps.
func usedBy(b *Outcome, kind parallel.Dim) []phaseUsed {
	var out []phaseUsed
	add := func(phase string, r *step.Result) {
		for _, u := range r.Comms {
			if u.Op.Group == kind {
				out = append(out, phaseUsed{phase, u})
			}
		}
	}
	main := "decode"
	switch {
	case b.TPOT.Time == 0 && b.TTFT.Time == 0: // no prompt is answered
		main = "train"
	case b.TPOT.Time == 0:
		main = "prefill"
	}
	if b.Prefill != nil {
		add("prefill", b.Prefill)
	}
	add(main, &b.Step)
	return out
}

func documentCollective(u phaseUsed, e collective.Estimate) layout.Collective {
	dt := u.used.Op.DType
	if dt == "" {
		dt = "bf16"
	}
	return layout.Collective{
		Name: u.used.Op.Name, Op: u.used.Op.Op, Phase: u.phase, DType: dt, Bytes: int64(u.used.Op.Bytes), TimesPerStep: u.used.Times,
		Us: round(e.Time.Micros(), 4), P10Us: round(e.P10.Micros(), 4), P90Us: round(e.P90.Micros(), 4),
		Algorithm: e.Algorithm, Protocol: e.Protocol, BusGBps: round(e.BusBW.GBps(), 4),
		Overlapped: u.used.Op.Overlappable, Basis: e.Provenance.String(), Flags: e.Flags,
	}
}

// describe puts the shape of a group in words that hold for every group like it.
func describe(c *topology.Cluster, s topology.Shape) (domain, path, slowest string) {
	switch {
	case !s.DomainsKnown:
		domain = "NVLink not stated"
	case s.Domains == 1:
		domain = "1 NVLink domain"
	default:
		domain = fmt.Sprintf("%d NVLink domains", s.Domains)
	}
	var parts []string
	switch {
	case s.NVLink && s.RanksPerDomainMax > 1 && s.Wiring == topology.NVLinkSwitched:
		parts = append(parts, "NVSwitch")
	case s.NVLink && s.RanksPerDomainMax > 1:
		parts = append(parts, "NVLink "+s.Wiring.String())
	case s.PCIeUsed:
		parts = append(parts, "PCIe "+s.PCIe.String())
	}
	if s.Network {
		fabric := string(s.Fabric)
		if fabric == "" {
			fabric = "of unknown kind"
		}
		net := "network " + fabric
		switch {
		case s.OneRail:
			net += ", one rail"
		case s.RailAligned:
			net += ", rail-aligned"
		}
		parts = append(parts, net)
	}
	return domain, strings.Join(parts, " + "), limitText(c, s.Limit)
}

// limitText is the slowest link without the host's name: "NVSwitch 450 GB/s", "NIC mlx5_1 50 GB/s", "8 NICs 400 GB/s".
func limitText(c *topology.Cluster, l topology.Limit) string {
	name := c.LimitName(l)
	if l.Kind == topology.LimitNone || l.Kind == topology.LimitLeaf {
		return name
	}
	node, _ := c.Node(c.NodeOf(l.GPU))
	if rest, gpu := strings.CutPrefix(name, node.Name+"/"); gpu { // "node0/0 to node0/1 NVLink 100 GB/s"
		return "GPU " + strings.Replace(rest, " to "+node.Name+"/", " to GPU ", 1)
	}
	return strings.TrimPrefix(name, node.Name+" ")
}

func predicted(o *Outcome) layout.Predicted {
	p := layout.Predicted{
		TTFTMs: round(o.TTFT.Time.Millis(), 4), TPOTMs: round(o.TPOT.Time.Millis(), 4),
		TTFTP10Ms: round(o.TTFT.P10.Millis(), 4), TTFTP90Ms: round(o.TTFT.P90.Millis(), 4),
		TPOTP10Ms: round(o.TPOT.P10.Millis(), 4), TPOTP90Ms: round(o.TPOT.P90.Millis(), 4),
		TokensPerSecond: round(o.Tokens, 5), TokensPerSecondPerGPU: round(o.PerGPU, 5),
		StepMs: round(o.Step.Time.Millis(), 4), StepP10Ms: round(o.Step.P10.Millis(), 4), StepP90Ms: round(o.Step.P90.Millis(), 4),
		BoundMs: round(o.Bound.Millis(), 4), PlainMs: round(o.Plain.Millis(), 4), MFU: round(o.MFU, 4), Batch: o.Batch, BatchPerReplica: o.Replica,
	}
	for _, x := range o.Step.Parts {
		p.Parts = append(p.Parts, layout.Part{
			Name: x.Name, Kind: x.Kind, Ms: round(x.Band.Time.Millis(), 4),
			Share: round(100*float64(x.Band.Time/o.Step.Time), 3), Bound: x.Bound,
		})
	}
	return p
}

func documentMemory(o *Outcome, capacity units.Bytes) layout.Memory {
	m := layout.Memory{CapacityGB: gb(capacity), UsedGB: gb(o.Memory.Total()), MaxBatch: o.MaxBatch}
	for _, x := range memoryParts(&o.Memory) {
		if x.GB != 0 {
			m.Parts = append(m.Parts, x)
		}
	}
	return m
}

func gb(b units.Bytes) float64 { return round(float64(b)/1e9, 5) }

// round keeps n significant digits, so that the last bits of a sum cannot change the bytes of a document.
func round(v float64, n int) float64 {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	p := math.Pow(10, float64(n-1)-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*p) / p
}

// environment lists the variables that the plan needs, each with its reason. NVIDIA's standing advice is to set nothing
// that is not needed.
func (p *Plan) environment(c *topology.Cluster) []layout.EnvVar {
	out := []layout.EnvVar{}
	network := false
	for _, kind := range documentKinds {
		if len(usedBy(p.Best, kind)) == 0 {
			continue
		}
		for _, members := range p.seats.distinct(p.Best.Strategy, kind).members {
			n := c.NodeOf(members[0])
			network = network || slices.ContainsFunc(members, func(id topology.GPUID) bool { return c.NodeOf(id) != n })
		}
	}
	if network {
		out = append(out, layout.EnvVar{
			Name: "NCCL_IGNORE_NET_MISMATCH", Value: "0",
			Why: "groups cross nodes: since NCCL 2.30 the default hides unequal NICs, which then hang",
		})
	}
	return out
}
