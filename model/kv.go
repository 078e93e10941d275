package model

import (
	"math"

	"rankmap/internal/units"
)

// indexKeyBytes of an fp8 indexer key: dim fp8 numbers and one fp32 scale for 128 (DeepSeek-V3.2: 132 B).
func indexKeyBytes(dim int) float64 { return float64(dim) + 4*float64(ceilDiv(dim, 128)) }

// kvPerToken is what one token adds to the cache of a layer on a GPU that holds kvHeads KV heads; w is the size of a
// cached element. The bound of a window is not applied.
func (m *Mixer) kvPerToken(w float64, kvHeads int) float64 {
	if m.NoCache {
		return 0
	}
	switch m.Kind {
	case Attention:
		per := m.HeadDim + m.VHeadDim
		if m.SharedKV {
			per = m.HeadDim
		}
		b := float64(kvHeads*per) * w
		if m.IndexKey == IndexCached {
			b += float64(m.IndexDim) * w
		}
		return b
	case MLA:
		b := float64(m.KVLora+m.Rope) * w
		if m.IndexTopK > 0 && w == 1 {
			// Sparse MLA keeps fp8 with an fp32 scale for 128 and the rotary part in bf16 (DeepSeek-V3.2: 656 B).
			b = indexKeyBytes(m.KVLora) + 2*float64(m.Rope)
		}
		if m.IndexKey == IndexFP8 {
			b += indexKeyBytes(m.IndexDim)
		}
		return b
	case Compressed:
		if m.CompressRatio == 0 {
			return 0
		}
		n := float64(m.HeadDim)
		if m.IndexKey == IndexCached {
			n += float64(m.IndexDim)
		}
		return n * w / float64(m.CompressRatio)
	}
	return 0
}

// LayerKVBytesPerToken is what one token adds to the cache of one layer of this kind, whole (not divided by tp). A
// sliding window bounds it: see KVBytes.
func (k *Kind) LayerKVBytesPerToken(dtype string) float64 {
	return k.Mixer.kvPerToken(cacheBytes(dtype), k.Mixer.KVHeads)
}

// StateBytes is the fixed memory of one sequence in one layer of this kind: recurrent state and, for Compressed, the
// window of uncompressed tokens. dtype is the cache type.
func (k *Kind) StateBytes(dtype string) units.Bytes {
	return units.Bytes(math.Ceil(k.Mixer.state(cacheBytes(dtype), 1)))
}

func (m *Mixer) state(w float64, tp int) float64 {
	switch m.Kind {
	case Linear, Mamba, Mamba2, ShortConv:
		share := unitShare(max(m.Heads, 1), tp)
		return (float64(m.ConvState)*2 + float64(m.State)*float64(m.StateBytes)) * share
	case Compressed:
		return float64(m.Window*m.HeadDim) * w
	}
	return 0
}

// KVBytesPerToken is what one token adds to the cache of the whole network, sliding-window layers counted like full
// ones; KVBytes applies the window.
func (s *Spec) KVBytesPerToken(dtype string) units.Bytes {
	var sum float64
	for i := range s.Kinds {
		sum += s.Kinds[i].LayerKVBytesPerToken(dtype) * float64(s.prefix[i][len(s.layers)])
	}
	return units.Bytes(math.Round(sum))
}

// StateBytes is the fixed memory of one sequence in all layers: recurrent state, convolution tails, and windows of
// compressed attention.
func (s *Spec) StateBytes(dtype string) units.Bytes {
	var sum units.Bytes
	for i := range s.Kinds {
		sum += s.Kinds[i].StateBytes(dtype) * units.Bytes(s.prefix[i][len(s.layers)])
	}
	return sum
}

// kvHeadsOn is how many KV heads the fullest of tp ranks holds; heads are copied once tp exceeds them.
func (m *Mixer) kvHeadsOn(tp int) int { return ceilDiv(max(m.KVHeads, 1), tp) }

// sequence is what one sequence of a context takes in one layer on one of tp ranks, context divided by cp.
func (m *Mixer) sequence(context, tp, cp int, w float64) float64 {
	n := context
	if m.Window > 0 && m.Kind == Attention {
		n = min(n, m.Window)
	}
	if cp > 1 {
		n = ceilDiv(n, cp)
	}
	return float64(n)*m.kvPerToken(w, m.kvHeadsOn(tp)) + m.state(w, tp)
}

// KVBytes is what one sequence of context tokens takes on each GPU of a tp-wide group that holds all layers: cache
// bounded by windows, copies once tp exceeds the KV heads, MLA's latent whole on every GPU, recurrent state.
func (s *Spec) KVBytes(context, tp int, dtype string) units.Bytes {
	w := cacheBytes(dtype)
	tp = max(tp, 1)
	var sum float64
	for i := range s.Kinds {
		sum += s.Kinds[i].Mixer.sequence(context, tp, 1, w) * float64(s.prefix[i][len(s.layers)])
	}
	return units.Bytes(math.Ceil(sum))
}

// TransferBytes is what moves from a prefill to a decode instance for one sequence: its cache once, whatever the copies
// on either side, and its state.
func (s *Spec) TransferBytes(prompt int, dtype string) units.Bytes {
	return s.KVBytes(prompt, 1, dtype)
}

// TransferPieces is in how many messages a KV transfer goes when prefill and decode split differently: tp_p x tp_d / gcd.
func TransferPieces(prefillTP, decodeTP int) int {
	a, b := max(prefillTP, 1), max(decodeTP, 1)
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return a / x * b
}
