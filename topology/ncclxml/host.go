package ncclxml

import (
	"fmt"
	"sort"
	"strings"

	"rankmap/topology"
)

// host is a Host under construction.
type host struct {
	Host
	cpuLine []int
	bridges []*bridge
	peers   []peer
	gpus    []*gpu
	nics    []*nic
	busLine map[string][]busUse // every device by bus id
	noRank  int                 // gpu elements without rank
	links   []nvlink
}

// busUse is one device element of a bus id.
type busUse struct {
	line int
	kind kind
	cpu  int
}

// device is a PCI device below the bridges.
type device struct {
	bridge *bridge   // nil directly below the CPU
	above  []*bridge // see chain
	walked bool
	cpu    int // position in Host.CPUs
	el     *element
	kind   kind
	pci    string
}

// gpu is one GPU with its place. Partitions of one GPU (mlopart) share a device.
type gpu struct {
	topology.GPU
	*device
	line   int
	el     *element // the gpu element, nil in hand-made files
	part   int      // mlopart, -1 none
	hidden bool     // its slot says that a hypervisor hides PCIe
	order  int
}

func (h *host) device(rd *reader, d *device) {
	if h.busLine == nil {
		h.busLine = map[string][]busUse{}
	}
	numa := h.CPUs[d.cpu].NUMA
	dev := Device{PCI: d.pci, NUMA: numa, Line: d.el.line}
	stated, nccl, bw := rd.link(d.el)
	dev.NCCL, dev.Bandwidth = nccl, bw
	switch d.kind {
	case kindGPU:
		dev.Kind = "GPU"
		h.addGPUs(rd, d, stated)
	case kindNIC:
		dev.Kind = "NIC"
		h.addNICs(rd, d, stated)
	case kindUnknown:
		dev.Kind = "unknown"
	case kindNVSwitch:
		dev.Kind = "NVSwitch"
	default:
		dev.Kind = "other"
	}
	h.busLine[d.pci] = append(h.busLine[d.pci], busUse{d.el.line, d.kind, d.cpu})
	h.Devices = append(h.Devices, dev)
}

// addGPUs adds the GPUs of a device: one a gpu element, or one by class alone.
func (h *host) addGPUs(rd *reader, d *device, stated topology.PCIeLink) {
	if rd.over(d.el.line, "GPUs in one host", len(h.gpus), maxGPUs) || rd.over(d.el.line, "GPUs", rd.gpus, maxAllGPUs) {
		return
	}
	base := topology.GPU{PCI: d.pci, NUMA: h.CPUs[d.cpu].NUMA, GPUNUMA: -1, CPUAffinity: h.CPUs[d.cpu].Affinity, PCIe: stated}
	vendor, _ := d.el.get("vendor")
	id, _ := d.el.get("device")
	switch strings.ToLower(vendor) {
	case "0x10de":
		n := nvidiaGPUs[strings.ToLower(id)]
		base.Name, base.Model, base.Memory = n.name, n.model, n.memory
	case "0x1002":
		rd.res.AMD = true
		if base.Name = amdGPUs[strings.ToLower(id)]; base.Name == "" {
			base.Name = "AMD GPU " + id
		}
	default:
		if rd.res.AMD {
			base.Name = "AMD GPU"
		}
	}
	speed, okS := d.el.get("link_speed")
	width, okW := d.el.get("link_width")
	found := false
	for _, k := range d.el.kids {
		if k.name != "gpu" {
			rd.warn(k.line, "<%.40s> in a GPU's <pci> ignored", k.name)
			continue
		}
		found = true
		if rd.over(k.line, "GPUs in one host", len(h.gpus), maxGPUs) {
			return
		}
		rd.gpus++
		g := &gpu{GPU: base, device: d, line: d.el.line, el: k, part: rd.intAttr(k, "mlopart", false, -1)}
		g.hidden = okW && width == "0" || okS && speed == "" && okW
		g.Index = rd.intAttr(k, "dev", false, -1)
		if n := len(h.gpus); n > 0 && h.gpus[n-1].device == d && h.gpus[n-1].Index == g.Index && g.part < 0 && h.gpus[n-1].part < 0 {
			rd.warn(k.line, "a second <gpu> with dev %d in one device: several ranks on one GPU, listed once", g.Index)
			rd.gpus--
			continue
		}
		sm := rd.intAttr(k, "sm", false, 0)
		if _, ranked := k.get("rank"); ranked {
			rd.res.Dump = true
		} else {
			h.noRank++
		}
		if gcn, ok := k.get("gcn"); ok { // RCCL: sm counts compute units there
			rd.res.AMD = true
			if g.Name == "" || g.Name == "AMD GPU" {
				g.Name = "AMD GPU gfx" + strings.TrimPrefix(gcn, "gfx")
			}
		} else {
			g.ComputeMajor, g.ComputeMinor = sm/10, sm%10
		}
		g.order = len(h.gpus)
		h.gpus = append(h.gpus, g)
		h.gpuLinks(rd, g)
	}
	if !found {
		rd.gpus++
		g := &gpu{GPU: base, device: d, line: d.el.line, part: -1, order: len(h.gpus)}
		g.Index = -1
		h.gpus = append(h.gpus, g)
	}
}

// finish orders the devices, numbers them and fills the node class.
func (h *host) finish(rd *reader) {
	h.number(rd)
	h.pickNICs(rd)
	h.contradictions(rd)
	h.flatten()
	c := &h.Class
	for _, g := range h.gpus {
		c.GPUs = append(c.GPUs, g.GPU)
	}
	for _, n := range h.nics {
		c.NICs = append(c.NICs, n.NIC)
	}
	seen := map[string]bool{}
	var models []string
	for _, u := range h.CPUs {
		if u.Model != "" && !seen[u.Model] {
			seen[u.Model] = true
			models = append(models, u.Model)
		}
	}
	c.CPUModel = strings.Join(models, "; ")
	h.wire(rd)
	for _, g := range h.gpus {
		c.Virtual = c.Virtual || g.hidden
	}
	h.paths()
	unknown := map[int]int{}
	for _, d := range h.Devices {
		if d.Kind == "unknown" {
			unknown[d.NUMA]++
		}
	}
	if len(unknown) > 0 {
		keys := make([]int, 0, len(unknown))
		for k := range unknown {
			keys = append(keys, k)
		}
		sort.Ints(keys)
		parts := make([]string, len(keys))
		for i, k := range keys {
			parts[i] = fmt.Sprintf("NUMA %d: %d", k, unknown[k])
		}
		rd.warn(h.cpuLine[0], "pci devices without a class (%s): the file alone cannot tell GPUs from NICs, NCCL asks sysfs", strings.Join(parts, ", "))
	}
}

// number sorts GPUs by their dev attribute, where all have one and no two share it, else leaves document order.
func (h *host) number(rd *reader) {
	byDev := map[int]*gpu{}
	ok := true
	for _, g := range h.gpus {
		if g.Index < 0 {
			ok = false
			continue
		}
		if o := byDev[g.Index]; o != nil {
			ok = false
			if o.device != g.device {
				rd.warn(g.el.line, "gpu dev %d is stated twice, by %s and %s", g.Index, shortPCI(o.pci), shortPCI(g.pci))
			}
		}
		byDev[g.Index] = g
	}
	if ok {
		sort.SliceStable(h.gpus, func(i, j int) bool { return h.gpus[i].Index < h.gpus[j].Index })
		return
	}
	sort.SliceStable(h.gpus, func(i, j int) bool {
		a, b := h.gpus[i], h.gpus[j]
		if a.el != nil && b.el != nil && a.Index >= 0 && b.Index >= 0 && a.Index != b.Index {
			return a.Index < b.Index
		}
		return a.order < b.order
	})
	for i, g := range h.gpus {
		g.Index = i
	}
}

// contradictions reports bus ids that several devices claim. Partitions of a GPU and ports of a NIC are inside one
// device and are no contradiction.
func (h *host) contradictions(rd *reader) {
	ids := make([]string, 0, len(h.busLine))
	for id, uses := range h.busLine {
		if len(uses) > 1 {
			ids = append(ids, id)
		}
	}
	sort.Strings(ids)
	for _, id := range ids {
		uses := h.busLine[id]
		var parts []string
		nics, gpus := 0, 0
		for _, u := range uses {
			k := "device"
			switch u.kind {
			case kindGPU:
				k = "GPU"
				gpus++
			case kindNIC:
				k = "NIC"
				nics++
			}
			parts = append(parts, fmt.Sprintf("%s on NUMA %d in line %d", k, h.CPUs[u.cpu].NUMA, u.line))
		}
		text := fmt.Sprintf("busid %s is stated %d times (%s): cannot be true", shortPCI(id), len(uses), strings.Join(parts, ", "))
		rd.warn(uses[0].line, "%s", text)
		for _, n := range h.nics {
			if n.NIC.PCI == id && nics > 0 {
				n.Bad = text
			}
		}
		for _, g := range h.gpus {
			if g.GPU.PCI == id && gpus > 1 {
				g.Bad = text
			}
		}
	}
}

// facts records the provenance of what the host holds.
func (rd *reader) facts(h *host) {
	for _, g := range h.gpus {
		who := fmt.Sprintf("%s/GPU%d", h.Name, g.Index)
		rd.fact(g.line, who+" PCI", g.GPU.PCI)
		if g.NUMA >= 0 {
			rd.fact(h.cpuLine[g.cpu], who+" NUMA", fmt.Sprint(g.NUMA))
		}
		if g.Name != "" {
			rd.fact(g.line, who+" name", g.Name)
		}
		if g.ComputeMajor > 0 {
			rd.fact(g.el.line, who+" compute capability", fmt.Sprintf("%d.%d", g.ComputeMajor, g.ComputeMinor))
		}
		if g.PCIe.Gen > 0 {
			rd.fact(g.line, who+" PCIe", fmt.Sprintf("Gen%d x%d", g.PCIe.Gen, g.PCIe.Width))
		}
		if g.part >= 0 {
			rd.fact(g.el.line, who+" partition", fmt.Sprint(g.part))
		}
	}
	for _, l := range h.links {
		rd.fact(l.line, fmt.Sprintf("%s/GPU%d NVLink", h.Name, l.from.Index), fmt.Sprintf("%d links to %s", l.count, l.targetName()))
	}
	for _, n := range h.nics {
		who := fmt.Sprintf("%s/NIC %s", h.Name, n.Name)
		rd.fact(n.line, who+" PCI", n.NIC.PCI)
		if n.Rate > 0 {
			rd.fact(n.line, who+" rate", n.Rate.String())
		}
		if n.ports > 1 {
			rd.fact(n.line, who+" ports", fmt.Sprint(n.ports))
		}
	}
}
