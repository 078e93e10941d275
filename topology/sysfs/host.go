package sysfs

import (
	"strconv"
	"strings"
)

// maxCPUs bounds the logical CPUs of a host.
const maxCPUs = 8192

// readHost reads sockets and NUMA nodes.
func (r *reader) readHost() {
	nodes, err := r.t.List("devices/system/node")
	if err != nil && !missing(err) {
		r.note("devices/system/node", err)
	}
	for _, n := range nodes {
		if num, ok := strings.CutPrefix(n, "node"); ok && allDigits(num) && r.optional("devices/system/node/"+n+"/cpulist") != "" {
			r.res.NUMANodes++
		}
	}
	packages := map[string]bool{}
	for _, cpu := range cpuList(r.optional("devices/system/cpu/online")) {
		if p := r.optional("devices/system/cpu/cpu" + strconv.Itoa(cpu) + "/topology/physical_package_id"); p != "" {
			packages[p] = true
		}
	}
	r.res.Sockets = len(packages)
	if len(packages) > 0 {
		r.fact("sockets", strconv.Itoa(len(packages)), "devices/system/cpu")
	}
	r.res.Product = strings.TrimSpace(r.optional("class/dmi/id/sys_vendor") + " " + r.optional("class/dmi/id/product_name"))
}

func allDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// cpuList expands "0-3,8".
func cpuList(s string) []int {
	var out []int
	for _, part := range strings.Split(s, ",") {
		lo, hi, ranged := strings.Cut(strings.TrimSpace(part), "-")
		if !ranged {
			hi = lo
		}
		a, errA := strconv.Atoi(lo)
		b, errB := strconv.Atoi(hi)
		if errA != nil || errB != nil || a < 0 {
			continue
		}
		for c := a; c <= b && c < maxCPUs && len(out) < maxCPUs; c++ {
			out = append(out, c)
		}
	}
	return out
}

// machines that are virtual by their names in the firmware's tables. Bare-metal instances of the same vendors say so.
var hypervisors = []string{"QEMU", "KVM", "Google Compute Engine", "VMware", "VirtualBox", "Xen", "Bochs", "Parallels", "Firecracker", "OpenStack",
	"Microsoft Corporation Virtual Machine", "Amazon EC2", "Alibaba Cloud ECS", "Tencent Cloud CVM", "Cloud Hypervisor", "RHEV", "oVirt"}

// decideVirtual tells a flattened tree. On real hardware every GPU hangs below a root port; a hypervisor puts it on the
// root bus itself, or below a bridge of its own making. A machine that calls itself virtual and shows no switch is
// flattened too.
func (r *reader) decideVirtual() {
	var gpus, rooted, made, switched int
	chains := map[string]int{}
	for _, d := range r.bus.devices {
		if !gpuClass(d.Class) {
			continue
		}
		gpus++
		if len(d.chain) == 1 {
			rooted++
		}
		for _, b := range d.chain[min(len(d.chain), 1):] {
			if v := r.hex("bus/pci/devices/" + b + "/vendor"); v == vendorRedHat || v == vendorVirtio {
				made++
				break
			}
		}
		if len(d.chain) > 2 {
			switched++
		}
		chains[strings.Join(d.chain, "/")]++
	}
	if gpus == 0 {
		return
	}
	named := ""
	for _, h := range hypervisors {
		if strings.Contains(r.res.Product, h) && !strings.Contains(strings.ToLower(r.res.Product), "metal") {
			named = h
		}
	}
	switch {
	case rooted == gpus:
		r.res.Virtual, r.res.VirtualWhy = true, "every GPU sits on a root bus, with no root port above it"
	case made > 0 && switched == 0:
		r.res.Virtual, r.res.VirtualWhy = true, "the bridges above the GPUs are made by a hypervisor"
	case named != "" && switched == 0:
		r.res.Virtual, r.res.VirtualWhy = true, "the machine calls itself "+r.res.Product+" and shows no PCIe switch"
	}
	if r.res.Virtual {
		r.fact("PCIe distances", "unknown (virtualised): "+r.res.VirtualWhy, "bus/pci/devices")
	}
}

// apply the NUMA node of the only node there is: a device that states none is on it.
func (res *Result) numa(n int) int {
	if n < 0 && res.NUMANodes == 1 {
		return 0
	}
	return n
}
