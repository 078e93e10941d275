package ncclxml

import (
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"

	"rankmap/topology"
)

// hiddenBus is how NCCL spells a switch that a virtual machine cannot see.
const hiddenBus = "fffffff:ffff:ff"

// add puts an attribute on an element.
func (e *element) add(name, value string) {
	e.attr = append(e.attr, xml.Attr{Name: xml.Name{Local: name}, Value: value})
}

// child makes a child element.
func (e *element) child(name string) *element {
	k := &element{name: name}
	e.kids = append(e.kids, k)
	return k
}

// system builds the whole tree.
func (b *builder) system() *element {
	root := &element{name: "system"}
	root.add("version", "1")
	for _, c := range b.cpus {
		e := root.child("cpu")
		if b.opts.HostHash != "" {
			e.add("host_hash", b.opts.HostHash)
		}
		e.add("numaid", strconv.Itoa(c.numa))
		if m := affinityMask(b.affinity(c)); m != "" {
			e.add("affinity", m)
		}
		for _, a := range cpuAttrs(b.node.CPUModel) {
			e.add(a[0], a[1])
		}
		for _, outer := range c.outer {
			at := e
			if len(outer) > 1 {
				at = b.bridge(e, outer)
			}
			for _, inner := range outer {
				into := at
				if len(outer) > 1 || devices(b.node, inner) > 1 {
					into = b.bridge(at, [][]part{inner})
				}
				b.devices(into, inner)
			}
		}
		if len(c.bare) > 0 {
			nic := e.child("nic")
			for _, i := range c.bare {
				b.net(nic, &b.node.NICs[i])
			}
		}
	}
	return root
}

// devices counts PCI devices: ports of one card are one.
func devices(node *topology.NodeClass, inner []part) int {
	ids := map[string]bool{}
	for _, p := range inner {
		if p.gpu {
			ids[node.GPUs[p.i].PCI] = true
		} else {
			ids[node.NICs[p.i].PCI] = true
		}
	}
	return len(ids)
}

func (b *builder) affinity(c *cpuPart) string {
	for _, o := range c.outer {
		for _, in := range o {
			for _, p := range in {
				if p.gpu && b.node.GPUs[p.i].CPUAffinity != "" {
					return b.node.GPUs[p.i].CPUAffinity
				}
			}
		}
	}
	return ""
}

// bridge adds a virtual bridge as fast as the fastest slot below it.
func (b *builder) bridge(up *element, below [][]part) *element {
	best := topology.PCIeLink{}
	for _, in := range below {
		for _, p := range in {
			l := b.slot(p)
			if l.Gen > best.Gen || l.Gen == best.Gen && l.Width > best.Width {
				best = l
			}
		}
	}
	e := up.child("pci")
	e.add("busid", fmt.Sprintf("ffff:%02x:%02x.0", 0xff-b.bus/32, b.bus%32))
	b.bus++
	e.add("class", "0x060400")
	e.add("link_speed", speedString(best.Gen))
	e.add("link_width", strconv.Itoa(best.Width))
	return e
}

func (b *builder) slot(p part) topology.PCIeLink {
	if p.gpu {
		return b.node.GPUs[p.i].PCIe
	}
	return b.node.NICs[p.i].PCIe
}

// devices adds the GPUs and NICs of one bridge.
func (b *builder) devices(into *element, inner []part) {
	cards := map[string]*element{}
	for _, p := range inner {
		if p.gpu {
			b.gpu(into, p.i)
			continue
		}
		n := &b.node.NICs[p.i]
		if nic := cards[n.PCI]; nic != nil {
			b.net(nic, n)
			continue
		}
		e := into.child("pci")
		e.add("busid", shortPCI(n.PCI))
		e.add("class", nicClass(n))
		b.link(e, n.PCIe, false)
		if n.Device != "" {
			cards[n.PCI] = e.child("nic")
			b.net(cards[n.PCI], n)
		}
	}
}

func nicClass(n *topology.NIC) string {
	if n.LinkLayer == "InfiniBand" {
		return "0x020700"
	}
	if n.LinkLayer == "Ethernet" {
		return "0x020000"
	}
	return "0x028000" // other network controller
}

// link adds what is known of a slot; a slot that a hypervisor hides is written the way NCCL's own dump does.
func (b *builder) link(e *element, l topology.PCIeLink, gpu bool) {
	if l.Gen == 0 && l.Width == 0 && !(gpu && b.node.Virtual) {
		return
	}
	if l.Gen > 0 || b.node.Virtual {
		e.add("link_speed", speedString(l.Gen))
	}
	if l.Width > 0 || b.node.Virtual {
		e.add("link_width", strconv.Itoa(l.Width))
	}
}

// net adds a net element.
func (b *builder) net(nic *element, n *topology.NIC) {
	e := nic.child("net")
	name := n.Device
	if name == "" {
		name = n.Name
	}
	e.add("name", name)
	e.add("dev", strconv.Itoa(n.Index))
	if n.Rate > 0 {
		e.add("speed", mbps(n))
	}
	if n.GUID != "" {
		e.add("guid", ncclGUID(n.GUID))
	}
	if n.Rail >= 0 {
		e.add("rail", strconv.Itoa(n.Rail))
	}
}

// gpu adds a GPU with its links.
func (b *builder) gpu(into *element, i int) {
	g := &b.node.GPUs[i]
	e := into.child("pci")
	e.add("busid", shortPCI(g.PCI))
	e.add("class", "0x030200")
	if id := deviceOf(g.Name); id != "" {
		e.add("vendor", "0x10de")
		e.add("device", id)
	}
	b.link(e, g.PCIe, true)
	k := e.child("gpu")
	k.add("dev", strconv.Itoa(g.Index))
	if g.ComputeMajor > 0 {
		k.add("sm", strconv.Itoa(g.ComputeMajor*10+g.ComputeMinor))
	}
	if b.node.Wiring == topology.NVLinkUnknown {
		return
	}
	k.add("rank", strconv.Itoa(i))
	if b.node.Wiring == topology.NVLinkSwitched {
		b.switchLinks(k, i)
		return
	}
	for _, l := range b.node.NVLinks {
		other, n := l.B, l.Count
		if l.B == i {
			other, n = l.A, l.Count+l.Down
		} else if l.A != i {
			continue
		}
		if n > 0 {
			nvl := k.child("nvlink")
			nvl.add("target", shortPCI(b.node.GPUs[other].PCI))
			nvl.add("count", strconv.Itoa(n))
			nvl.add("tclass", "0x030200")
		}
	}
}

// switchLinks adds the links of GPU i to the NVSwitches, spread evenly; with no switch known, to a hidden one.
func (b *builder) switchLinks(k *element, i int) {
	var ids []string
	for _, s := range b.node.Switches {
		if s.Kind == topology.NVSwitch {
			id := hiddenBus
			if s.PCI != "" {
				id = shortPCI(s.PCI)
			}
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		ids = []string{hiddenBus}
	}
	n := b.node.GPUs[i].NVLinksUp
	if n == 0 {
		n = b.linksOf(i)
	}
	for s, id := range ids {
		c := n / len(ids)
		if s < n%len(ids) {
			c++
		}
		if c > 0 {
			nvl := k.child("nvlink")
			nvl.add("target", id)
			nvl.add("count", strconv.Itoa(c))
			nvl.add("tclass", "0x068000")
		}
	}
}

// linksOf is how many switch links GPU i has where the class does not say: the most of its pairs. Where every pair is short of the full count, one
// GPU must have it, or nothing would be missing; the last one stands for it.
func (b *builder) linksOf(i int) int {
	most := make([]int, len(b.node.GPUs))
	full := 0
	for _, l := range b.node.NVLinks {
		most[l.A], most[l.B] = max(most[l.A], l.Count), max(most[l.B], l.Count)
		full = max(full, l.Count+l.Down)
	}
	last, whole := -1, false
	for j, m := range most {
		whole = whole || m == full
		if m > 0 {
			last = j
		}
	}
	if !whole && i == last {
		return full
	}
	return most[i]
}

// deviceOf finds the PCI device id of a GPU that nvidiaGPUs names; the lowest id where several have the name.
func deviceOf(name string) string {
	best := ""
	for id, g := range nvidiaGPUs {
		if g.name == name && (best == "" || id < best) {
			best = id
		}
	}
	return best
}

// ncclGUID writes a GUID as NCCL reads it (sscanf "0x%lx" in src/graph/topo.cc): other sources print hexadecimal digits
// without prefix, or in groups. NCCL takes ports of equal GUID for one card, and what it cannot read for 0.
func ncclGUID(s string) string {
	digits := strings.ReplaceAll(s, ":", "")
	if _, err := strconv.ParseUint(digits, 16, 64); err != nil || strings.HasPrefix(s, "0x") {
		return s
	}
	return "0x" + digits
}
