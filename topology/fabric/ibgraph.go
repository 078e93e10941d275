package fabric

import (
	"fmt"
	"sort"
	"strings"

	"rankmap/internal/units"
	"rankmap/topology"
)

// ibKind is what a node of the subnet is.
type ibKind uint8

const (
	ibSwitch ibKind = iota + 1
	ibCA
	ibRouter
)

// ibNode is a switch or an adapter (for --ports: an adapter port) of the subnet.
type ibNode struct {
	id       string // hexadecimal without leading zeros
	kind     ibKind
	desc     string
	line     int // of its own block, 0 when only others name it
	name     string
	tier     int
	hosts    int
	unlinked int
	near     []*ibLink
}

// ibLink is one cable.
type ibLink struct {
	a, b         *ibNode
	aPort, bPort int
	rate         units.Bandwidth
}

func (l *ibLink) other(n *ibNode) *ibNode {
	if l.a == n {
		return l.b
	}
	return l.a
}

// cable identifies a link end, so that a cable that both ends list is one.
type cable struct {
	id   string
	port int
}

// ibGraph collects nodes and cables.
type ibGraph struct {
	*notes
	nodes       map[string]*ibNode
	order       []*ibNode
	links       []*ibLink
	byEnd       map[cable]*ibLink
	caRecords   int
	aggregation int
}

func newIBGraph(n *notes) *ibGraph {
	return &ibGraph{notes: n, nodes: map[string]*ibNode{}, byEnd: map[cable]*ibLink{}}
}

// node returns the node of an id ("S-0c42a10300...", or bare), made on first sight. Ids may have unequal length.
func (g *ibGraph) node(id string, kind ibKind) *ibNode {
	if len(id) > 2 && id[1] == '-' {
		id = id[2:]
	}
	id = strings.ToLower(strings.TrimLeft(id, "0"))
	n := g.nodes[id]
	if n == nil {
		n = &ibNode{id: id, kind: kind}
		g.nodes[id] = n
		g.order = append(g.order, n)
	}
	return n
}

// link records a cable; the second time one is seen its ends must agree.
func (g *ibGraph) link(no int, a *ibNode, aPort int, b *ibNode, bPort int, rate units.Bandwidth) {
	ea, eb := cable{a.id, aPort}, cable{b.id, bPort}
	if l := g.byEnd[ea]; l != nil {
		if l.other(a) != b && a != b {
			g.warn(no, "port %d of %s has two peers", aPort, clip(a.show()))
		} else if l.rate != rate && l.rate > 0 && rate > 0 {
			g.warn(no, "port %d of %s: %s one way and %s the other: the smaller counts", aPort, clip(a.show()), l.rate, rate)
			l.rate = min(l.rate, rate)
		}
		return
	}
	if o := g.byEnd[eb]; o != nil {
		g.warn(no, "port %d of %s has two peers", bPort, clip(b.show()))
		return
	}
	l := &ibLink{a: a, b: b, aPort: aPort, bPort: bPort, rate: rate}
	g.byEnd[ea], g.byEnd[eb] = l, l
	g.links = append(g.links, l)
	a.near = append(a.near, l)
	if b != a {
		b.near = append(b.near, l)
	}
}

func (n *ibNode) show() string {
	if n.name != "" {
		return n.name
	}
	return n.desc + " (" + n.id + ")"
}

// describe turns the graph into a description.
func (g *ibGraph) describe(source string) *topology.FabricDesc {
	d := &topology.FabricDesc{Source: source, Kind: topology.FabricInfiniBand, Default: true}
	g.nameSwitches()
	g.tiers()
	hosts := map[string]*topology.DescHost{}
	var names []string
	for _, n := range g.order {
		if n.kind != ibCA {
			continue
		}
		if aggregation(n.desc) {
			g.aggregation++
			continue
		}
		host, hca, named := caName(n.desc)
		for _, a := range n.adapters(hca) {
			if !named {
				a.Description = n.desc
				d.Loose = append(d.Loose, a)
				continue
			}
			h := hosts[host]
			if h == nil {
				h = &topology.DescHost{Name: host}
				hosts[host] = h
				names = append(names, host)
			}
			h.HCAs = append(h.HCAs, a)
		}
	}
	sort.Slice(names, func(i, j int) bool { return topology.CompareNames(names[i], names[j]) < 0 })
	for _, n := range names {
		h := hosts[n]
		sort.SliceStable(h.HCAs, func(i, j int) bool {
			if c := topology.CompareNames(h.HCAs[i].Name, h.HCAs[j].Name); c != 0 {
				return c < 0
			}
			return h.HCAs[i].Port < h.HCAs[j].Port
		})
		for _, a := range h.HCAs {
			if a.Leaf != "" && (h.Leaf == "" || topology.CompareNames(a.Leaf, h.Leaf) < 0) {
				h.Leaf = a.Leaf
			}
		}
		d.Hosts = append(d.Hosts, *h)
	}
	g.switches(d)
	g.remarks(d)
	return d
}

// adapters lists the ports of an adapter, one without a link when it has none.
func (n *ibNode) adapters(hca string) []topology.DescHCA {
	var out []topology.DescHCA
	for _, l := range n.near {
		o, port, far := l.b, l.aPort, l.bPort
		if l.b == n {
			o, port, far = l.a, l.bPort, l.aPort
		}
		a := topology.DescHCA{Name: hca, GUID: n.id, Port: port, Rate: l.rate}
		if o.kind != ibCA {
			a.Leaf, a.LeafPort = o.name, far
		}
		out = append(out, a)
	}
	if len(out) == 0 {
		out = append(out, topology.DescHCA{Name: hca, GUID: n.id})
	}
	return out
}

// nameSwitches gives each switch a name of its own: the description's, with the GUID where two have the same.
func (g *ibGraph) nameSwitches() {
	used := map[string]int{}
	for _, n := range g.order {
		if n.kind != ibCA {
			n.name, _ = switchName(n.desc)
			if n.name == "" || vendorText(n.desc) {
				n.name = strings.TrimSpace(n.name + " " + n.id)
			}
			used[n.name]++
		}
	}
	for _, n := range g.order {
		if n.kind != ibCA && used[n.name] > 1 {
			n.name += " " + n.id
		}
	}
}

// tiers finds the leaves (switches with hosts) and gives the others their distance from them. A switch above leaves
// that carries a few hosts of its own, as spines do for management servers, is no leaf: all its switch neighbours have
// hosts, and it has under half of what they have on average.
func (g *ibGraph) tiers() {
	for _, l := range g.links {
		for _, e := range [2][2]*ibNode{{l.a, l.b}, {l.b, l.a}} {
			if e[0].kind != ibCA && e[1].kind == ibCA && !aggregation(e[1].desc) {
				e[0].hosts++
			}
		}
	}
	var queue []*ibNode
	for _, n := range g.order {
		if n.kind == ibCA {
			continue
		}
		n.tier = -1
		if n.hosts > 0 && !n.raised() {
			n.tier = 0
			queue = append(queue, n)
		}
	}
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		for _, l := range n.near {
			if o := l.other(n); o.kind != ibCA && o.tier < 0 {
				o.tier = n.tier + 1
				queue = append(queue, o)
			}
		}
	}
	for _, n := range g.order {
		n.tier = max(n.tier, 0) // no host in reach: nothing says that it is above anything
	}
}

// raised says whether a switch with hosts stands above leaves.
func (n *ibNode) raised() bool {
	var near, total int
	seen := map[*ibNode]bool{}
	for _, l := range n.near {
		o := l.other(n)
		if o.kind == ibCA || o == n || seen[o] {
			continue
		}
		seen[o] = true
		if o.hosts == 0 {
			return false
		}
		near++
		total += o.hosts
	}
	return near >= 2 && n.hosts*2*near < total
}

// switches fills switches with their bandwidths, and the bundles between them.
func (g *ibGraph) switches(d *topology.FabricDesc) {
	bundles := map[topology.DescLink]int{}
	for _, n := range g.order {
		if n.kind == ibCA {
			continue
		}
		_, model := switchName(n.desc)
		s := topology.DescSwitch{Name: n.name, GUID: n.id, Model: model, Tier: n.tier, Hosts: n.hosts}
		for _, l := range n.near {
			o := l.other(n)
			switch {
			case o == n || o.kind == ibCA && aggregation(o.desc):
			case o.kind == ibCA || o.tier < n.tier:
				s.Down += l.rate
			case o.tier > n.tier:
				s.Up += l.rate
			}
			if o.kind != ibCA && o != n && l.a == n {
				a, b := n, o
				if a.tier > b.tier || a.tier == b.tier && topology.CompareNames(a.name, b.name) > 0 {
					a, b = b, a
				}
				bundles[topology.DescLink{A: a.name, B: b.name, Rate: l.rate}]++
			}
		}
		if s.Up > 0 && s.Down > 0 {
			s.Oversubscription = float64(s.Down) / float64(s.Up)
		}
		d.Switches = append(d.Switches, s)
	}
	for l, n := range bundles {
		l.Count = n
		d.Links = append(d.Links, l)
	}
	sortSwitches(d)
}

// remarks reports what a planner must know.
func (g *ibGraph) remarks(d *topology.FabricDesc) {
	if len(d.Switches) == 0 {
		g.warn(0, "no switch is listed: no fabric can be seen")
	}
	if len(d.Loose) > 0 {
		g.warn(0, "%d adapter ports name no host (%q): they cannot be mapped to one", len(d.Loose), clip(d.Loose[0].Description))
	}
	if g.aggregation > 0 {
		g.warn(0, "%d SHARP aggregation nodes are left out: they are no hosts", g.aggregation)
	}
	unlinked, names := 0, []string{}
	for _, n := range g.order {
		if n.unlinked > 0 {
			unlinked += n.unlinked
			names = append(names, n.show())
		}
	}
	if unlinked > 0 {
		g.warn(0, "%d ports have no link (%s)", unlinked, some(names))
	}
	for _, h := range d.Hosts {
		for _, a := range h.HCAs {
			if a.Leaf == "" {
				g.warn(0, "host %q: adapter %s has no link", clip(h.Name), strings.TrimSpace(fmt.Sprintf("%s %s", a.Name, a.GUID)))
			}
		}
	}
	g.islands()
}

// islands reports switches without a path between them.
func (g *ibGraph) islands() {
	seen := map[*ibNode]bool{}
	var first []string
	for _, n := range g.order {
		if n.kind == ibCA || seen[n] || len(n.near) == 0 {
			continue
		}
		first = append(first, n.name)
		queue := []*ibNode{n}
		seen[n] = true
		for len(queue) > 0 {
			x := queue[0]
			queue = queue[1:]
			for _, l := range x.near {
				if o := l.other(x); !seen[o] {
					seen[o] = true
					queue = append(queue, o)
				}
			}
		}
	}
	if len(first) > 1 {
		g.warn(0, "%d parts of the fabric have no path between them (one switch of each: %s)", len(first), some(first))
	}
}
