package fabric

import "strings"

// pciKind tells GPUs, NICs and NVSwitches by the name in the PCI ID database; "" for everything else.
func pciKind(text string) string {
	low := strings.ToLower(text)
	has := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(low, w) {
				return true
			}
		}
		return false
	}
	switch {
	case text == "":
		return ""
	case strings.HasPrefix(low, "nvidia corporation"):
		switch {
		case has("nvswitch", "device 22a3", "device 1af1", "device 1ac2"): // NVSwitch 3, 2 and 1
			return "nvswitch"
		case has("audio", "usb", "ucsi", "serial", "bridge", "pci express", "tegra", "smbus", "memory"):
			return ""
		case has("connectx", "bluefield"):
			return "nic"
		}
		return "gpu"
	case has("instinct", "aldebaran", "arcturus", "aqua vanjaram"): // AMD's accelerators
		return "gpu"
	case strings.HasPrefix(low, "mellanox technologies"):
		if has("soc management", "bridge", "switch", "nvme", "dma controller", "crypto") {
			return ""
		}
		return "nic"
	case has("ethernet", "infiniband", "omni-path", "network adapter", "network connection", "elastic fabric", "network controller", "virtio network", "ena adapter"):
		if has("bridge", "phy", "root port") {
			return ""
		}
		return "nic"
	}
	return ""
}

// gpuModels maps the bracketed product of the PCI ID database to a key of configs/hardware, longest first.
var gpuModels = []struct{ product, model string }{
	{"RTX PRO 6000 Blackwell Server", "rtx_pro_6000"},
	{"HGX GB200", "gb200"}, {"V100 SXM2", "v100_sxm2"}, {"V100 SXM3", "v100_sxm2"}, {"A100 SXM4", "a100_sxm"},
	{"H100 SXM5", "h100_sxm"}, {"H200 SXM", "h200_sxm"}, {"GB200", "gb200"}, {"GB300", "gb300"}, {"GH200", "gh200"},
	{"B200", "b200_sxm"}, {"B300", "b300_sxm"}, {"L40S", "l40s"}, {"H800]", "h800_sxm"}, {"H20]", "h20"},
}

// gpuName takes the product out of "NVIDIA Corporation AD102GL [RTX 6000 Ada Generation]".
func gpuName(text string) (name, model string) {
	name = strings.TrimSpace(strings.TrimPrefix(text, "NVIDIA Corporation"))
	if n := len(name); n > 11 && name[n-1] == ']' && name[n-11] == '[' && name[n-6] == ':' { // ids of lspci -nn
		name = strings.TrimSpace(name[:n-11])
	}
	if i := strings.LastIndexByte(name, '['); i >= 0 {
		if j := strings.IndexByte(name[i:], ']'); j > 0 {
			name = name[i+1 : i+j]
		}
	}
	if strings.HasPrefix(text, "NVIDIA") {
		name = "NVIDIA " + name
	}
	for _, m := range gpuModels {
		if strings.Contains(text, m.product) {
			return name, m.model
		}
	}
	return name, ""
}
