package model

// routing is how many operations routing takes in training, forward: scores, softmax, selection, normalisation, counts and
// maps of both permutations, and what is logged for balance (Megatron-Core transformer/moe: router.py, moe_utils.py,
// token_dispatcher.py).
const routing = 13

// experts adds an expert layer in training. Megatron's grouped layer starts one product for each expert of the GPU
// (Transformer Engine's GroupedLinear over cuBLAS), each as large as the tokens of that expert; the tables of inference
// engines time one kernel over all experts instead. tokens go to the experts of the whole group, balanced.
func (l *opList) experts(f *FFN, in, tokens int, st Storage) {
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
	width := float64(slots) * float64(inter)
	if f.Gated {
		l.elementwise("moe_act", gluForward*width, gluBackward*width, 1)
	} else {
		l.elementwise("moe_act", actForward*width, actBackward*width, 1)
	}
	l.n, l.redo, l.looped = n*local, redo*local, true
	rows := max(1, ceilDiv(slots, local))
	l.gemm("moe_up", st, rows, up, in)
	l.gemm("moe_down", st, rows, in, inter)
	l.n, l.redo, l.looped = n, redo, false
}
