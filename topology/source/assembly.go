package source

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"rankmap/topology"
)

// assembly collects what the sources say until finish makes a machine of it.
type assembly struct {
	opts    Options
	res     *Result
	parts   []part
	fabrics []*topology.FabricDesc
	yaml    []yamlFile
}

func (a *assembly) add(p part) { a.parts = append(a.parts, p) }

func (a *assembly) warn(texts ...string) { a.res.Warnings = append(a.res.Warnings, texts...) }

// finish makes the machine.
func (a *assembly) finish() error {
	if len(a.yaml) == 1 && len(a.parts) == 0 && len(a.fabrics) == 0 {
		return a.wholeYAML()
	}
	for _, y := range a.yaml {
		a.parts = append(a.parts, yamlParts(y)...)
	}
	gs, err := a.groups()
	if err != nil {
		return err
	}
	var nodes []topology.DiscoveredNode
	var bare []topology.DiscoveredNode // hosts whose GPUs nobody describes
	var errs []error
	for i := range gs {
		n, err := a.join(&gs[i], i, len(gs))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if len(n.Class.GPUs) > 0 {
			nodes = append(nodes, *n)
		} else {
			bare = append(bare, *n)
		}
	}
	if err := joinErrors(errs); err != nil {
		return err
	}
	if len(nodes) == 0 {
		if err := a.fillsNothing(); err != nil {
			return err
		}
		a.res.Partial = a.partial(bare)
		return nil
	}
	for i := range bare {
		a.warn(fmt.Sprintf("%s: no source describes its GPUs: left out", bare[i].Name))
	}
	return a.cluster(nodes, gs)
}

// fillsNothing refuses flags that fill in what a node leaves open where no node is described.
func (a *assembly) fillsNothing() error {
	var errs []error
	for _, f := range []struct {
		flag  string
		given bool
	}{{"gpu", a.opts.GPU != ""}, {"nodes", a.opts.Nodes > 0}, {"nic-rate", a.opts.NICRate > 0}, {"fabric", a.opts.Fabric != ""}} {
		if f.given {
			errs = append(errs, fmt.Errorf("--%s: %s: %w: there is nothing to fill in", f.flag, a.res.Name, ErrNoGPU))
		}
	}
	return errors.Join(errs...)
}

// wholeYAML takes a cluster document as it stands, or its single node several times.
func (a *assembly) wholeYAML() error {
	y, o := a.yaml[0], a.opts
	if o.GPU != "" {
		for i := range y.cluster.Classes {
			if err := nameGPUs(y.file, &y.cluster.Classes[i], o); err != nil {
				return err
			}
		}
		if err := y.cluster.Finish(o.Catalog); err != nil {
			return err
		}
	}
	if o.Nodes > 0 {
		c, err := y.cluster.Replicate(o.Nodes, o.Catalog)
		if err != nil {
			return fmt.Errorf("%s: %w", y.file, err)
		}
		return a.res.finish(c, o)
	}
	return a.res.finish(y.cluster, o)
}

// cluster merges the hosts and the network.
func (a *assembly) cluster(nodes []topology.DiscoveredNode, gs []group) error {
	o := a.opts
	net := mapFabrics(a.fabrics)
	if o.Nodes > 0 && len(nodes) > 1 {
		return fmt.Errorf("%s: describes %d nodes: leave out --nodes", a.res.Name, len(nodes))
	}
	one := len(nodes) == 1
	switch {
	case one && net != nil && len(net.Hosts) > 0 && (gs[0].host == "" || o.Nodes == len(net.Hosts)):
		if o.Nodes > 0 && o.Nodes != len(net.Hosts) {
			return fmt.Errorf("--nodes %d: the network description lists %d hosts: leave out --nodes", o.Nodes, len(net.Hosts))
		}
		c, err := a.spread(&nodes[0], net)
		if err != nil {
			return a.place(err)
		}
		a.warn(fmt.Sprintf("%s describes one node: each of the network's %d hosts is taken to be equal to it", gs[0].parts[0].file, len(net.Hosts)))
		a.cable(c, net)
		return a.res.finish(c, o)
	case one && net != nil && o.Nodes > 1:
		return fmt.Errorf("--nodes %d: the network description lists %d hosts: give that number, or leave out --nodes", o.Nodes, len(net.Hosts))
	case one && net == nil && o.Nodes > 0:
		c, err := topology.FromNodes(nodes, nil, o.Catalog)
		if err != nil {
			return a.place(err)
		}
		if c, err = c.Replicate(o.Nodes, o.Catalog); err != nil {
			return a.place(err)
		}
		return a.res.finish(c, o)
	}
	if net != nil {
		a.checkHosts(nodes, net)
	}
	c, err := topology.FromNodes(nodes, net, o.Catalog)
	if err != nil {
		return a.place(err)
	}
	a.cable(c, net)
	return a.res.finish(c, o)
}

// cable notes the links that the network description states: from each NIC to its own switch, and between switches.
func (a *assembly) cable(c *topology.Cluster, net *topology.FabricMap) {
	if net == nil {
		return
	}
	at := map[string]topology.NodeID{}
	for i := range c.Nodes {
		at[shortHost(c.Nodes[i].Name)] = topology.NodeID(i)
	}
	for _, p := range net.Ports {
		id, ok := at[shortHost(p.Host)]
		if !ok || p.Device == "" {
			continue
		}
		n, k := c.Node(id)
		for x := range k.NICs {
			if nic := c.NICIdent(id, x); nic.Device == p.Device {
				a.res.links = append(a.res.links, topology.ViewLink{A: n.Name + "/" + nic.Name, B: p.Leaf, GBps: rate(p.Rate)})
			}
		}
	}
	a.res.cabled = len(a.res.links) > 0
	for _, d := range a.fabrics {
		a.res.links = append(a.res.links, fabricLinks(d)...)
	}
}

// spread gives every host of the network the one node that is described. The NVLink fabric identity of that node is not
// the others': the network says which hosts share one, or nobody does.
func (a *assembly) spread(d *topology.DiscoveredNode, net *topology.FabricMap) (*topology.Cluster, error) {
	class := d.Class
	class.GPUs = slices.Clone(class.GPUs)
	one, stated := true, d.Clique != ""
	for i := range class.GPUs {
		one = one && class.GPUs[i].Clique == class.GPUs[0].Clique
		stated = stated || class.GPUs[i].Clique != ""
	}
	for i := range class.GPUs {
		if one {
			class.GPUs[i].Clique = ""
		}
	}
	if stated && !slices.ContainsFunc(net.Hosts, func(h topology.FabricHost) bool { return h.Clique != "" }) {
		a.warn("the network description names no NVLink domains: NVLink is taken to end in each host")
	}
	if len(net.Ports) > 0 || len(net.Hosts) < 2 {
		c, err := topology.Spread(class, net, a.opts.Catalog)
		if err == nil {
			c.Facts = append(c.Facts, d.Facts...)
		}
		return c, err
	}
	// Without cables all hosts are equal: two of them settle the class, the others only have places.
	few := *net
	few.Hosts = net.Hosts[:2]
	c, err := topology.Spread(class, &few, a.opts.Catalog)
	if err != nil {
		return nil, err
	}
	c.Name = strconv.Itoa(len(net.Hosts)) + " nodes"
	c.Nodes = make([]topology.Node, len(net.Hosts))
	for i, h := range net.Hosts {
		c.Nodes[i] = topology.Node{Name: h.Host, Leaf: h.Leaf, Pod: h.Pod, Rack: h.Rack, Clique: h.Clique}
	}
	c.Facts = append(c.Facts, d.Facts...)
	return c, c.Finish(a.opts.Catalog)
}

// place says which sources a problem of the merged machine comes from.
func (a *assembly) place(err error) error { return fmt.Errorf("%s: %w", a.res.Name, err) }

// checkHosts warns where discovered hosts and the network's hosts are not the same.
func (a *assembly) checkHosts(nodes []topology.DiscoveredNode, net *topology.FabricMap) {
	onNet := map[string]bool{}
	for _, h := range net.Hosts {
		onNet[shortHost(h.Host)] = true
	}
	met := 0
	for _, n := range nodes {
		if onNet[shortHost(n.Name)] {
			met++
		} else {
			a.warn(fmt.Sprintf("%s: the network description does not list it", n.Name))
		}
	}
	if missing := len(net.Hosts) - met; missing > 0 {
		text := fmt.Sprintf("%d of the network's %d hosts are not described: left out", missing, len(net.Hosts))
		if len(nodes) == 1 {
			text += fmt.Sprintf(" (--nodes %d takes all of them to be equal to %s)", len(net.Hosts), nodes[0].Name)
		}
		a.warn(text)
	}
}

// mapFabrics merges descriptions of one network: what a later one adds fills what earlier ones leave open, and the
// tiers come from the one that names most switches.
func mapFabrics(descs []*topology.FabricDesc) *topology.FabricMap {
	var m *topology.FabricMap
	at := map[string]int{}
	switches := 0
	for _, d := range descs {
		x := d.Map()
		if m == nil {
			m = x
			for i, h := range m.Hosts {
				at[h.Host] = i
			}
			switches = len(d.Switches)
			continue
		}
		m.Kind, m.Ports, m.Facts = topology.FabricKind(first(string(m.Kind), string(x.Kind))), append(m.Ports, x.Ports...), append(m.Facts, x.Facts...)
		if m.NICRate == 0 {
			m.NICRate = x.NICRate
		}
		if len(m.NVSwitches) == 0 {
			m.NVSwitches = x.NVSwitches
		}
		if len(d.Switches) > switches {
			m.Tiers, switches = x.Tiers, len(d.Switches)
		}
		for _, h := range x.Hosts {
			i, ok := at[h.Host]
			if !ok {
				at[h.Host] = len(m.Hosts)
				m.Hosts = append(m.Hosts, h)
				continue
			}
			w := &m.Hosts[i]
			w.Leaf, w.Pod, w.Rack, w.Clique = first(w.Leaf, h.Leaf), first(w.Pod, h.Pod), first(w.Rack, h.Rack), first(w.Clique, h.Clique)
		}
	}
	return m
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// nameGPUs applies --gpu where the source names no model, and refuses it where the source names another.
func nameGPUs(file string, n *topology.NodeClass, o Options) error {
	if o.GPU == "" {
		return nil
	}
	sheet, err := o.Catalog.GPU(o.GPU)
	if err != nil {
		return fmt.Errorf("--gpu: %w", err)
	}
	n.GPUs = slices.Clone(n.GPUs)
	var errs []error
	for i := range n.GPUs {
		g := &n.GPUs[i]
		if g.Model == "" && g.Name != "" {
			if s := o.Catalog.ByName(g.Name); s != nil {
				g.Model = s.System
			}
		}
		switch g.Model {
		case "", sheet.System:
			g.Model = sheet.System
		default:
			errs = append(errs, fmt.Errorf("%s: GPU %d is a %s by the source, --gpu says %s", file, g.Index, g.Model, sheet.System))
		}
	}
	return errors.Join(errs...)
}
