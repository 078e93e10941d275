package planner

import (
	"fmt"
	"math"
	"slices"

	"rankmap/internal/parallel"
	"rankmap/model"
	"rankmap/planner/step"
)

// microBatches are the micro-batch sizes tried in training, sequences.
var microBatches = []int{1, 2, 4, 8}

// recomputes are the activation recomputation modes tried, cheapest in time first.
var recomputes = []string{"", "selective", "full"}

// interleaves are the numbers of virtual stages tried beside none.
var interleaves = []int{1, 2, 4, 8}

// trainVariants completes a split with what only training has: micro-batch, recomputation, interleaving, sequence
// parallelism (on whenever tp splits: it costs no bytes and saves memory, arXiv 2205.05198 section 4.2) and the
// distributed optimizer (ZeRO-1, on whenever something is replicated).
func (s *search) trainVariants(st parallel.Strategy) []parallel.Strategy {
	st.SequenceParallel = st.TP > 1 && !s.Held.Serial
	if st.DP*st.CP > 1 {
		st.ZeRO = max(1, s.Held.ZeRO)
	}
	var out []parallel.Strategy
	for _, v := range heldOr(s.Held.Interleave, interleaves) {
		if v > 1 && (st.PP == 1 || st.PP*v > s.Spec.Layers()) {
			continue
		}
		for _, mb := range heldOr(s.Held.MicroBatch, microBatches) {
			perReplica := s.Workload.Batch / st.DP
			if s.Workload.Batch%st.DP != 0 || perReplica%mb != 0 || perReplica/mb < 1 {
				continue
			}
			for _, r := range recomputes {
				if h := s.Held.Recompute; h != "" && h != r && !(h == "none" && r == "") {
					continue
				}
				x := st
				x.Interleave, x.MicroBatch, x.Recompute = v, mb, r
				if s.Engine != nil && s.refused(x) != "" {
					continue
				}
				out = append(out, x)
			}
		}
	}
	return out
}

// trainWork is one micro-batch.
func (s *search) trainWork(st parallel.Strategy) model.Work {
	return model.Work{
		Phase: model.Train, Batch: st.MicroBatch, Tokens: s.Workload.SeqLen, Context: s.Workload.SeqLen,
		WeightDType: s.Workload.Weights, Unfused: s.Held.Unfused,
	}
}

// memoryOptions are the number formats that a training run holds.
func (s *search) memoryOptions() model.MemoryOptions {
	return model.MemoryOptions{Training: s.Held.Formats}
}

// heldOr is the value that the run holds, or the list to try.
func heldOr(held int, list []int) []int {
	if held > 0 {
		return []int{held}
	}
	return list
}

// considerTraining prices the variants of a split that fit memory and keeps the fastest.
func (s *search) considerTraining(st parallel.Strategy) error {
	variants := s.trainVariants(st)
	if len(variants) == 0 {
		s.counts.ByRule++
		s.losers = append(s.losers, Loser{Strategy: st, Why: fmt.Sprintf("batch: %d sequences are not a multiple of dp %d", s.Workload.Batch, st.DP)})
		return nil
	}
	var best *Outcome
	var cm *comm
	var order []parallel.Dim
	pruned := false
	if s.Held.ZeRO == 0 {
		variants = append(variants, sharded(variants)...)
	}
	for _, v := range variants {
		if best != nil && v.ZeRO > best.Strategy.ZeRO {
			break // ZeRO-3 is for what does not fit otherwise
		}
		if need := s.Spec.Memory(v, s.trainWork(v), s.memoryOptions()).Total(); need > s.Capacity {
			if s.minNeed == 0 || need < s.minNeed {
				s.minNeed, s.minAt = need, v
			}
			continue
		}
		floor, err := step.TrainFloor(s.trainInput(v, nil))
		if err != nil {
			return err
		}
		if floor.Seconds() > s.worthwhile() {
			s.counts.Bounded++
			pruned = true
			continue
		}
		if cm == nil {
			c, seated, err := s.bestOrder(v, s.Workload.Batch)
			if err != nil {
				return err
			}
			cm, order = c, seated.Order
		}
		v.Order = order
		o, err := s.evaluate(v, cm.price, s.Workload.Batch, true)
		if err != nil {
			return err
		}
		o.seats = cm.seats
		if best == nil || o.score < best.score {
			best = o
		}
	}
	if best == nil && pruned {
		return nil // even without communication it loses to the losers that are shown
	}
	if best == nil {
		s.counts.ByMemory++
		s.losers = append(s.losers, Loser{Strategy: st, Why: fmt.Sprintf("needs more than %s a GPU even with full recomputation", s.Capacity.Decimal())})
		return nil
	}
	s.found = append(s.found, best)
	return nil
}

// trainInput is the training step of a variant.
func (s *search) trainInput(st parallel.Strategy, price step.Comm) step.TrainInput {
	return step.TrainInput{
		Input:        step.Input{Spec: s.Spec, Strategy: st, Work: s.trainWork(st), Kernel: s.kernel(model.Train), Comm: price, Scratch: &s.scratch, OverlapTP: s.Held.OverlapTP},
		Formats:      s.Held.Formats,
		MicroBatches: s.Workload.Batch / st.DP / st.MicroBatch,
	}
}

// worthwhile is the score from which on a training strategy cannot even be among the losers that are shown.
func (s *search) worthwhile() float64 {
	keep := s.Top + 1
	if len(s.found) < keep || Objective(s.Workload.Objective) == MinGPUs {
		return math.Inf(1)
	}
	if s.bar == nil || s.barAt != len(s.found) {
		scores := make([]float64, len(s.found))
		for i, o := range s.found {
			scores[i] = o.score
		}
		slices.Sort(scores)
		s.bar, s.barAt = &scores[keep-1], len(s.found)
	}
	return *s.bar
}

// evaluateTraining prices one training step of a global batch.
func (s *search) evaluateTraining(o *Outcome, price step.Comm, brief bool) error {
	st := o.Strategy
	w := s.trainWork(st)
	in := s.trainInput(st, price)
	in.Brief = brief
	r, err := step.Train(in)
	if err != nil {
		return err
	}
	o.Step = r
	o.Replica = s.Workload.Batch / st.DP
	tokens := float64(s.Workload.Batch) * float64(s.Workload.SeqLen)
	o.Tokens = tokens / r.Time.Seconds()
	if s.PeakFLOPS > 0 {
		o.MFU = tokens * s.Spec.TrainFLOPsPerToken(s.Workload.SeqLen) / (r.Time.Seconds() * float64(st.World()) * s.PeakFLOPS)
	}
	o.score = r.Time.Seconds()
	o.Memory = s.Spec.Memory(st, w, s.memoryOptions())
	return nil
}
