package ncclxml

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"rankmap/internal/units"
	"rankmap/topology"
)

// nic is one network port with its place; device is nil for a net that hangs below a CPU without a PCI device.
type nic struct {
	topology.NIC
	*device
	line  int
	port  int
	ports int // ports merged into it, "mlx5_0+mlx5_1" has 2
}

// containerNets are prefixes of interfaces that container engines and hypervisors make; NCCL lists them like cards.
var containerNets = []string{"veth", "br-", "docker", "cali", "tunl", "virbr", "vnet", "lxc", "cni", "flannel", "cilium", "lo", "kube-", "nodelocaldns", "dummy", "vxlan", "weave", "podman", "genev", "ovs", "bridge", "tailscale", "wg"}

func containerNet(name string) bool {
	for _, p := range containerNets {
		if name == p || strings.HasPrefix(name, p) && (p != "lo" && p != "wg" || len(name) == len(p)+1) {
			return true
		}
	}
	return false
}

// addNICs adds a NIC device: one NIC a net, or one by class alone.
func (h *host) addNICs(rd *reader, d *device, stated topology.PCIeLink) {
	for _, k := range d.el.kids {
		if k.name == "nic" {
			h.nets(rd, k, d, d.cpu)
		} else {
			rd.warn(k.line, "<%.40s> in a NIC's <pci> ignored", k.name)
		}
	}
	for i := range h.nics {
		if n := h.nics[i]; n.device == d {
			n.PCIe = stated
		}
	}
	if h.nicOf(d) || rd.over(d.el.line, "nets in one host", len(h.nics), maxNets) {
		return
	}
	h.nics = append(h.nics, &nic{NIC: topology.NIC{Index: -1, PCI: d.pci, NUMA: h.CPUs[d.cpu].NUMA, LinkLayer: linkLayer(d), Rail: -1, PCIe: stated}, device: d, line: d.el.line, ports: 1})
}

func (h *host) nicOf(d *device) bool {
	for _, n := range h.nics {
		if n.device == d {
			return true
		}
	}
	return false
}

// linkLayer tells InfiniBand from Ethernet by class: 0x0207 and 0x0200 (PCI class codes).
func linkLayer(d *device) string {
	if d == nil {
		return ""
	}
	class, _ := d.el.get("class")
	switch {
	case strings.HasPrefix(class, "0x0207"):
		return "InfiniBand"
	case strings.HasPrefix(class, "0x0200"):
		return "Ethernet"
	}
	return ""
}

// nets adds the nets of a nic element below a device, or below a CPU when d is nil.
func (h *host) nets(rd *reader, e *element, d *device, cpu int) {
	for _, k := range e.kids {
		switch k.name {
		case "net":
		case "gin", "rma", "coll": // other uses of a net that is listed besides
			continue
		default:
			rd.warn(k.line, "<%.40s> in <nic> ignored, as NCCL does", k.name)
			continue
		}
		if v, ok := k.get("net"); ok && v == "0" {
			continue // fused into a merged NIC that is listed besides
		}
		if rd.over(k.line, "nets in one host", len(h.nics), maxNets) {
			return
		}
		name, _ := k.get("name")
		if name == "" {
			rd.warn(k.line, "<net> without a name")
		}
		n := &nic{device: d, line: k.line, ports: 1 + strings.Count(name, "+"), port: rd.intAttr(k, "port", false, 0)}
		n.NIC = topology.NIC{Index: rd.intAttr(k, "dev", false, -1), Name: name, Device: name, NUMA: -1, Rail: rd.intAttr(k, "rail", false, -1), LinkLayer: linkLayer(d)}
		n.GUID, _ = k.get("guid")
		if d != nil {
			n.NIC.PCI, n.NUMA = d.pci, h.CPUs[cpu].NUMA
		}
		n.Rate = rd.rate(k)
		if old := h.sameNet(n); old != nil {
			if old.device != nil && d != nil {
				rd.warn(k.line, "net %q is stated twice, below %s and %s", name, shortPCI(old.pci), shortPCI(d.pci))
			}
			if old.device != nil || d == nil {
				continue
			}
			*old = *n
			continue
		}
		h.nics = append(h.nics, n)
	}
}

// sameNet finds a net that is the same interface: NCCL repeats virtual ones under every CPU.
func (h *host) sameNet(n *nic) *nic {
	for _, o := range h.nics {
		if o.Device == n.Device && o.Device != "" && o.Index == n.Index {
			return o
		}
	}
	return nil
}

// rate reads a net's speed in Mb/s. NCCL takes 0 and less for 10 Gb/s; here it stays unknown.
func (rd *reader) rate(e *element) units.Bandwidth {
	s, ok := e.get("speed")
	if !ok {
		return 0
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || !(v < 1e8) {
		rd.fail(e.line, "<net> speed=%.40q is no number of Mb/s", s)
		return 0
	}
	if v <= 0 {
		rd.warn(e.line, "net speed %s is unknown; NCCL counts on 10000 Mb/s", s)
		return 0
	}
	return units.Gbps(v / 1000)
}

// pickNICs drops container interfaces, orders by dev and numbers what has none.
func (h *host) pickNICs(rd *reader) {
	var keep []*nic
	seen := map[string]bool{}
	for _, n := range h.nics {
		if n.device == nil && containerNet(n.Name) {
			if !seen[n.Name] {
				h.VirtualNets = append(h.VirtualNets, n.Name)
			}
			seen[n.Name] = true
			continue
		}
		keep = append(keep, n)
	}
	sort.Strings(h.VirtualNets)
	if len(h.VirtualNets) > 0 {
		rd.warn(h.cpuLine[0], "%d virtual nets left out (%.120s): NCCL would use them unless NCCL_SOCKET_IFNAME excludes them", len(h.VirtualNets), strings.Join(h.VirtualNets, ", "))
	}
	for _, n := range keep {
		if n.device == nil {
			rd.warn(n.line, "net %q has no PCI device: its distance to the GPUs is not stated", n.Name)
		}
	}
	all := true
	for _, n := range keep {
		all = all && n.Index >= 0
	}
	if all {
		sort.SliceStable(keep, func(i, j int) bool { return keep[i].Index < keep[j].Index })
	}
	for i, n := range keep {
		if !all {
			n.Index = i
		}
		if n.Name == "" {
			n.Name = fmt.Sprintf("NIC%d", i)
		}
	}
	h.nics = keep
}
