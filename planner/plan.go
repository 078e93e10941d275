package planner

import (
	"fmt"

	"rankmap/collective"
	"rankmap/internal/engine"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/layout"
	"rankmap/model"
	"rankmap/planner/step"
	"rankmap/topology"
)

// Task is what the GPUs are for.
type Task string

// The tasks.
const (
	Serve       Task = "serve"   // prefill and decode on the same GPUs, continuous batching
	PrefillOnly Task = "prefill" // the prefill side of disaggregated serving
	DecodeOnly  Task = "decode"  // the decode side
	TrainStep   Task = "train"
)

// Objective is what makes one plan better than another.
type Objective string

// The objectives.
const (
	Throughput Objective = "throughput" // tokens a second and GPU, idle GPUs counted
	Latency    Objective = "latency"    // TPOT for decode, TTFT for prefill, whole answer for serve
	StepTime   Objective = "step-time"  // training
	MinGPUs    Objective = "min-gpus"   // fewest GPUs that keep the limits
)

// Request is everything a search depends on. Nothing else does: the same request gives the same plan.
type Request struct {
	Cluster   *topology.Cluster
	Spec      *model.Spec
	Workload  layout.Workload
	Freedom   Freedom
	GPUs      int                                                           // use exactly this many; 0 = as many as fit
	Budget    int                                                           // use at most this many, and count this many in per-GPU figures; 0 = no bound
	Skip      func(topology.GPUID) bool                                     // GPUs that must stay idle; nil = none
	Barred    int                                                           // of those, how many the user leaves out: per-GPU figures do not count them
	Kernel    func(model.Phase, model.ComputeOp) (step.Band, string, error) // price of one computation on one GPU
	Pricer    collective.Pricer
	Capacity  units.Bytes     // memory of one GPU
	HostLink  units.Bandwidth // of one GPU to its host's memory, one way; 0 = training keeps nothing there
	PeakFLOPS float64         // dense FLOP/s of one GPU in the compute type, for MFU; 0 = no MFU
	Top       int             // losers to keep; 0 = 5
	BestOnly  bool            // serving: strategies that cannot be the best need no price, so that losers may be any
	Explain   bool
	Held      Held           // training: what the run has settled beforehand
	Engine    *engine.Engine // search only what this engine can run; nil = anything
	// Serving is how the engine schedules and what its host spends; nil = what is known of Engine, else of a usual one.
	Serving *engine.Serving
	Burst   float64 // serving: share of requests that arrive at the start, all at once, and
	Equal   bool    // all requests have the same lengths: see step.Load
	// RedundantExperts are the copies of experts that every layer holds beside its own (serving); 0 = the fewest that let
	// ep divide them, up to an eighth, -1 = none.
	RedundantExperts int
	exactly          int                 // of Budget: this many and no others; 0 = as many as fit
	Former           layout.Source       // of Replan: the layout that it keeps, for the document
	Progress         func(done, all int) // called before each strategy; nil = not
}

// Outcome is one strategy at one batch.
type Outcome struct {
	Strategy parallel.Strategy // with the chosen order
	GPUs     int
	Batch    int // sequences in flight over all GPUs
	Replica  int // sequences of the fullest attention replica
	TTFT     step.Band
	TPOT     step.Band
	Step     step.Result // the step that the task is about: decode for serve and decode, prefill for prefill
	Prefill  *step.Result
	Service  *step.Service // the steady state of serving
	Tokens   float64       // tokens a second in all: generated tokens for serve and decode, prompt tokens for prefill, all for train
	PerGPU   float64       // Tokens over all GPUs that the user allows, idle ones counted
	MFU      float64
	Memory   model.Memory
	MaxBatch int
	Bound    units.Duration // no seating of these degrees at this batch has a shorter step
	Plain    units.Duration // the step when these degrees are dealt in host and GPU order; 0 = that is how they are dealt
	score    float64        // smaller is better
	seats    *seating
}

// Loser is a strategy that was not chosen, with the reason.
type Loser struct {
	Strategy parallel.Strategy
	Outcome  *Outcome // nil when it does not fit
	Why      string
	unseated []int // the batches of one that was dropped by its bound: see search.seated
}

// Plan is the answer.
type Plan struct {
	Best      *Outcome
	Seats     []topology.GPUID // by rank
	Idle      []topology.GPUID
	Losers    []Loser // nearest first
	Searched  Counts
	Explained []string
	Launchers []layout.Launcher
	Notes     []string
	Kept      *Kept                // of Replan
	Avoided   *layout.Avoided      // see CostOfAvoiding
	Flips     []layout.Sensitivity // see Sensitivity
	Stopped   bool                 // given up before the search was complete: the best so far
	found     []*Outcome           // every strategy that fits, best first
	tooLarge  []parallel.Strategy  // what memory forbade, nearest to the best first
	comm      *comm
	seats     *seating
}

// Counts says how much was searched.
type Counts struct {
	Strategies int // degrees enumerated
	ByRule     int // dropped by a rule of the model
	ByMemory   int // dropped by memory
	ByLimit    int // dropped by TTFT or TPOT limits
	Priced     int // strategies x orders x batches priced
	Bounded    int // variants dropped because their kernels alone take longer than the losers shown
}

// Infeasible is the result of a search that found nothing.
type Infeasible struct {
	Binding string // the constraint that binds
	Nearest string // the nearest change that would help
	Counts  Counts
	Losers  []Loser
}

// Error names the constraint and the way out.
func (e *Infeasible) Error() string {
	return fmt.Sprintf("no feasible plan: %s\nnearest change that helps: %s", e.Binding, e.Nearest)
}
