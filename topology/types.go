package topology

import "rankmap/internal/units"

// GPUID numbers a cluster's GPUs, node-major, from 0.
type GPUID int32

// NodeID numbers a cluster's nodes from 0.
type NodeID int32

// PathKind is how two parts of one node reach each other, in nvidia-smi's words, nearest first.
type PathKind uint8

// The path kinds. PathUnknown means that no source said; it is never treated as near or far.
const (
	PathUnknown PathKind = iota
	PathSelf             // X
	PathNV               // NV#: NVLink, directly or over NVSwitch
	PathC2C              // NVLink-C2C between GPU and CPU
	PathPIX              // at most one PCIe bridge
	PathPXB              // several PCIe bridges, no host bridge
	PathPHB              // a PCIe host bridge
	PathNODE             // between host bridges of one NUMA node
	PathSYS              // over the link between NUMA nodes (old name: SOC)
	numPathKinds
)

// GPU is one accelerator of a node. Zero values mean "not stated by any source"; NUMA uses -1 for that.
type GPU struct {
	Index        int    // NVML's index, or the column of the matrix
	Model        string // key of configs/hardware, such as "h200_sxm"; empty when the source names no GPU
	Name         string // as the driver prints it, "NVIDIA H200"
	UUID         string
	PCI          string // normalised: 8-digit domain, lower case, "00000000:00:06.0"
	NUMA         int    // CPU NUMA node, -1 unknown
	NUMARange    string // verbatim where it is not one number ("0-1", "N/A")
	GPUNUMA      int    // GPU NUMA ID of coherent systems, -1 unknown
	CPUAffinity  string // ranges as printed, "0-55,112-167"; empty when hidden
	Memory       units.Bytes
	ComputeMajor int
	ComputeMinor int
	MIG          bool
	Clique       string // NVLink fabric identity "ClusterUUID.CliqueId"; empty when none; ".x" is relative to Node.Clique
	FabricState  string // "completed", "in progress", "not supported", ...
	NVLinksUp    int    // this GPU's own NVLinks that are up, to any peer; 0 = not stated, see Cluster.LinksUp
	PCIe         PCIeLink
	Bad          string // why the planner must avoid it; empty when healthy
	NoP2P        bool   // the driver says that peer-to-peer copies to other GPUs of the node do not work
}

// PCIeLink is the state of a device's slot.
type PCIeLink struct {
	Gen, MaxGen     int
	Width, MaxWidth int
}

// NIC is one network adapter port that GPUs can use.
type NIC struct {
	Index     int
	Name      string // column name, "NIC0" or "mlx5_0"
	Device    string // "mlx5_0"; empty when not stated
	PCI       string
	NUMA      int
	Rate      units.Bandwidth // one way; 0 unknown
	LinkLayer string          // "InfiniBand", "Ethernet", ""
	State     string          // "ACTIVE", "DOWN", ""
	Firmware  string
	GUID      string
	NetDev    string
	Rail      int // which rail (leaf plane) it sits on; -1 unknown
	PCIe      PCIeLink
	Bad       string
}

// SwitchKind tells switches apart.
type SwitchKind uint8

// The kinds of switch.
const (
	NVSwitch SwitchKind = iota
	PCIeSwitch
	LeafSwitch
	SpineSwitch
	CoreSwitch
)

// Switch is a part that forwards.
type Switch struct {
	Name string
	Kind SwitchKind
	PCI  string
}

// NVLink is a bundle of parallel NVLinks between two GPUs of a node as the source states it: over NVSwitch, every pair
// carries the GPU's full count. Pairs are stored once, A < B.
type NVLink struct {
	A, B    int             // positions in NodeClass.GPUs
	Count   int             // links of the bundle that are up
	PerLink units.Bandwidth // one way for one link; 0 = by the GPU model
	Down    int             // links that should be up and are not
}

// NVLinkKind is how the GPUs of a node (or rack) are wired.
type NVLinkKind uint8

// The wirings.
const (
	NVLinkNone     NVLinkKind = iota // PCIe only
	NVLinkUnknown                    // the source cannot show NVLink (topo -mp)
	NVLinkDirect                     // every pair of a domain directly, no switch (4-GPU boards, bridges)
	NVLinkCubeMesh                   // direct links, some pairs of a domain without one (DGX-1)
	NVLinkSwitched                   // NVSwitch: every GPU reaches every other at its full rate
)

// NodeClass is what one host contains. Nodes that are equal but for numbering share a class.
type NodeClass struct {
	Name      string
	GPUs      []GPU
	NICs      []NIC
	Switches  []Switch
	NVLinks   []NVLink
	Wiring    NVLinkKind
	LinkScale float64      // what-if: NVLink rates times this; 0 = as they are
	GPUPaths  [][]PathKind // [gpu][gpu] nearest relation; PathNV where NVLink joins them directly or over NVSwitch
	PCIePaths [][]PathKind // [gpu][gpu] PCIe relation where a source states it besides NVLink; nil otherwise
	NICPaths  [][]PathKind // [gpu][nic]
	Sockets   int          // CPU sockets, 0 unknown
	CPUModel  string
	Virtual   bool // PCI distances are flattened by a hypervisor: unknown, not far
}

// Node is one host.
type Node struct {
	Name   string
	Class  int    // index in Cluster.Classes
	First  GPUID  // its first GPU
	Clique string // NVLink fabric identity shared with other nodes (a rack); empty when NVLink ends in the node
	Leaf   string // leaf switch or block; in a rail-optimised fabric the group of nodes that share the leaves of all rails
	Pod    string // leaves under the same spines; empty when there is one pod or none is known
	Rack   string
	Bad    string

	// GPUIdents and NICIdents hold what tells this node's parts from those of its class: nil when nothing does, else
	// as long as the class's lists, in the class's order.
	GPUIdents []Ident
	NICIdents []Ident
}

// Ident is the identity of one part of one node. Two nodes that are equal but for these share a class.
type Ident struct {
	Index       int    // GPU: NVML's index on this node; NIC: its position
	Name        string // NIC only: column name
	Device      string // NIC only: "mlx5_0"
	PCI         string
	UUID        string // GPU UUID, or the NIC's GUID
	NetDev      string // NIC only
	NUMA        int
	CPUAffinity string // GPU only
}

// FabricKind is the network between nodes.
type FabricKind string

// The fabrics that profiles know.
const (
	FabricUnknown    FabricKind = ""
	FabricInfiniBand FabricKind = "InfiniBand"
	FabricRoCE       FabricKind = "RoCE"
	FabricEFA        FabricKind = "EFA"
	FabricSlingshot  FabricKind = "Slingshot"
	FabricTCP        FabricKind = "TCP"
)

// Tier is one level of the network, nearest first (leaf, spine, core).
type Tier struct {
	Name             string
	Switches         []string
	Oversubscription float64 // downlinks/uplinks by bandwidth, 1 = non-blocking, 0 unknown
	RailOptimized    bool
}

// Fabric is the network between nodes.
type Fabric struct {
	Kind    FabricKind
	NICRate units.Bandwidth // used where a NIC states none; 0 unknown
	Tiers   []Tier
	// SHARP says that the switches reduce (InfiniBand SHARP) and that NCCL's plugin for it is loaded.
	SHARP bool
	// NVSwitches names the switches that each rack with NVLink between its nodes has outside its nodes.
	NVSwitches []string
}

// Cluster is a machine: what discovery and files produce and planning reads.
type Cluster struct {
	Name    string
	Classes []NodeClass
	Nodes   []Node
	Fabric  Fabric
	// Domains lists the NVLink domains, each ascending, ordered by first GPU; every GPU is in exactly one (alone if
	// need be). Nil when no source can tell. Filled by Finish.
	Domains [][]GPUID

	Facts []Fact // provenance, sorted

	gpuNode  []NodeID
	domainOf []int32
	derived  []classInfo // by class
	domains  []domainInfo
	nodes    []nodeInfo
	leaves   []leafInfo
}

// Fact says where a statement about the machine comes from.
type Fact struct {
	What   string // "node0/GPU3 NUMA"
	Value  string
	Source string // "smi:topo.txt:7", "nvml", "preset hgx-h100", "flag --nic-rate"
}
