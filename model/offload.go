package model

import (
	"rankmap/internal/parallel"
	"rankmap/internal/units"
)

// offloadedOn is how many layers of a kind on a stage keep their results in the host's memory: the first of the stage
// (Transformer Engine's get_cpu_offload_context, which Megatron allows without a pipeline and without recomputation).
func (s *Spec) offloadedOn(kind int, c cut, st *parallel.Strategy, stage int) int {
	if st.OffloadLayers < 1 || c.pp > 1 || st.Recompute != "" {
		return 0
	}
	return s.firstOfKind(kind, c, stage, st.OffloadLayers)
}

// OffloadBytes is what one micro-batch sends to the host's memory in its forward pass, and fetches again in its backward
// pass, on one rank of a stage.
func (s *Spec) OffloadBytes(st *parallel.Strategy, w *Work, stage int) units.Bytes {
	if st.OffloadLayers < 1 || w.Phase != Train {
		return 0
	}
	x := s.shapeOf(st, w)
	sum := 0.0
	for i := range s.Kinds {
		if n := s.offloadedOn(i, x.cut, st, stage); n > 0 {
			sum += float64(n) * s.savedBytes(&s.Kinds[i], &x, w, st, Training{})
		}
	}
	return bytesOf(sum)
}
