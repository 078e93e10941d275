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

// engineFacts is what the rules of engines need.
func (s *search) engineFacts() *engine.Facts {
	f := &engine.Facts{Layers: s.Spec.Layers(), Experts: s.Spec.RoutedExperts(), Decode: s.Workload.Task == string(DecodeOnly)}
	if s.Workload.Task == string(TrainStep) {
		f.Training, f.GlobalBatch, f.SeqLen = true, s.Workload.Batch, s.Workload.SeqLen
	}
	for i := range s.Spec.Kinds {
		m := &s.Spec.Kinds[i].Mixer
		if m.Kind != model.Attention && m.Kind != model.MLA {
			continue
		}
		if f.Heads == 0 || m.Heads < f.Heads {
			f.Heads = m.Heads
		}
		if m.Kind == model.Attention && (f.KVHeads == 0 || m.KVHeads < f.KVHeads) {
			f.KVHeads = m.KVHeads
		}
	}
	return f
}
