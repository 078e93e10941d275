package model

import "fmt"

// expertPad is to what a rank's share of an expert's width is padded where it would cut a scale block: the tile of the
// mxfp4 grouped products (vLLM model_executor/layers/quantization/mxfp4.py and SGLang layers/quantization/mxfp4.py round
// the intermediate size of a partition up; which multiple depends on the backend, 128 on Hopper).
const expertPad = 128

// pads says that engines pad experts of a format whose scale blocks do not divide among ranks. Block-scaled fp8 they
// refuse: vLLM validate_fp8_block_shape_moe, "not divisible by weight quantization block_n".
func pads(f Format) bool { return f == MXFP4 }

// shareOfExpert is the width of an expert on one of etp ranks, padding included.
func (f *FFN) shareOfExpert(etp int, fm Format) int {
	n := ceilDiv(f.ExpertInter, etp)
	if etp > 1 && pads(fm) && n%32 != 0 {
		return ceilDiv(n, expertPad) * expertPad
	}
	return n
}

// paddedExperts says which experts are padded under an expert-tp.
func (s *Spec) paddedExperts(etp int) []string {
	for i := range s.Kinds {
		k := &s.Kinds[i]
		if k.FFN.Kind != Experts || k.fmt.experts < 0 {
			continue
		}
		n := ceilDiv(k.FFN.ExpertInter, etp)
		if p := k.FFN.shareOfExpert(etp, k.Tensors[k.fmt.experts].Storage.Format); p > n {
			return []string{fmt.Sprintf("expert width %d / %d = %d is padded to %d", k.FFN.ExpertInter, etp, n, p)}
		}
	}
	return nil
}
