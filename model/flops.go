package model

import "rankmap/internal/units"

// TrainFLOPsPerToken is the model FLOPs of training one token of a sequence, the convention of MFU: 6 for each active
// parameter but the input embedding, and the causal half of the attention products, forward and backward; recomputation
// is not counted.
func (s *Spec) TrainFLOPsPerToken(seq int) float64 { return 3 * s.ForwardFLOPsPerToken(seq) }

// ForwardFLOPsPerToken is the forward share of it: one prefill token of a prompt of seq.
func (s *Spec) ForwardFLOPsPerToken(seq int) float64 {
	active := float64(s.Params().ActiveBody)
	sum := 2 * active
	for i := range s.Kinds {
		sum += float64(s.prefix[i][len(s.layers)]) * s.Kinds[i].Mixer.forwardFLOPs(seq)
	}
	return sum
}

// forwardFLOPs is the attention products of one token in the mean of a causal sequence.
func (m *Mixer) forwardFLOPs(seq int) float64 {
	mean := pairs(seq, seq, m.Window) / float64(max(seq, 1))
	switch m.Kind {
	case Attention, MLA:
		return 2 * float64(m.Heads*(m.HeadDim+m.VHeadDim)) * mean
	case Compressed:
		n := pairs(seq, seq, m.Window) / float64(max(seq, 1))
		if m.CompressRatio > 0 {
			n += float64(seq) / 2 / float64(m.CompressRatio)
		}
		return 4 * float64(m.Heads*m.HeadDim) * n
	case NoMixer:
		return 0
	}
	return 4 * float64(m.State)
}

// Redundancy is what extra physical experts cost: slots a GPU, bytes of all experts on a GPU, and how many of them the
// extra ones take. ok is false when experts and extra ones do not fill ep ranks evenly.
func (s *Spec) Redundancy(ep, extra int, dtype string) (slots int, total, more units.Bytes, ok bool) {
	st := namedStorage(dtype)
	ok = true
	var all, added float64
	for i := range s.Kinds {
		k := &s.Kinds[i]
		if k.FFN.Kind != Experts || ep < 1 {
			continue
		}
		if (k.FFN.Experts+extra)%ep != 0 {
			ok = false
		}
		slots = ceilDiv(k.FFN.Experts+extra, ep)
		n := float64(s.prefix[i][len(s.layers)])
		for j := range k.Tensors {
			t := k.Tensors[j]
			if t.Part != PartExperts || t.Count == 0 {
				continue
			}
			one := float64(t.as(st).bytes(t)) / float64(t.Count) * n
			all += one * float64(slots)
			added += one * float64(extra) / float64(ep)
		}
	}
	return slots, bytesOf(all), bytesOf(added), ok && slots > 0
}
