package hardware

import (
	"math"
)

// DomainParams is the physical form of NCCL inside one NVLink or PCIe domain: a low-latency protocol, a bulk protocol
// and the blend between them, all-to-all apart. Times are microseconds, efficiencies are shares of the link.
type DomainParams struct {
	B   float64 `yaml:"b"`   // us: launch of the low-latency protocol
	H   float64 `yaml:"h"`   // us a serial hop, low-latency protocol
	D   float64 `yaml:"d"`   // share by which latency grows while NCCL opens its channels (4 to 32 KiB)
	ELL float64 `yaml:"eLL"` // efficiency of the low-latency protocol
	BS  float64 `yaml:"bS"`  // us: launch of the bulk protocol
	HS  float64 `yaml:"hS"`  // us a serial hop, bulk protocol
	P   float64 `yaml:"p"`   // overlap of latency and transfer: above 1 they hide each other, below 1 a ramp adds
	EAR float64 `yaml:"eAR"` // efficiency of all_reduce at many ranks
	EAG float64 `yaml:"eAG"` // efficiency of all_gather
	ERS float64 `yaml:"eRS"` // efficiency of reduce_scatter
	FAR float64 `yaml:"fAR"` // share of all_reduce's bulk time that does not shrink with fewer ranks (local copy)
	FAG float64 `yaml:"fAG"` // the same of all_gather and reduce_scatter
	G   float64 `yaml:"g"`   // gain of in-switch reduction (NVLS) over the ring
	BN  float64 `yaml:"bN"`  // us: start-up of NVLS on 8 ranks
	BA  float64 `yaml:"ba"`  // us: launch of all_to_all
	PA  float64 `yaml:"pa"`  // us a peer, all_to_all
	DA  float64 `yaml:"da"`  // latency growth of all_to_all
	EA  float64 `yaml:"eA"`  // efficiency of all_to_all
	FA  float64 `yaml:"fA"`  // local share of all_to_all's bulk time
	RA  float64 `yaml:"rA"`  // slow start of all_to_all
	Q8  float64 `yaml:"q8"`  // factor on the bulk time when a one-byte type is reduced
	XS  float64 `yaml:"xs"`  // factor on the PCIe link when a group has more than two ranks
}

// CollectiveProfile is SYSTEM.collective.yaml: what was fitted on one system's measured collectives.
type CollectiveProfile struct {
	System        string        `yaml:"system"`
	Like          string        `yaml:"like,omitempty"`          // no fit of its own: use that system's
	Relation      string        `yaml:"relation,omitempty"`      // with like: "sibling" (same generation) or "generation"
	Link          string        `yaml:"link,omitempty"`          // "nvlink" or "pcie"
	LinkGBps      float64       `yaml:"linkGBps,omitempty"`      // one way a GPU, datasheet; efficiencies refer to it
	Multicast     bool          `yaml:"multicast,omitempty"`     // NVSwitch reduces in the switch
	NVLSFromRanks int           `yaml:"nvlsFromRanks,omitempty"` // smallest group for which NCCL used it
	Domain        *DomainParams `yaml:"domain,omitempty"`
	NotIdentified []string      `yaml:"notIdentified,flow,omitempty"` // parameters that the data leave at the prior
	Points        int           `yaml:"points,omitempty"`             // measurements behind the fit
	Libraries     []string      `yaml:"libraries,flow,omitempty"`     // NCCL versions measured
	Ranks         []int         `yaml:"ranks,flow,omitempty"`         // group sizes measured
	Curves        []Curve       `yaml:"curves,omitempty"`             // what physics misses
	Bands         []Band        `yaml:"bands,omitempty"`              // 80 % intervals
	Source        string        `yaml:"source"`
}

// Curve is ln(measured/physical) of one operation, group size, type class and library over log2(bytes): piecewise linear,
// constant beyond its ends.
type Curve struct {
	Op      string    `yaml:"op"`
	Ranks   int       `yaml:"ranks"`
	Byte    bool      `yaml:"byte,omitempty"`    // one-byte types (reductions only)
	Library string    `yaml:"library,omitempty"` // NCCL version
	Weight  float64   `yaml:"weight,omitempty"`  // against other curves; 0 = 1
	Log2    []float64 `yaml:"log2,flow"`
	R       []float64 `yaml:"r,flow"`
}

// Band is p10 and p90 of ln(measured/predicted), from cross-validation, for one provenance, operation and size class.
type Band struct {
	Provenance string  `yaml:"provenance"`
	Op         string  `yaml:"op,omitempty"` // empty: every operation
	Size       string  `yaml:"size"`         // "small" to 256 KiB, "mid" to 16 MiB, "large"
	Low        float64 `yaml:"low"`
	High       float64 `yaml:"high"`
	Points     int     `yaml:"points,omitempty"`
}

// FabricParams is the physical form of collectives over several nodes on one kind of network.
type FabricParams struct {
	AT float64 `yaml:"aT"` // us a tree level across nodes
	AR float64 `yaml:"aR"` // us a ring hop across nodes
	B0 float64 `yaml:"b0"` // us on top of the launch inside a node
	S  float64 `yaml:"s"`  // factor on latency once bulk protocols take over
	E  float64 `yaml:"e"`  // efficiency of the NICs, ring collectives
	P  float64 `yaml:"p"`  // overlap of latency and transfer
	BA float64 `yaml:"ba"` // us: launch of all_to_all across nodes
	PA float64 `yaml:"pa"` // us a remote peer
	EA float64 `yaml:"ea"` // efficiency of a GPU's NIC in all_to_all
}

// FabricProfile is fabric-NAME.yaml.
type FabricProfile struct {
	Name          string       `yaml:"name"`       // key: "infiniband"
	Kinds         []string     `yaml:"kinds,flow"` // topology's names of the fabric
	Note          string       `yaml:"note,omitempty"`
	Params        FabricParams `yaml:"params"`
	NotIdentified []string     `yaml:"notIdentified,flow,omitempty"`
	Points        int          `yaml:"points,omitempty"`
	Bands         []Band       `yaml:"bands,omitempty"`
	Source        string       `yaml:"source"`
}

// HostProfile is host-NAME.yaml: the floor that an eager launch never beats.
type HostProfile struct {
	Name    string   `yaml:"name"`
	Systems []string `yaml:"systems,flow"` // GPUs that usually sit in such a host
	FloorUs float64  `yaml:"floorUs"`      // us
	Source  string   `yaml:"source"`
}

// finite says that v is a usable number.
func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
