package planner

import (
	"context"
	"errors"
	"fmt"
	"math"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/model"
	"rankmap/planner/step"
)

// Held is what a training run has settled before the search; zero values are free.
type Held struct {
	MicroBatch int    // sequences
	Interleave int    // virtual stages a rank; 1 = none
	Recompute  string // "none", "selective" or "full"
	ZeRO       int    // 1 or 3; 0 = the distributed optimizer, and ZeRO-3 where that does not fit
	Serial     bool   // no sequence parallelism
	Unfused    bool   // attention without flash kernels, as before 2023
	// RecomputeLayers, with full recomputation, are the layers of each virtual stage that it covers; 0 = all.
	RecomputeLayers int
	OffloadLayers   int  // without recomputation, the layers whose results wait in host memory
	EvenStages      bool // first and last stage hold as many layers as the others
	SerialDP        bool // gradients are reduced after the last backward pass, not beside it
	BlockingHops    bool // interleaved stages wait for what they hand over, as before 2023
	SeparateGrads   bool // weight gradients are added up by kernels of their own, as before 2022
	PlainDP         bool // every replica holds the whole optimizer: no ZeRO-1
	OverlapTP       bool // gathers and scatters of sequence parallelism run beside the matrix products, piece by piece
	Graphs          bool // CUDA graphs start the kernels: the host limits nothing
	OverlapEP       bool // the exchange of one micro-batch's experts runs beside another's kernels, where the schedule allows it
	Blocking        bool // the host waits for each operation before it starts the next (CUDA_LAUNCH_BLOCKING=1)
	TensorGathers   bool // ZeRO-3 gathers each matrix apart, as DeepSpeed does
	Merged          bool // experts' tokens are sent once a rank (Megatron's flex dispatcher over DeepEP or HybridEP), not once an expert
	Formats         model.Training
}

// Ranking is every strategy of a request that fits, best first, without the seats that Search adds on irregular
// machines: what confronts the planner with published choices.
type Ranking struct {
	Outcomes []*Outcome // brief: no parts
	Losers   []Loser    // those that a rule, memory or a limit dropped
	Counts   Counts
	s        *search
}

// Rank prices every strategy of exactly r.GPUs GPUs (all of the cluster when 0). A cancelled ctx is an error. A request
// that nothing fits has no outcomes; that is not an error.
func Rank(ctx context.Context, r Request) (*Ranking, error) {
	r.Top = math.MaxInt32 // nothing may be dropped for being far behind
	k, err := NewRanking(r)
	if err != nil {
		return nil, err
	}
	s := k.s
	n := r.GPUs
	if n == 0 {
		n = len(s.base.gpus)
	}
	s.ctx = ctx // what is slow inside one strategy looks at it
	err = s.run(ctx, n)
	s.ctx = nil // prices asked for later are another matter
	if err != nil {
		return nil, err
	}
	if s.stopped {
		return nil, ctx.Err()
	}
	rank(s.found)
	k.Outcomes, k.Losers, k.Counts = s.found, s.losers, s.counts
	return k, nil
}

// NewRanking is a ranking without outcomes, to price single strategies with.
func NewRanking(r Request) (*Ranking, error) {
	s := &search{Request: r, base: newSeating(r.Cluster, r.Skip)}
	if n := len(s.base.gpus); n == 0 || r.GPUs > n {
		return nil, fmt.Errorf("%d GPUs are asked for, %d are usable", r.GPUs, n)
	}
	return &Ranking{s: s}, nil
}

// Capacity is the memory of one GPU.
func (k *Ranking) Capacity() units.Bytes { return k.s.Capacity }

// Price prices one strategy with its parts, whatever memory and limits say. What held leaves free is chosen as the search
// would: the fastest variant that fits and keeps the limits, else the one that needs least memory. The order is st's, or the best when st has
// none. batch is the sequences in flight over all GPUs; 0 = the workload's, or the best that fits. A strategy that breaks
// a rule of the model is an error.
func (k *Ranking) Price(st parallel.Strategy, held Held, batch int) (*Outcome, error) {
	s := *k.s
	s.Held, s.found, s.losers, s.scratch, s.bar = held, nil, nil, step.Scratch{}, nil
	given := len(st.Order) > 0
	st = st.Normalize()
	if err := st.Check(); err != nil {
		return nil, err
	}
	if v := s.violations(st); len(v) > 0 {
		return nil, errors.New(v[0].String())
	}
	if st.World() > len(s.base.gpus) {
		return nil, fmt.Errorf("%s needs %d GPUs, %d are usable", st, st.World(), len(s.base.gpus))
	}
	if batch == 0 {
		batch = s.Workload.Batch
	}
	variants, batches := []parallel.Strategy{st}, []int{batch}
	if s.Workload.Task == string(TrainStep) {
		fit, large, none := s.trainOptions(st)
		variants = nil
		for _, o := range append(fit, large...) {
			variants = append(variants, o.st)
		}
		if none {
			return nil, fmt.Errorf("batch: %d sequences are not a multiple of dp %d x micro-batch %d", s.Workload.Batch, st.DP, max(held.MicroBatch, 1))
		}
	} else if batch == 0 {
		if batches, _ = s.batches(st); len(batches) == 0 {
			batches = []int{st.DP}
		}
	}
	cm := newComm(s.seating(st.World()), s.Pricer, graphLaunch, st)
	if !given {
		var err error
		var seated parallel.Strategy
		if cm, seated, err = s.bestOrder(variants[0], batches[len(batches)/2]); err != nil {
			return nil, err
		}
		st.Order = seated.Order
	}
	var best *Outcome
	fits := false
	for _, v := range variants {
		v.Order = st.Order
		for _, b := range batches {
			o, err := s.evaluate(v, cm.price, b, true)
			if err != nil {
				return nil, err
			}
			ok := o.Memory.Total() <= s.Capacity && s.misses(o) == ""
			if best == nil || ok && !fits || ok == fits && (ok && o.score < best.score || !ok && o.Memory.Total() < best.Memory.Total()) {
				best, fits = o, ok
			}
		}
	}
	if s.Workload.Task == string(TrainStep) && st.FirstStage == 0 && st.LastStage == 0 {
		var err error
		if best, err = s.levelEnds(best, cm); err != nil {
			return nil, err
		}
	}
	o, err := s.evaluate(best.Strategy, cm.price, best.Batch, false)
	if err != nil {
		return nil, err
	}
	o.seats = cm.seats
	return o, nil
}

// Score is what the search minimises: seconds of a training step, or of the objective; negative throughput otherwise.
func (o *Outcome) Score() float64 { return o.score }

// CostRatio says how much more an outcome costs than another under the same request: 1.1 = 10 % more time for the same
// work, or as much less throughput.
func (o *Outcome) CostRatio(best *Outcome) float64 {
	if o.score < 0 && best.score < 0 {
		return best.score / o.score
	}
	return o.score / best.score
}
