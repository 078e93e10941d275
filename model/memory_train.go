package model

import "rankmap/internal/parallel"

// State of mixed-precision Adam: an fp32 master weight and two fp32 moments.
const (
	weightBytes    = 2
	optimizerBytes = 12
)

// stateMemory fills weights, gradients and optimizer of a stage.
//
// Bytes a parameter: 2 + gradient + 12, with ZeRO-1 (Megatron's distributed optimizer) 12/D, ZeRO-2 gradients/D too,
// ZeRO-3 all of it; D is dp x cp for dense weights and expert-DP for experts.
func (s *Spec) stateMemory(m *Memory, x *shape, st *parallel.Strategy, t Training, dense, experts float64, layers int) {
	for _, g := range []struct {
		n float64
		d int
	}{{dense, x.dp * x.cp}, {experts, expertDP(x)}} {
		share := func(level int) float64 {
			if st.ZeRO >= level {
				return 1 / float64(g.d)
			}
			return 1
		}
		m.Weights += bytesOf(g.n * weightBytes * share(3))
		m.Gradients += bytesOf(g.n * float64(t.GradBytes) * share(2))
		m.Optimizer += bytesOf(g.n * optimizerBytes * share(1))
	}
	if st.ZeRO >= 3 && layers > 0 {
		// One layer gathered whole, and the next on its way.
		m.Weights += bytesOf(2 * weightBytes * (dense + experts) / float64(layers))
	}
}

// frozenMemory is stateMemory beside frozen weights, which are held once, in the type that multiplies them (Megatron-Bridge's
// recipes keep fp8 parameters without transposed copies, disable_parameter_transpose_cache): gradients and optimizer are those of
// the adapters, weights in bf16 too.
func (s *Spec) frozenMemory(m *Memory, x *shape, st *parallel.Strategy, t Training, weights, adapters float64, layers int) {
	d := float64(x.dp * x.cp)
	share := func(level int) float64 {
		if st.ZeRO >= level {
			return 1 / d
		}
		return 1
	}
	m.Weights = bytesOf((weights + weightBytes*adapters) * share(3))
	m.Gradients = bytesOf(adapters * float64(t.GradBytes) * share(2))
	m.Optimizer = bytesOf(adapters * optimizerBytes * share(1))
	if st.ZeRO >= 3 && layers > 0 {
		m.Weights += bytesOf(2 * weights / float64(layers))
	}
}

// inFlight is how many micro-batches of its layers a stage keeps: pp - stage under 1F1B; interleaved, the warm-up of
// Megatron's schedule plus one, in units of one virtual stage (Korthikanti et al. 2022, section 4.2.3, for stage 0:
// L (1 + (p-1)/(p v)) layers' worth).
func inFlight(x *shape, stage int) float64 {
	if x.v <= 1 {
		return float64(x.pp - stage)
	}
	chunks := 2*(x.pp-stage-1) + (x.v-1)*x.pp + 1
	return float64(chunks) / float64(x.v)
}

// inputBytes is what a layer keeps whose forward pass runs again: its input (Korthikanti et al. 2022, table 2).
func inputBytes(s *Spec, x *shape) float64 {
	b := 2 * float64(x.tokens) * float64(s.Hidden)
	if x.seqPar {
		b /= float64(x.tp)
	}
	return b
}

// savedBytes is what one layer keeps for its backward pass, one micro-batch: Korthikanti et al. 2022 table 2 for the GPT
// line (10 + 24/t, scores 5 a s/(h t)), and the same count for RMSNorm and gated MLPs without dropout.
func (s *Spec) savedBytes(k *Kind, x *shape, w *Work, st *parallel.Strategy, t Training) float64 {
	tokens := float64(x.tokens)
	h := float64(s.Hidden)
	seq := 1.0 // share of what every tp rank repeats without sequence parallelism
	if x.seqPar {
		seq = 1 / float64(x.tp)
	}
	blocks := 0.0
	var split float64 // bytes a token, cut over tp
	tp := float64(x.tp)
	// Inputs of matrix products are kept in the type that multiplies them (Transformer Engine keeps one byte for fp8).
	// A frozen product keeps no input at all, and an adapter keeps it in bf16.
	in8, lora := 0.0, w.LoRA.frozen()
	if x.store != nil && x.store.Format > FP32 && !lora {
		in8 = 1
	}
	bare := lora && w.LoRA.Targets != LoRALinear // the feed-forward part is frozen without adapters
	switch m := &k.Mixer; m.Kind {
	case NoMixer:
	case Attention, Compressed:
		blocks++
		kv := float64(m.kvHeadsOn(x.tp)) * tp // copies count
		split += 2*float64(m.Heads*(m.HeadDim+m.VHeadDim)) + 2*kv*float64(m.HeadDim+m.VHeadDim)
		split += in8 * float64(m.Heads*m.VHeadDim) // attention keeps its result besides
		if (t.Unfused || w.Unfused) && st.Recompute != "selective" {
			split += 5 * float64(m.Heads) * float64(max(w.Context, w.Tokens))
		}
	case MLA:
		blocks++
		split += 2 * float64(m.Heads*(2*m.HeadDim+2*m.VHeadDim))
		seqBytes := 2 * float64(m.QLora+m.KVLora+m.Rope)
		split += seqBytes * tp * seq
	default:
		blocks++
		split += 2 * float64(m.InProj+2*m.Inner)
	}
	f := &k.FFN
	mats := 2.0
	if f.Gated {
		mats = 3
	}
	if f.Kind != NoFFN {
		if !k.Parallel || blocks == 0 {
			blocks++
			if bare { // what its norm writes is read by frozen products alone
				split -= 2 * h * tp * seq
			}
		}
		if bare {
			split += 2 * (mats - 1) * float64(f.Inter)
		} else {
			split += (2*mats - in8) * float64(f.Inter)
		}
	}
	total := tokens / tp * split
	// Input of the norm and of the block's first product; the GPT line adds a dropout mask.
	per := 4.0
	if s.LayerNorm {
		per = 5
	}
	total += tokens * h * (per - in8) * blocks * seq
	if f.Kind == Experts {
		in := h
		if f.Latent > 0 {
			in = float64(f.Latent)
		}
		own := float64(x.own)
		if !x.exchange {
			own = tokens / tp
		}
		// Each copy keeps the experts' input and inner results; weights of the copies are applied inside, so that the
		// experts' output is not kept.
		if lora { // frozen: the activation's inputs alone
			total += own * float64(f.effectiveTopK()) * 2 * (mats - 1) * float64(f.ExpertInter)
		} else {
			total += own * float64(f.effectiveTopK()) * ((2-in8)*in + (2*mats-in8)*float64(f.ExpertInter))
		}
		shared := 2 * mats
		if bare {
			shared = 2 * (mats - 1)
		}
		total += own * shared * float64(f.SharedInter)
	}
	return total
}
