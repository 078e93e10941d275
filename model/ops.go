package model

import (
	"rankmap/internal/parallel"
	"rankmap/internal/units"
)

// StepOps lists the computations of one step on one rank of a pipeline stage, sizes after sharding, identical layers
// merged. For training it covers forward, backward and recomputation of one micro-batch; OptimizerOp adds the update.
func (s *Spec) StepOps(st parallel.Strategy, w Work, stage int) []ComputeOp {
	return s.AppendStepOps(nil, &st, &w, stage)
}

// AppendStepOps is StepOps into a caller's slice: no allocation once the slice is large enough.
func (s *Spec) AppendStepOps(dst []ComputeOp, st *parallel.Strategy, w *Work, stage int) []ComputeOp {
	x := s.shapeOf(st, w)
	l := opList{ops: dst, from: len(dst), w: w, x: x, s: s, st: st, d: x.degrees(), train: w.Phase == Train}
	l.norm = x.tokens
	if x.seqPar {
		l.norm = ceilDiv(x.tokens, x.tp)
	}
	if stage == 0 {
		l.embedding()
	}
	for i := range s.Kinds {
		if n := s.kindsOn(i, x.cut, stage); n > 0 {
			l.n, l.redo = n, 0
			if l.train {
				l.redo = s.redoneOn(i, x.cut, st, stage)
			}
			l.layer(&s.Kinds[i])
		}
	}
	if stage == x.pp-1 {
		l.head()
	}
	return l.ops
}

// opList collects operations.
type opList struct {
	ops    []ComputeOp
	from   int
	w      *Work
	x      shape
	s      *Spec
	st     *parallel.Strategy
	d      degrees
	train  bool
	n      int  // layers of the kind at hand
	redo   int  // of them, layers whose forward pass runs again
	adapt  bool // products at hand have an adapter
	looped bool // operations at hand are started in a loop
	norm   int  // tokens that norms and residuals touch on this rank
}

// add appends an operation or counts it to an equal one.
func (l *opList) add(op *ComputeOp) {
	times := op.Times
	if times <= 0 {
		return
	}
	op.Looped = l.looped
	for i := l.from; i < len(l.ops); i++ {
		o := &l.ops[i]
		if o.Bytes != op.Bytes || o.M != op.M || o.N != op.N || o.K != op.K || o.Backward != op.Backward || o.Name != op.Name {
			continue
		}
		op.Times = o.Times
		same := *o == *op
		op.Times = times
		if same {
			o.Times += times
			return
		}
	}
	l.ops = append(l.ops, *op)
}

// elementwise adds a memory-bound operation by its traffic forward and backward.
func (l *opList) elementwise(name string, forward, backward float64, kernels int) {
	l.add(&ComputeOp{Name: name, Kind: Elementwise, DType: "bf16", Times: l.n + l.redo, Bytes: units.Bytes(forward), Kernels: kernels})
	if l.train {
		l.add(&ComputeOp{Name: name, Kind: Elementwise, DType: "bf16", Times: l.n, Bytes: units.Bytes(backward), Kernels: kernels, Backward: true})
	}
}

// gemm adds C[m,n] = A[m,k] B[k,n] and, for training, the gradients of input and weight.
func (l *opList) gemm(name string, st Storage, m, n, k int) { l.product(name, st, m, n, k, false) }

// product is gemm; norm says that its input comes out of a norm, which writes it in the type that multiplies it.
func (l *opList) product(name string, st Storage, m, n, k int, norm bool) {
	if m <= 0 || n <= 0 || k <= 0 {
		return
	}
	if l.train && l.w.LoRA.frozen() {
		l.frozenProduct(name, st, m, n, k, norm)
		return
	}
	dtype := st.Format.compute()
	op := ComputeOp{Name: name, Kind: GEMM, DType: dtype, Times: l.n + l.redo, M: m, N: n, K: k}
	op.fill(st)
	l.add(&op)
	if !l.train {
		return
	}
	l.casts(st.Format, m, n, k, norm)
	dgrad := ComputeOp{Name: name, Kind: GEMM, DType: dtype, Times: l.n, M: m, N: k, K: n, Backward: true}
	dgrad.fill(st)
	l.add(&dgrad)
	// The weight gradient reads and writes a main gradient: 8 bytes an output element in fp32.
	wgrad := ComputeOp{Name: name, Kind: GEMM, DType: dtype, Times: l.n, M: k, N: n, K: m, OutBytes: 8, Backward: true}
	if l.w.HalfGrads {
		wgrad.OutBytes = 4
	}
	if l.w.SeparateGrads {
		wgrad.OutBytes = 0
		l.add(&ComputeOp{Name: "main gradients", Kind: Elementwise, DType: "fp32", Times: l.n, Bytes: l.separateBytes() * units.Bytes(n) * units.Bytes(k), Kernels: 1, Backward: true})
	}
	wgrad.fill(storeBF16)
	l.add(&wgrad)
}

// casts adds the quantization of a product's operands in training: its input in the forward pass and its result's gradient
// in the backward pass, each read in bf16 and written twice, along both dimensions, since the weight gradient multiplies
// along the other one (Transformer Engine's rowwise and columnwise copies). Types with a scale of the whole tensor read it
// once more for its largest value. Weights are cast once a step. A norm writes its result quantized.
func (l *opList) casts(f Format, m, n, k int, norm bool) {
	written, read := 2.0, 2.0
	switch f {
	case FP8:
	case FP8Block:
		written = 2 + 8.0/128
	case NVFP4:
		written, read = 2*0.5625, 4
	default:
		return
	}
	kernels := int(read) / 2
	if l.w.LoRA.frozen() {
		written /= 2 // no weight gradient: one dimension is enough
	}
	forward := (read + written) * float64(m) * float64(k)
	if norm {
		forward = 0
	}
	if forward > 0 {
		l.add(&ComputeOp{Name: "cast", Kind: Elementwise, DType: "bf16", Times: l.n + l.redo, Bytes: units.Bytes(forward), Kernels: kernels})
	}
	l.add(&ComputeOp{Name: "cast", Kind: Elementwise, DType: "bf16", Times: l.n, Bytes: units.Bytes((read + written) * float64(m) * float64(n)), Kernels: kernels, Backward: true})
}

// fill computes FLOPs and traffic of a GEMM: activations in the compute type, weights as stored, 2-byte output.
func (op *ComputeOp) fill(st Storage) {
	m, n, k := float64(op.M), float64(op.N), float64(op.K)
	op.FLOPs = 2 * m * n * k
	out := 2.0
	if op.OutBytes > 0 {
		out = float64(op.OutBytes)
	}
	act := 2.0
	switch st.Format {
	case FP8, FP8Block, INT8:
		act = 1
	case NVFP4:
		act = 0.5625
	}
	op.Bytes = units.Bytes(act*m*k + st.perWeight()*n*k + out*m*n)
}

// traffic of small operations in bytes for T tokens of width H, bf16: measured forms of fused kernels.
const (
	normForward, normBackward = 4, 8 // read and write; backward reads input and gradient
	addForward, addBackward   = 6, 4
	addNorm                   = 8 // inference: residual add and norm in one kernel
	dropAddForward            = 7 // bias, dropout and residual of the GPT line
	dropAddBackward           = 11
	gluForward, gluBackward   = 6, 10 // activation times gate, of the width of one half
	actForward, actBackward   = 4, 6
	embedBytes                = 4  // inference: read a row, write it
	embedTrainBytes           = 14 // training: forward and gradient
	separateGrad              = 10 // a weight: gradient read in bf16, main gradient read and written in fp32
	separateHalf              = 6  // the same with main gradients in bf16
	lossBytes                 = 16 // a logit, forward and backward together
)

// separateBytes is what adding up one weight's gradient by a kernel of its own moves.
func (l *opList) separateBytes() units.Bytes {
	if l.w.HalfGrads {
		return separateHalf
	}
	return separateGrad
}

func (l *opList) layer(k *Kind) {
	h := float64(l.s.Hidden)
	l.between(k, h)
	for i := range k.fmt.gemms {
		g := &k.fmt.gemms[i]
		t := &k.Tensors[g.parts[0]]
		st := t.as(l.x.store)
		n, in := k.dims(g, l.d)
		m := l.x.tokens
		if g.part == PartShared || g.part == PartRouter || (k.FFN.Latent > 0 && g.part == PartMLP && k.FFN.Kind == Experts) {
			m = l.x.own
		}
		if g.absorb && l.w.Phase == Decode {
			heads := ceilDiv(k.Mixer.Heads, l.d.tp)
			l.gemm("mla_absorb_q", st, m, heads*k.Mixer.KVLora, k.Mixer.Nope)
			l.gemm("mla_absorb_v", st, m, heads*k.Mixer.VHeadDim, k.Mixer.KVLora)
			continue
		}
		l.adapt = l.w.LoRA.adapts(g.part, t.Row)
		l.product(g.name, st, m, n, in, !t.Row)
		l.adapt = false
	}
	l.core(k)
	l.feed(k)
}

// between adds norms and residuals.
func (l *opList) between(k *Kind, h float64) {
	blocks := 0
	if k.Mixer.Kind != NoMixer {
		blocks++
	}
	if k.FFN.Kind != NoFFN && !k.Parallel {
		blocks++
	}
	th := float64(l.norm) * h
	old, redo := l.n, l.redo
	l.n, l.redo = l.n*blocks, l.redo*blocks
	switch {
	case !l.train:
		l.elementwise("add_norm", addNorm*th, 0, 1)
	case l.s.LayerNorm:
		l.elementwise("norm", normForward*th, normBackward*th, 1)
		l.elementwise("bias_dropout_add", dropAddForward*th, dropAddBackward*th, 1)
	default:
		l.elementwise("norm", normForward*th, normBackward*th, 1)
		l.elementwise("add", addForward*th, addBackward*th, 1)
	}
	l.n, l.redo = old, redo
}

// feed adds what the feed-forward part does beside its GEMMs.
func (l *opList) feed(k *Kind) {
	f := &k.FFN
	act := func(name string, tokens, width int) {
		b := float64(tokens) * float64(width)
		if f.Gated {
			l.elementwise(name, gluForward*b, gluBackward*b, 1)
		} else {
			l.elementwise(name, actForward*b, actBackward*b, 1)
		}
	}
	if f.Inter > 0 {
		act("mlp_act", l.x.tokens, ceilDiv(f.Inter, l.d.tp))
	}
	if f.Kind != Experts {
		return
	}
	if f.SharedInter > 0 {
		act("shared_act", l.x.own, ceilDiv(f.SharedInter, l.d.shared))
	}
	in := l.s.Hidden
	if f.Latent > 0 {
		in = f.Latent
	}
	st := storeBF16
	if k.fmt.experts >= 0 {
		st = k.Tensors[k.fmt.experts].as(l.x.store)
	}
	tokens := l.x.tokens
	if l.x.exchange {
		tokens = l.x.own * l.x.ep * l.x.etp
	}
	if l.train {
		l.experts(k, in, tokens, st)
		return
	}
	skew := l.w.Skew
	op := ComputeOp{Name: "moe", Kind: MoE, DType: st.Format.compute(), Times: l.n + l.redo, MoETokens: tokens, Hidden: in, Inter: f.shareOfExpert(l.x.etp, st.Format) * l.x.etp, TopK: f.effectiveTopK(),
		Experts: f.Experts, EP: l.x.ep, ExpertTP: l.x.etp, Gated: f.Gated, Skew: skew, Dispatched: l.x.exchange}
	mats := 2.0
	if f.Gated {
		mats = 3
	}
	slots := float64(tokens) * float64(f.effectiveTopK()) / float64(l.x.ep)
	size := float64(in) * float64(f.shareOfExpert(l.x.etp, st.Format))
	op.FLOPs = 2 * mats * slots * size
	local := float64(ceilDiv(f.Experts, l.x.ep))
	op.Bytes = units.Bytes(min(local, slots)*mats*size*st.perWeight() + slots*4*float64(in))
	l.add(&op)
}

func (l *opList) embedding() {
	l.n, l.redo = 1, 0
	th := float64(l.x.tokens) * float64(l.s.Hidden)
	if l.train {
		b := embedTrainBytes * th
		if l.w.LoRA.frozen() {
			b = embedBytes * th
		}
		l.add(&ComputeOp{Name: "embedding", Kind: Elementwise, DType: "bf16", Times: 1, Bytes: units.Bytes(b), Kernels: 2})
		return
	}
	l.elementwise("embedding", embedBytes*th, 0, 1)
}

// head adds the final norm, the logits of the rows that are sampled, and the loss in training.
func (l *opList) head() {
	l.n, l.redo = 1, 0
	rows := l.w.Batch
	if l.train {
		rows = l.x.tokens
	}
	h := l.s.Hidden
	l.elementwise("final_norm", normForward*float64(l.norm)*float64(h), normBackward*float64(l.norm)*float64(h), 1)
	n := ceilDiv(l.s.Vocab, l.d.tp)
	l.gemm("logits", storeBF16, rows, n, h)
	if l.train {
		l.add(&ComputeOp{Name: "loss", Kind: Elementwise, DType: "bf16", Times: 1, Bytes: units.Bytes(lossBytes * float64(rows) * float64(n)), Kernels: 4})
	} else {
		l.elementwise("sampling", 4*float64(rows)*float64(n), 0, 2)
	}
}
