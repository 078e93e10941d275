package model

import "slices"

// WithRedundantExperts returns the network with extra physical experts in every routed layer, as expert load balancers
// place copies of the busiest ones (DeepSeek-V3 technical report, section 3.4: 32 beside 256). Each holds weights; a token
// still uses TopK of them. Without routed experts, or with none extra, it returns s.
func (s *Spec) WithRedundantExperts(extra int) *Spec {
	if extra <= 0 || !s.MoE() {
		return s
	}
	out := *s
	out.Kinds = slices.Clone(s.Kinds)
	for i := range out.Kinds {
		k := &out.Kinds[i]
		if k.FFN.Kind != Experts {
			continue
		}
		k.FFN.Experts += extra
		k.Tensors = slices.Clone(k.Tensors)
		for j := range k.Tensors {
			if t := &k.Tensors[j]; t.Part == PartExperts && t.Count > 0 {
				t.Count += extra
			}
		}
		k.fmt = kindFormats{}
		k.prepare()
	}
	return &out
}

// RoutedExperts is the number of routed experts of a layer, 0 for a dense network. Where layers differ, the smallest
// counts: ep must divide it.
func (s *Spec) RoutedExperts() int {
	n := 0
	for i := range s.Kinds {
		if f := &s.Kinds[i].FFN; f.Kind == Experts && (n == 0 || f.Experts < n) {
			n = f.Experts
		}
	}
	return n
}
