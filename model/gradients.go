package model

import (
	"rankmap/internal/parallel"
	"rankmap/internal/units"
)

// Training holds the number formats of a training run.
type Training struct {
	GradBytes  int  // of a reduced gradient: 4 (Megatron's default) or 2
	ParamBytes int  // of a gathered parameter: 2, or 1 with fp8 gathers
	Unfused    bool // attention without flash kernels: the scores are kept (Work.Unfused says the same)
	LoRA       LoRA // adapters beside frozen weights (Work.LoRA says the same)
	KeepGather bool // ZeRO-3 that keeps parameters after the forward pass: one gather instead of two
}

func (t Training) norm() Training {
	if t.GradBytes == 0 {
		t.GradBytes = 4
	}
	if t.ParamBytes == 0 {
		t.ParamBytes = 2
	}
	return t
}

// GradientCollectives lists what happens once for a global batch: reduction of gradients over data parallelism (dense
// weights over dp and cp, experts over expert-DP) and, with ZeRO-1 and 2, the gather of updated parameters. They can
// overlap with the backward pass of the last and the forward pass of the first micro-batch. With cp above 1 the dense
// reduction runs over the ranks of cp and dp together; it is listed as it crosses the machine: scattered over cp, then the
// share of each over dp. Tied embeddings on two pipeline stages add
// their own all-reduce. ZeRO-3's gathers are in StepCollectives.
func (s *Spec) GradientCollectives(st parallel.Strategy, stage int, t Training) []CollectiveOp {
	t = t.norm()
	w := Work{Phase: Train}
	x := s.shapeOf(&st, &w)
	c := collList{x: x, s: s, st: &st, w: &w, train: true}
	dense, experts := s.trained(&x, stage, t.LoRA)
	if st.ZeRO >= 3 { // scattered layer by layer in every micro-batch
		dense, experts = 0, 0
	}
	for _, g := range []struct {
		group parallel.Dim
		size  int
		n     float64
	}{{parallel.CP, x.cp, dense}, {parallel.DP, x.dp, dense / float64(x.cp)}, {parallel.ExpertDP, expertDP(&x), experts}} {
		if g.size < 2 || g.n == 0 {
			continue
		}
		grad, param := units.Bytes(g.n*float64(t.GradBytes)), units.Bytes(g.n*float64(t.ParamBytes))
		name := "gradients"
		if g.group == parallel.ExpertDP {
			name = "expert gradients"
		}
		dtype := "fp32"
		if t.GradBytes == 2 {
			dtype = "bf16"
		}
		switch {
		case st.ZeRO == 0 && g.group == parallel.CP && x.dp > 1:
			c.addType(name, parallel.ReduceScatter, g.group, grad, 1, true, dtype)
			c.addType(name, parallel.AllGather, g.group, grad, 1, true, dtype)
		case st.ZeRO == 0:
			c.addType(name, parallel.AllReduce, g.group, grad, 1, true, dtype)
		default:
			c.addType(name, parallel.ReduceScatter, g.group, grad, 1, true, dtype)
			c.add(ParameterGather, parallel.AllGather, g.group, param, 1, true)
		}
	}
	if s.Tied && !t.LoRA.frozen() && x.pp > 1 && (stage == 0 || stage == x.pp-1) {
		c.addType("tied embedding gradients", parallel.AllReduce, parallel.PP, units.Bytes(ceilDiv(s.Vocab, x.tp))*units.Bytes(s.Hidden)*units.Bytes(t.GradBytes), 1, false, "fp32")
	}
	return c.ops
}

// ParameterGather names what ZeRO-1 and 2 gather once a step, which the next step's forward pass can hide.
const ParameterGather = "parameters"

func expertDP(x *shape) int { return max(1, x.tp*x.cp*x.dp/(x.ep*x.etp)) }

// gather adds ZeRO-3's gathers of n layers: parameters before the forward and before the backward pass, and gradients
// scattered after it, for each micro-batch.
func (c *collList) gather(k *Kind, n int) {
	d := c.x.degrees()
	var dense, experts float64
	for i := range k.Tensors {
		t := &k.Tensors[i]
		p := float64(t.Params()) * t.share(d)
		if c.w.TensorGathers && t.Part != PartExperts {
			if t.In > 0 {
				c.gatherOne("layer parameters", "layer gradients", c.x.shardGroup(), p, n)
			}
			continue
		}
		if t.Part == PartExperts {
			experts += p
		} else {
			dense += p
		}
	}
	c.gatherOne("layer parameters", "layer gradients", c.x.shardGroup(), dense, n)
	if expertDP(&c.x) > 1 {
		c.gatherOne("expert parameters", "expert gradients", parallel.ExpertDP, experts, n)
	}
}

// shardGroup is the group over which ZeRO-3 gathers dense weights: data parallelism, or context parallelism alone.
func (x *shape) shardGroup() parallel.Dim {
	if x.dp == 1 {
		return parallel.CP
	}
	return parallel.DP
}

func (c *collList) gatherOne(name, gradients string, group parallel.Dim, p float64, n int) {
	b := units.Bytes(2 * p)
	if c.w.LoRA.frozen() { // frozen weights are held in the type that multiplies them, and have no gradients
		if c.x.store != nil {
			b = units.Bytes(c.x.store.perWeight() * p)
		}
		c.add(name, parallel.AllGather, group, b, 2*n, true)
		return
	}
	c.add(name, parallel.AllGather, group, b, 2*n, true)
	c.add(gradients, parallel.ReduceScatter, group, b, n, true)
}

// gatherOuter is gather for embedding and head.
func (c *collList) gatherOuter(stage int) {
	d := c.x.degrees()
	for i := range c.s.outer {
		t := &c.s.outer[i]
		if t.In > 0 && c.s.outerOn(t, stage, c.x.pp) {
			c.gatherOne("embedding and head", "embedding and head gradients", c.x.shardGroup(), float64(t.Params())*t.share(d), 1)
		}
	}
}

// rankParams is how many parameters the fullest rank of a stage holds, dense and experts apart.
func (s *Spec) rankParams(x *shape, stage int) (dense, experts float64) {
	d := x.degrees()
	for i := range s.Kinds {
		n := float64(s.kindsOn(i, x.cut, stage))
		if n == 0 {
			continue
		}
		k := &s.Kinds[i]
		for j := range k.Tensors {
			t := &k.Tensors[j]
			p := float64(t.Params()) * t.share(d) * n
			if t.Part == PartExperts {
				experts += p
			} else {
				dense += p
			}
		}
	}
	for i := range s.outer {
		t := &s.outer[i]
		if s.outerOn(t, stage, x.pp) {
			dense += float64(t.Params()) * t.share(d)
		}
	}
	return dense, experts
}

// outerOn tells whether a weight outside the layers lies on a stage: embedding on the first, head and final norm on the
// last, a tied embedding on both.
func (s *Spec) outerOn(t *Tensor, stage, pp int) bool {
	if t.Part == PartEmbedding {
		return stage == 0 || (stage == pp-1 && s.Tied && t.Split == VocabSplit)
	}
	return stage == pp-1
}

// Traffic of the optimizer as Megatron-LM runs it (megatron/core/optimizer: zero_grad_buffer, clip_grads.py, fused Adam,
// _copy_main_params_to_model_params): every rank clears its gradients and, with replicas, scales them to their mean, in units
// of the gradients' bytes; what it owns, all or with ZeRO a share, is read for the norm (4 bytes a parameter), scaled by the
// clip (8), goes through mixed-precision Adam with fp32 master weights (28: gradient, weight and two moments in, three out),
// and is written back as bf16 (6).
const (
	clearTraffic = 1
	scaleTraffic = 2 // megatron/core/distributed/param_and_grad_buffer.py: grad_data *= gradient_scaling_factor
	adamTraffic  = 4 + 8 + 28 + 6
)

// OptimizerOp is the parameter update of one rank of a stage, once for a global batch; ZeRO deals Adam out over dp.
func (s *Spec) OptimizerOp(st parallel.Strategy, stage int, t Training) ComputeOp {
	t = t.norm()
	w := Work{Phase: Train}
	x := s.shapeOf(&st, &w)
	dense, experts := s.trained(&x, stage, t.LoRA)
	traffic := func(n float64, copies int) float64 {
		replicas := copies
		if st.ZeRO == 0 {
			copies = 1
		}
		whole := float64(clearTraffic)
		if replicas > 1 {
			whole += scaleTraffic
		}
		return n * (whole*float64(t.GradBytes) + adamTraffic/float64(copies))
	}
	b := traffic(dense, x.dp*x.cp) + traffic(experts, expertDP(&x))
	return ComputeOp{Name: "optimizer", Kind: Elementwise, DType: "fp32", Times: 1, Bytes: units.Bytes(b), Kernels: 4}
}
