package model

import "rankmap/internal/units"

// core adds the token mixing itself: softmax attention, or the scan of a recurrent layer.
func (l *opList) core(k *Kind) {
	switch m := &k.Mixer; m.Kind {
	case Attention, Compressed:
		l.softmax(m)
		l.positions(k)
	case MLA:
		l.latent(m)
		l.positions(k)
	case Linear, Mamba, Mamba2, ShortConv:
		l.scan(m)
	}
}

// span returns the new tokens of a sequence on this rank and the context that gives them the right number of
// query-key pairs. Under context parallelism prefill deals the queries out in 2 cp chunks, so that every rank has the
// same number of pairs; decode divides the cache.
func (l *opList) span() (tokens, context int) {
	tokens, context = l.w.Tokens, max(l.w.Context, l.w.Tokens)
	if l.x.cp == 1 {
		return tokens, context
	}
	if l.w.Phase == Decode {
		return tokens, ceilDiv(context, l.x.cp)
	}
	own := ceilDiv(tokens, l.x.cp)
	return own, context - tokens/2 + own/2
}

// pairs is how many query-key pairs a sequence has: causal, bounded by a window.
func pairs(tokens, context, window int) float64 {
	t, c := float64(tokens), float64(context)
	if window > 0 && window < context {
		w := float64(window)
		if c-t >= w || t <= 1 {
			return t * w
		}
		// The first tokens see less than the window.
		ramp := w - (c - t)
		if ramp > t {
			ramp = t
		}
		return t*w - ramp*ramp/2
	}
	if t <= 1 {
		return t * c
	}
	return t * (c - t/2)
}

func (l *opList) attend(op ComputeOp, width int, cacheBytes float64) {
	op.Times = l.n + l.redo
	if l.train && l.st.Recompute == "selective" {
		op.Times += l.n
	}
	p := float64(op.Batch) * pairs(op.Tokens, op.Context, op.Window)
	op.FLOPs = 2 * float64(width) * float64(op.Heads) * p
	op.Bytes = units.Bytes(cacheBytes)
	l.add(&op)
	if l.train {
		op.Times, op.Backward = l.n, true
		op.FLOPs *= 2.5 // flash attention's backward recomputes the scores: 5 products against 2
		op.Bytes *= 2
		l.add(&op)
	}
}

func (l *opList) softmax(m *Mixer) {
	tokens, context := l.span()
	op := ComputeOp{Name: "attention", Kind: AttnPrefill, DType: "bf16", Batch: l.w.Batch, Heads: ceilDiv(m.Heads, l.d.tp), KVHeads: m.kvHeadsOn(l.d.tp),
		HeadDim: (m.HeadDim + m.VHeadDim + 1) / 2, Tokens: tokens, Context: context, Window: m.Window, CacheDType: l.w.KVDType}
	if l.w.Phase == Decode {
		op.Kind = AttnDecode
	}
	if m.Window > 0 {
		op.Name = "attention_window"
	}
	if m.Kind == Compressed {
		op.Name, op.KVHeads, op.Window = "attention_compressed", 1, 0
		n := min(context, m.Window)
		if m.CompressRatio > 0 {
			c := context / m.CompressRatio
			if m.IndexTopK > 0 {
				l.indexer(m, context/m.CompressRatio)
				c = min(c, m.IndexTopK)
			}
			n += c
		}
		if op.Kind == AttnDecode {
			// all heads share one latent: the kernel is that of latent attention (FlashMLA), not one pass a head
			op.Kind, op.Context = MLADecode, max(n, 1)
		} else {
			op.Window = n
		}
	} else if m.IndexTopK > 0 {
		op.Name = "attention_sparse"
		l.indexer(m, context)
		if op.Kind == AttnDecode {
			op.Context = min(context, m.IndexTopK)
		} else if context > m.IndexTopK {
			op.Window = m.IndexTopK
		}
	}
	read := op.Context
	if op.Window > 0 && op.Kind == AttnDecode {
		read = min(read, op.Window)
	}
	if l.w.Unfused && m.Kind == Attention && op.Kind == AttnPrefill {
		l.scores(&op)
		return
	}
	w := l.x.cache
	if l.train {
		w = 2
	}
	if !l.train {
		l.prepareHeads(m, &op, w)
	}
	kv := float64(l.w.Batch) * float64(read) * float64(op.KVHeads*2*op.HeadDim) * w
	io := float64(l.w.Batch) * float64(tokens) * float64(2*op.Heads*op.HeadDim) * 2
	l.attend(op, 2*op.HeadDim, kv+io)
}

// prepareHeads adds what inference does between projection and attention: rotary positions on queries and keys, and keys and
// values written to the cache, a kernel each (vLLM rotary_embedding and reshape_and_cache_flash; SGLang and TensorRT-LLM
// likewise or both in one); with a norm of queries and keys one more.
func (l *opList) prepareHeads(m *Mixer, op *ComputeOp, cache float64) {
	tokens, d := float64(op.Batch)*float64(op.Tokens), float64(op.HeadDim)
	kv := float64(op.KVHeads)
	if m.NoCache {
		kv = 0
	}
	heads := tokens * (float64(op.Heads) + kv) * d
	if m.QKNorm {
		l.elementwise("qk_norm", normForward*heads, 0, 1)
	}
	kernels := 2
	if m.NoCache {
		kernels = 1
	}
	l.elementwise("rotary_cache", ropeForward*heads+tokens*2*kv*d*(2+cache), 0, kernels)
}

// ropeForward is the bytes an element of queries and keys that rotary positions read and write, bf16.
const ropeForward = 4

// bytes a score for attention through memory, bf16: softmax with mask, and dropout, forward and backward.
const (
	softmaxForward, softmaxBackward = 4, 6
	dropoutForward, dropoutBackward = 5, 5
)

// scores adds attention without a fused kernel: two batched products over all query-key pairs (no causal saving), whose
// scores are written and read, and softmax and dropout between them.
func (l *opList) scores(a *ComputeOp) {
	n := float64(a.Batch) * float64(a.Heads) * float64(a.Tokens) * float64(a.Context)
	times := l.n + l.redo
	if l.train && l.st.Recompute == "selective" {
		times += l.n
	}
	drop := l.train && l.s.LayerNorm
	soft, softBack := float64(softmaxForward), float64(softmaxBackward)
	if drop {
		soft, softBack = soft+dropoutForward, softBack+dropoutBackward
	}
	product := ComputeOp{Name: "attention_scores", Kind: Elementwise, DType: "bf16", Times: times, Kernels: 2, FLOPs: 4 * float64(a.HeadDim) * n, Bytes: units.Bytes(4 * n), Narrow: a.HeadDim%8 != 0}
	middle := ComputeOp{Name: "attention_softmax", Kind: Elementwise, DType: "bf16", Times: times, Kernels: 2, Bytes: units.Bytes(soft * n)}
	l.add(&product)
	l.add(&middle)
	if l.train {
		product.Times, product.Backward, product.Kernels = l.n, true, 4
		product.FLOPs, product.Bytes = product.FLOPs*2, product.Bytes*2
		middle.Times, middle.Backward, middle.Bytes = l.n, true, units.Bytes(softBack*n)
		l.add(&product)
		l.add(&middle)
	}
}

func (l *opList) latent(m *Mixer) {
	tokens, context := l.span()
	heads := ceilDiv(m.Heads, l.d.tp)
	op := ComputeOp{Name: "mla", Kind: MLAPrefill, DType: "bf16", Batch: l.w.Batch, Heads: heads, KVHeads: heads, HeadDim: m.HeadDim, Tokens: tokens, Context: context, CacheDType: l.w.KVDType}
	width := m.HeadDim + m.VHeadDim
	if l.w.Phase == Decode {
		op.Kind, op.KVHeads, op.HeadDim = MLADecode, 1, m.KVLora+m.Rope
		width = 2*m.KVLora + m.Rope
	}
	if m.IndexTopK > 0 {
		if m.IndexOwn {
			l.indexer(m, context)
		}
		if op.Kind == MLADecode {
			op.Context = min(context, m.IndexTopK)
		} else if context > m.IndexTopK {
			op.Window = m.IndexTopK
		}
	}
	kv := float64(l.w.Batch) * float64(op.Context) * float64(m.KVLora+m.Rope) * l.x.cache
	io := float64(l.w.Batch) * float64(tokens) * float64(heads*width) * 2
	l.attend(op, width, kv+io)
}

// indexer adds the scores of a sparse-attention indexer over its keys.
func (l *opList) indexer(m *Mixer, context int) {
	tokens, _ := l.span()
	p := float64(l.w.Batch) * pairs(tokens, max(context, tokens), 0)
	op := ComputeOp{Name: "indexer", Kind: Elementwise, DType: "fp8", Times: l.n + l.redo, Kernels: 3}
	op.FLOPs = 2 * float64(m.IndexHeads*m.IndexDim) * p
	// Keys once, scores written and read by the selection.
	op.Bytes = units.Bytes(float64(l.w.Batch)*float64(context)*indexKeyBytes(m.IndexDim) + 8*p)
	l.add(&op)
}

var scanNames = [...]string{Linear: "linear_scan", Mamba: "mamba_scan", Mamba2: "mamba2_scan", ShortConv: "conv_scan"}

// scanChunk is how many tokens the chunked kernels of linear attention and Mamba-2 take at once.
const scanChunk = 64

// scan adds a recurrent layer: decode reads and writes the whole state of each sequence, prefill passes it once a chunk.
func (l *opList) scan(m *Mixer) {
	share := unitShare(max(m.Heads, 1), l.d.tp)
	state := float64(m.State) * share
	seqs := float64(l.w.Batch)
	tokens := float64(l.x.tokens)
	inner := float64(m.InProj+m.Inner) * share
	op := ComputeOp{Name: scanNames[m.Kind], Kind: Elementwise, DType: "bf16", Times: l.n + l.redo, Kernels: 3}
	if l.w.Phase == Decode {
		op.Bytes = units.Bytes(seqs*(2*state*float64(m.StateBytes)+4*float64(m.ConvState)*share) + 2*tokens*inner)
		op.FLOPs = 6 * tokens * state
	} else {
		chunks := tokens/scanChunk + seqs
		op.Bytes = units.Bytes(chunks*2*state*float64(m.StateBytes) + 6*tokens*inner)
		op.FLOPs = tokens * (4*state + 2*scanChunk*inner)
	}
	if l.train {
		op.Kernels = scanKernels
		l.add(&op)
		op.Times, op.Backward, op.Kernels = l.n, true, scanBackKernels
		op.Bytes, op.FLOPs = op.Bytes*scanBackward, op.FLOPs*scanBackward
		if m.Kind == Mamba2 {
			conv, out := float64(max(m.InProj-m.Inner-m.Heads, 0))*share*tokens, float64(m.Inner)*share*tokens
			l.elementwise("mamba2_conv_gate", convForward*conv+gateForward*out, convBackward*conv+gateBackward*out, 2)
		}
	}
	l.add(&op)
}

// A chunked scan in training (mamba_ssm ops/triton/ssd_combined.py): its backward pass computes the states again and reads and writes
// several gradients of their size. On H200 that of Mamba-2 (64 heads of 64, state 128, 32,768 tokens) took 154 ns a token against 39
// forward (docs/measurements/h200/2026-11-30-training/scan.csv), which is what the bytes of the forward form take; convolution and norm
// come besides.
const (
	scanBackward    = 4
	scanKernels     = 5
	scanBackKernels = 12
	// The convolution before it reads and writes its channels, and backward reads them and two gradients, runs once more and
	// writes one; the norm after it reads the result and its gate, and backward both, a gradient, and writes two.
	convForward, convBackward = 4, 10
	gateForward, gateBackward = 6, 10
)
