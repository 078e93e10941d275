package sysfs

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"rankmap/topology"
)

// Classes of PCI devices, by the upper digits of the class code (PCI code and ID assignment specification).
const (
	classVGA        = 0x0300
	class3D         = 0x0302
	classNetwork    = 0x02
	classInfiniBand = 0x0207
	classBridge     = 0x0604
	classOther      = 0x0680 // NVSwitches say "other bridge"
)

// Vendors (PCI SIG).
const (
	vendorNVIDIA = 0x10de
	vendorRedHat = 0x1b36 // QEMU's own bridges
	vendorVirtio = 0x1af4
)

// maxDevices bounds a PCI tree.
const maxDevices = 1 << 15

// Device is a GPU, an adapter or an NVSwitch on the PCI tree.
type Device struct {
	PCI    string // normalised: 8-digit domain, lower case
	Class  int    // upper 16 bits of the class code
	Vendor int
	ID     int
	NUMA   int // -1 unknown
	CPUs   string
	PCIe   topology.PCIeLink

	dir   string
	chain []string // bridges from the host bridge down
}

// pciBus is the tree.
type pciBus struct {
	devices map[string]*Device // GPUs, adapters, NVSwitches, by normalised address
	order   []string
	bridges map[string]bool // on the way to one of them, by the kernel's address
}

// readPCI reads the devices of interest and the bridges above them.
func (r *reader) readPCI() {
	r.bus = pciBus{devices: map[string]*Device{}, bridges: map[string]bool{}}
	names, err := r.t.List("bus/pci/devices")
	if err != nil {
		r.note("bus/pci/devices", err)
		return
	}
	for _, name := range names[:min(len(names), maxDevices)] {
		id, ok := normalPCI(name)
		if !ok {
			continue
		}
		dir := "bus/pci/devices/" + name
		class := r.hex(dir + "/class")
		if !interesting(class >> 8) {
			continue
		}
		vendor := r.hex(dir + "/vendor")
		if gpuClass(class>>8) && vendor != vendorNVIDIA || class>>8 == classOther && vendor != vendorNVIDIA {
			continue
		}
		d := &Device{PCI: id, Class: class >> 8, Vendor: vendor, ID: r.hex(dir + "/device"), NUMA: r.number(dir + "/numa_node"), dir: dir}
		d.CPUs = r.optional(dir + "/local_cpulist")
		d.PCIe = r.link(dir)
		d.chain = r.chain(dir, name)
		for _, b := range d.chain {
			r.bus.bridges[b] = true
		}
		r.bus.devices[id] = d
		r.bus.order = append(r.bus.order, id)
	}
}

func interesting(class int) bool {
	return gpuClass(class) || class>>8 == classNetwork || class == classOther
}

func gpuClass(class int) bool { return class == classVGA || class == class3D }

// normalPCI brings an address to NVML's form: 8-digit domain, lower case. sysfs writes 4 digits, or more where the
// domain needs them (32-bit domains behind VMD and in clouds).
func normalPCI(s string) (string, bool) {
	s = strings.ToLower(strings.TrimSpace(s))
	domain, rest, ok := strings.Cut(s, ":")
	bus, dev, ok2 := strings.Cut(rest, ":")
	slot, fn, ok3 := strings.Cut(dev, ".")
	if !ok || !ok2 || !ok3 || len(bus) != 2 || len(slot) != 2 || len(fn) != 1 {
		return "", false
	}
	d, err := strconv.ParseUint(domain, 16, 32)
	for _, part := range []string{bus, slot, fn} {
		if _, e := strconv.ParseUint(part, 16, 8); e != nil {
			err = e
		}
	}
	if err != nil {
		return "", false
	}
	return fmt.Sprintf("%08x:%s:%s.%s", d, bus, slot, fn), true
}

// chain is the way from the host bridge to a device, without the device: "pci0000:00", "0000:00:01.0", ...
func (r *reader) chain(dir, name string) []string {
	target, err := r.t.Link(dir)
	if err != nil {
		r.note(dir, err)
		return nil
	}
	var chain []string
	for _, part := range strings.Split(path.Clean(target), "/") {
		if part == name {
			break
		}
		if _, ok := normalPCI(part); ok || strings.HasPrefix(part, "pci") && strings.Contains(part, ":") {
			chain = append(chain, part)
		}
	}
	return chain
}

// speeds are the kernel's words for PCIe generations (drivers/pci/probe.c, pci_speed_string).
var speeds = []string{"2.5 GT/s", "5.0 GT/s", "8.0 GT/s", "16.0 GT/s", "32.0 GT/s", "64.0 GT/s"}

func generation(s string) int {
	if strings.HasPrefix(s, "5 GT/s") || strings.HasPrefix(s, "8 GT/s") || strings.HasPrefix(s, "16 GT/s") || strings.HasPrefix(s, "32 GT/s") || strings.HasPrefix(s, "64 GT/s") {
		s = strings.Replace(s, " GT", ".0 GT", 1)
	}
	for i, w := range speeds {
		if strings.HasPrefix(s, w) {
			return i + 1
		}
	}
	return 0
}

// link reads the state of a slot. Virtual devices say width 0 or 255, or nothing: unknown.
func (r *reader) link(dir string) topology.PCIeLink {
	width := func(name string) int {
		n := r.number(dir + "/" + name)
		if n < 1 || n > 32 {
			return 0
		}
		return n
	}
	return topology.PCIeLink{Gen: generation(r.optional(dir + "/current_link_speed")), MaxGen: generation(r.optional(dir + "/max_link_speed")),
		Width: width("current_link_width"), MaxWidth: width("max_link_width")}
}

// between is the distance of two devices as nvidia-smi counts it. Devices of one slot and devices below one switch are
// PIX; below cascaded switches PXB; of one host bridge PHB; then it depends on the NUMA nodes. A distance that the tree
// does not state is unknown.
func (r *reader) between(a, b *Device) topology.PathKind {
	if r.res.Virtual || len(a.chain) == 0 || len(b.chain) == 0 {
		return topology.PathUnknown
	}
	common := 0
	for common < len(a.chain) && common < len(b.chain) && a.chain[common] == b.chain[common] {
		common++
	}
	switch {
	case common > 1 && len(a.chain)-common <= 1 && len(b.chain)-common <= 1:
		return topology.PathPIX
	case common > 1:
		return topology.PathPXB
	case common == 1:
		return topology.PathPHB
	case r.res.NUMANodes == 1, a.NUMA >= 0 && a.NUMA == b.NUMA:
		return topology.PathNODE
	case a.NUMA >= 0 && b.NUMA >= 0:
		return topology.PathSYS
	}
	return topology.PathUnknown
}

// GPUs lists the GPUs by PCI address, which is the order in which the driver numbers them.
func (res *Result) GPUs() []*Device {
	var out []*Device
	for _, id := range res.r.bus.order {
		if d := res.r.bus.devices[id]; gpuClass(d.Class) {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(x, y *Device) int { return strings.Compare(x.PCI, y.PCI) })
	return out
}
