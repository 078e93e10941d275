package model

import (
	"slices"
	"strconv"
)

// seal decides how each tensor is stored and merges equal layers.
func (b *builder) seal(q quantisation) {
	s := b.s
	plain := storeBF16
	switch s.DType {
	case "fp16":
		plain = storeFP16
	case "fp32":
		plain = storeFP32
	}
	set := func(prefix string, ts []Tensor) {
		for i := range ts {
			ts[i].Storage = q.storageOf(prefix+ts[i].Module, &ts[i], plain)
		}
	}
	set("", s.outer)
	s.mtp = append([]Tensor(nil), s.mtp...)
	set("layers."+strconv.Itoa(len(s.Kinds))+".", s.mtp)
	all := s.Kinds
	s.Kinds = nil
	for i := range all {
		k := &all[i]
		k.Tensors = append([]Tensor(nil), k.Tensors...)
		set("layers."+strconv.Itoa(i)+".", k.Tensors)
		at := slices.IndexFunc(s.Kinds, func(o Kind) bool {
			return o.Mixer == k.Mixer && o.FFN == k.FFN && o.Parallel == k.Parallel && slices.Equal(o.Tensors, k.Tensors)
		})
		if at < 0 {
			at = len(s.Kinds)
			s.Kinds = append(s.Kinds, *k)
		}
		s.layers = append(s.layers, uint16(at))
	}
	s.prefix = make([][]uint32, len(s.Kinds))
	for k := range s.prefix {
		p := make([]uint32, len(s.layers)+1)
		for i, l := range s.layers {
			p[i+1] = p[i]
			if int(l) == k {
				p[i+1]++
			}
		}
		s.prefix[k] = p
	}
	for i := range s.Kinds {
		s.Kinds[i].prepare()
	}
	s.Quant = q.words()
	s.KVDType = q.kv
}
