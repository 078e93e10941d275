package planner

import (
	"rankmap/internal/engine"
	"rankmap/internal/parallel"
	"rankmap/model"
)

// refused names the rule of the target engine that a strategy breaks; empty when it can run, or without a target. Rules on
// sequence parallelism count once the variants of training are known: the search always turns it on with tp.
func (s *search) refused(st parallel.Strategy) string {
	if s.Engine == nil {
		return ""
	}
	st.SequenceParallel = st.TP > 1 && !s.Held.Serial
	if v := s.Engine.Check(st, *s.factsFor(st)); len(v) > 0 {
		return v[0].String()
	}
	return ""
}

// violations lists the rules of the network that a strategy breaks with the weights as the step holds them: training computes in
// bf16 where nothing else is asked for.
func (s *search) violations(st parallel.Strategy) []model.Violation {
	dtype := s.Workload.Weights
	if dtype == "" && s.Workload.Task == string(TrainStep) {
		dtype = "bf16"
	}
	return s.spec(st).CheckAs(st, dtype)
}

// factsFor is what the rules of engines need of a strategy's network: redundant experts count as experts.
func (s *search) factsFor(st parallel.Strategy) *engine.Facts {
	if s.facts == nil {
		s.facts = s.engineFacts()
	}
	if st.RedundantExperts == 0 {
		return s.facts
	}
	f := *s.facts
	f.Experts += st.RedundantExperts
	return &f
}

// least is the smaller of two numbers of which 0 means not known.
func least(a, b int) int {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// engineFacts is what the rules of engines need.
func (s *search) engineFacts() *engine.Facts {
	f := &engine.Facts{Layers: s.Spec.Layers(), Experts: s.Spec.RoutedExperts(), Decode: s.Workload.Task == string(DecodeOnly)}
	if s.Workload.Task == string(TrainStep) {
		f.Training, f.GlobalBatch, f.SeqLen = true, s.Workload.Batch, s.Workload.SeqLen
	}
	for i := range s.Spec.Kinds {
		m := &s.Spec.Kinds[i].Mixer
		if m.Kind == model.Mamba2 {
			f.StateHeads, f.StateGroups = least(f.StateHeads, m.Heads), least(f.StateGroups, m.KVHeads)
		}
		if m.Kind != model.Attention && m.Kind != model.MLA {
			continue
		}
		f.Heads = least(f.Heads, m.Heads)
		if m.Kind == model.Attention {
			f.KVHeads = least(f.KVHeads, m.KVHeads)
		}
	}
	return f
}
