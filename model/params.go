package model

import "rankmap/internal/units"

// Params counts parameters: Total and Active of the main network, MTP apart, and Total by part.
type Params struct {
	Total  int64
	Active int64 // used for one token: of routed experts only those that it is sent to
	// ActiveBody is Active without the input embedding, of which a token reads one row; many cards publish this figure.
	ActiveBody int64
	MTP        int64 // multi-token-prediction layers, not in Total
	ByPart     [numParts]int64
}

// Part returns the count of one part.
func (p Params) Part(x Part) int64 { return p.ByPart[x] }

// Params counts the network's parameters. The embedding counts as active, as in most published totals.
func (s *Spec) Params() Params {
	var p Params
	add := func(t *Tensor, times int64, f *FFN) {
		n := t.Params() * times
		p.Total += n
		p.ByPart[t.Part] += n
		if t.Part == PartExperts && t.Count > 0 {
			n = n / int64(t.Count) * int64(min(f.effectiveTopK(), t.Count))
		}
		p.Active += n
	}
	for i := range s.outer {
		add(&s.outer[i], 1, nil)
	}
	for i := range s.Kinds {
		k := &s.Kinds[i]
		times := int64(s.prefix[i][len(s.layers)])
		for j := range k.Tensors {
			add(&k.Tensors[j], times, &k.FFN)
		}
	}
	for i := range s.mtp {
		p.MTP += s.mtp[i].Params()
	}
	p.ByPart[PartMTP] = p.MTP
	p.ActiveBody = p.Active
	for i := range s.outer {
		if t := &s.outer[i]; t.Part == PartEmbedding && !(s.Tied && t.Module == embedModule) {
			p.ActiveBody -= t.Params() // a tied table is also the head
		}
	}
	return p
}

func (s *Spec) floatParams() float64 {
	var sum float64
	add := func(t *Tensor, times float64) {
		sum += float64(t.Out) * float64(max(t.In, 1)) * float64(max(t.Count, 1)) * times
	}
	for i := range s.outer {
		add(&s.outer[i], 1)
	}
	for i := range s.mtp {
		add(&s.mtp[i], 1)
	}
	for i := range s.Kinds {
		for j := range s.Kinds[i].Tensors {
			add(&s.Kinds[i].Tensors[j], float64(s.prefix[i][len(s.layers)]))
		}
	}
	return sum
}

// as returns the tensor's storage when weights are to be held as st; nil means as the checkpoint holds them. Modules
// that quantisers leave alone (embedding, head, router, norms) keep their own.
func (t *Tensor) as(st *Storage) Storage {
	if st == nil {
		return t.Storage
	}
	if st.Format <= FP32 {
		return *st
	}
	if !t.Linear || t.Part == PartHead {
		if t.Storage.Format > FP32 {
			return storeBF16
		}
		return t.Storage
	}
	return *st
}

// WeightBytes is what the main network's weights take, scales included and with the modules that stay in higher
// precision. dtype is a name of StorageNamed; empty means as the checkpoint stores them. An unknown name counts as
// stored.
func (s *Spec) WeightBytes(dtype string) units.Bytes {
	st := namedStorage(dtype)
	var sum int64
	for i := range s.outer {
		t := &s.outer[i]
		sum += t.as(st).bytes(*t)
	}
	for i := range s.Kinds {
		k := &s.Kinds[i]
		var one int64
		for j := range k.Tensors {
			t := &k.Tensors[j]
			one += t.as(st).bytes(*t)
		}
		sum += one * int64(s.prefix[i][len(s.layers)])
	}
	return units.Bytes(sum)
}

// MTPBytes is what the multi-token-prediction layers take, as stored.
func (s *Spec) MTPBytes() units.Bytes {
	var sum int64
	for i := range s.mtp {
		sum += s.mtp[i].Bytes()
	}
	return units.Bytes(sum)
}

// ScaleCount is how many quantisation scales the checkpoint holds, multi-token-prediction layers included: published
// totals of fp8 checkpoints count them as parameters.
func (s *Spec) ScaleCount() int64 {
	var n int64
	add := func(t *Tensor, times int64) {
		if t.In > 0 && t.Storage.Format > FP32 {
			n += t.Storage.scales(t.Out, t.In) * int64(max(t.Count, 1)) * times
		}
	}
	for i := range s.outer {
		add(&s.outer[i], 1)
	}
	for i := range s.mtp {
		add(&s.mtp[i], 1)
	}
	for i := range s.Kinds {
		for j := range s.Kinds[i].Tensors {
			add(&s.Kinds[i].Tensors[j], int64(s.prefix[i][len(s.layers)]))
		}
	}
	return n
}
