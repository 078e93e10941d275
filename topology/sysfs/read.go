package sysfs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"rankmap/topology"
)

// Result is what sysfs says about a host.
type Result struct {
	NICs      []topology.NIC
	Switches  []topology.Switch // NVSwitches on the PCI tree
	Sockets   int               // 0 unknown
	NUMANodes int               // with CPUs; 0 unknown
	Product   string            // vendor and product by the firmware's tables
	// Virtual says that a hypervisor flattened the PCI tree; VirtualWhy how that shows.
	Virtual    bool
	VirtualWhy string
	IOMMU      string   // what to know about the IOMMU; empty when nothing
	ACS        []string // bridges above GPUs and NICs that redirect peer-to-peer traffic
	Unreadable []string // adapters that answered with errors
	Facts      []topology.Fact
	Warnings   []string

	r *reader
}

// reader holds one Read.
type reader struct {
	t   Tree
	res *Result
	bus pciBus
}

// Read reads a host. It never fails as a whole: what cannot be read is missing from the result, with a warning where
// it should be there.
func Read(t Tree) *Result {
	res := &Result{}
	r := &reader{t: t, res: res}
	res.r = r
	r.readHost()
	r.readPCI()
	r.decideVirtual()
	r.readNICs()
	r.readIOMMU()
	n := 0
	for _, id := range r.bus.order {
		if d := r.bus.devices[id]; d.Class == classOther {
			res.Switches = append(res.Switches, topology.Switch{Name: "NVSwitch" + strconv.Itoa(n), Kind: topology.NVSwitch, PCI: id})
			n++
		}
	}
	return res
}

// note tells of something that should have been readable.
func (r *reader) note(name string, err error) {
	if len(r.res.Warnings) < 100 {
		r.res.Warnings = append(r.res.Warnings, name+": "+reason(err))
	}
}

func (r *reader) fact(what, value, file string) {
	if value != "" {
		r.res.Facts = append(r.res.Facts, topology.Fact{What: what, Value: value, Source: "sysfs:" + file})
	}
}

// optional reads a line that may be missing or unreadable.
func (r *reader) optional(name string) string {
	s, err := text(r.t, name)
	if err != nil || strings.EqualFold(s, "Unknown") {
		return ""
	}
	return s
}

// hex reads "0x030200"; 0 when unreadable.
func (r *reader) hex(name string) int {
	v, err := strconv.ParseUint(strings.TrimPrefix(r.optional(name), "0x"), 16, 32)
	if err != nil {
		return 0
	}
	return int(v)
}

// number reads a decimal number; -1 when unreadable.
func (r *reader) number(name string) int {
	v, err := strconv.Atoi(r.optional(name))
	if err != nil || v < -1 || v > 1<<20 {
		return -1
	}
	return v
}

// Apply fills a node whose GPUs the driver listed: NUMA nodes, CPU lists, slots, NICs and all distances. GPUs are found
// by PCI address. It returns where the two sources contradict each other.
func (res *Result) Apply(n *topology.NodeClass) (differences []string) {
	r := res.r
	devs := make([]*Device, len(n.GPUs))
	for i := range n.GPUs {
		u := &n.GPUs[i]
		id, _ := normalPCI(u.PCI)
		d := r.bus.devices[id]
		if d == nil {
			if u.PCI != "" && len(r.bus.order) > 0 {
				res.Warnings = append(res.Warnings, fmt.Sprintf("GPU %d at %s is not on the PCI tree", u.Index, u.PCI))
			}
			continue
		}
		devs[i] = d
		differences = append(differences, r.applyGPU(u, d)...)
	}
	n.NICs = slices.Clone(res.NICs)
	for i := range n.NICs {
		n.NICs[i].NUMA = res.numa(n.NICs[i].NUMA)
	}
	n.Virtual = n.Virtual || res.Virtual
	n.Sockets = max(n.Sockets, res.Sockets)
	n.Switches = append(n.Switches, res.Switches...)
	differences = append(differences, r.applyPaths(n, devs)...)
	if len(n.NICs) == 0 {
		n.NICPaths = nil
		return differences
	}
	n.NICPaths = matrix(len(n.GPUs), len(n.NICs))
	for i, d := range devs {
		for j := range n.NICs {
			if x := r.bus.devices[n.NICs[j].PCI]; d != nil && x != nil {
				n.NICPaths[i][j] = r.between(d, x)
			}
		}
	}
	numberRails(n)
	return differences
}

func (r *reader) applyGPU(u *topology.GPU, d *Device) (differences []string) {
	if numa := r.res.numa(d.NUMA); numa >= 0 {
		if u.NUMA >= 0 && u.NUMA != numa {
			differences = append(differences, fmt.Sprintf("GPU %d is on NUMA node %d by sysfs, %d by the driver", u.Index, numa, u.NUMA))
		}
		u.NUMA = numa
		r.fact(fmt.Sprintf("GPU%d NUMA", u.Index), strconv.Itoa(numa), d.dir+"/numa_node")
	}
	if u.CPUAffinity == "" {
		u.CPUAffinity = d.CPUs
		r.fact(fmt.Sprintf("GPU%d CPU affinity", u.Index), d.CPUs, d.dir+"/local_cpulist")
	}
	fill := func(what string, have *int, got int) {
		if *have == 0 && got > 0 {
			*have = got
			r.fact(fmt.Sprintf("GPU%d PCIe %s", u.Index, what), strconv.Itoa(got), d.dir)
		}
	}
	fill("generation", &u.PCIe.Gen, d.PCIe.Gen)
	fill("maximum generation", &u.PCIe.MaxGen, d.PCIe.MaxGen)
	fill("width", &u.PCIe.Width, d.PCIe.Width)
	fill("maximum width", &u.PCIe.MaxWidth, d.PCIe.MaxWidth)
	return differences
}

// applyPaths sets the distances between GPUs and compares those that the driver stated. On a flattened tree neither is
// believed.
func (r *reader) applyPaths(n *topology.NodeClass, devs []*Device) (differences []string) {
	if n.GPUPaths == nil {
		n.GPUPaths = matrix(len(n.GPUs), len(n.GPUs))
	}
	for a, x := range devs {
		for b := range a {
			if y := devs[b]; x != nil && y != nil {
				if k := r.between(x, y); k != topology.PathUnknown {
					if was := n.GPUPaths[a][b]; was.IsPCIe() && was != k {
						differences = append(differences, fmt.Sprintf("GPU %d and %d are %s apart by sysfs, %s by the driver", n.GPUs[b].Index, n.GPUs[a].Index, k, was))
					} else {
						n.GPUPaths[a][b], n.GPUPaths[b][a] = k, k
					}
				}
			}
			if n.Virtual && n.GPUPaths[a][b].IsPCIe() {
				n.GPUPaths[a][b], n.GPUPaths[b][a] = topology.PathUnknown, topology.PathUnknown
			}
		}
	}
	return differences
}

// numberRails numbers the NICs that share a PCIe switch with some GPU, or are nearest to one below its host bridge, in
// their order; the others (storage, management) carry no rail. Where no NIC is near, all keep an unknown rail and get it by position. A NIC that
// is down keeps its number, so that the rails of equal nodes stay the same.
func numberRails(n *topology.NodeClass) {
	near := make([]bool, len(n.NICs))
	some := false
	for g := range n.GPUs {
		best := topology.PathSYS
		for _, k := range n.NICPaths[g] {
			if k.IsPCIe() && k < best {
				best = k
			}
		}
		for x, k := range n.NICPaths[g] {
			if k == topology.PathPIX || k == topology.PathPXB || k == topology.PathPHB && k == best {
				near[x], some = true, true
			}
		}
	}
	if !some {
		return
	}
	rail := 0
	for x := range n.NICs {
		if near[x] {
			n.NICs[x].Rail = rail
			rail++
		}
	}
}

func matrix(rows, cols int) [][]topology.PathKind {
	m := make([][]topology.PathKind, rows)
	for i := range m {
		m[i] = make([]topology.PathKind, cols)
	}
	return m
}
