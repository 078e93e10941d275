package topology

import (
	"strings"

	"rankmap/internal/units"
)

// APIVersion and KindCluster head a cluster document.
const (
	APIVersion  = "rankmap/v1"
	KindCluster = "Cluster"
)

// Doc is a cluster in compact form, as YAML and JSON hold it: node classes, the nodes by host lists, the fabric. It
// loses nothing that Cluster holds. NewDoc makes one, Doc.Cluster turns it back.
type Doc struct {
	APIVersion string     `yaml:"apiVersion,omitempty" json:"apiVersion,omitempty"`
	Kind       string     `yaml:"kind,omitempty" json:"kind,omitempty"`
	Name       string     `yaml:"name" json:"name" strict:"required"`
	Unit       *UnitDoc   `yaml:"unit,omitempty" json:"unit,omitempty"`
	Classes    []ClassDoc `yaml:"classes" json:"classes" strict:"required"`
	Nodes      []NodeDoc  `yaml:"nodes" json:"nodes" strict:"lines,required"`
	Fabric     *FabricDoc `yaml:"fabric,omitempty" json:"fabric,omitempty"`
	Facts      []FactDoc  `yaml:"facts,omitempty" json:"facts,omitempty" strict:"lines"`
}

// UnitDoc says what the document's nodes are together, for presets: count N stands for N such units.
type UnitDoc struct {
	Kind      string `yaml:"kind" json:"kind" strict:"required"`             // "box" or "rack"
	LeafUnits int    `yaml:"leafUnits,omitempty" json:"leafUnits,omitempty"` // how many units share leaves; 0 = all
	Host      string `yaml:"host,omitempty" json:"host,omitempty"`           // prefix of the hosts' names, "node"
	Line      int    `yaml:"-" json:"-" strict:"line"`                       // where it stands
}

// ClassDoc is a node class. Distances come from GPUPaths, PCIePaths and NICPaths where given, else from Distances.
type ClassDoc struct {
	Name      string        `yaml:"name" json:"name" strict:"required"`
	GPUs      []GPUDoc      `yaml:"gpus" json:"gpus" strict:"lines,required"`
	NICs      []NICDoc      `yaml:"nics,omitempty" json:"nics,omitempty" strict:"lines"`
	Switches  []SwitchDoc   `yaml:"switches,omitempty" json:"switches,omitempty" strict:"lines"`
	NVLink    *NVLinkDoc    `yaml:"nvlink,omitempty" json:"nvlink,omitempty"`
	Distances *DistancesDoc `yaml:"distances,omitempty" json:"distances,omitempty"`
	GPUPaths  []PathRow     `yaml:"gpuPaths,omitempty" json:"gpuPaths,omitempty"`
	PCIePaths []PathRow     `yaml:"pciePaths,omitempty" json:"pciePaths,omitempty"`
	NICPaths  []PathRow     `yaml:"nicPaths,omitempty" json:"nicPaths,omitempty"`
	Sockets   int           `yaml:"sockets,omitempty" json:"sockets,omitempty" strict:"max=1024"`
	CPUModel  string        `yaml:"cpuModel,omitempty" json:"cpuModel,omitempty"`
	Virtual   bool          `yaml:"virtual,omitempty" json:"virtual,omitempty"`
	Line      int           `yaml:"-" json:"-" strict:"line"`
}

// GPUDoc is one GPU, or Count equal ones with consecutive indices.
type GPUDoc struct {
	Count       int      `yaml:"count,omitempty" json:"count,omitempty" strict:"min=1,max=256"`
	Index       *int     `yaml:"index,omitempty" json:"index,omitempty" strict:"max=65535"` // of the first; empty = its position
	Model       string   `yaml:"model,omitempty" json:"model,omitempty"`
	Name        string   `yaml:"name,omitempty" json:"name,omitempty"`
	UUID        string   `yaml:"uuid,omitempty" json:"uuid,omitempty"`
	PCI         string   `yaml:"pci,omitempty" json:"pci,omitempty"`
	NUMA        *int     `yaml:"numa,omitempty" json:"numa,omitempty" strict:"max=65535"` // empty = unknown
	NUMARange   string   `yaml:"numaRange,omitempty" json:"numaRange,omitempty"`
	GPUNUMA     *int     `yaml:"gpuNuma,omitempty" json:"gpuNuma,omitempty" strict:"max=65535"`
	CPUAffinity string   `yaml:"cpuAffinity,omitempty" json:"cpuAffinity,omitempty"`
	MemoryBytes int64    `yaml:"memoryBytes,omitempty" json:"memoryBytes,omitempty"`
	Compute     *Version `yaml:"computeCapability,omitempty" json:"computeCapability,omitempty"`
	MIG         bool     `yaml:"mig,omitempty" json:"mig,omitempty"`
	NoP2P       bool     `yaml:"noP2P,omitempty" json:"noP2P,omitempty"`
	Clique      string   `yaml:"clique,omitempty" json:"clique,omitempty"`
	FabricState string   `yaml:"fabricState,omitempty" json:"fabricState,omitempty"`
	NVLinksUp   int      `yaml:"nvlinksUp,omitempty" json:"nvlinksUp,omitempty" strict:"max=1024"`
	PCIe        *PCIeDoc `yaml:"pcie,omitempty" json:"pcie,omitempty"`
	Bad         string   `yaml:"bad,omitempty" json:"bad,omitempty"`
	Line        int      `yaml:"-" json:"-" strict:"line"`
}

// NICDoc is one NIC, or Count equal ones. Names and Devices are host lists of that many names, Name and Device those of
// a single NIC verbatim. Without a name NICs are called NIC0, NIC1, ... by index.
type NICDoc struct {
	Count     int      `yaml:"count,omitempty" json:"count,omitempty" strict:"min=1,max=256"`
	Index     *int     `yaml:"index,omitempty" json:"index,omitempty" strict:"max=65535"`
	Name      string   `yaml:"name,omitempty" json:"name,omitempty"`
	Device    string   `yaml:"device,omitempty" json:"device,omitempty"`
	Names     string   `yaml:"names,omitempty" json:"names,omitempty"`
	Devices   string   `yaml:"devices,omitempty" json:"devices,omitempty"`
	PCI       string   `yaml:"pci,omitempty" json:"pci,omitempty"`
	NUMA      *int     `yaml:"numa,omitempty" json:"numa,omitempty" strict:"max=65535"`
	Rate      *Rate    `yaml:"rate,omitempty" json:"rate,omitempty"`
	LinkLayer string   `yaml:"linkLayer,omitempty" json:"linkLayer,omitempty"`
	State     string   `yaml:"state,omitempty" json:"state,omitempty"`
	Firmware  string   `yaml:"firmware,omitempty" json:"firmware,omitempty"`
	GUID      string   `yaml:"guid,omitempty" json:"guid,omitempty"`
	NetDev    string   `yaml:"netdev,omitempty" json:"netdev,omitempty"`
	Rail      *int     `yaml:"rail,omitempty" json:"rail,omitempty" strict:"max=65535"` // of the first; the others follow
	PCIe      *PCIeDoc `yaml:"pcie,omitempty" json:"pcie,omitempty"`
	Bad       string   `yaml:"bad,omitempty" json:"bad,omitempty"`
	Line      int      `yaml:"-" json:"-" strict:"line"`
}

// PCIeDoc is the state of a slot.
type PCIeDoc struct {
	Gen      int `yaml:"gen,omitempty" json:"gen,omitempty" strict:"max=7"`
	MaxGen   int `yaml:"maxGen,omitempty" json:"maxGen,omitempty" strict:"max=7"`
	Width    int `yaml:"width,omitempty" json:"width,omitempty" strict:"max=32"`
	MaxWidth int `yaml:"maxWidth,omitempty" json:"maxWidth,omitempty" strict:"max=32"`
}

// SwitchDoc is a switch inside a node, or Count equal ones.
type SwitchDoc struct {
	Kind  SwitchKind `yaml:"kind" json:"kind" strict:"required"`
	Names string     `yaml:"names" json:"names" strict:"required"`
	PCI   string     `yaml:"pci,omitempty" json:"pci,omitempty"`
	Line  int        `yaml:"-" json:"-" strict:"line"`
}

// NVLinkDoc is the NVLink wiring: Links up between every pair of GPUs, or Pairs one by one. Wiring is worked out when
// empty.
type NVLinkDoc struct {
	Wiring *NVLinkKind `yaml:"wiring,omitempty" json:"wiring,omitempty"`
	Links  int         `yaml:"links,omitempty" json:"links,omitempty" strict:"max=1024"`
	GBps   float64     `yaml:"gbps,omitempty" json:"gbps,omitempty"` // one link one way, GB/s; empty = by the GPU model
	Pairs  []PairDoc   `yaml:"pairs,omitempty" json:"pairs,omitempty" strict:"lines"`
	Scale  float64     `yaml:"scale,omitempty" json:"scale,omitempty" strict:"max=1000"` // what-if: all rates times this
	Line   int         `yaml:"-" json:"-" strict:"line"`
}

// PairDoc is a bundle between two GPUs, by position.
type PairDoc struct {
	A     int     `yaml:"a" json:"a" strict:"required"`
	B     int     `yaml:"b" json:"b" strict:"required"`
	Count int     `yaml:"count" json:"count" strict:"max=1024"`
	Down  int     `yaml:"down,omitempty" json:"down,omitempty" strict:"max=1024"`
	GBps  float64 `yaml:"gbps,omitempty" json:"gbps,omitempty"`
	Line  int     `yaml:"-" json:"-" strict:"line"`
}

// DistancesDoc states PCIe distances by rule. GPUs and NICs are dealt in order over Switches PCIe switches (NICs over
// the first ones if fewer); parts of one switch are SameSwitch apart, of one NUMA node SameNUMA, others Far.
type DistancesDoc struct {
	Switches   int      `yaml:"switches" json:"switches" strict:"required,min=1,max=256"`
	SameSwitch PathKind `yaml:"sameSwitch" json:"sameSwitch" strict:"required"`
	SameNUMA   PathKind `yaml:"sameNuma" json:"sameNuma" strict:"required"`
	Far        PathKind `yaml:"far" json:"far" strict:"required"`
	Line       int      `yaml:"-" json:"-" strict:"line"`
}

// NodeDoc is the hosts of one class that differ in nothing else. Hosts is a host list; Name is one name verbatim.
type NodeDoc struct {
	Class  string     `yaml:"class" json:"class" strict:"required"`
	Hosts  string     `yaml:"hosts,omitempty" json:"hosts,omitempty"`
	Name   string     `yaml:"name,omitempty" json:"name,omitempty"`
	Clique string     `yaml:"clique,omitempty" json:"clique,omitempty"`
	Leaf   string     `yaml:"leaf,omitempty" json:"leaf,omitempty"`
	Pod    string     `yaml:"pod,omitempty" json:"pod,omitempty"`
	Rack   string     `yaml:"rack,omitempty" json:"rack,omitempty"`
	Bad    string     `yaml:"bad,omitempty" json:"bad,omitempty"`
	GPUs   []IdentDoc `yaml:"gpus,omitempty" json:"gpus,omitempty" strict:"lines"`
	NICs   []IdentDoc `yaml:"nics,omitempty" json:"nics,omitempty" strict:"lines"`
	Line   int        `yaml:"-" json:"-" strict:"line"`
}

// IdentDoc is what tells one part of one node from the same part of its class.
type IdentDoc struct {
	Index       int    `yaml:"index" json:"index" strict:"max=65535"`
	Name        string `yaml:"name,omitempty" json:"name,omitempty"`
	Device      string `yaml:"device,omitempty" json:"device,omitempty"`
	PCI         string `yaml:"pci,omitempty" json:"pci,omitempty"`
	UUID        string `yaml:"uuid,omitempty" json:"uuid,omitempty"`
	NetDev      string `yaml:"netdev,omitempty" json:"netdev,omitempty"`
	NUMA        *int   `yaml:"numa,omitempty" json:"numa,omitempty" strict:"max=65535"`
	CPUAffinity string `yaml:"cpuAffinity,omitempty" json:"cpuAffinity,omitempty"`
}

// FabricDoc is the network.
type FabricDoc struct {
	Kind       FabricKind `yaml:"kind,omitempty" json:"kind,omitempty"`
	NICRate    *Rate      `yaml:"nicRate,omitempty" json:"nicRate,omitempty"`
	Tiers      []TierDoc  `yaml:"tiers,omitempty" json:"tiers,omitempty" strict:"lines"`
	SHARP      bool       `yaml:"sharp,omitempty" json:"sharp,omitempty"`           // the switches reduce and NCCL's plugin is loaded
	NVSwitches string     `yaml:"nvswitches,omitempty" json:"nvswitches,omitempty"` // of each rack: a host list
	Line       int        `yaml:"-" json:"-" strict:"line"`
}

// TierDoc is one level of the network. Switches are host lists.
type TierDoc struct {
	Name             string   `yaml:"name" json:"name" strict:"required"`
	Switches         []string `yaml:"switches,omitempty" json:"switches,omitempty" strict:"lines"`
	Oversubscription float64  `yaml:"oversubscription,omitempty" json:"oversubscription,omitempty"`
	RailOptimized    bool     `yaml:"railOptimized,omitempty" json:"railOptimized,omitempty"`
}

// FactDoc says where a statement comes from.
type FactDoc struct {
	What   string `yaml:"what" json:"what" strict:"required"`
	Value  string `yaml:"value,omitempty" json:"value,omitempty"`
	Source string `yaml:"source" json:"source" strict:"required"`
}

// PathRow is one row of a distance matrix, written as words with blanks between: "X NV PIX".
type PathRow []PathKind

// MarshalText writes the row.
func (r PathRow) MarshalText() ([]byte, error) {
	words := make([]string, len(r))
	for i, k := range r {
		words[i] = k.String()
	}
	return []byte(strings.Join(words, " ")), nil
}

// UnmarshalText reads the row.
func (r *PathRow) UnmarshalText(b []byte) error {
	words := strings.Fields(string(b))
	*r = make(PathRow, len(words))
	for i, w := range words {
		if err := (*r)[i].UnmarshalText([]byte(w)); err != nil {
			return err
		}
	}
	return nil
}

// Rate is a network rate in text: "400G", or "50GB/s" where gigabits would not be exact.
type Rate units.Bandwidth

// MarshalText writes the shortest text that reads back the same.
func (r Rate) MarshalText() ([]byte, error) {
	b := units.Bandwidth(r)
	return []byte(shortest(b.Gbps(), func(v float64) bool { return units.Gbps(v) == b }) + "G"), nil
}

// UnmarshalText reads units.ParseRate's notation.
func (r *Rate) UnmarshalText(b []byte) error {
	v, err := units.ParseRate(string(b))
	*r = Rate(v)
	return err
}
