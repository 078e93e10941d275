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

// kindsOn is how many layers of a kind a rank of a stage holds; with interleaving v the network is cut into pp*v pieces
// and the stage holds every pp-th.
func (s *Spec) kindsOn(kind, pp, v, stage int) int {
	if v <= 1 {
		first, n := evenSplit(len(s.layers), pp, stage)
		p := s.prefix[kind]
		return int(p[first+n] - p[first])
	}
	sum := 0
	for c := range v {
		first, n := evenSplit(len(s.layers), pp*v, c*pp+stage)
		p := s.prefix[kind]
		sum += int(p[first+n] - p[first])
	}
	return sum
}

// LayersOn is how many layers a rank of a stage holds.
func (s *Spec) LayersOn(st parallel.Strategy, stage int) int {
	sum := 0
	for k := range s.Kinds {
		sum += s.kindsOn(k, max(st.PP, 1), max(st.Interleave, 1), stage)
	}
	return sum
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
		v: max(st.Interleave, 1), seqPar: st.SequenceParallel && st.TP > 1, cache: cacheBytes(w.KVDType)}
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
