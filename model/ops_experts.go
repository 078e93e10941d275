package model

import "rankmap/internal/units"

// routing is how many operations routing takes in training, forward: scores, softmax, selection, normalisation, counts and
// maps of both permutations, and what is logged for balance (Megatron-Core transformer/moe: router.py, moe_utils.py,
// token_dispatcher.py).
const routing = 13

// padsRows says that the products of a type need a multiple of 16 or 32 rows, for which the tokens of the experts are copied
// apart before the first product and together after the second (quantization_padding and quantization_unpadding in
// Megatron-Core transformer/moe/experts.py).
func padsRows(dtype string) bool { return dtype == "fp8" || dtype == "fp8_block" || dtype == "nvfp4" }

// The bias of the experts' second product, weighted by the router: for each expert a product and a sum in fp32, then all joined and
// cast, and the reverse (TEGroupedMLP._apply_bias in Megatron-Core transformer/moe/experts.py): bytes an element.
const biasForward, biasBackward = 28, 36

// experts adds an expert layer in training. Megatron's grouped layer starts one product for each expert of the GPU
// (Transformer Engine's GroupedLinear over cuBLAS), each as large as the tokens of that expert; the tables of inference
// engines time one kernel over all experts instead. tokens go to the experts of the whole group, balanced.
func (l *opList) experts(k *Kind, in, tokens int, st Storage) {
	f := &k.FFN
	n, redo := l.n, l.redo
	local := max(1, ceilDiv(f.Experts, l.x.ep))
	slots := ceilDiv(tokens*f.effectiveTopK(), l.x.ep)
	if l.w.Skew > 1 {
		slots = int(float64(slots) * l.w.Skew)
	}
	inter := ceilDiv(f.ExpertInter, l.x.etp)
	up := inter
	if f.Gated {
		up *= 2
	}
	own := float64(l.x.own)
	l.elementwise("moe routing", own*float64(f.Experts)*16, own*float64(f.Experts)*16, routing)
	// To the experts and back: each copy of a token is read and written, and on the way back weighted and added up.
	move := 2 * (float64(slots) + own) * float64(in)
	l.elementwise("moe permute", 2*move, 2*move, 4)
	if l.x.ep > 1 && local > 1 && !l.w.Merged {
		// What comes from each rank lies by rank, what an expert takes by expert (sort_chunks_by_idxs in MoEAlltoAllTokenDispatcher).
		sort := 2 * copied * float64(slots) * float64(in)
		l.elementwise("moe sort", sort, sort, 2)
	}
	if padsRows(st.Format.compute()) {
		pad := 2 * copied * float64(slots) * float64(in)
		l.elementwise("moe padding", pad, pad, 2)
	}
	width := float64(slots) * float64(inter)
	if f.Gated {
		l.elementwise("moe_act", gluForward*width, gluBackward*width, 1)
	} else {
		l.elementwise("moe_act", actForward*width, actBackward*width, 1)
	}
	if k.fmt.expertBias {
		result := float64(slots) * float64(in)
		l.add(&ComputeOp{Name: "expert bias", Kind: Elementwise, DType: "bf16", Times: n + redo, Bytes: units.Bytes(biasForward * result), Kernels: 2*local + 2})
		l.add(&ComputeOp{Name: "expert bias", Kind: Elementwise, DType: "bf16", Times: n, Bytes: units.Bytes(biasBackward * result), Kernels: 4 * local, Backward: true})
	}
	l.n, l.redo, l.looped = n*local, redo*local, true
	rows := max(1, ceilDiv(slots, local))
	l.gemm("moe_up", st, rows, up, in)
	l.gemm("moe_down", st, rows, in, inter)
	l.n, l.redo, l.looped = n, redo, false
}
