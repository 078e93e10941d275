package sysfs

import (
	"encoding/binary"
	"fmt"
	"sort"
	"strings"
)

// Where ACS lies in the configuration space (PCI Express base specification, 7.7.11): extended capabilities begin at
// 0x100, ACS has id 0x000d, its control register stands 6 bytes in.
const (
	extendedStart = 0x100
	acsCapability = 0x000d
	acsControl    = 6
	// P2P request redirect, completion redirect, upstream forwarding.
	acsRedirect = 1<<2 | 1<<3 | 1<<4
)

// readIOMMU reads whether the IOMMU translates and whether bridges redirect peer-to-peer traffic. The configuration
// space beyond its first 64 bytes needs root: without, ACS is unknown.
func (r *reader) readIOMMU() {
	types := map[string]int{}
	for _, g := range r.res.GPUs() {
		target, err := r.t.Link(g.dir + "/iommu_group")
		if err != nil {
			continue
		}
		group := target[strings.LastIndexByte(target, '/')+1:]
		if !allDigits(group) {
			continue
		}
		if t := r.optional("kernel/iommu_groups/" + group + "/type"); t != "" {
			types[t]++
		}
	}
	var words []string
	for t := range types {
		words = append(words, t)
		if t != "identity" {
			r.res.IOMMU = "the IOMMU translates the GPUs' addresses (type " + t + ")"
		}
	}
	sort.Strings(words)
	r.fact("IOMMU of the GPUs", strings.Join(words, ", "), "kernel/iommu_groups")
	var bridges []string
	for b := range r.bus.bridges {
		if _, ok := normalPCI(b); ok {
			bridges = append(bridges, b)
		}
	}
	sort.Strings(bridges)
	known, hidden := 0, 0
	for _, b := range bridges {
		config, err := r.t.Read("bus/pci/devices/" + b + "/config")
		if err != nil {
			continue
		}
		control, found, readable := acs(config)
		switch {
		case !readable:
			hidden++
		case found:
			known++
			if control&acsRedirect != 0 {
				r.res.ACS = append(r.res.ACS, b)
			}
		}
	}
	switch {
	case hidden > 0:
		r.fact("ACS", fmt.Sprintf("unknown for %d bridges (needs root)", hidden), "bus/pci/devices/*/config")
	case known > 0:
		r.fact("ACS", fmt.Sprintf("redirects at %d of %d bridges", len(r.res.ACS), known), "bus/pci/devices/*/config")
	}
}

// acs finds the ACS control register. readable is false when the extended space was not shown.
func acs(config []byte) (control uint16, found, readable bool) {
	if len(config) <= extendedStart+3 {
		return 0, false, false
	}
	if at := capability(config, acsCapability); at > 0 {
		return binary.LittleEndian.Uint16(config[at+acsControl:]), true, true
	}
	return 0, false, true
}

// capability finds an extended capability with at least 12 bytes behind it; 0 when there is none.
func capability(config []byte, id uint32) int {
	at := extendedStart
	for range 64 { // a chain is at most as long as the space
		if at < extendedStart || at+12 > len(config) {
			break
		}
		head := binary.LittleEndian.Uint32(config[at:])
		if head == 0 || head == 0xffffffff {
			break
		}
		if head&0xffff == id {
			return at
		}
		at = int(head >> 20)
	}
	return 0
}

// withoutSerial returns a configuration space whose device serial number (capability 0x0003, 8 bytes) is blank: no
// record holds it.
func withoutSerial(config []byte) []byte {
	at := 0
	if len(config) > extendedStart {
		at = capability(config, 0x0003)
	}
	if at == 0 {
		return config
	}
	out := append([]byte(nil), config...)
	clear(out[at+4 : at+12])
	return out
}
