package measured

import "strings"

// hardwareOf maps a system's name in a table to the key of its datasheet: the tables tell server and workstation boards
// of one chip apart, the datasheets do not.
func hardwareOf(system string) string {
	return strings.TrimSuffix(system, "_server")
}

// machine is what a published "gpu" with its "intra_link" stands for.
type machine struct {
	gpu      string // published name
	link     string // word that the intra-node link must contain; "" = any
	system   string // reported as; "" = the published name
	hardware string
	wiring   Wiring
	domain   int // GPUs of one NVLink domain where that is more than a node
}

// machines: the first match counts. Reported under the preset's system where the machine is that preset, else under the
// GPU's own name (a four-GPU board without a switch is no HGX box).
var machines = []machine{
	{"A100-SXM", "NVSwitch", "a100_sxm", "a100_sxm", WiringNVSwitch, 0},
	{"A100-SXM", "direct", "", "a100_sxm", WiringDirect, 0},
	{"A100-PCIE", "PCIe", "", "", WiringPCIe, 0},
	{"H100-SXM", "NVSwitch", "h100_sxm", "h100_sxm", WiringNVSwitch, 0},
	{"H100-SXM", "direct", "", "h100_sxm", WiringDirect, 0},
	{"H200-SXM", "NVSwitch", "h200_sxm", "h200_sxm", WiringNVSwitch, 0},
	{"H200-SXM", "direct", "", "h200_sxm", WiringDirect, 0},
	{"H800-SXM", "NVSwitch", "", "h800_sxm", WiringNVSwitch, 0},
	{"H20", "NVSwitch", "", "h20", WiringNVSwitch, 0},
	{"B200-SXM", "NVSwitch", "b200_sxm", "b200_sxm", WiringNVSwitch, 0},
	{"B300-SXM", "NVSwitch", "b300_sxm", "b300_sxm", WiringNVSwitch, 0},
	{"GB200", "", "gb200", "gb200", WiringRack, 72},
	{"GB300", "", "gb300", "gb300", WiringRack, 72},
	{"GH200", "", "", "gh200", WiringDirect, 0},
	{"V100-SXM2", "cube mesh", "", "v100_sxm2", WiringCubeMesh, 0},
	{"V100-SXM2", "", "", "v100_sxm2", WiringUnstated, 0},
	{"RTX-PRO-6000", "PCIe", "rtx_pro_6000_server", "rtx_pro_6000", WiringPCIe, 0},
	{"L40S", "PCIe", "l40s", "l40s", WiringPCIe, 0},
}

// machineOf looks a published GPU up. An unknown GPU is returned under its own name without hardware; ok is false for a
// name that does not say which GPU it was ("H800 or H100").
func machineOf(gpu, link string) (m machine, ok bool) {
	for _, m := range machines {
		if m.gpu == gpu && strings.Contains(link, m.link) {
			if m.system == "" {
				m.system = m.gpu
			}
			return m, true
		}
	}
	m = machine{gpu: gpu, system: gpu}
	switch {
	case strings.Contains(link, "no P2P"):
		m.wiring = WiringPCIeHost
	case strings.Contains(link, "PCIe"):
		m.wiring = WiringPCIe
	case strings.Contains(link, "NVSwitch"):
		m.wiring = WiringNVSwitch
	case strings.Contains(link, "direct"):
		m.wiring = WiringDirect
	}
	return m, gpu != "" && !strings.Contains(gpu, " or ") && !strings.Contains(gpu, "not stated")
}
