package model

// copied is what a kernel moves that reads an element in bf16 and writes it.
const copied = 4

// positions adds what happens between the projection of queries, keys and values and the attention kernel in training, as
// Megatron-Core runs it (transformer/attention.py, multi_latent_attention.py): the norm of queries and keys, rotary positions,
// and the copies that bring each of the three into one piece, since the projection writes them interleaved; backward, the
// rotation again and one kernel that writes the three gradients interleaved. Networks with learned positions pass views.
func (l *opList) positions(k *Kind) {
	if !l.train || l.w.Unfused || l.s.learned {
		return
	}
	m := &k.Mixer
	rows := float64(l.x.tokens)
	kv := float64(m.kvHeadsOn(l.d.tp))
	if m.Kind == MLA {
		kv = float64(ceilDiv(m.Heads, l.d.tp))
	}
	q, key, v := rows*float64(ceilDiv(m.Heads, l.d.tp)*m.HeadDim), rows*kv*float64(m.HeadDim), rows*kv*float64(m.VHeadDim)
	if m.NoCache {
		key, v = 0, 0
	}
	forward, backward := copied*(q+key), copied*(q+key)
	if m.Kind == MLA { // heads are joined from a part with and a part without positions in the same kernel
		forward, backward = forward+copied*v, backward+copied*v
	} else {
		forward, backward = forward+copied*(q+v), backward+copied*(q+key+v)
	}
	l.elementwise("positions", forward, backward, 3)
	if m.QKNorm {
		l.elementwise("query and key norm", normForward*(q+key), normBackward*(q+key), 2)
	}
}
