package planner

import (
	"fmt"
	"slices"
	"strings"

	"rankmap/internal/parallel"
)

// contradiction says in words, after ": ", why no split of n GPUs keeps what is fixed; empty when it is not known.
func (s *search) contradiction(n int) string {
	sp := s.splitter(n)
	fix := s.Freedom.Fix
	for _, d := range []parallel.Dim{parallel.TP, parallel.PP, parallel.CP, parallel.DP, parallel.EP, parallel.ExpertTP} {
		if v := fix[d]; v > 1 && s.Freedom.Forbid[d] {
			return fmt.Sprintf(": %s is fixed at %d and forbidden", d, v)
		}
	}
	ep, etp := fix[parallel.EP], fix[parallel.ExpertTP]
	if sp.expert == 0 && (ep > 1 || etp > 1) {
		return ": the model has no routed experts, so that ep and expert-tp are 1"
	}
	if cp := fix[parallel.CP]; cp > 1 && !sp.cp {
		return fmt.Sprintf(": cp is searched for prefill and training alone, the task is %s", s.Workload.Task)
	}
	if pp := fix[parallel.PP]; pp > sp.layers {
		return fmt.Sprintf(": pp %d is more than the %d layers", pp, sp.layers)
	}
	if ep > 1 {
		if why := s.experts(sp, ep); why != "" {
			return why
		}
	}
	return s.product(sp, n)
}

// experts says why ep does not divide the experts, and which number of copies would mend that.
func (s *search) experts(sp splitter, ep int) string {
	if _, ok := sp.copiesFor(ep); ok {
		return ""
	}
	all := sp.expert + sp.copies
	text := fmt.Sprintf(": %d experts are not a multiple of ep %d", all, ep)
	if sp.copies > 0 {
		text = fmt.Sprintf(": %d experts with %d copies are not a multiple of ep %d", all, sp.copies, ep)
	}
	if more := (ep - sp.expert%ep) % ep; s.copiesAllowed() {
		text += fmt.Sprintf(" (--redundant-experts %d makes them one)", more)
	}
	return text
}

// product checks that the fixed degrees divide the GPUs.
func (s *search) product(sp splitter, n int) string {
	fix := s.Freedom.Fix
	stage, used := n, []string{}
	product, free := 1, 0
	for _, d := range []parallel.Dim{parallel.TP, parallel.PP, parallel.CP, parallel.DP} {
		v, ok := fix[d]
		switch {
		case s.Freedom.Forbid[d], d == parallel.CP && !sp.cp:
			v = 1
		case !ok:
			free++
			continue
		}
		product *= v
		if v > 1 {
			used = append(used, fmt.Sprintf("%s %d", d, v))
		}
	}
	switch {
	case n%product != 0:
		return fmt.Sprintf(": %s do not divide %d GPUs", strings.Join(used, " x "), n)
	case free == 0 && product != n:
		return fmt.Sprintf(": %s make %d GPUs, not %d", strings.Join(used, " x "), product, n)
	}
	if pp, ok := fix[parallel.PP]; ok {
		stage = n / pp
	}
	if sp.expert == 0 {
		return ""
	}
	ep, etp := max(fix[parallel.EP], 1), max(fix[parallel.ExpertTP], 1)
	if stage%(ep*etp) != 0 {
		return fmt.Sprintf(": ep %d x expert-tp %d do not divide the %d GPUs of a stage", ep, etp, stage)
	}
	if _, both := fix[parallel.EP]; both {
		if _, both = fix[parallel.ExpertTP]; both {
			if tp := max(fix[parallel.TP], 1) * max(fix[parallel.CP], 1); ep*etp%tp != 0 {
				return fmt.Sprintf(": ep %d x expert-tp %d must be a multiple of tp x cp = %d, the ranks that share a batch", ep, etp, tp)
			}
		}
	}
	return ""
}

// fewMicroBatches says why training has no micro-batch for a strategy: the batch, or a rule of the engine.
func (s *search) fewMicroBatches(st parallel.Strategy) string {
	if s.Workload.Batch%st.DP != 0 {
		return fmt.Sprintf("batch: %d sequences are not a multiple of dp %d", s.Workload.Batch, st.DP)
	}
	per := s.Workload.Batch / st.DP
	sizes := heldOr(s.Held.MicroBatch, microBatches)
	fits := slices.DeleteFunc(slices.Clone(sizes), func(mb int) bool { return per%mb != 0 || mb > per })
	if len(fits) == 0 {
		return fmt.Sprintf("batch: %d sequences a replica are not a multiple of a micro-batch of %d", per, sizes[0])
	}
	x := st
	x.SequenceParallel = st.TP > 1 && !s.Held.Serial
	x.MicroBatch, x.Interleave = fits[0], 1
	if why := s.refused(x); why != "" {
		return why
	}
	return fmt.Sprintf("%d layers have no %d equal stages that the engine takes", s.Spec.Layers(), st.PP)
}
