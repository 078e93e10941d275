package ncclxml

import (
	"rankmap/internal/units"
	"rankmap/topology"
)

// Result is what one file says.
type Result struct {
	System   string // name attribute of the root; most files have none
	Version  int    // 1 NCCL, 2 RCCL
	AMD      bool   // an RCCL file: AMD GPUs and xgmi, which NCCL refuses
	Dump     bool   // GPUs carry ranks: NCCL wrote it, so what it does not list does not exist
	Hosts    []Host // in document order; one for each host hash
	Facts    []topology.Fact
	Warnings []string // contradictions and what could not be used, each with file:line, in document order
}

// Host is one machine of the file.
type Host struct {
	Name  string // "node0", "node1", ... in document order
	Hash  string // host_hash as printed; empty when not stated
	Class topology.NodeClass
	// Clique is equal on hosts whose GPUs hang on the same NVLink switches (multi-node NVLink dumps put several hosts
	// under one system); empty when NVLink ends in the host.
	Clique string

	CPUs        []CPU
	Devices     []Device // every GPU, NIC and unclassed PCI device, in document order
	VirtualNets []string // container bridges and the like, left out of Class.NICs; sorted, each once
}

// CPU is one cpu element: a NUMA node, not a socket.
type CPU struct {
	NUMA     int // -1 not stated
	Model    string
	Affinity string // ranges
	// Socket is the bandwidth one way that NCCL counts between this CPU and another (src/graph/topo.h).
	Socket units.Bandwidth
}

// Device is one PCI device below the bridges.
type Device struct {
	PCI  string // normalised
	Kind string // "GPU", "NIC", "unknown" (no class in the file), "other"
	NUMA int    // -1 not stated
	Line int
	// NCCL is what NCCL takes the slot for; Bandwidth its GB/s one way. Zero where the file states no link.
	NCCL      topology.PCIeLink
	Bandwidth units.Bandwidth
}
