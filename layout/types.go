package layout

import (
	"rankmap/internal/parallel"
	"rankmap/topology"
)

// APIVersion and Kind head every document.
const (
	APIVersion = "rankmap/v1"
	Kind       = "RankLayout"
)

// Layout is the document. Times are in the unit that the field's name ends with; bandwidths are GB/s one way; bytes
// follow nccl-tests (the larger of one rank's send and receive buffer).
type Layout struct {
	APIVersion   string        `yaml:"apiVersion" json:"apiVersion"`
	Kind         string        `yaml:"kind" json:"kind"`
	Tool         string        `yaml:"tool,omitempty" json:"tool,omitempty"` // version that wrote it
	Inputs       Inputs        `yaml:"inputs" json:"inputs"`
	Cluster      *topology.Doc `yaml:"cluster" json:"cluster"` // compact form
	Strategy     Strategy      `yaml:"strategy" json:"strategy"`
	Ranks        []Rank        `yaml:"ranks,omitempty" json:"ranks,omitempty"`
	RankBlocks   []RankBlock   `yaml:"rankBlocks,omitempty" json:"rankBlocks,omitempty"` // in place of ranks, see CompactRanks
	IdleGPUs     []string      `yaml:"idleGpus,omitempty" json:"idleGpus,omitempty"`     // "node1/7": no strategy uses them
	Groups       []Group       `yaml:"groups,omitempty" json:"groups,omitempty"`
	GroupClasses []GroupClass  `yaml:"groupClasses,omitempty" json:"groupClasses,omitempty"` // in place of groups
	Predicted    Predicted     `yaml:"predicted" json:"predicted"`
	Memory       Memory        `yaml:"memory" json:"memory"`
	Env          []EnvVar      `yaml:"env" json:"env"`
	Launchers    []Launcher    `yaml:"launchers" json:"launchers"`
	Rejected     []Rejected    `yaml:"rejected" json:"rejected"`
	Kept         *Kept         `yaml:"kept,omitempty" json:"kept,omitempty"`               // of a plan made from a former layout
	Avoided      *Avoided      `yaml:"avoided,omitempty" json:"avoided,omitempty"`         // of a machine with broken parts
	Sensitivity  []Sensitivity `yaml:"sensitivity,omitempty" json:"sensitivity,omitempty"` // what would change the choice
	Notes        []string      `yaml:"notes,omitempty" json:"notes,omitempty"`             // defaults in force, flags, warnings
}

// Inputs names what the plan was made from.
type Inputs struct {
	Cluster  Source   `yaml:"cluster" json:"cluster"`
	Model    Source   `yaml:"model" json:"model"`
	Workload Workload `yaml:"workload" json:"workload"`
	Cost     string   `yaml:"cost" json:"cost"` // "calibrated" or "textbook"
	// Kernels is whose all-reduce was priced inside a node: a library and version such as vllm@0.19.0; empty and "nccl": NCCL's.
	Kernels string `yaml:"kernels,omitempty" json:"kernels,omitempty"`
	// Use is the part of the cluster that the plan was allowed; nil = all.
	Use *Use `yaml:"use,omitempty" json:"use,omitempty"`
}

// Source is a name and the SHA-256 of the bytes that were read.
type Source struct {
	Name   string `yaml:"name" json:"name"`
	Digest string `yaml:"digest" json:"digest"`
}

// Strategy is the degrees, both sides of MoE named.
type Strategy struct {
	TP               int            `yaml:"tp" json:"tp"`
	PP               int            `yaml:"pp" json:"pp"`
	DP               int            `yaml:"dp" json:"dp"`
	CP               int            `yaml:"cp" json:"cp"`
	EP               int            `yaml:"ep" json:"ep"`
	ExpertTP         int            `yaml:"expertTp" json:"expertTp"`
	AttentionDP      int            `yaml:"attentionDp" json:"attentionDp"`
	Order            []parallel.Dim `yaml:"order,flow" json:"order"`
	RedundantExperts int            `yaml:"redundantExperts,omitempty" json:"redundantExperts,omitempty"` // extra physical experts a layer
	Interleave       int            `yaml:"interleave,omitempty" json:"interleave,omitempty"`
	SequenceParallel bool           `yaml:"sequenceParallel,omitempty" json:"sequenceParallel,omitempty"`
	ZeRO             int            `yaml:"zero,omitempty" json:"zero,omitempty"`
	Recompute        string         `yaml:"recompute,omitempty" json:"recompute,omitempty"`
	MicroBatch       int            `yaml:"microBatch,omitempty" json:"microBatch,omitempty"`
	RecomputeLayers  int            `yaml:"recomputeLayers,omitempty" json:"recomputeLayers,omitempty"` // of each virtual stage; 0 = all
	OffloadLayers    int            `yaml:"offloadLayers,omitempty" json:"offloadLayers,omitempty"`     // whose kept results wait in host memory; 0 = none
	FirstStage       int            `yaml:"firstStage,omitempty" json:"firstStage,omitempty"`           // layers of the first virtual stage; 0 = as the others
	LastStage        int            `yaml:"lastStage,omitempty" json:"lastStage,omitempty"`             // layers of the last virtual stage; 0 = as the others
}

// Of turns planner degrees into the document's form.
func Of(s parallel.Strategy) Strategy {
	if s.Interleave == 1 {
		s.Interleave = 0
	}
	return Strategy{
		TP: s.TP, PP: s.PP, DP: s.DP, CP: s.CP, EP: s.EP, ExpertTP: s.ExpertTP, AttentionDP: s.AttentionDP(),
		RedundantExperts: s.RedundantExperts,
		Order:            s.Order, Interleave: s.Interleave, SequenceParallel: s.SequenceParallel, ZeRO: s.ZeRO,
		Recompute: s.Recompute, MicroBatch: s.MicroBatch,
		RecomputeLayers: s.RecomputeLayers, OffloadLayers: s.OffloadLayers, FirstStage: s.FirstStage, LastStage: s.LastStage,
	}
}

// Parallel is the inverse of Of.
func (s Strategy) Parallel() parallel.Strategy {
	return parallel.Strategy{
		TP: s.TP, PP: s.PP, DP: s.DP, CP: s.CP, EP: s.EP, ExpertTP: s.ExpertTP, Order: s.Order,
		RedundantExperts: s.RedundantExperts, Interleave: s.Interleave, SequenceParallel: s.SequenceParallel, ZeRO: s.ZeRO,
		Recompute: s.Recompute, MicroBatch: s.MicroBatch,
		RecomputeLayers: s.RecomputeLayers, OffloadLayers: s.OffloadLayers, FirstStage: s.FirstStage, LastStage: s.LastStage,
	}.Normalize()
}

// Workload is what the plan is for.
type Workload struct {
	Task        string  `yaml:"task" json:"task"` // serve, prefill, decode, train
	ISL         int     `yaml:"isl,omitempty" json:"isl,omitempty"`
	OSL         int     `yaml:"osl,omitempty" json:"osl,omitempty"`
	Batch       int     `yaml:"batch,omitempty" json:"batch,omitempty"`             // sequences in flight over all GPUs
	Concurrency int     `yaml:"concurrency,omitempty" json:"concurrency,omitempty"` // requests in flight, serving
	SeqLen      int     `yaml:"seqLen,omitempty" json:"seqLen,omitempty"`           // training
	Weights     string  `yaml:"weights,omitempty" json:"weights,omitempty"`         // weight type, empty = as stored
	KVCache     string  `yaml:"kvCache,omitempty" json:"kvCache,omitempty"`
	Objective   string  `yaml:"objective,omitempty" json:"objective"` // throughput, latency, step-time, min-gpus
	TTFTMs      float64 `yaml:"ttftMs,omitempty" json:"ttftMs,omitempty"`
	TPOTMs      float64 `yaml:"tpotMs,omitempty" json:"tpotMs,omitempty"`
	Engine      string  `yaml:"engine,omitempty" json:"engine,omitempty"`
	Chunk       int     `yaml:"chunk,omitempty" json:"chunk,omitempty"`     // serving: tokens that a step may carry on one replica; 0 = the engine's default
	Overlap     bool    `yaml:"overlap,omitempty" json:"overlap,omitempty"` // serving: a step over experts runs as two batches that hide each other's exchange
	Eager       bool    `yaml:"eager,omitempty" json:"eager,omitempty"`     // serving: decode without CUDA graphs
	LoRA        int     `yaml:"lora,omitempty" json:"lora,omitempty"`       // training: rank of adapters beside frozen weights; 0 = every weight is trained
	// LoRATargets are the layers with adapters: linear, attention or qkv; empty = linear.
	LoRATargets string `yaml:"loraTargets,omitempty" json:"loraTargets,omitempty"`
}

// Rank is one process and its GPU.
type Rank struct {
	Rank      int             `yaml:"rank" json:"rank"`
	Host      string          `yaml:"host" json:"host"`
	LocalRank int             `yaml:"localRank" json:"localRank"`
	GPU       int             `yaml:"gpu" json:"gpu"` // NVML index on the host
	PCI       string          `yaml:"pci,omitempty" json:"pci,omitempty"`
	UUID      string          `yaml:"uuid,omitempty" json:"uuid,omitempty"`
	NUMA      *int            `yaml:"numa,omitempty" json:"numa,omitempty"` // absent when unknown
	NICs      []string        `yaml:"nics,omitempty,flow" json:"nics,omitempty"`
	Coords    parallel.Coords `yaml:"coords,flow" json:"coords"`
}

// Group is the ranks that take part in a collective together.
type Group struct {
	Kind        parallel.Dim `yaml:"kind" json:"kind"`
	Members     []int        `yaml:"members,omitempty,flow" json:"members,omitempty"`
	Domain      string       `yaml:"domain" json:"domain"`         // "NVLink domain 0", "2 NVLink domains", "PCIe"
	Path        string       `yaml:"path" json:"path"`             // "NVSwitch", "network InfiniBand", "PCIe SYS", ...
	Slowest     string       `yaml:"slowest" json:"slowest"`       // the bottleneck link in words
	Concurrent  int          `yaml:"concurrent" json:"concurrent"` // groups of the kind that run at the same time, this one included
	Collectives []Collective `yaml:"collectives" json:"collectives"`
}

// Collective is one operation of a group.
type Collective struct {
	Name         string      `yaml:"name" json:"name"` // "attention all-reduce", "moe dispatch", ...
	Op           parallel.Op `yaml:"op" json:"op"`
	Phase        string      `yaml:"phase" json:"phase"`
	DType        string      `yaml:"dtype" json:"dtype"`
	Bytes        int64       `yaml:"bytes" json:"bytes"`
	TimesPerStep float64     `yaml:"timesPerStep" json:"timesPerStep"`
	Us           float64     `yaml:"us" json:"us"`
	P10Us        float64     `yaml:"p10Us" json:"p10Us"`
	P90Us        float64     `yaml:"p90Us" json:"p90Us"`
	Algorithm    string      `yaml:"algorithm" json:"algorithm"`
	Protocol     string      `yaml:"protocol" json:"protocol"`
	BusGBps      float64     `yaml:"busGBps" json:"busGBps"`
	Overlapped   bool        `yaml:"overlapped,omitempty" json:"overlapped,omitempty"`
	Basis        string      `yaml:"basis" json:"basis"` // provenance of the number
	Flags        []string    `yaml:"flags,omitempty" json:"flags,omitempty"`
}

// Predicted is the outcome.
type Predicted struct {
	TTFTMs                float64 `yaml:"ttftMs,omitempty" json:"ttftMs,omitempty"`
	TPOTMs                float64 `yaml:"tpotMs,omitempty" json:"tpotMs,omitempty"`
	TTFTP10Ms             float64 `yaml:"ttftP10Ms,omitempty" json:"ttftP10Ms,omitempty"` // 80 % intervals
	TTFTP90Ms             float64 `yaml:"ttftP90Ms,omitempty" json:"ttftP90Ms,omitempty"`
	TPOTP10Ms             float64 `yaml:"tpotP10Ms,omitempty" json:"tpotP10Ms,omitempty"`
	TPOTP90Ms             float64 `yaml:"tpotP90Ms,omitempty" json:"tpotP90Ms,omitempty"`
	TokensPerSecond       float64 `yaml:"tokensPerSecond,omitempty" json:"tokensPerSecond,omitempty"`
	TokensPerSecondPerGPU float64 `yaml:"tokensPerSecondPerGpu,omitempty" json:"tokensPerSecondPerGpu,omitempty"`
	StepMs                float64 `yaml:"stepMs" json:"stepMs"`
	StepP10Ms             float64 `yaml:"stepP10Ms" json:"stepP10Ms"`
	StepP90Ms             float64 `yaml:"stepP90Ms" json:"stepP90Ms"`
	BoundMs               float64 `yaml:"boundMs,omitempty" json:"boundMs,omitempty"` // no seating of these degrees has a shorter step
	PlainMs               float64 `yaml:"plainMs,omitempty" json:"plainMs,omitempty"` // the same degrees dealt in host and GPU order; absent when no other
	MFU                   float64 `yaml:"mfu,omitempty" json:"mfu,omitempty"`
	Batch                 int     `yaml:"batch" json:"batch"` // sequences in flight over all GPUs
	BatchPerReplica       int     `yaml:"batchPerReplica" json:"batchPerReplica"`
	Parts                 []Part  `yaml:"parts" json:"parts"`
}

// Part is a share of the step on the critical path.
type Part struct {
	Name  string  `yaml:"name" json:"name"`
	Kind  string  `yaml:"kind" json:"kind"` // compute, tp, ep, pp, dp, cp, bubble, overhead
	Ms    float64 `yaml:"ms" json:"ms"`
	Share float64 `yaml:"share" json:"share"` // percent of the step
	Bound string  `yaml:"bound,omitempty" json:"bound,omitempty"`
}

// Memory is bytes a GPU of the fullest stage, in GB (1e9).
type Memory struct {
	CapacityGB float64      `yaml:"capacityGB" json:"capacityGB"`
	UsedGB     float64      `yaml:"usedGB" json:"usedGB"`
	Parts      []MemoryPart `yaml:"parts" json:"parts"`
	MaxBatch   int          `yaml:"maxBatch,omitempty" json:"maxBatch,omitempty"` // sequences over all GPUs that fit
}

// MemoryPart is one use of memory.
type MemoryPart struct {
	Name string  `yaml:"name" json:"name"`
	GB   float64 `yaml:"gb" json:"gb"`
}

// EnvVar is an environment variable that the plan needs, with the reason.
type EnvVar struct {
	Name  string `yaml:"name" json:"name"`
	Value string `yaml:"value" json:"value"`
	Why   string `yaml:"why" json:"why"`
}

// Launcher says whether a launcher can express the layout.
type Launcher struct {
	Target      string  `yaml:"target" json:"target"`
	Expressible bool    `yaml:"expressible" json:"expressible"`
	LossPercent float64 `yaml:"lossPercent" json:"lossPercent"` // of its best expressible layout against this one
	Why         string  `yaml:"why" json:"why"`
	// Best is what it loses LossPercent with: the best layout that it can express, where that is another one.
	Best *LauncherBest `yaml:"best,omitempty" json:"best,omitempty"`
}

// LauncherBest is the best layout of a launcher.
type LauncherBest struct {
	Strategy Strategy `yaml:"strategy" json:"strategy"`
	Batch    int      `yaml:"batch" json:"batch"`
	StepMs   float64  `yaml:"stepMs" json:"stepMs"`
}

// Kept says what a plan leaves of the layout that it was made from.
type Kept struct {
	From  Source   `yaml:"from" json:"from"`
	Stay  int      `yaml:"stay" json:"stay"`   // ranks that keep their GPU and their part of the model
	Moved int      `yaml:"moved" json:"moved"` // ranks that load another part, or theirs on another GPU
	Gone  int      `yaml:"gone" json:"gone"`   // former ranks that are no more
	Moves []string `yaml:"moves,omitempty" json:"moves,omitempty"`
	Anew  string   `yaml:"anew,omitempty" json:"anew,omitempty"` // what planning anew would win
}

// Avoided says what broken parts of the machine cost.
type Avoided struct {
	Parts                 []string `yaml:"parts" json:"parts"`
	CostPercent           float64  `yaml:"costPercent" json:"costPercent"` // of this plan against the best on the sound machine
	Strategy              string   `yaml:"strategy" json:"strategy"`       // the best there
	StepMs                float64  `yaml:"stepMs" json:"stepMs"`
	TokensPerSecondPerGPU float64  `yaml:"tokensPerSecondPerGpu,omitempty" json:"tokensPerSecondPerGpu,omitempty"`
}

// Sensitivity is one quantity of the machine that would change the choice.
type Sensitivity struct {
	Quantity string  `yaml:"quantity" json:"quantity"` // "NVLink bandwidth", ...
	Factor   float64 `yaml:"factor" json:"factor"`     // from which on (below 1: down to which) another strategy wins
	Value    string  `yaml:"value,omitempty" json:"value,omitempty"`
	Strategy string  `yaml:"strategy" json:"strategy"` // the winner there
}

// Rejected is a strategy that lost or did not fit.
type Rejected struct {
	Strategy  Strategy   `yaml:"strategy" json:"strategy"`
	Why       string     `yaml:"why" json:"why"`
	Predicted *Predicted `yaml:"predicted,omitempty" json:"predicted,omitempty"` // absent when infeasible
}
