package measured

import (
	"fmt"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
)

// Launch says how the timed kernel was started.
type Launch uint8

// The launches.
const (
	LaunchGraph Launch = iota // from a CUDA graph, or measured so that no host floor shows
	LaunchEager               // one by one from the host
)

// String returns "graph" or "eager".
func (l Launch) String() string {
	if l == LaunchEager {
		return "eager"
	}
	return "graph"
}

// MarshalText writes the name.
func (l Launch) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads the name.
func (l *Launch) UnmarshalText(b []byte) error {
	switch string(b) {
	case "graph":
		*l = LaunchGraph
	case "eager":
		*l = LaunchEager
	default:
		return fmt.Errorf("unknown launch %q (known: graph, eager)", b)
	}
	return nil
}

// Wiring is how the GPUs of one node reach each other, where the source says.
type Wiring uint8

// The wirings.
const (
	WiringUnstated Wiring = iota
	WiringNVSwitch        // every GPU to every other at its full rate, inside the node
	WiringRack            // the NVSwitch domain is the rack (NVL72)
	WiringDirect          // every pair directly, no switch: the links are shared out over the peers
	WiringCubeMesh        // direct links, some pairs without one
	WiringPCIe            // no NVLink
	WiringPCIeHost        // no NVLink and no peer access: everything is staged in host memory
)

// Kind tells what a row timed.
type Kind uint8

// The kinds.
const (
	Collective Kind = iota // one collective, alone
	Contention             // one collective while another one runs (Row.Beside)
	Exchange               // dispatch or combine of a mixture of experts (Row.Exchange)
)

// Row is one measurement.
type Row struct {
	Kind Kind

	// System is the name that tables report under, such as "h200_sxm"; Hardware is the datasheet's key. They differ where
	// a known GPU sits in a machine of another kind (an H100 on a board without a switch). Both are empty when the source
	// names no GPU; GPU is what the source printed.
	System, Hardware, GPU string

	Library string // "nccl", "vllm", "sglang", "trtllm", "deepep", ...
	Version string // of the library, "2.28.9"; empty when not stated
	Kernel  string // which kernel of the library, as printed; empty for NCCL
	Launch  Launch

	Op    parallel.Op
	Bytes units.Bytes // nccl-tests' meaning: the larger of one rank's send and receive buffer
	DType string      // "bf16", "fp16", "fp32", "fp64", "int8", "int32", "fp8", ...

	Ranks, Nodes, GPUsPerNode int
	Wiring                    Wiring
	DomainGPUs                int             // GPUs of one NVLink domain, where it is larger than the node; 0 otherwise
	NICs                      int             // NICs of one node; 0 = not stated
	NICRate                   units.Bandwidth // one way for one NIC; 0 = not stated
	Fabric                    string          // "InfiniBand", "RoCE", "EFA", "Slingshot", "TCP", "" = not stated
	FabricDetail              string          // as printed, "4x100G EFA"

	ForcedAlgorithm, ForcedProtocol string // where the user forced NCCL
	InPlace                         bool
	NoMulticast                     bool // in-switch reduction was off

	Exchange *ExchangeShape // of an Exchange row
	Beside   *BesideShape   // of a Contention row

	Time units.Duration

	File   string
	Line   int
	Origin string   // who published it; empty for the file's owner
	Flags  []string // what makes the row special, in words
}

// ExchangeShape is the work of an expert-parallel exchange.
type ExchangeShape struct {
	Phase  string // "dispatch", "combine", "prepare", "combine_low_precision"
	Tokens int    // per rank
	Hidden int
	TopK   int
	Expert int // experts in total
	SMs    int // that the kernel may use; 0 = not stated
}

// BesideShape is what ran at the same time.
type BesideShape struct {
	Op       parallel.Op // another collective on the same ranks; ignored when GEMMRows > 0
	Bytes    units.Bytes
	GEMMRows int // rows of a large GEMM on the same GPUs
	Channels int // forced channel count, 0 = the library's own choice
}

// NICPerGPU is what the NICs of a node bring to each of its GPUs that take part, one way; 0 when not stated.
func (r *Row) NICPerGPU() units.Bandwidth {
	if r.GPUsPerNode < 1 {
		return 0
	}
	return r.NICRate * units.Bandwidth(r.NICs) / units.Bandwidth(r.GPUsPerNode)
}

// Place is "file:line".
func (r *Row) Place() string { return fmt.Sprintf("%s:%d", r.File, r.Line) }

// Skip is a row that was left out, with the reason. Reasons are few and fixed, so that they can be counted.
type Skip struct {
	File   string
	Line   int
	Reason string
}

// Reasons for leaving a row out.
const (
	SkipUnhealthy   = "marked unhealthy by its source"
	SkipUnknown     = "health not known"
	SkipWrong       = "results were wrong"
	SkipNoTime      = "no time stated"
	SkipNoBytes     = "no size stated"
	SkipBandwidth   = "exchange with a bandwidth instead of a time"
	SkipMistyped    = "looks mistyped, says its table"
	SkipForced      = "algorithm and protocol forced"
	SkipP2POff      = "peer access switched off"
	SkipNoOp        = "not a collective that rankmap knows"
	SkipTorn        = "line broken by other output"
	SkipSetup       = "first call, includes the setup"
	SkipGPUUnclear  = "GPU not stated"
	SkipCopied      = "copy of another system's rows"
	SkipGEMM        = "times a GEMM, not a collective"
	SkipNotMeasured = "not measured"
	SkipUnstable    = "repeats disagree, says its source"
)
