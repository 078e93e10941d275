package model

import (
	"fmt"

	"rankmap/internal/parallel"
)

// Violation is a rule of the network that a strategy breaks.
type Violation struct {
	Rule string // "heads % tp"
	Text string // with the numbers, and what would be right
}

func (v Violation) String() string { return v.Rule + ": " + v.Text }

// Check lists the rules of the network itself that a strategy breaks; nil when it fits. Rules of an engine's version
// are not here. It allocates only for violations.
func (s *Spec) Check(st parallel.Strategy) []Violation { return s.CheckAs(st, "") }

// storedAs is the type that the step holds weights in: training computes in bf16 where nothing else is asked for.
func (w *Work) storedAs() string {
	if w.WeightDType == "" && w.Phase == Train {
		return "bf16"
	}
	return w.WeightDType
}

// CheckAs is Check with the weights of another type, as Work.WeightDType names it; "" or an unknown name = as the config
// stores them. Blocks of scales belong to the type: a checkpoint of FP8 blocks that trains in bf16 has none.
func (s *Spec) CheckAs(st parallel.Strategy, dtype string) []Violation {
	store := namedStorage(dtype)
	tp, pp, ep, etp := max(st.TP, 1), max(st.PP, 1), max(st.EP, 1), max(st.ExpertTP, 1)
	v := max(st.Interleave, 1)
	var out []Violation
	add := func(rule, format string, a ...any) {
		for _, o := range out {
			if o.Rule == rule {
				return
			}
		}
		out = append(out, Violation{rule, fmt.Sprintf(format, a...)})
	}
	if pp*v > len(s.layers) {
		add("layers >= pp", "%d layers cannot fill %d pipeline stages", len(s.layers), pp*v)
	}
	if st.FirstStage != 0 || st.LastStage != 0 {
		s.checkEnds(&st, add)
	}
	if !s.MoE() && ep*etp > 1 && (ep > 1 || etp != tp) {
		add("experts", "ep %d and expert-tp %d, but the network has no experts", ep, etp)
	}
	exchange := Exchanges(st, Decode)
	for i := range s.Kinds {
		k := &s.Kinds[i]
		if tp > 1 {
			s.checkMixer(&k.Mixer, tp, add)
		}
		f := &k.FFN
		if f.Inter > 0 && tp > 1 {
			checkWidth("mlp width % tp", f.Inter, tp, add)
		}
		if f.Kind == Experts {
			if f.Experts%ep != 0 {
				add("experts % ep", "%d experts are not a multiple of ep %d", f.Experts, ep)
			}
			if etp > 1 {
				checkWidth("expert width % expert-tp", f.ExpertInter, etp, add)
			}
			if f.SharedInter > 0 && tp > 1 && !exchange {
				checkWidth("shared expert width % tp", f.SharedInter, tp, add)
			}
		}
		for j := range k.Tensors {
			checkBlocks(&k.Tensors[j], store, tp, etp, exchange, add)
		}
	}
	return out
}

// checkEnds tests that first and last stages of their own size leave layers for the others.
func (s *Spec) checkEnds(st *parallel.Strategy, add addViolation) {
	pieces := cutOf(st).pp * cutOf(st).v
	others := pieces
	for _, n := range []int{st.FirstStage, st.LastStage} {
		if n > 0 {
			others--
		}
	}
	rest := len(s.layers) - st.FirstStage - st.LastStage
	if st.FirstStage < 0 || st.LastStage < 0 || pieces < 2 || rest < others || others == 0 && rest != 0 {
		add("first and last stage", "%d and %d layers on the first and last of %d stages leave %d of %d for the others", st.FirstStage, st.LastStage, pieces, rest, len(s.layers))
	}
}

type addViolation func(rule, format string, a ...any)

func (s *Spec) checkMixer(m *Mixer, tp int, add addViolation) {
	switch m.Kind {
	case NoMixer, ShortConv:
		return
	case Attention:
		if m.KVHeads%tp != 0 && tp%m.KVHeads != 0 {
			add("kv heads and tp", "%d KV heads and tp %d: one must divide the other", m.KVHeads, tp)
		}
	case Linear, Mamba2:
		if m.KVHeads > 0 && m.KVHeads%tp != 0 && tp%m.KVHeads != 0 {
			add("state groups and tp", "%d groups and tp %d: one must divide the other", m.KVHeads, tp)
		}
	}
	if m.Heads%tp != 0 {
		add("heads % tp", "%d heads are not a multiple of tp %d", m.Heads, tp)
	}
}

func checkWidth(rule string, width, n int, add addViolation) {
	if width%n != 0 {
		add(rule, "width %d is not a multiple of %d", width, n)
	}
}

// checkBlocks tests that a shard of a quantised matrix holds whole scale blocks.
func checkBlocks(t *Tensor, as *Storage, tp, etp int, exchange bool, add addViolation) {
	store := t.as(as)
	if t.In == 0 || store.Format <= FP32 || store.Group == 0 {
		return
	}
	n := 1
	switch t.Split {
	case TensorSplit:
		n = tp
	case SharedSplit:
		if !exchange {
			n = tp
		}
	case ExpertSplit:
		n = etp
	case KVSplit:
		n = min(tp, max(t.Units, 1))
	}
	if n <= 1 {
		return
	}
	width, block := t.Out, store.BlockOut
	if t.Row {
		width, block = t.In, store.Group
	}
	if block <= 1 || width%n != 0 || t.Split == ExpertSplit && pads(store.Format) {
		return
	}
	if share := width / n; share%block != 0 {
		add("quantisation block", "%s: %d / %d = %d is not a multiple of its %d-wide %s block", t.Module, width, n, share, block, store.Format)
	}
}

// Notes lists what a strategy costs this network without breaking a rule: copied KV heads, a padded vocabulary, an
// uneven pipeline.
func (s *Spec) Notes(st parallel.Strategy) []string {
	tp, pp, v := max(st.TP, 1), max(st.PP, 1), max(st.Interleave, 1)
	var out []string
	kv, latent := 0, false
	for i := range s.Kinds {
		m := &s.Kinds[i].Mixer
		if m.Kind == Attention && (kv == 0 || m.KVHeads < kv) {
			kv = m.KVHeads
		}
		latent = latent || m.Kind == MLA
	}
	if kv > 0 && tp > kv {
		out = append(out, fmt.Sprintf("tp %d exceeds %d KV heads: each is held %d times", tp, kv, tp/kv))
	}
	if latent && tp > 1 {
		out = append(out, fmt.Sprintf("the latent cache is whole on each of %d tp ranks", tp))
	}
	if etp := max(st.ExpertTP, 1); etp > 1 {
		out = append(out, s.paddedExperts(etp)...)
	}
	if s.Vocab%tp != 0 {
		out = append(out, fmt.Sprintf("vocabulary %d is padded to %d for tp %d", s.Vocab, ceilDiv(s.Vocab, tp)*tp, tp))
	}
	if n := len(s.layers) % (pp * v); n != 0 && pp*v <= len(s.layers) {
		out = append(out, fmt.Sprintf("%d layers over %d stages: %d stages hold one more", len(s.layers), pp*v, n))
	}
	return out
}
