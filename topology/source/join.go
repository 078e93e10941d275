package source

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"rankmap/internal/units"
	"rankmap/topology"
)

// rank orders the kinds by how much they know of a host's GPUs: the first that has any is the base, the others add to it.
var rank = map[string]int{"live": 0, "capture": 0, "yaml": 1, "smi": 2, "nccl-xml": 3, "lspci": 4, "nvlink": 5, "ibv": 6, "ibstat": 7}

// join makes one node of what several sources say about a host.
func (a *assembly) join(g *group, position, of int) (*topology.DiscoveredNode, error) {
	slices.SortStableFunc(g.parts, func(x, y *part) int { return rank[x.kind] - rank[y.kind] })
	d := &topology.DiscoveredNode{Name: g.host}
	if d.Name == "" {
		d.Name = "node" + strconv.Itoa(position)
	}
	j := joiner{a: a, d: d}
	for _, p := range g.parts {
		j.part(p)
	}
	d.Class.Name = ""
	if len(d.Class.GPUs) > 0 {
		if err := nameGPUs(g.parts[0].file, &d.Class, a.opts); err != nil {
			return nil, err
		}
	}
	for i := range d.Facts {
		d.Facts[i].What = d.Name + "/" + d.Facts[i].What
	}
	return d, nil
}

// joiner adds parts to a node. The first statement of a fact stands; a later one that contradicts it is told.
type joiner struct {
	a *assembly
	d *topology.DiscoveredNode
}

func (j *joiner) warn(p *part, format string, args ...any) {
	j.a.warn(p.file + ": " + j.d.Name + ": " + fmt.Sprintf(format, args...))
}

func (j *joiner) part(p *part) {
	d := j.d
	if p.clique != "" && d.Clique == "" {
		d.Clique = p.clique
	}
	if n := p.node; n != nil {
		d.Leaf, d.Pod, d.Rack, d.Bad = first(d.Leaf, n.Leaf), first(d.Pod, n.Pod), first(d.Rack, n.Rack), first(d.Bad, n.Bad)
	}
	switch {
	case p.links != nil:
		j.links(p)
		return
	case p.class == nil:
	case len(d.Class.GPUs) == 0 && p.base():
		nics := d.Class.NICs
		d.Class = *p.class
		d.Class.GPUs, d.Class.NICs, d.Class.NVLinks = slices.Clone(p.class.GPUs), slices.Clone(p.class.NICs), slices.Clone(p.class.NVLinks)
		if len(nics) > 0 {
			j.nics(&part{kind: p.kind, file: p.file, class: &topology.NodeClass{NICs: nics}})
		}
	case len(d.Class.GPUs) == 0 && len(d.Class.NICs) == 0:
		d.Class = *p.class
	default:
		j.devices(p)
		j.nics(p)
	}
	d.Facts = append(d.Facts, p.facts...)
}

// links adds nvidia-smi nvlink -s. On its own it names the GPUs and how many of their links are up.
func (j *joiner) links(p *part) {
	c := &j.d.Class
	if len(c.GPUs) == 0 {
		c.Wiring = topology.NVLinkUnknown
		for i := range p.links.GPUs {
			g := &p.links.GPUs[i]
			c.GPUs = append(c.GPUs, topology.GPU{Index: g.Index, Name: g.Name, UUID: g.UUID, NUMA: -1, GPUNUMA: -1, NVLinksUp: g.Active()})
		}
		if len(c.NICs) > 0 && len(c.GPUs) > 0 {
			c.NICPaths = unknownPaths(len(c.GPUs), len(c.NICs))
		}
		j.d.Facts = append(j.d.Facts, p.facts...)
		return
	}
	for _, w := range p.links.Merge(c) {
		j.a.warn(w.String())
	}
	j.d.Facts = append(j.d.Facts, p.facts...)
}

// devices fills what the node does not know of its GPUs. GPUs are the same by UUID, else by PCI address, else by
// order where both list as many.
func (j *joiner) devices(p *part) {
	c := &j.d.Class
	if !p.base() {
		return
	}
	match := matchGPUs(c.GPUs, p.class.GPUs)
	if match == nil {
		j.warn(p, "%d GPUs here, %d elsewhere: its GPUs are not used", len(p.class.GPUs), len(c.GPUs))
		return
	}
	for i, at := range match {
		u, v := &c.GPUs[i], &p.class.GPUs[at]
		if u.NUMA >= 0 && v.NUMA >= 0 && u.NUMA != v.NUMA {
			j.warn(p, "GPU %d is on NUMA node %d here, %d elsewhere: the latter stands", u.Index, v.NUMA, u.NUMA)
		}
		fillGPU(u, v)
	}
	if p.kind != "lspci" || c.GPUPaths == nil {
		j.paths(p, match)
	}
	if len(c.NVLinks) == 0 && c.Wiring == topology.NVLinkUnknown && len(p.class.NVLinks) > 0 {
		c.Wiring = p.class.Wiring
		for _, l := range p.class.NVLinks {
			l.A, l.B = slices.Index(match, l.A), slices.Index(match, l.B)
			c.NVLinks = append(c.NVLinks, l)
		}
	}
	if c.Wiring == topology.NVLinkNone && len(c.NVLinks) > 0 && p.class.Wiring == topology.NVLinkSwitched {
		c.Wiring = topology.NVLinkSwitched // a matrix cannot tell a switch from direct links
	}
	c.Virtual = c.Virtual || p.class.Virtual
	c.Sockets = max(c.Sockets, p.class.Sockets)
	c.CPUModel = first(c.CPUModel, p.class.CPUModel)
}

// paths takes distances between GPUs that the node does not know yet.
func (j *joiner) paths(p *part, match []int) {
	c := &j.d.Class
	for a, x := range match {
		for b, y := range match {
			k := p.class.PCIePath(x, y)
			if c.GPUPaths == nil || a == b || k == topology.PathUnknown || p.class.GPUPaths == nil {
				continue
			}
			if c.GPUPaths[a][b] == topology.PathUnknown {
				c.GPUPaths[a][b] = k
			}
		}
	}
}

func fillGPU(u, v *topology.GPU) {
	u.Model, u.Name, u.UUID, u.PCI = first(u.Model, v.Model), first(u.Name, v.Name), first(u.UUID, v.UUID), first(u.PCI, v.PCI)
	u.CPUAffinity, u.Clique, u.FabricState = first(u.CPUAffinity, v.CPUAffinity), first(u.Clique, v.Clique), first(u.FabricState, v.FabricState)
	if u.NUMA < 0 && u.NUMARange == "" {
		u.NUMA, u.NUMARange = v.NUMA, v.NUMARange
	}
	if u.GPUNUMA < 0 {
		u.GPUNUMA = v.GPUNUMA
	}
	if u.Memory == 0 {
		u.Memory = v.Memory
	}
	if u.ComputeMajor == 0 {
		u.ComputeMajor, u.ComputeMinor = v.ComputeMajor, v.ComputeMinor
	}
	if u.NVLinksUp == 0 {
		u.NVLinksUp = v.NVLinksUp
	}
	if u.PCIe == (topology.PCIeLink{}) {
		u.PCIe = v.PCIe
	}
}

// matchGPUs finds each GPU of a among b; nil when it cannot be done.
func matchGPUs(a, b []topology.GPU) []int {
	if len(a) != len(b) {
		return nil
	}
	keys := []func(*topology.GPU) string{
		func(g *topology.GPU) string { return g.UUID },
		func(g *topology.GPU) string { return shortPCI(g.PCI) },
		func(g *topology.GPU) string { return strconv.Itoa(g.Index) },
	}
	for _, key := range keys {
		at := map[string]int{}
		for i := range b {
			at[key(&b[i])] = i
		}
		out := make([]int, len(a))
		ok := len(at) == len(b)
		for i := range a {
			k := key(&a[i])
			v, found := at[k]
			ok = ok && found && k != ""
			out[i] = v
		}
		if ok && len(slices.Compact(slices.Sorted(slices.Values(out)))) == len(a) {
			return out
		}
	}
	out := make([]int, len(a))
	for i := range out {
		out[i] = i
	}
	return out
}

// nics fills what the node does not know of its NICs, by device or PCI address. NICs that only this source lists are
// added where the node lists none at all, at unknown distances.
func (j *joiner) nics(p *part) {
	c := &j.d.Class
	if len(c.NICs) == 0 {
		c.NICs = slices.Clone(p.class.NICs)
		if len(c.GPUs) > 0 && len(c.NICs) > 0 {
			c.NICPaths = unknownPaths(len(c.GPUs), len(c.NICs))
		}
		return
	}
	var strange []string
	for i := range p.class.NICs {
		v := &p.class.NICs[i]
		at := slices.IndexFunc(c.NICs, func(u topology.NIC) bool { return sameNIC(&u, v) })
		if at < 0 {
			strange = append(strange, first(v.Device, v.Name))
			continue
		}
		j.fillNIC(p, &c.NICs[at], v)
	}
	if len(strange) > 0 && len(c.GPUs) > 0 {
		if p.kind == "lspci" { // it lists every Ethernet port of the board
			return
		}
		if noneNamed(c.NICs) {
			j.warn(p, "the NICs elsewhere have no device names: what is said of %s cannot be assigned", strings.Join(strange, ", "))
			return
		}
		j.warn(p, "no other source lists %s: left out", strings.Join(strange, ", "))
	}
}

func noneNamed(nics []topology.NIC) bool {
	return !slices.ContainsFunc(nics, func(n topology.NIC) bool { return n.Device != "" })
}

func sameNIC(u, v *topology.NIC) bool {
	if a, b := shortPCI(u.PCI), shortPCI(v.PCI); a != "" && b != "" {
		return a == b && portOf(u.Device) == portOf(v.Device)
	}
	name := first(u.Device, u.Name)
	return name != "" && (name == v.Device && portOf(v.Name) == "" || name == v.Name)
}

// portOf is the port behind a device's name, "mlx5_0:2", empty for the first.
func portOf(name string) string {
	_, port, _ := strings.Cut(name, ":")
	return port
}

func (j *joiner) fillNIC(p *part, u, v *topology.NIC) {
	if u.Rate > 0 && v.Rate > 0 && differ(u.Rate, v.Rate) {
		j.warn(p, "NIC %s runs at %v here, %v elsewhere: the latter stands", first(v.Device, v.Name), v.Rate, u.Rate)
	}
	if u.Rate == 0 {
		u.Rate = v.Rate
	}
	u.Device, u.PCI, u.LinkLayer, u.State = first(u.Device, v.Device), first(u.PCI, v.PCI), first(u.LinkLayer, v.LinkLayer), first(u.State, v.State)
	u.Firmware, u.GUID, u.NetDev, u.Bad = first(u.Firmware, v.Firmware), first(u.GUID, v.GUID), first(u.NetDev, v.NetDev), first(u.Bad, v.Bad)
	if u.NUMA < 0 {
		u.NUMA = v.NUMA
	}
	if u.PCIe == (topology.PCIeLink{}) {
		u.PCIe = v.PCIe
	}
}

func differ(a, b units.Bandwidth) bool { return a > b*1.02 || b > a*1.02 }

func unknownPaths(rows, cols int) [][]topology.PathKind {
	m := make([][]topology.PathKind, rows)
	for i := range m {
		m[i] = make([]topology.PathKind, cols)
	}
	return m
}

// shortPCI is a PCI address in lower case without leading zeros of the domain, so that NVML's 8 digits, sysfs' 4 and
// addresses without a domain compare equal.
func shortPCI(s string) string {
	s = strings.ToLower(strings.TrimSpace(s))
	if strings.Count(s, ":") == 1 {
		s = "0:" + s
	}
	domain, rest, ok := strings.Cut(s, ":")
	if !ok {
		return ""
	}
	domain = strings.TrimLeft(domain, "0")
	return domain + ":" + rest
}

// shortHost is a host name without its domain, in lower case.
func shortHost(name string) string {
	short, _, _ := strings.Cut(strings.ToLower(name), ".")
	return short
}
