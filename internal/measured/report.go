package measured

import "rankmap/internal/parallel"

// Names of the report's document.
const (
	ReportKind       = "ValidationReport"
	ReportAPIVersion = "rankmap/v1"
)

// Report is what rankmap validate writes: every group that ran, measured beside predicted. Calibration and the
// confrontation with measurements read it back. Times are microseconds, rates GB/s = 1e9 bytes a second.
type Report struct {
	APIVersion  string         `yaml:"apiVersion" json:"apiVersion"`
	Kind        string         `yaml:"kind" json:"kind"`
	Layout      ReportLayout   `yaml:"layout" json:"layout"`
	Environment Environment    `yaml:"environment" json:"environment"`
	Ranks       []ReportRank   `yaml:"ranks,omitempty" json:"ranks,omitempty"`
	Groups      []ReportGroup  `yaml:"groups" json:"groups"`                             // each group alone
	Siblings    []ReportGroup  `yaml:"siblings,omitempty" json:"siblings,omitempty"`     // all groups of a kind at once
	Variants    []ReportGroup  `yaml:"variants,omitempty" json:"variants,omitempty"`     // alone, by another call of the library
	Mix         []ReportMix    `yaml:"mix,omitempty" json:"mix,omitempty"`               // what a layer issues, in sequence
	Pairs       []ReportPair   `yaml:"pairs,omitempty" json:"pairs,omitempty"`           // run to find a slow member
	Transports  map[string]int `yaml:"transports,omitempty" json:"transports,omitempty"` // between nodes, with the number of ranks: "NET/IB/GDRDMA"
	Rejected    *Rejected      `yaml:"rejected,omitempty" json:"rejected,omitempty"`     // who was turned away at the rendezvous
	Findings    []Finding      `yaml:"findings,omitempty" json:"findings,omitempty"`
	Verdict     string         `yaml:"verdict" json:"verdict"`                 // the worst of the groups' and findings'
	Cause       string         `yaml:"cause,omitempty" json:"cause,omitempty"` // why the run ended early; the first cause, not its consequences
	ExitCode    int            `yaml:"exitCode" json:"exitCode"`
	Seconds     float64        `yaml:"seconds" json:"seconds"` // of the whole run
	Tool        string         `yaml:"tool,omitempty" json:"tool,omitempty"`
}

// ReportLayout names the layout that was validated.
type ReportLayout struct {
	Name   string `yaml:"name,omitempty" json:"name,omitempty"`
	Digest string `yaml:"digest,omitempty" json:"digest,omitempty"`
}

// Environment is where the measurement ran.
type Environment struct {
	System         string   `yaml:"system" json:"system"` // datasheet's key, "h200_sxm"
	GPU            string   `yaml:"gpu" json:"gpu"`       // as the driver prints it
	Hosts          []string `yaml:"hosts" json:"hosts"`
	GPUsPerNode    int      `yaml:"gpusPerNode" json:"gpusPerNode"`
	Driver         string   `yaml:"driver,omitempty" json:"driver,omitempty"`
	CUDA           string   `yaml:"cuda,omitempty" json:"cuda,omitempty"`
	NCCL           string   `yaml:"nccl" json:"nccl"` // "2.28.9"
	NICs           int      `yaml:"nics,omitempty" json:"nics,omitempty"`
	NICGbps        float64  `yaml:"nicGbps,omitempty" json:"nicGbps,omitempty"`
	Fabric         string   `yaml:"fabric,omitempty" json:"fabric,omitempty"`
	Env            []string `yaml:"env,omitempty" json:"env,omitempty"` // NCCL_* that were set, "NAME=value", sorted
	GraphCapture   bool     `yaml:"graphCapture" json:"graphCapture"`
	NCCLPath       string   `yaml:"ncclPath,omitempty" json:"ncclPath,omitempty"` // real path of the library that ran
	CUDAPath       string   `yaml:"cudaPath,omitempty" json:"cudaPath,omitempty"`
	OtherNCCL      []string `yaml:"otherNccl,omitempty" json:"otherNccl,omitempty"`           // found and not used
	LogWhileTiming bool     `yaml:"logWhileTiming,omitempty" json:"logWhileTiming,omitempty"` // NCCL wrote a line a call: eager times of small messages are too long
}

// ReportGroup is one collective on one group.
type ReportGroup struct {
	Kind          string      `yaml:"kind" json:"kind"`       // "tp", "ep", ...
	Members       []int       `yaml:"members" json:"members"` // ranks
	Nodes         int         `yaml:"nodes" json:"nodes"`
	Op            parallel.Op `yaml:"op" json:"op"`
	Bytes         int64       `yaml:"bytes" json:"bytes"`
	DType         string      `yaml:"dtype" json:"dtype"`
	Launch        Launch      `yaml:"launch" json:"launch"`
	Times         Times       `yaml:"times" json:"times"`
	BusGBps       float64     `yaml:"busGBps" json:"busGBps"`
	Predicted     Predicted   `yaml:"predicted" json:"predicted"`
	Verdict       string      `yaml:"verdict" json:"verdict"`                                 // pass, slow, fast, unstable, fail, skipped
	Why           string      `yaml:"why,omitempty" json:"why,omitempty"`                     // why skipped, or what is wrong
	Name          string      `yaml:"name,omitempty" json:"name,omitempty"`                   // what the layout calls it, "attention all-reduce"; empty for a size of the sweep
	AlgGBps       float64     `yaml:"algGBps,omitempty" json:"algGBps,omitempty"`             // bytes/time
	Error         float64     `yaml:"errorPercent,omitempty" json:"errorPercent,omitempty"`   // (predicted - measured) / measured
	CallsPerBatch int         `yaml:"callsPerBatch,omitempty" json:"callsPerBatch,omitempty"` // one repeat is the mean of this many
	InPlace       bool        `yaml:"inPlace,omitempty" json:"inPlace,omitempty"`
	Wrong         int64       `yaml:"wrongElements,omitempty" json:"wrongElements,omitempty"`
	Verified      bool        `yaml:"verified,omitempty" json:"verified,omitempty"` // contents were compared
	Required      string      `yaml:"required,omitempty" json:"required,omitempty"` // outcome of --require: pass or fail
	Choice        *Choice     `yaml:"choice,omitempty" json:"choice,omitempty"`     // what NCCL chose, from its log
}

// Times summarises the repeats of one measurement.
type Times struct {
	Repeats  int     `yaml:"repeats" json:"repeats"`
	MedianUs float64 `yaml:"medianUs" json:"medianUs"`
	MeanUs   float64 `yaml:"meanUs" json:"meanUs"`
	P10Us    float64 `yaml:"p10Us" json:"p10Us"`
	P90Us    float64 `yaml:"p90Us" json:"p90Us"`
	Spread   float64 `yaml:"spreadPercent" json:"spreadPercent"` // (p90 - p10) / median, percent
}

// Predicted is the estimate that the layout carried.
type Predicted struct {
	Us    float64 `yaml:"us" json:"us"`
	P10Us float64 `yaml:"p10Us" json:"p10Us"`
	P90Us float64 `yaml:"p90Us" json:"p90Us"`

	BusGBps   float64 `yaml:"busGBps,omitempty" json:"busGBps,omitempty"`
	Algorithm string  `yaml:"algorithm,omitempty" json:"algorithm,omitempty"`
	Protocol  string  `yaml:"protocol,omitempty" json:"protocol,omitempty"`
	Basis     string  `yaml:"basis,omitempty" json:"basis,omitempty"` // provenance of the estimate
}

// ReportRank is one process of the run.
type ReportRank struct {
	Rank   int     `yaml:"rank" json:"rank"`
	Host   string  `yaml:"host" json:"host"`
	PID    int     `yaml:"pid,omitempty" json:"pid,omitempty"`
	GPU    int     `yaml:"gpu" json:"gpu"` // CUDA's index in the process
	UUID   string  `yaml:"uuid,omitempty" json:"uuid,omitempty"`
	PCI    string  `yaml:"pci,omitempty" json:"pci,omitempty"`
	Name   string  `yaml:"name,omitempty" json:"name,omitempty"`
	FreeGB float64 `yaml:"freeGB,omitempty" json:"freeGB,omitempty"` // device memory before the run
	End    string  `yaml:"end" json:"end"`                           // how it ended: "done", "killed: signal 9", "stopped because of rank 1"
}

// Choice is what NCCL decided for one call.
type Choice struct {
	Algorithm string `yaml:"algorithm,omitempty" json:"algorithm,omitempty"` // "ring"
	Protocol  string `yaml:"protocol,omitempty" json:"protocol,omitempty"`   // "LL"
	Channels  int    `yaml:"channels,omitempty" json:"channels,omitempty"`
	Transport string `yaml:"transport,omitempty" json:"transport,omitempty"` // "P2P/CUMEM", "SHM", "NET/Socket"
}

// ReportMix is the collectives of one layer, issued one after the other by all ranks.
type ReportMix struct {
	Phase       string    `yaml:"phase,omitempty" json:"phase,omitempty"`
	Collectives []string  `yaml:"collectives" json:"collectives"` // "2 x tp all_reduce 65536 B"
	Launch      Launch    `yaml:"launch" json:"launch"`
	Times       Times     `yaml:"times" json:"times"`
	Predicted   Predicted `yaml:"predicted" json:"predicted"`
	Verdict     string    `yaml:"verdict" json:"verdict"`
	Why         string    `yaml:"why,omitempty" json:"why,omitempty"`
}

// ReportPair is a one-way transfer between two ranks.
type ReportPair struct {
	Test  string  `yaml:"test,omitempty" json:"test,omitempty"` // "rail", "rails"; empty: to find a slow member
	From  int     `yaml:"from" json:"from"`
	To    int     `yaml:"to" json:"to"`
	Round int     `yaml:"round" json:"round"` // 1 first, 2 the repeat
	Bytes int64   `yaml:"bytes" json:"bytes"`
	Us    float64 `yaml:"us" json:"us"`
	GBps  float64 `yaml:"gbps" json:"gbps"`
}

// Tests that pairs belong to.
const (
	TestRail  = "rail"  // one rail by itself
	TestRails = "rails" // all rails at once
)

// Rejected counts those who were turned away at the rendezvous, by reason.
type Rejected struct {
	Malformed  int      `yaml:"malformed" json:"malformed"`
	TooSlow    int      `yaml:"tooSlow" json:"tooSlow"`
	WrongToken int      `yaml:"wrongToken" json:"wrongToken"`
	ForeignJob int      `yaml:"foreignJob" json:"foreignJob"`
	WrongWorld int      `yaml:"wrongWorld" json:"wrongWorld"`
	BadRank    int      `yaml:"badRank" json:"badRank"`
	Duplicate  int      `yaml:"duplicate" json:"duplicate"`
	TooMany    int      `yaml:"tooMany" json:"tooMany"`
	Jobs       []string `yaml:"jobs,omitempty" json:"jobs,omitempty"` // ids of foreign jobs that knew the token
}

// Finding is something that a check noticed; the texts live with validate.
type Finding struct {
	ID       string `yaml:"id" json:"id"`
	Severity string `yaml:"severity" json:"severity"`
	Category string `yaml:"category" json:"category"`
	Message  string `yaml:"message" json:"message"`
	NextStep string `yaml:"nextStep,omitempty" json:"nextStep,omitempty"`
}

// Verdicts of a group.
const (
	VerdictPass = "pass"
	VerdictSlow = "slow"
	VerdictFast = "fast"
	VerdictFail = "fail" // wrong data
	// VerdictUnstable is a measurement whose repeats disagree too much to be judged; it is not a pass.
	VerdictUnstable = "unstable"
	VerdictSkipped  = "skipped"
)
