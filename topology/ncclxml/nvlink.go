package ncclxml

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"rankmap/topology"
)

// maxLinks bounds a link count; the largest real one is 36 (Rubin), xgmi and NVLink bundles stay far below.
const maxLinks = 1024

// nvlink is one nvlink (or xgmi) element: the links of one GPU to one remote device.
type nvlink struct {
	from   *gpu
	count  int
	kind   kind   // what the target is by class: GPU, NVSwitch, POWER CPU
	target string // normalised; empty for a hidden switch
	line   int
}

func (l nvlink) targetName() string {
	switch {
	case l.kind == kindPowerCPU:
		return "the CPU"
	case l.target == "":
		return "a switch that the virtual machine hides"
	case l.kind == kindNVSwitch:
		return "switch " + shortPCI(l.target)
	}
	return shortPCI(l.target)
}

// gpuLinks reads the links of a gpu element.
func (h *host) gpuLinks(rd *reader, g *gpu) {
	for _, k := range g.el.kids {
		switch k.name {
		case "nvlink":
		case "xgmi":
			if !rd.xgmi {
				rd.warn(k.line, "<xgmi> is AMD's link between GPUs: read as one, its bandwidth is not NVLink's")
			}
			rd.res.AMD, rd.xgmi = true, true
		case "c2c":
			bw, n := rd.intAttr(k, "bw", true, 0), rd.intAttr(k, "count", true, 0)
			rd.fact(k.line, fmt.Sprintf("GPU %s C2C", shortPCI(g.pci)), fmt.Sprintf("%g GB/s", float64(bw)*float64(n)/1000)) // MB/s a link
			continue
		default:
			rd.warn(k.line, "<%.40s> in <gpu> ignored, as NCCL does", k.name)
			continue
		}
		l := nvlink{from: g, count: rd.intAttr(k, "count", true, 0), line: k.line}
		if l.count < 0 || l.count > maxLinks {
			rd.fail(k.line, "<%s> count=%d: want 0 to %d", k.name, l.count, maxLinks)
			continue
		}
		target, ok := k.get("target")
		if !ok {
			rd.fail(k.line, "<%s> has no target", k.name)
			continue
		}
		tclass, classed := k.get("tclass")
		l.kind = classKind(tclass)
		if hiddenTarget(target) {
			if g.hidden = true; !classed || l.kind == kindOther {
				l.kind = kindNVSwitch
			}
		} else if l.target, ok = normalPCI(target); !ok {
			rd.fail(k.line, "<%s> target %.40q is no PCI address", k.name, target)
			continue
		}
		if !classed {
			l.kind = kindUnknown // by who has the bus id
		}
		h.links = append(h.links, l)
	}
}

// wire turns link elements into pairs, and decides the wiring.
func (h *host) wire(rd *reader) {
	at := map[string][]int{}
	for i, g := range h.gpus {
		at[g.pci] = append(at[g.pci], i)
	}
	pos := map[*gpu]int{}
	for i, g := range h.gpus {
		pos[g] = i
	}
	direct := map[[2]int]int{} // ordered pair -> links
	lines := map[[2]int]int{}
	toSwitch := make([]int, len(h.gpus))
	self := false
	switches := map[string]bool{}
	for i := range h.links {
		l := &h.links[i]
		a := pos[l.from]
		if l.kind == kindUnknown {
			if l.kind = kindNVSwitch; len(at[l.target]) > 0 {
				l.kind = kindGPU
			}
		}
		switch l.kind {
		case kindGPU:
			peers := at[l.target]
			if l.target == "" || len(peers) == 0 {
				rd.warn(l.line, "GPU%d: %d links to %s, which is no GPU of this file: not used", l.from.Index, l.count, l.targetName())
				continue
			}
			if l.target == l.from.pci {
				self = true
				rd.warn(l.line, "GPU%d: %d links whose target is the GPU itself: the peer is unknown", l.from.Index, l.count)
				continue
			}
			b := peers[0]
			if len(peers) > 1 && l.from.part >= 0 {
				for _, p := range peers {
					if h.gpus[p].part == l.from.part {
						b = p
					}
				}
			}
			direct[[2]int{a, b}] += l.count
			lines[[2]int{a, b}] = l.line
		case kindPowerCPU: // to the CPU: a fact, no GPU pair
		default:
			if toSwitch[a] += l.count; l.count > 0 {
				switches[l.target] = true
			}
		}
	}
	h.pairs(rd, direct, lines, toSwitch, self)
	names := make([]string, 0, len(switches))
	for s := range switches {
		names = append(names, s)
	}
	sort.Strings(names)
	for i, s := range names {
		name := fmt.Sprintf("NVSwitch%d", i)
		if s == "" {
			name = "NVSwitch (hidden)"
		}
		h.Class.Switches = append(h.Class.Switches, topology.Switch{Name: name, Kind: topology.NVSwitch, PCI: s})
	}
}

// pairs fills NVLinks and Wiring.
func (h *host) pairs(rd *reader, direct map[[2]int]int, lines map[[2]int]int, toSwitch []int, self bool) {
	c := &h.Class
	up := slices.Clone(toSwitch) // links that work: to switches, and both ways to GPUs
	top := 0
	for _, n := range toSwitch {
		top = max(top, n)
	}
	for i, n := range toSwitch {
		if n != top && h.gpus[i].el != nil {
			rd.warn(h.gpus[i].el.line, "GPU%d has %d links to the switches where others have %d", h.gpus[i].Index, n, top)
		}
	}
	for a := range h.gpus {
		for b := a + 1; b < len(h.gpus); b++ {
			ab, ba := direct[[2]int{a, b}], direct[[2]int{b, a}]
			if ab != ba {
				line := max(lines[[2]int{a, b}], lines[[2]int{b, a}])
				rd.warn(line, "NVLink between GPU%d and GPU%d is asymmetric, %d links one way and %d the other: the smaller counts", h.gpus[a].Index, h.gpus[b].Index, ab, ba)
			}
			l := topology.NVLink{A: a, B: b, Count: min(ab, ba), Down: max(ab, ba) - min(ab, ba)}
			up[a], up[b] = up[a]+l.Count, up[b]+l.Count
			if toSwitch[a] > 0 && toSwitch[b] > 0 {
				n := min(toSwitch[a], toSwitch[b])
				l.Count += n
				l.Down += top - n
			}
			if l.Count+l.Down > 0 {
				c.NVLinks = append(c.NVLinks, l)
			}
		}
	}
	plain := 0
	for _, g := range h.gpus {
		if g.el == nil {
			plain++
		}
	}
	switch {
	case top > 0:
		c.Wiring = topology.NVLinkSwitched
	case len(c.NVLinks) > 0:
		c.Wiring = directWiring(len(h.gpus), c.NVLinks)
	case self, len(h.gpus) == 0:
		c.Wiring = topology.NVLinkUnknown
	case plain > 0 || h.noRank > 0 || !rd.res.Dump:
		c.Wiring = topology.NVLinkUnknown
		rd.warn(h.cpuLine[0], "NVLink is not stated: a file made by hand; NCCL asks the driver")
	default:
		c.Wiring = topology.NVLinkNone
	}
	for i := range c.GPUs {
		if c.Wiring != topology.NVLinkUnknown {
			c.GPUs[i].NVLinksUp = up[i]
		}
	}
	if c.Wiring != topology.NVLinkUnknown && plain > 0 {
		var who []string
		for _, g := range h.gpus {
			if g.el == nil {
				who = append(who, fmt.Sprintf("GPU%d", g.Index))
			}
		}
		rd.warn(h.cpuLine[0], "no <gpu> element for %s: their links are not stated", strings.Join(who, ", "))
	}
}

// directWiring tells a full mesh (or separate full meshes, such as bridged pairs) from one with pairs missing inside a
// domain (DGX-1's hybrid cube mesh).
func directWiring(n int, links []topology.NVLink) topology.NVLinkKind {
	root := make([]int, n)
	for i := range root {
		root[i] = i
	}
	find := func(i int) int {
		for root[i] != i {
			i = root[i]
		}
		return i
	}
	edges := map[int]int{}
	for _, l := range links {
		if l.Count > 0 {
			root[find(l.B)] = find(l.A)
		}
	}
	size := map[int]int{}
	for i := range root {
		size[find(i)]++
	}
	for _, l := range links {
		if l.Count > 0 {
			edges[find(l.A)]++
		}
	}
	for r, s := range size {
		if edges[r] != s*(s-1)/2 {
			return topology.NVLinkCubeMesh
		}
	}
	return topology.NVLinkDirect
}

// cliques marks hosts that share NVLink switches: NCCL treats all switches of one file as one fabric.
func (rd *reader) cliques() {
	var on []int
	for i, h := range rd.res.Hosts {
		if h.Class.Wiring == topology.NVLinkSwitched {
			on = append(on, i)
		}
	}
	if len(on) < 2 {
		return
	}
	id := "nccl-xml:" + rd.name
	for _, i := range on {
		h := &rd.res.Hosts[i]
		h.Clique = id
		for j := range h.Class.GPUs {
			h.Class.GPUs[j].Clique = id
		}
	}
}
