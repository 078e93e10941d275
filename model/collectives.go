package model

import (
	"math"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
)

// StepCollectives lists the collectives of one step that the ranks of a pipeline stage take part in, identical layers
// merged. Bytes follow nccl-tests: the larger of one rank's send and receive buffer. For training it covers forward,
// backward and recomputation of ONE micro-batch, ZeRO-3's gathers included; GradientCollectives adds what happens once
// for a global batch. A send to the next stage is listed by the sender.
//
// Which engine does what:
//   - one attention replica (tp, with or without ep): every rank holds all tokens, so experts need no exchange; one
//     all-reduce joins their results (vLLM, SGLang, TensorRT-LLM);
//   - attention data parallelism: dispatch and combine (DeepEP, pplx, FlashInfer all-to-all) over EP; with tp above 1
//     each rank sends 1/tp of its replica's tokens, the out-projection reduces by reduce-scatter and the results are
//     gathered after the combine;
//   - ep 1 over several attention replicas (vLLM without --enable-expert-parallel): tokens are gathered over the
//     expert-TP group and results scattered back;
//   - training (Megatron): the same exchange, sequence parallelism on the tp group whenever experts exchange.
func (s *Spec) StepCollectives(st parallel.Strategy, w Work, stage int) []CollectiveOp {
	return s.AppendStepCollectives(nil, &st, &w, stage)
}

// AppendStepCollectives is StepCollectives into a caller's slice. An exchange of experts allocates its description, one
// for each kind of MoE layer; nothing else does once the slice is large enough.
func (s *Spec) AppendStepCollectives(dst []CollectiveOp, st *parallel.Strategy, w *Work, stage int) []CollectiveOp {
	x := s.shapeOf(st, w)
	c := collList{ops: dst, from: len(dst), x: x, s: s, st: st, w: w, train: w.Phase == Train}
	hidden := float64(x.tokens) * float64(s.Hidden) * 2
	c.hidden = units.Bytes(hidden)
	if stage == 0 && x.tp > 1 {
		if x.seqPar {
			c.add("embedding", parallel.ReduceScatter, parallel.TP, c.hidden, 1, false)
			if c.train {
				c.add("embedding gradient", parallel.AllGather, parallel.TP, c.hidden, 1, false)
			}
		} else {
			c.add("embedding", parallel.AllReduce, parallel.TP, c.hidden, 1, false)
		}
	}
	for i := range s.Kinds {
		if n := s.kindsOn(i, x.cut, stage); n > 0 {
			c.redo = 0
			if c.train {
				c.redo = s.redoneOn(i, x.cut, st, stage)
			}
			c.layer(&s.Kinds[i], n)
		}
	}
	if c.train && st.ZeRO == 3 && x.dp*x.cp > 1 {
		c.gatherOuter(stage)
	}
	if stage == x.pp-1 {
		c.logits()
	}
	c.pipeline(stage)
	return c.ops
}

type collList struct {
	ops    []CollectiveOp
	from   int
	x      shape
	s      *Spec
	st     *parallel.Strategy
	w      *Work
	train  bool
	redo   int         // layers of the kind at hand whose forward pass runs again
	hidden units.Bytes // T x H in bf16
}

func (c *collList) add(name string, op parallel.Op, group parallel.Dim, bytes units.Bytes, times int, overlap bool) {
	c.addType(name, op, group, bytes, times, overlap, "bf16")
}

func (c *collList) addType(name string, op parallel.Op, group parallel.Dim, bytes units.Bytes, times int, overlap bool, dtype string) {
	if times <= 0 || bytes <= 0 {
		return
	}
	for i := c.from; i < len(c.ops); i++ {
		o := &c.ops[i]
		if o.Bytes == bytes && o.Op == op && o.Group == group && o.Overlappable == overlap && o.Exchange == nil && o.Name == name && o.DType == dtype {
			o.Times += times
			return
		}
	}
	c.ops = append(c.ops, CollectiveOp{Name: name, Op: op, Group: group, Bytes: bytes, DType: dtype, Times: times, Overlappable: overlap})
}

// layer adds the collectives of n layers of a kind.
func (c *collList) layer(k *Kind, n int) {
	exchange := c.x.exchange && k.FFN.Kind == Experts
	mixer := k.Mixer.Kind != NoMixer
	if c.x.tp > 1 {
		switch {
		case mixer && k.Parallel:
			c.block("attention and mlp", n, exchange)
		default:
			if mixer {
				c.block("attention out-projection", n, exchange)
			}
			if k.FFN.Kind != NoFFN && !exchange {
				c.block(ffnReduction(k.FFN.Kind), n, false)
			}
			if exchange && (!mixer || k.FFN.Inter > 0) {
				c.block("mlp down-projection", n, true)
			}
		}
	} else if k.FFN.Kind == Experts && !exchange {
		c.untied(n)
	}
	if mixer && c.x.cp > 1 {
		c.context(&k.Mixer, n)
	}
	if k.Mixer.QKSum && c.x.tp > 1 && !c.train {
		c.sumSquares(n)
	}
	if exchange {
		c.exchange(k, n)
	}
	if c.train && c.st.ZeRO == 3 && c.x.dp*c.x.cp > 1 {
		c.gather(k, n)
	}
}

func ffnReduction(k FFNKind) string {
	if k == Experts {
		return "moe down-projection"
	}
	return "mlp down-projection"
}

// sumSquares joins the shares of a norm of queries and keys that covers all heads: two fp32 sums a token (vLLM
// mamba/linear_attn.py MiniMaxText01RMSNormTP.forward_qk).
func (c *collList) sumSquares(n int) {
	c.addType("qk norm", parallel.AllReduce, parallel.TP, units.Bytes(8*c.x.tokens), n, false, "fp32")
}

// untied joins experts that are shared out over cp while tp is 1 (decode).
func (c *collList) untied(n int) {
	group := parallel.EP
	if c.x.ep == 1 {
		group = parallel.ExpertTP
	}
	if c.x.ep*c.x.etp > 1 {
		c.add("moe down-projection", parallel.AllReduce, group, c.hidden, n, false)
	}
}

// block adds the reduction of one tensor-parallel block: an all-reduce, or with sequence parallelism a gather before
// and a scatter after.
func (c *collList) block(name string, n int, scattered bool) {
	forward := n + c.redo
	if c.x.seqPar || scattered {
		c.add(name, parallel.AllGather, parallel.TP, c.hidden, forward, false)
		c.add(name, parallel.ReduceScatter, parallel.TP, c.hidden, forward, false)
		if c.train {
			c.add(name, parallel.AllGather, parallel.TP, c.hidden, n, false)
			c.add(name, parallel.ReduceScatter, parallel.TP, c.hidden, n, false)
			// Only the 1/t shard of the input is kept: it is gathered again beside the input-gradient GEMM.
			c.add(name+", input again", parallel.AllGather, parallel.TP, c.hidden, n, true)
		}
		return
	}
	c.add(name, parallel.AllReduce, parallel.TP, c.hidden, forward, false)
	if c.train {
		c.add(name, parallel.AllReduce, parallel.TP, c.hidden, n, false)
	}
}

// DispatchBytes is what one copy of a token takes on its way to an expert, for a width and the type of the expert
// weights: fp8 carries one fp32 scale for 128 values, nvfp4 one fp8 scale for 16.
func DispatchBytes(width int, dtype string) units.Bytes {
	switch dtype {
	case "fp8", "fp8_block":
		return units.Bytes(width + 4*ceilDiv(width, 128))
	case "nvfp4":
		return units.Bytes(ceilDiv(width, 2) + ceilDiv(width, 16))
	}
	return units.Bytes(2 * width)
}

// exchange adds dispatch and combine of n layers. A token goes k times, once an expert, unless the work says that copies
// for one rank are merged: then it goes to the expected number of ranks.
func (c *collList) exchange(k *Kind, n int) {
	f := &k.FFN
	width := c.s.Hidden
	if f.Latent > 0 {
		width = f.Latent
	}
	skew := max(c.w.Skew, 1)
	copiesOf := float64(f.effectiveTopK()) // copies of one token
	if c.w.Merged {
		copiesOf = min(copiesOf, ExpectedDestinations(c.x.ep, f.Experts, f.effectiveTopK()))
	}
	copies := float64(c.x.own) * copiesOf
	bf16 := units.Bytes(2 * width)
	in := bf16
	if k.fmt.experts >= 0 {
		in = DispatchBytes(width, k.Tensors[k.fmt.experts].as(c.x.store).Format.compute())
	}
	if c.x.ep > 1 {
		c.send(f, "moe dispatch", in, copies*skew, n+c.redo, false, width)
		c.send(f, "moe combine", bf16, copies*skew, n+c.redo, true, width)
		if c.train {
			c.send(f, "moe combine gradient", bf16, copies*skew, n, false, width)
			c.send(f, "moe dispatch gradient", bf16, copies*skew, n, true, width)
		}
	}
	if c.x.etp > 1 {
		// Tokens that reached one rank of an expert's group go to all of it. Without ep the tokens themselves are
		// gathered, not their copies.
		rows := float64(c.x.own) * float64(c.x.etp)
		if c.x.ep > 1 {
			rows *= copiesOf * skew
		}
		times := n + c.redo
		if c.train {
			times += n
		}
		c.add("moe token gather", parallel.AllGather, parallel.ExpertTP, units.Bytes(rows)*bf16, times, false)
		c.add("moe result scatter", parallel.ReduceScatter, parallel.ExpertTP, units.Bytes(rows)*bf16, times, false)
	}
}

func (c *collList) send(f *FFN, name string, perCopy units.Bytes, copies float64, times int, combine bool, width int) {
	if times <= 0 || copies <= 0 {
		return
	}
	dtype := "bf16"
	if perCopy != units.Bytes(2*width) {
		dtype = "fp8"
		if perCopy < units.Bytes(width) {
			dtype = "nvfp4"
		}
	}
	bytes := wholeShares(copies*float64(perCopy), c.x.ep)
	for i := c.from; i < len(c.ops); i++ {
		o := &c.ops[i]
		if e := o.Exchange; e != nil && o.Name == name && o.Bytes == bytes && e.TopK == f.effectiveTopK() && e.Experts == f.Experts && e.Hidden == width {
			o.Times += times
			return
		}
	}
	c.ops = append(c.ops, CollectiveOp{Name: name, Op: parallel.AllToAll, Group: parallel.EP, Bytes: bytes, DType: dtype, Times: times,
		Exchange: &Exchange{TokensPerRank: c.x.own, Hidden: width, TopK: f.effectiveTopK(), Experts: f.Experts, Groups: f.Groups, TopGroups: f.TopGroups, Combine: combine, Merged: c.w.Merged, BytesPerCopy: perCopy}})
}

// shareUnit divides the row of a token, and so what goes to each rank. NCCL copies buffers that do not lie at such a boundary by
// the element: an all-to-all of 105 MB in odd shares took 459 us on two H200, where 137 us of 64 MiB and 468 of 256 MiB frame it
// (docs/measurements/h200-x2/2026-11-30-fourth).
const shareUnit = 16

// wholeShares rounds expected bytes up to equal shares of whole units.
func wholeShares(bytes float64, ranks int) units.Bytes {
	unit := float64(shareUnit * max(1, ranks))
	return units.Bytes(math.Ceil(bytes/unit) * unit)
}

// context adds what context parallelism moves in n layers: prefill and training gather keys and values (ring and
// all-gather move the same bytes), decode gathers queries and combines partial outputs.
func (c *collList) context(m *Mixer, n int) {
	tp, cp := c.x.tp, c.x.cp
	if m.Kind != Attention && m.Kind != MLA && m.Kind != Compressed {
		// A recurrent layer passes its state along the ring.
		c.add("state along context", parallel.SendRecv, parallel.CP, units.Bytes(float64(c.w.Batch)*m.state(2, tp)), n+c.redo, false)
		return
	}
	heads := ceilDiv(m.Heads, tp)
	if c.w.Phase == Decode {
		rows := c.w.NewTokens()
		width := heads * m.VHeadDim
		if m.Kind == MLA {
			width = heads * m.KVLora
		}
		q := heads * m.HeadDim
		if m.Kind == MLA {
			q = heads * (m.KVLora + m.Rope)
		}
		c.add("queries over context", parallel.AllGather, parallel.CP, units.Bytes(2*rows*q), n, false)
		// fp32 log-sum-exp beside each head's partial output.
		c.add("partial outputs over context", parallel.ReduceScatter, parallel.CP, units.Bytes(rows*(2*width+4*heads)), n, false)
		return
	}
	w := c.x.cache
	if c.train || w > 2 {
		w = 2
	}
	tokens := c.w.NewTokens()
	if m.Window > 0 && m.Kind == Attention {
		tokens = min(tokens, c.w.Batch*m.Window*cp) // each rank needs its neighbour's last window only
	}
	kv := units.Bytes(float64(tokens) * m.kvPerToken(w, m.kvHeadsOn(tp)))
	c.add("keys and values over context", parallel.AllGather, parallel.CP, kv, n+c.redo, false)
	if c.train {
		c.add("keys and values over context", parallel.AllGather, parallel.CP, kv, n, false)
		c.add("key and value gradients", parallel.ReduceScatter, parallel.CP, kv, n, false)
	}
}

// UlyssesBytes is what one rank's all-to-all buffers hold in one layer under Ulysses context parallelism, Q, K, V and O
// together: an alternative to the gathered keys and values that StepCollectives lists. ok is false when cp exceeds the
// KV heads of a tensor-parallel rank, where heads would have to be copied.
func (k *Kind) UlyssesBytes(tokens, tp, cp int) (bytes units.Bytes, ok bool) {
	m := &k.Mixer
	heads, kv := ceilDiv(m.Heads, tp), m.kvHeadsOn(tp)
	return units.Bytes(ceilDiv(tokens, cp)) * units.Bytes(heads*(m.HeadDim+m.VHeadDim)+kv*(m.HeadDim+m.VHeadDim)) * 2, cp <= kv
}

// logits adds what the vocabulary-parallel head needs.
func (c *collList) logits() {
	if c.x.tp == 1 {
		return
	}
	if c.train {
		t := units.Bytes(4 * c.x.tokens)
		c.addType("loss", parallel.AllReduce, parallel.TP, t, 3, false, "fp32")
		if c.x.seqPar {
			c.add("head input", parallel.AllGather, parallel.TP, c.hidden, 1, false)
			c.add("head input gradient", parallel.ReduceScatter, parallel.TP, c.hidden, 1, false)
		} else {
			c.add("head input gradient", parallel.AllReduce, parallel.TP, c.hidden, 1, false)
		}
		return
	}
	// Only rows that are sampled: one for each sequence.
	v := ceilDiv(c.s.Vocab, c.x.tp) * c.x.tp
	c.add("logits", parallel.AllGather, parallel.TP, units.Bytes(c.w.Batch)*units.Bytes(v)*2, 1, false)
}

// ActivationHop and GradientHop name what neighbouring stages of a pipeline hand to each other.
const (
	ActivationHop = "activation to next stage"
	GradientHop   = "gradient to previous stage"
)

// pipeline adds the activation that a stage hands on, and in training the gradient that it hands back. In training each
// tp rank moves its 1/tp (scatter/gather optimisation, and what sequence parallelism has anyway).
func (c *collList) pipeline(stage int) {
	pp, v := c.x.pp, c.x.v
	if pp == 1 {
		return
	}
	// Virtual stages that this rank holds and that have a successor or a predecessor.
	next, prev := v, v
	if stage == pp-1 {
		next--
	}
	if stage == 0 {
		prev--
	}
	if !c.train {
		// Engines keep the residual apart for the norm that takes both, and send the two (vLLM IntermediateTensors, SGLang
		// PPProxyTensors: hidden_states and residual; models/llama.py, models/deepseek_v2.py).
		b := 2 * c.hidden
		if c.x.seqPar {
			b /= units.Bytes(c.x.tp)
		}
		c.add(ActivationHop, parallel.SendRecv, parallel.PP, b, next, false)
		return
	}
	b := c.hidden / units.Bytes(c.x.tp)
	c.add(ActivationHop, parallel.SendRecv, parallel.PP, b, next, false)
	c.add(GradientHop, parallel.SendRecv, parallel.PP, b, prev, false)
	if c.x.tp > 1 && !c.x.seqPar {
		c.add("stage input gather", parallel.AllGather, parallel.TP, c.hidden, prev, false)
		c.add("stage gradient gather", parallel.AllGather, parallel.TP, c.hidden, next, false)
	}
}
