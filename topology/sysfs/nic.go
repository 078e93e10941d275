package sysfs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"rankmap/internal/units"
	"rankmap/topology"
)

// maxPorts bounds the ports of one adapter.
const maxPorts = 64

// readNICs reads the adapters of class infiniband, which holds InfiniBand, RoCE and EFA alike. Each port is a NIC; ports
// after the first are called "mlx5_0:2".
func (r *reader) readNICs() {
	names, err := r.t.List("class/infiniband")
	if err != nil {
		if missing(err) {
			r.res.Warnings = append(r.res.Warnings, "no class infiniband: this host has no RDMA adapters, or the container hides them")
		} else {
			r.note("class/infiniband", err)
		}
		return
	}
	slices.SortFunc(names, topology.CompareNames)
	for _, name := range names {
		r.adapter(name)
	}
	for i := range r.res.NICs {
		r.res.NICs[i].Index, r.res.NICs[i].Name = i, "NIC"+strconv.Itoa(i)
	}
}

// adapter reads one adapter. What cannot be read is noted and left out; the port is bad where its state is unreadable.
func (r *reader) adapter(name string) {
	dir := "class/infiniband/" + name
	nic := topology.NIC{Device: name, NUMA: -1, Rail: -1}
	nic.Firmware, nic.GUID = r.optional(dir+"/fw_ver"), strings.ReplaceAll(r.optional(dir+"/node_guid"), ":", "")
	r.fact(name+" board", r.optional(dir+"/board_id"), dir+"/board_id")
	r.fact(name+" type", r.optional(dir+"/hca_type"), dir+"/hca_type")
	r.fact(name+" firmware", nic.Firmware, dir+"/fw_ver")
	if target, err := r.t.Link(dir + "/device"); err == nil {
		if id, ok := normalPCI(target[strings.LastIndexByte(target, '/')+1:]); ok {
			nic.PCI = id
			r.fact(name+" PCI", id, dir+"/device")
		}
	} else if !missing(err) {
		r.note(dir+"/device", err)
	}
	if d := r.bus.devices[nic.PCI]; d != nil {
		nic.NUMA, nic.PCIe = d.NUMA, d.PCIe
	}
	nets, err := r.t.List(dir + "/device/net")
	if err == nil && len(nets) > 0 {
		nic.NetDev = nets[0]
	}
	ports, err := r.t.List(dir + "/ports")
	if err != nil || len(ports) == 0 {
		nic.Bad = "no port can be read"
		if err != nil {
			nic.Bad += ": " + reason(err)
		}
		r.res.NICs = append(r.res.NICs, nic)
		return
	}
	slices.SortFunc(ports, topology.CompareNames)
	for i, p := range ports[:min(len(ports), maxPorts)] {
		port := nic
		if i > 0 {
			port.Device = name + ":" + p
			if len(nets) == len(ports) {
				port.NetDev = nets[i]
			}
		}
		r.port(&port, dir+"/ports/"+p)
		r.res.NICs = append(r.res.NICs, port)
	}
}

// port reads one port.
func (r *reader) port(nic *topology.NIC, dir string) {
	var broken []string
	get := func(file string) string {
		s, err := text(r.t, dir+"/"+file)
		if err != nil && !missing(err) {
			broken = append(broken, file+" ("+reason(err)+")")
		}
		return s
	}
	state, rate := get("state"), get("rate")
	nic.LinkLayer = get("link_layer")
	phys := get("phys_state")
	_, nic.State, _ = strings.Cut(state, ": ")
	nic.State = strings.TrimSpace(nic.State)
	if _, p, ok := strings.Cut(phys, ": "); ok && strings.TrimSpace(p) == "Disabled" && nic.State == "" {
		nic.State = "DOWN"
	}
	v, err := portRate(rate)
	if err != nil && rate != "" {
		r.res.Warnings = append(r.res.Warnings, fmt.Sprintf("%s/rate: %v", dir, err))
	}
	nic.Rate = v
	r.fact(nic.Device+" rate", rate, dir+"/rate")
	r.fact(nic.Device+" state", state, dir+"/state")
	r.fact(nic.Device+" link layer", nic.LinkLayer, dir+"/link_layer")
	if dev := r.optional(dir + "/gid_attrs/ndevs/0"); dev != "" {
		nic.NetDev = dev
	}
	if len(broken) > 0 {
		r.res.Unreadable = append(r.res.Unreadable, fmt.Sprintf("%s: cannot read %s", nic.Device, strings.Join(broken, ", ")))
		if state == "" {
			nic.Bad = "its state cannot be read"
		}
	}
}

// portRate reads "400 Gb/sec (4X NDR)". A port that is down says what it would run at.
func portRate(s string) (units.Bandwidth, error) {
	if s == "" {
		return 0, nil
	}
	num, unit, _ := strings.Cut(s, " ")
	v, err := strconv.ParseFloat(num, 64)
	if err != nil || !(v >= 0) || v > 1e5 || !strings.HasPrefix(unit, "Gb/sec") {
		return 0, fmt.Errorf("%q is no rate such as \"400 Gb/sec (4X NDR)\"", clip(s))
	}
	return units.Gbps(v), nil
}
