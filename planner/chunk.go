package planner

import (
	"fmt"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/model"
	"rankmap/planner/step"
)

// leastBudget is the least number of tokens of a step that seqs decoding sequences of a replica go with. Each takes one
// token (vLLM's own rule: max_num_batched_tokens >= max_num_seqs, vllm/config/scheduler.py); beside them the step must hold
// what their successors' prompts need in the steady state, isl/osl tokens a sequence, or be half free: with less, most
// requests wait for their prompt, and how many decode at a time depends on the engine's order, which is not modelled.
func (s *search) leastBudget(seqs int) int {
	isl, osl := max(s.Workload.ISL, 0), max(s.Workload.OSL, 1)
	return min(seqs+(seqs*isl+osl-1)/osl, 2*seqs)
}

// withinBudget keeps the batches whose decoding sequences leave room for prompts in the tokens of a step, on engines that
// mix both. It records the strategy as lost, and returns nil, when none does.
func (s *search) withinBudget(st parallel.Strategy, batches []int) []int {
	why := ""
	kept := batches[:0]
	for _, b := range batches {
		if w := s.overBudget(st, b); w == "" {
			kept = append(kept, b)
		} else if why == "" {
			why = w
			if n := float64(replicaBatch(st, b)) / float64(s.scheduler().Budget); s.missed.Why == "" || n < s.missed.over {
				s.missed = nearMiss{Loser: Loser{Strategy: st, Why: w}, over: n, chunk: s.leastBudget(replicaBatch(st, b))}
			}
		}
	}
	if len(kept) > 0 {
		return kept
	}
	s.dropByLimit(st, why)
	return nil
}

// overBudget says why a batch does not go with the tokens of a step; empty when it does.
func (s *search) overBudget(st parallel.Strategy, b int) string {
	e := s.scheduler()
	if s.Workload.Task != string(Serve) || e.Budget <= 0 {
		return ""
	}
	if e.Whole && s.Workload.Chunk > 0 && s.Workload.ISL > e.Budget {
		return fmt.Sprintf("a step of %d tokens: %s never cuts a prompt of %d", e.Budget, e.Name, s.Workload.ISL)
	}
	if n := replicaBatch(st, b); !e.Apart && s.leastBudget(n) > e.Budget {
		return fmt.Sprintf("a step of %d tokens: %d sequences a replica decode and take one each, which leaves %d for prompts", e.Budget, n, max(0, e.Budget-n))
	}
	return ""
}

// piece is a step with the piece of a prompt that the engine takes at a time, when it cuts a prompt that often.
func (s *search) piece(st parallel.Strategy, chunks int) model.Work {
	w := s.work(st, model.Prefill, 1)
	if chunks > 1 {
		w.Tokens = (s.Workload.ISL + chunks - 1) / chunks
		w.Context = max((s.Workload.ISL+w.Tokens)/2, w.Tokens) // the mean over the pieces
	}
	return w
}

// prefillStep is the step of prompts as the groups of a layout show it.
func (s *search) prefillStep(st parallel.Strategy, price step.Comm, chunks int) (*step.Result, error) {
	e := s.host(st)
	r, err := step.Forward(step.Input{
		Spec: s.spec(st), Strategy: st, Work: s.piece(st, chunks), Kernel: s.kernel(model.Prefill), Comm: price, Scratch: &s.scratch,
		Overhead: e.Step * units.Duration(st.PP), Launch: e.HostBound(false), Halves: e.Halves,
	})
	return &r, err
}
