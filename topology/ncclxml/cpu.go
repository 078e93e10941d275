package ncclxml

import (
	"fmt"
	"strconv"
	"strings"

	"rankmap/internal/units"
)

// cpuModel is one string for the attributes of a cpu element: "x86_64 AuthenticAMD family 25 model 1".
func cpuModel(e *element) string {
	var parts []string
	for _, a := range [...]struct{ attr, word string }{{"arch", ""}, {"vendor", ""}, {"familyid", "family "}, {"modelid", "model "}} {
		if v, ok := e.get(a.attr); ok && strings.TrimSpace(v) != "" {
			parts = append(parts, a.word+strings.TrimSpace(v))
		}
	}
	return strings.Join(parts, " ")
}

// cpuAttrs is the inverse of cpuModel: attributes in NCCL's order; nil when the string is not of that form.
func cpuAttrs(model string) [][2]string {
	f := strings.Fields(model)
	if len(f) == 0 || strings.Contains(model, ";") {
		return nil
	}
	switch f[0] {
	case "x86_64", "arm64", "ppc64", "aarch64":
	default:
		return nil
	}
	out := [][2]string{{"arch", f[0]}}
	f = f[1:]
	if len(f) > 0 && f[0] != "family" && f[0] != "model" {
		out = append(out, [2]string{"vendor", f[0]})
		f = f[1:]
	}
	for len(f) >= 2 {
		switch f[0] {
		case "family":
			out = append(out, [2]string{"familyid", f[1]})
		case "model":
			out = append(out, [2]string{"modelid", f[1]})
		}
		f = f[2:]
	}
	return out
}

// socketBandwidth is what NCCL counts between two CPUs, GB/s one way (src/graph/topo.h and ncclTopoGetInterCpuBw in
// topo.cc, June 2026). 0 when the file does not say enough.
func socketBandwidth(e *element) units.Bandwidth {
	num := func(a string) int {
		s, _ := e.get(a)
		v, _ := strconv.ParseInt(s, 0, 32)
		return int(v)
	}
	arch, _ := e.get("arch")
	vendor, _ := e.get("vendor")
	switch arch {
	case "ppc64":
		return units.GBps(32) // P9_BW
	case "arm64":
		return units.GBps(6) // ARM_BW
	case "x86_64":
	default:
		return 0
	}
	switch vendor {
	case "AuthenticAMD":
		return units.GBps(16) // AMD_BW
	case "GenuineIntel":
		model := num("modelid")
		switch {
		case num("familyid") != 6 || model < 0x55:
			return units.GBps(6) // BDW_QPI_BW
		case model >= 0xCF:
			return units.GBps(40) // ERP_QPI_BW
		case model >= 0x8F:
			return units.GBps(22) // SRP_QPI_BW
		}
		return units.GBps(10) // SKL_QPI_BW
	case "CentaurHauls", "Shanghai", "  Shanghai  ":
		if num("familyid") == 7 && num("modelid") == 0x5B {
			return units.GBps(9) // YONGFENG_ZPI_BW
		}
		return units.GBps(6) // ZPI_BW
	}
	return 0
}

func (c CPU) String() string { return fmt.Sprintf("NUMA %d, %s, CPUs %s", c.NUMA, c.Model, c.Affinity) }
