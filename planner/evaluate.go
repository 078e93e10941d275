package planner

import (
	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/model"
	"rankmap/planner/step"
)

// work is one step of a replica with b sequences over all replicas.
func (s *search) work(st parallel.Strategy, phase model.Phase, b int) model.Work {
	w := model.Work{
		Phase: phase, Batch: replicaBatch(st, b), Tokens: 1,
		Context:     s.Workload.ISL + s.Workload.OSL/2,
		WeightDType: s.Workload.Weights, KVDType: s.Workload.KVCache,
	}
	if phase == model.Prefill {
		w.Tokens, w.Context, w.Merged = s.Workload.ISL, s.Workload.ISL, true
	}
	return w
}

// replicaBatch is how many of b sequences the fullest of the dp attention replicas holds.
func replicaBatch(st parallel.Strategy, b int) int { return max(1, (b+st.DP-1)/st.DP) }

// evaluate prices a strategy, seated, with b sequences in flight over all GPUs.
//
// Decode: TPOT is the decode step at the mean context isl + osl/2; tokens/s = b / TPOT.
// Prefill: b prompts over the replicas; TTFT is the step; tokens/s = b isl / step.
// Serve: the steady state of continuous batching, see step.Serve.
//
// Brief outcomes lack the parts and collectives of the steps.
func (s *search) evaluate(st parallel.Strategy, price step.Comm, b int, brief bool) (*Outcome, error) {
	s.counts.Priced++
	o := &Outcome{Strategy: st, GPUs: st.World(), Batch: b, Replica: replicaBatch(st, b)}
	forward := func(w model.Work) (step.Result, error) {
		e := s.host(st)
		return step.Forward(step.Input{
			Spec: s.spec(st), Strategy: st, Work: w, Kernel: s.kernel(w.Phase), Comm: price, Brief: brief, Scratch: &s.scratch,
			Overhead: e.Step * units.Duration(st.PP), Launch: e.HostBound(w.Phase == model.Decode), Halves: e.Halves,
		})
	}
	gpus := float64(s.counted())
	var err error
	switch Task(s.Workload.Task) {
	case TrainStep:
		if err := s.evaluateTraining(o, price, brief); err != nil {
			return nil, err
		}
		o.PerGPU = o.Tokens / gpus
		if Objective(s.Workload.Objective) == MinGPUs {
			o.score += float64(o.GPUs) * 1e9
		}
		return o, nil
	case DecodeOnly:
		if o.Step, err = forward(s.work(st, model.Decode, b)); err != nil {
			return nil, err
		}
		o.TPOT = o.Step.Band
		o.Tokens = float64(b) / o.TPOT.Time.Seconds()
		o.score = o.TPOT.Time.Seconds()
	case PrefillOnly:
		if o.Step, err = forward(s.work(st, model.Prefill, b)); err != nil {
			return nil, err
		}
		o.TTFT = o.Step.Band
		o.Tokens = float64(b) * float64(s.Workload.ISL) / o.TTFT.Time.Seconds()
		o.score = o.TTFT.Time.Seconds()
	default: // Serve
		if o.Step, err = forward(s.work(st, model.Decode, b)); err != nil {
			return nil, err
		}
		v, err := s.serve(st, price, b)
		if err != nil {
			return nil, err
		}
		if !brief {
			if o.Prefill, err = s.prefillStep(st, price, v.Chunks); err != nil {
				return nil, err
			}
		}
		o.Service = &v
		o.TPOT, o.TTFT = v.TPOT, v.TTFT
		o.Tokens = v.Rate * float64(s.Workload.OSL)
		o.score = o.TTFT.Time.Seconds() + float64(s.Workload.OSL)*o.TPOT.Time.Seconds()
	}
	o.PerGPU = o.Tokens / gpus
	switch Objective(s.Workload.Objective) {
	case Throughput:
		o.score = -o.PerGPU
	case MinGPUs:
		o.score = float64(o.GPUs)*1e9 - o.PerGPU
	}
	o.Memory = s.memory(st, b)
	return o, nil
}

// counted is how many GPUs per-GPU figures count: those of the cluster that the user allows, or as many as the request may use.
func (s *search) counted() int {
	if s.GPUs > 0 {
		return s.GPUs
	}
	allowed := max(1, s.Cluster.NumGPUs()-s.Barred)
	if s.Budget > 0 {
		return min(s.Budget, allowed)
	}
	return allowed
}

// memory is the use of the fullest GPU with b sequences at full length.
func (s *search) memory(st parallel.Strategy, b int) model.Memory {
	phase := model.Decode
	if s.Workload.Task == string(PrefillOnly) {
		phase = model.Prefill
	}
	w := s.work(st, phase, b)
	w.Context = s.Workload.ISL + s.Workload.OSL
	return s.spec(st).Memory(st, w, model.MemoryOptions{})
}

// maxBatchCap bounds the batch search: sequences over all GPUs for each attention replica.
const maxBatchCap = 4096

// batches lists the batches to try, ascending: the given one, or powers of two per replica up to what memory holds. An
// empty list comes with the need of the smallest.
func (s *search) batches(st parallel.Strategy) ([]int, units.Bytes) {
	if b := s.Workload.Batch; b > 0 {
		if need := s.memory(st, b).Total(); need > s.Capacity {
			return nil, need
		}
		return []int{b}, 0
	}
	var out []int
	for r := 1; r <= s.mostPerReplica(st); r *= 2 {
		b := r * st.DP
		need := s.memory(st, b).Total()
		if need > s.Capacity {
			if len(out) == 0 {
				return nil, need
			}
			break
		}
		out = append(out, b)
	}
	return out, 0
}

// mostPerReplica bounds the batch search: what the engine runs at once. Prefill: each of the pp pieces in the pipeline is one step of the engine, and
// holds as many prompts as its token budget, one at least.
func (s *search) mostPerReplica(st parallel.Strategy) int {
	e := s.scheduler()
	most := maxBatchCap
	if e.Seqs > 0 {
		most = min(most, e.Seqs)
	}
	if s.Workload.Task != string(PrefillOnly) || e.Budget <= 0 || s.Workload.ISL <= 0 {
		return most
	}
	return min(most, max(1, e.Budget/s.Workload.ISL)*st.PP)
}
