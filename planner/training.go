package planner

import (
	"math"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/model"
	"rankmap/planner/step"
)

// microBatches are the micro-batch sizes tried in training, sequences.
var microBatches = []int{1, 2, 4, 8}

// interleaves are the numbers of virtual stages tried beside none.
var interleaves = []int{1, 2, 4, 8}

// trainOption is a split with everything that only training has.
type trainOption struct {
	st    parallel.Strategy
	need  units.Bytes // memory of the fullest GPU
	bound float64     // seconds that a step takes on any seats at least; of a search only
}

// shardless is the type whose parameters no framework shards: Megatron-FSDP rejects FP4 (Megatron-LM pull request 7588).
const shardless = "nvfp4"

// trainOptions completes a split: micro-batch, virtual stages, recomputation, sequence parallelism (on whenever tp splits:
// it costs no bytes and saves memory, arXiv 2205.05198 section 4.2), the distributed optimizer (ZeRO-1, on whenever
// something is replicated). none says that no micro-batch divides the batch.
//
// Of each micro-batch and number of virtual stages those come that fit and are not dominated: nothing recomputed; else as
// few layers as memory needs, and attention alone where its scores pass through memory; without a pipeline also ZeRO-3 with
// nothing recomputed. When nothing fits, the least of each.
func (s *search) trainOptions(st parallel.Strategy) (fit, large []trainOption, none bool) {
	st.SequenceParallel = st.TP > 1 && !s.Held.Serial
	if st.DP*st.CP > 1 && !s.Held.PlainDP {
		st.ZeRO = max(1, s.Held.ZeRO)
	}
	none = true
	for _, v := range heldOr(s.Held.Interleave, interleaves) {
		if v > 1 && (st.PP == 1 || st.PP*v > s.Spec.Layers()) {
			continue
		}
		for _, mb := range heldOr(s.Held.MicroBatch, microBatches) {
			perReplica := s.Workload.Batch / st.DP
			if s.Workload.Batch%st.DP != 0 || perReplica%mb != 0 || perReplica/mb < 1 {
				continue
			}
			x := st
			x.Interleave, x.MicroBatch = v, mb
			if s.Engine != nil && s.refused(x) != "" {
				continue
			}
			none = false
			least := s.recomputeOptions(x, &fit)
			if x.DP*x.CP > 1 && x.PP == 1 && s.Held.ZeRO == 0 && !s.Held.PlainDP && s.Workload.Weights != shardless {
				x.ZeRO = 3
				if n := len(fit); n == 0 || fit[n-1].st.MicroBatch != mb || fit[n-1].st.Recompute != "" || fit[n-1].st.OffloadLayers > 0 {
					if l := s.recomputeOptions(x, &fit); l.need < least.need {
						least = l
					}
				}
			}
			if len(fit) == 0 {
				large = append(large, least)
			}
			if least.need > s.Capacity {
				break // a larger micro-batch needs more
			}
		}
	}
	return fit, large, none
}

// recomputeOptions appends the recomputations of a split that fit memory, cheapest in time first, and returns the one that
// needs least memory.
func (s *search) recomputeOptions(x parallel.Strategy, fit *[]trainOption) trainOption {
	x.OffloadLayers = 0
	try := func(mode string, layers int) trainOption {
		x.Recompute, x.RecomputeLayers = mode, layers
		return trainOption{st: x, need: s.Spec.Memory(x, s.trainWork(x), s.memoryOptions()).Total()}
	}
	add := func(o trainOption) bool {
		if o.need <= s.Capacity {
			*fit = append(*fit, o)
			return true
		}
		return false
	}
	switch h := s.Held.Recompute; h {
	case "none", "selective", "full":
		if h == "none" {
			h, x.OffloadLayers = "", s.Held.OffloadLayers
		}
		o := try(h, s.Held.RecomputeLayers)
		add(o)
		return o
	}
	if o := try("", 0); add(o) {
		return o
	}
	s.offloadOption(x, fit)
	if s.Held.Unfused {
		add(try("selective", 0))
	}
	all := try("full", 0)
	if all.need > s.Capacity {
		return all
	}
	// The fewest layers of each virtual stage that make it fit: what a stage keeps falls with each.
	lo, hi, best := 1, s.Spec.LargestPiece(x), all
	for lo < hi {
		mid := (lo + hi) / 2
		if o := try("full", mid); o.need <= s.Capacity {
			hi, best = mid, o
		} else {
			lo = mid + 1
		}
	}
	add(best)
	return all
}

// offloadOption appends the split with as few layers in the host's memory as make it fit: an alternative to recomputing, which
// Megatron-LM knows without a pipeline (model_parallel_config.py cpu_offloading), one layer less than the network has.
func (s *search) offloadOption(x parallel.Strategy, fit *[]trainOption) {
	if x.PP > 1 || s.HostLink <= 0 || s.Spec.Layers() < 2 || s.Held.Graphs { // transformer_config.py: no CUDA graphs beside it
		return
	}
	need := func(n int) units.Bytes {
		x.OffloadLayers = n
		return s.Spec.Memory(x, s.trainWork(x), s.memoryOptions()).Total()
	}
	lo, hi := 1, s.Spec.Layers()-1
	if need(hi) > s.Capacity {
		return
	}
	for lo < hi {
		if mid := (lo + hi) / 2; need(mid) <= s.Capacity {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	n, w := need(lo), s.trainWork(x)
	if s.Spec.OffloadBytes(&x, &w, 0) > hostMemory {
		return
	}
	*fit = append(*fit, trainOption{st: x, need: n})
}

// hostMemory is how much of its host's memory a GPU may fill with results: 200 of 240 GB. GB200 NVL72 has 480 GB for two GPUs, DGX
// H100, H200 and B200 2 TB for eight (datasheets).
const hostMemory = 200e9

// trainWork is one micro-batch.
func (s *search) trainWork(st parallel.Strategy) model.Work {
	return model.Work{
		Phase: model.Train, Batch: st.MicroBatch, Tokens: s.Workload.SeqLen, Context: s.Workload.SeqLen,
		WeightDType: s.Workload.Weights, Unfused: s.Held.Unfused, SeparateGrads: s.Held.SeparateGrads, Merged: s.Held.Merged,
		HalfGrads: s.Held.Formats.GradBytes == 2, TensorGathers: s.Held.TensorGathers, LoRA: s.lora(),
	}
}

// lora is the adapters that a run trains instead of the weights.
func (s *search) lora() model.LoRA {
	t, _ := model.LoRATargetsNamed(s.Workload.LoRATargets) // checked by whoever reads the workload
	return model.LoRA{Rank: s.Workload.LoRA, Targets: t}
}

// formats are the number formats of a run and what it trains.
func (s *search) formats() model.Training {
	t := s.Held.Formats
	t.LoRA = s.lora()
	return t
}

// memoryOptions are the number formats that a training run holds.
func (s *search) memoryOptions() model.MemoryOptions {
	return model.MemoryOptions{Training: s.formats()}
}

// heldOr is the value that the run holds, or the list to try.
func heldOr(held int, list []int) []int {
	if held > 0 {
		return []int{held}
	}
	return list
}

// trainInput is the training step of a variant.
func (s *search) trainInput(st parallel.Strategy, price step.Comm) step.TrainInput {
	return step.TrainInput{
		Input:        step.Input{Spec: s.Spec, Strategy: st, Work: s.trainWork(st), Kernel: s.kernel(model.Train), Comm: price, Scratch: &s.scratch, OverlapTP: s.Held.OverlapTP, OverlapEP: s.Held.OverlapEP, BlockingHops: s.Held.BlockingHops, HostLink: s.HostLink},
		Formats:      s.formats(),
		Serial:       s.Held.SerialDP,
		Blocking:     s.Held.Blocking,
		HostOp:       s.hostOp(),
		MicroBatches: s.Workload.Batch / st.DP / st.MicroBatch,
	}
}

// hostOp is what the start of an operation takes the host.
func (s *search) hostOp() units.Duration {
	if s.Held.Graphs {
		return 0
	}
	return step.EagerOp
}

// evaluateTraining prices one training step of a global batch.
func (s *search) evaluateTraining(o *Outcome, price step.Comm, brief bool) error {
	st := o.Strategy
	w := s.trainWork(st)
	in := s.trainInput(st, price)
	in.Brief = brief
	if s.limit > 0 && s.limit < math.MaxFloat64 {
		in.Limit = units.Duration(s.limit)
	}
	r, err := step.Train(in)
	if err != nil {
		return err
	}
	o.Step = r
	o.Replica = s.Workload.Batch / st.DP
	tokens := float64(s.Workload.Batch) * float64(s.Workload.SeqLen)
	o.Tokens = tokens / r.Time.Seconds()
	if s.PeakFLOPS > 0 {
		flops := s.Spec.TrainFLOPsPerToken(s.Workload.SeqLen)
		if s.Workload.LoRA > 0 {
			flops = s.Spec.LoRAFLOPsPerToken(s.Workload.SeqLen)
		}
		o.MFU = tokens * flops / (r.Time.Seconds() * float64(st.World()) * s.PeakFLOPS)
	}
	o.score = r.Time.Seconds()
	o.Memory = s.Spec.Memory(st, w, s.memoryOptions())
	return nil
}
