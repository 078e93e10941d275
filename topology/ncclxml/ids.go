package ncclxml

import "rankmap/internal/units"

// gpuName names a GPU by its PCI ids: the product as drivers print it, and the key of configs/hardware where there is
// a datasheet. Source: the PCI ID repository (pci-ids.ucw.cz, vendors 10de and 1002), 2026.
type gpuName struct {
	name, model string
	memory      units.Bytes // where the product's differs from the datasheet's
}

var nvidiaGPUs = map[string]gpuName{
	"0x15f9": {"Tesla P100-SXM2-16GB", "", 0},
	"0x1db1": {"Tesla V100-SXM2-16GB", "v100_sxm2", 16e9},
	"0x1db4": {"Tesla V100-PCIE-16GB", "", 0},
	"0x1db5": {"Tesla V100-SXM2-32GB", "v100_sxm2", 0},
	"0x1db6": {"Tesla V100-PCIE-32GB", "", 0},
	"0x1db8": {"Tesla V100-SXM3-32GB", "v100_sxm2", 0},
	"0x1eb8": {"Tesla T4", "", 0},
	"0x20b0": {"NVIDIA A100-SXM4-40GB", "a100_sxm", 40e9},
	"0x20b2": {"NVIDIA A100-SXM4-80GB", "a100_sxm", 0},
	"0x20b5": {"NVIDIA A100 80GB PCIe", "", 0},
	"0x20b7": {"NVIDIA A30", "", 0},
	"0x20f1": {"NVIDIA A100-PCIE-40GB", "", 0},
	"0x20f3": {"NVIDIA A800-SXM4-80GB", "", 0},
	"0x20f5": {"NVIDIA A800 80GB PCIe", "", 0},
	"0x2204": {"NVIDIA GeForce RTX 3090", "", 0},
	"0x2230": {"NVIDIA RTX A6000", "", 0},
	"0x2235": {"NVIDIA A40", "", 0},
	"0x2236": {"NVIDIA A10", "", 0},
	"0x2237": {"NVIDIA A10G", "", 0},
	"0x2321": {"NVIDIA H100 NVL", "", 0},
	"0x2322": {"NVIDIA H800 PCIe", "", 0},
	"0x2324": {"NVIDIA H800", "h800_sxm", 0},
	"0x2329": {"NVIDIA H20", "h20", 0},
	"0x2330": {"NVIDIA H100 80GB HBM3", "h100_sxm", 0},
	"0x2331": {"NVIDIA H100 PCIe", "", 0},
	"0x2335": {"NVIDIA H200", "h200_sxm", 0},
	"0x233b": {"NVIDIA H200 NVL", "", 0},
	"0x2342": {"NVIDIA GH200 480GB", "gh200", 0},
	"0x2348": {"NVIDIA GH200 144G HBM3e", "gh200", 144e9},
	"0x2684": {"NVIDIA GeForce RTX 4090", "", 0},
	"0x26b1": {"NVIDIA RTX 6000 Ada Generation", "", 0},
	"0x26b5": {"NVIDIA L40", "", 0},
	"0x26b9": {"NVIDIA L40S", "l40s", 0},
	"0x26ba": {"NVIDIA L20", "", 0},
	"0x27b8": {"NVIDIA L4", "", 0},
	"0x2901": {"NVIDIA B200", "b200_sxm", 0},
	"0x2941": {"NVIDIA GB200", "gb200", 0},
	"0x2b85": {"NVIDIA GeForce RTX 5090", "", 0},
	"0x2bb5": {"NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx_pro_6000", 0},
	"0x2e12": {"NVIDIA GB10", "", 0},
	"0x3182": {"NVIDIA B300 SXM6 AC", "b300_sxm", 0},
	"0x31c2": {"NVIDIA GB300", "gb300", 0},
	"0x31c3": {"NVIDIA GB300", "gb300", 0},
}

var amdGPUs = map[string]string{
	"0x66a0": "AMD Instinct MI60/MI50",
	"0x66a1": "AMD Instinct MI60/MI50",
	"0x738c": "AMD Instinct MI100",
	"0x7408": "AMD Instinct MI250X",
	"0x740c": "AMD Instinct MI250X/MI250",
	"0x740f": "AMD Instinct MI210",
	"0x74a0": "AMD Instinct MI300A",
	"0x74a1": "AMD Instinct MI300X",
	"0x74a5": "AMD Instinct MI325X",
	"0x75a0": "AMD Instinct MI350X",
}
