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
	System        string            `yaml:"system"`
	Like          string            `yaml:"like,omitempty"`          // no fit of its own: use that system's
	Relation      string            `yaml:"relation,omitempty"`      // with like: "sibling" (same generation) or "generation"
	Link          string            `yaml:"link,omitempty"`          // "nvlink" or "pcie"
	LinkGBps      float64           `yaml:"linkGBps,omitempty"`      // one way a GPU, datasheet; efficiencies refer to it
	Multicast     bool              `yaml:"multicast,omitempty"`     // NVSwitch reduces in the switch
	NVLSFromRanks int               `yaml:"nvlsFromRanks,omitempty"` // smallest group for which NCCL used it
	Domain        *DomainParams     `yaml:"domain,omitempty"`
	NotIdentified []string          `yaml:"notIdentified,flow,omitempty"` // parameters that the data leave at the prior
	Points        int               `yaml:"points,omitempty"`             // measurements behind the fit
	FloorUs       float64           `yaml:"floorUs,omitempty"`            // us: measured floor of eager launches; 0 = the host's
	Libraries     []string          `yaml:"libraries,flow,omitempty"`     // NCCL versions measured
	Ranks         []int             `yaml:"ranks,flow,omitempty"`         // group sizes measured
	Siblings      []string          `yaml:"siblings,flow,omitempty"`      // systems whose curves count too, with less weight
	Curves        []Curve           `yaml:"curves,omitempty"`             // what physics misses
	Bands         []Band            `yaml:"bands,omitempty"`              // 80 % intervals
	Custom        []CustomAllReduce `yaml:"custom,omitempty"`             // all-reduce kernels of serving frameworks
	Dispatch      []DispatchKernel  `yaml:"dispatch,omitempty"`           // expert-parallel exchanges
	Fabrics       []FabricProfile   `yaml:"fabrics,omitempty"`            // networks calibrated together with the system; they replace those of their name
	Source        string            `yaml:"source"`
}

// CustomAllReduce is a serving framework's own all_reduce on one node: one-shot, two-shot and multicast kernels.
type CustomAllReduce struct {
	Kernel    string   `yaml:"kernel"`                 // "vllm", "sglang", "trtllm"
	Libraries []string `yaml:"libraries,flow"`         // versions of the framework measured
	B1        float64  `yaml:"b1"`                     // us: one-shot launch
	C1        float64  `yaml:"c1"`                     // us a peer
	E1        float64  `yaml:"e1"`                     // efficiency
	B2        float64  `yaml:"b2"`                     // two-shot
	C2        float64  `yaml:"c2"`                     //
	E2        float64  `yaml:"e2"`                     //
	BM        float64  `yaml:"bm,omitempty"`           // us: multicast launch; 0 = no such kernel
	EM        float64  `yaml:"em,omitempty"`           //
	FloorUs   float64  `yaml:"eagerFloorUs,omitempty"` // eager: never faster than floor and copy
	CopyGBps  float64  `yaml:"eagerCopyGBps,omitempty"`
	Points    int      `yaml:"points"`
	Bands     []Band   `yaml:"bands"`            // 80 % intervals, provenance "graph" or "eager"
	Curves    []Curve  `yaml:"curves,omitempty"` // what the forms leave, by version and group size
}

// DispatchKernel is one phase of an expert-parallel exchange library. Which fields count depends on the mode:
//
//	"low_latency" (DeepEP): B, CE, Tok (dispatch), E, SMR (combine), P
//	"normal" (DeepEP): B0, B1, R, E, P, A, C0
//	"nvlink" (TensorRT-LLM): B, C, E, P, A, C0, X (two-sided)
//	"low_latency_nodes": B, C (a doubling of the nodes), E (of a GPU's NIC), P
//	"normal_nodes": B0, C, R, E, X, P, A, C0
type DispatchKernel struct {
	Mode     string           `yaml:"mode"`
	Phase    string           `yaml:"phase"`            // "dispatch", "combine", ...
	Kernel   string           `yaml:"kernel,omitempty"` // "NVLinkOneSided", ...
	B        float64          `yaml:"b,omitempty"`      // us
	CE       float64          `yaml:"cE,omitempty"`     // us an expert
	Tok      float64          `yaml:"tok,omitempty"`    // us a token and SM, at hidden 4096
	SMR      float64          `yaml:"smr,omitempty"`    // GB/s an SM
	B0       float64          `yaml:"b0,omitempty"`     // us
	B1       float64          `yaml:"b1,omitempty"`     // us at hidden 4096
	R        float64          `yaml:"r,omitempty"`      // GB/s an SM
	C        float64          `yaml:"c,omitempty"`      // us a doubling of the ranks
	E        float64          `yaml:"e"`                // efficiency
	P        float64          `yaml:"p"`                // overlap
	A        float64          `yaml:"a,omitempty"`      // ranks' worth of volume that goes out whatever the routing; two-sided "nvlink": ns a token of width 7168
	C0       float64          `yaml:"c0,omitempty"`     // bytes a copy besides the hidden state
	X        float64          `yaml:"x,omitempty"`      // power of the nodes with which the NICs' efficiency falls; "nvlink": of the ranks, the switches'
	Local    *LocalCorrection `yaml:"local,omitempty"`  // what the form misses
	Points   int              `yaml:"points"`
	MaxNodes int              `yaml:"maxNodes,omitempty"` // most nodes measured
	Bands    []Band           `yaml:"bands"`              // 80 % intervals by the bf16 bytes of a rank's tokens
}

// LocalCorrection is ln(measured/form) of an exchange over log2 of a rank's tokens: piecewise linear between knots, constant
// beyond its ends, at each knot linear in some factors of the shape.
type LocalCorrection struct {
	Log2    []float64     `yaml:"log2,flow"`
	Mean    []float64     `yaml:"mean,flow"`
	Factors []LocalFactor `yaml:"factors,omitempty"`
}

// LocalFactor is what one factor of the shape adds at each knot, by log2 of the factor; Low and High are the range measured.
type LocalFactor struct {
	Name  string    `yaml:"name"` // "sms", "copies", "topk", "hidden"
	Low   float64   `yaml:"low"`
	High  float64   `yaml:"high"`
	Slope []float64 `yaml:"slope,flow"`
}

// Curve is ln(measured/physical) of one operation, group size, type class and library over log2(bytes): piecewise linear,
// constant beyond its ends.
type Curve struct {
	Op      string    `yaml:"op"`
	Ranks   int       `yaml:"ranks"`
	Byte    bool      `yaml:"byte,omitempty"`    // one-byte types (reductions only)
	Library string    `yaml:"library,omitempty"` // NCCL version
	Other   bool      `yaml:"other,omitempty"`   // taken over from another system: not a measurement of this one
	Sibling bool      `yaml:"sibling,omitempty"` // a sibling's: tells what a library version changes, and what was not measured here at all
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
	B0 float64 `yaml:"b0"` // us on top of a launch of 5 us inside a node, in proportion for others
	AS float64 `yaml:"aS"` // us more for each of these once the bulk protocol takes over
	S  float64 `yaml:"s"`  // factor on the latency of all_to_all once bulk protocols take over
	K  float64 `yaml:"k"`  // bytes: middle of that change
	E  float64 `yaml:"e"`  // efficiency of the NICs, ring collectives
	E1 float64 `yaml:"e1"` // the same where a node brings one rank: two channels on one NIC
	P  float64 `yaml:"p"`  // overlap of latency and transfer
	BA float64 `yaml:"ba"` // us: launch of all_to_all across nodes
	PA float64 `yaml:"pa"` // us a remote peer
	EA float64 `yaml:"ea"` // efficiency of a GPU's NIC in all_to_all
}

// complete fills in what profiles of earlier calibrations do not have.
func (p *FabricParams) complete() {
	if p.AS == 0 {
		p.AS = 4.2 // 14 us for a hop by NCCL's Simple protocol against 2.7 by LL (tuning.cc)
	}
	if p.E1 == 0 {
		p.E1 = p.E
	}
}

// FabricProfile is fabric-NAME.yaml.
type FabricProfile struct {
	Name          string       `yaml:"name"`       // key: "infiniband"
	Kinds         []string     `yaml:"kinds,flow"` // topology's names of the fabric
	Note          string       `yaml:"note,omitempty"`
	Params        FabricParams `yaml:"params"`
	NotIdentified []string     `yaml:"notIdentified,flow,omitempty"`
	Points        int          `yaml:"points,omitempty"`
	MaxRanks      int          `yaml:"maxRanks,omitempty"` // largest group measured: beyond it congestion is not in the numbers
	Bands         []Band       `yaml:"bands,omitempty"`
	Source        string       `yaml:"source"`
}

// HostProfile is host-NAME.yaml: the floor that an eager launch never beats.
type HostProfile struct {
	Name    string   `yaml:"name"`
	Systems []string `yaml:"systems,flow"`    // GPUs that usually sit in such a host
	FloorUs float64  `yaml:"floorUs"`         // us
	Bands   []Band   `yaml:"bands,omitempty"` // 80 % intervals of eager launches on machines that nobody measured
	Source  string   `yaml:"source"`
}

// finite says that v is a usable number.
func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
