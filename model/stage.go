package model

import "rankmap/internal/parallel"

// StageLayers returns the first layer and the number of layers of a pipeline stage. Layers are dealt out evenly; a
// remainder goes one each to the stages before the last, from the back (vLLM's and SGLang's rule: the last stage also
// holds the head). A stage outside 0..pp-1 has none.
func (s *Spec) StageLayers(pp, stage int) (first, n int) {
	return evenSplit(len(s.layers), pp, stage)
}

func evenSplit(layers, pp, stage int) (first, n int) {
	if pp < 1 || stage < 0 || stage >= pp {
		return 0, 0
	}
	base, rem := layers/pp, layers%pp
	// Stages pp-1-rem .. pp-2 hold one more.
	from := pp - 1 - rem
	first = stage * base
	if stage > from {
		first += stage - from
	}
	n = base
	if stage >= from && stage < pp-1 {
		n++
	}
	return first, n
}

// cut is how a network is divided over a pipeline: pp x v pieces, of which stage s holds every pp-th from s on. first and
// last are the layers of the first and of the last piece; 0 = as the others.
type cut struct{ pp, v, first, last int }

func cutOf(st *parallel.Strategy) cut {
	return cut{max(st.PP, 1), max(st.Interleave, 1), st.FirstStage, st.LastStage}
}

// piece returns the first layer and the number of layers of a piece.
func (c cut) piece(layers, i int) (first, n int) {
	pieces := c.pp * c.v
	if c.first == 0 && c.last == 0 || pieces < 2 || i < 0 || i >= pieces {
		return evenSplit(layers, pieces, i)
	}
	from, inner := 0, layers-c.first-c.last
	if c.first > 0 {
		if i == 0 {
			return 0, c.first
		}
		from, pieces, i = c.first, pieces-1, i-1
	}
	if c.last > 0 {
		if i == pieces-1 {
			return layers - c.last, c.last
		}
		pieces--
	}
	first, n = evenSplit(inner, pieces, i)
	return from + first, n
}

// kindsOn is how many layers of a kind a rank of a stage holds.
func (s *Spec) kindsOn(kind int, c cut, stage int) int {
	return s.firstOfKind(kind, c, stage, len(s.layers))
}

// firstOfKind is how many layers of a kind are among the first most layers of each piece of a stage.
func (s *Spec) firstOfKind(kind int, c cut, stage, most int) int {
	sum := 0
	p := s.prefix[kind]
	for i := range c.v {
		first, n := c.piece(len(s.layers), i*c.pp+stage)
		sum += int(p[first+min(n, most)] - p[first])
	}
	return sum
}

// redoneOn is how many layers of a kind on a stage run their forward pass again before their backward pass.
func (s *Spec) redoneOn(kind int, c cut, st *parallel.Strategy, stage int) int {
	switch {
	case st.Recompute != "full":
		return 0
	case st.RecomputeLayers > 0:
		return s.firstOfKind(kind, c, stage, st.RecomputeLayers)
	}
	return s.kindsOn(kind, c, stage)
}

// StageKinds counts the layers of each kind on a stage, and those that run their forward pass again. false: the network has
// more kinds than there is room.
func (s *Spec) StageKinds(st *parallel.Strategy, stage int, held, redone []int16) bool {
	if len(s.Kinds) > len(held) || len(s.Kinds) > len(redone) {
		return false
	}
	c := cutOf(st)
	for k := range s.Kinds {
		held[k] = int16(s.kindsOn(k, c, stage))
		redone[k] = int16(s.redoneOn(k, c, st, stage))
	}
	return true
}

// EndLayers is how many layers the first and the last virtual stage hold.
func (s *Spec) EndLayers(st parallel.Strategy) (first, last int) {
	c := cutOf(&st)
	_, first = c.piece(len(s.layers), 0)
	_, last = c.piece(len(s.layers), c.pp*c.v-1)
	return first, last
}

// LayersOn is how many layers a rank of a stage holds.
func (s *Spec) LayersOn(st parallel.Strategy, stage int) int {
	sum, c := 0, cutOf(&st)
	for k := range s.Kinds {
		sum += s.kindsOn(k, c, stage)
	}
	return sum
}

// LargestPiece is how many layers the fullest virtual stage holds.
func (s *Spec) LargestPiece(st parallel.Strategy) int {
	most, c := 0, cutOf(&st)
	for i := range c.pp * c.v {
		_, n := c.piece(len(s.layers), i)
		most = max(most, n)
	}
	return most
}

// PipelineBubble is the share of a training step that a stage idles: (p-1)/(v m + p-1) for p stages, m micro-batches and
// v virtual stages a rank (Narayanan et al. 2021, section 2.2).
func PipelineBubble(stages, microBatches, interleave int) float64 {
	p, m := float64(max(stages, 1)), float64(max(microBatches, 1)*max(interleave, 1))
	return (p - 1) / (m + p - 1)
}

// shape is a strategy as the layers see it.
type shape struct {
	tp, cp, pp, dp, ep, etp, v int
	cut                        cut
	// exchange: tokens go to the experts' ranks and back (all-to-all over EP, gather and scatter over expert-TP), each
	// rank sending its own 1/tp of the replica's tokens. Otherwise every rank of the replica holds all its tokens,
	// computes its share of the experts, and one all-reduce joins the results.
	exchange bool
	seqPar   bool
	tokens   int      // new tokens that pass through this rank's layers
	own      int      // tokens that this rank brings to an exchange
	store    *Storage // what weights are held as, nil = as stored
	cache    float64  // bytes of a cached element
}

// Exchanges tells whether experts are reached by an exchange of tokens (DeepEP, pplx, Megatron's dispatcher; vLLM and
// SGLang with attention data parallelism; training with expert parallelism) rather than by an all-reduce over the
// tensor-parallel group whose ranks all hold the same tokens (vLLM, SGLang and TensorRT-LLM with tp, with or without
// ep, and one attention replica).
func Exchanges(st parallel.Strategy, phase Phase) bool {
	tp, cp, ep, etp := max(st.TP, 1), max(st.CP, 1), max(st.EP, 1), max(st.ExpertTP, 1)
	if ep*etp == 1 && tp*cp == 1 {
		return false
	}
	switch {
	case phase == Train:
		return ep > 1 || etp != tp
	case phase == Decode:
		return ep*etp != tp*cp
	default:
		return ep*etp != tp || cp > 1 && ep > 1
	}
}

func (s *Spec) shapeOf(st *parallel.Strategy, w *Work) shape {
	x := shape{tp: max(st.TP, 1), cp: max(st.CP, 1), pp: max(st.PP, 1), dp: max(st.DP, 1), ep: max(st.EP, 1), etp: max(st.ExpertTP, 1),
		v: max(st.Interleave, 1), seqPar: st.SequenceParallel && st.TP > 1, cache: cacheBytes(w.KVDType), cut: cutOf(st)}
	x.exchange = Exchanges(*st, w.Phase)
	x.tokens = w.NewTokens()
	if w.Phase != Decode {
		x.tokens = ceilDiv(x.tokens, x.cp)
	}
	x.own = x.tokens
	if x.exchange {
		x.own = ceilDiv(x.tokens, x.tp)
		if w.Phase == Decode {
			x.own = ceilDiv(x.tokens, x.tp*x.cp)
		}
	}
	dtype := w.WeightDType
	if dtype == "" && w.Phase == Train {
		dtype = "bf16"
	}
	if dtype != "" {
		x.store = namedStorage(dtype)
	}
	return x
}

// degrees of the shape.
func (x *shape) degrees() degrees {
	d := degrees{tp: x.tp, ep: x.ep, etp: x.etp, shared: x.tp}
	if x.exchange {
		d.shared = 1
	}
	return d
}
