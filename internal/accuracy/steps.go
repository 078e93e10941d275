package accuracy

import (
	"errors"
	"fmt"

	"rankmap/collective"
	"rankmap/compute"
	"rankmap/internal/hardware"
	"rankmap/internal/measured"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/model"
)

// llamaSizes are the models that tables of steps name (Llama 3.1, its published configurations).
var llamaSizes = map[string]struct{ hidden, heads, kv, inter int }{
	"llama70b": {8192, 64, 8, 28672}, "llama8b": {4096, 32, 8, 14336},
}

// layerOps is one layer on one of the tensor-parallel GPUs in bf16: four products, attention, two norms, two residual adds,
// activation and gate as two kernels; what plain PyTorch launches.
func layerOps(r *measured.StepRow) ([]model.ComputeOp, error) {
	s, ok := llamaSizes[r.Model]
	if !ok {
		return nil, errors.New("no model of this stack of layers")
	}
	if r.TP < 1 || s.kv%r.TP != 0 || s.inter%r.TP != 0 {
		return nil, errors.New("tensor parallelism does not divide the heads")
	}
	const headDim = 128
	t := r.Batch * r.Tokens
	attn := model.ComputeOp{Kind: model.AttnPrefill, DType: "bf16", Batch: r.Batch, Heads: s.heads / r.TP, KVHeads: s.kv / r.TP,
		HeadDim: headDim, Tokens: r.Tokens, Context: r.Context}
	if r.Phase == "decode" {
		attn.Kind = model.AttnDecode
	}
	small := func(bytes int) model.ComputeOp {
		return model.ComputeOp{Kind: model.Elementwise, Bytes: units.Bytes(bytes), Kernels: 2}
	}
	gemm := func(n, k int) model.ComputeOp {
		return model.ComputeOp{Kind: model.GEMM, DType: "bf16", M: t, N: n, K: k}
	}
	return []model.ComputeOp{
		gemm((s.heads+2*s.kv)*headDim/r.TP, s.hidden), attn, gemm(s.hidden, s.heads*headDim/r.TP),
		gemm(2*s.inter/r.TP, s.hidden), gemm(s.hidden, s.inter/r.TP),
		small(2 * 4 * t * s.hidden), small(2 * 6 * t * s.hidden), small(10 * t * s.inter / r.TP),
	}, nil
}

// step predicts a layer of a measured stack: the compute model's kernels one after the other, and two all-reduces a layer where
// the row has them. Prefill runs at the sustained clock. The class is "step prefill", with " + all_reduce" for rows with them.
func (c *Confronter) step(r *measured.StepRow) (Case, error) {
	system := c.opts.System
	switch {
	case system == "":
		return Case{}, errors.New("the file names no GPU (--system is missing)")
	case c.configs == nil:
		return Case{}, errors.New("no kernel parameters to price computations with")
	}
	ops, err := layerOps(r)
	if err != nil {
		return Case{}, err
	}
	phase := model.Prefill
	if r.Phase == "decode" {
		phase = model.Decode
	}
	kernels, err := c.stepModel(system, phase)
	if err != nil {
		return Case{}, err
	}
	out := Case{System: system, Collective: "step " + r.Phase, Nodes: 1, Ranks: r.TP, Measured: r.PerLayer, Step: r}
	for _, op := range ops {
		e, err := kernels.Price(op)
		if err != nil {
			return Case{}, err
		}
		out.Ours, out.P10, out.P90 = out.Ours+e.Time, out.P10+e.P10, out.P90+e.P90
	}
	if r.Comm {
		e, err := c.layerAllReduce(system, r)
		if err != nil {
			return Case{}, err
		}
		out.Collective += " + all_reduce"
		out.Ours, out.P10, out.P90 = out.Ours+2*e.Time, out.P10+2*e.P10, out.P90+2*e.P90
	}
	return out, nil
}

// layerAllReduce prices one all-reduce of the layer's activations inside a node.
func (c *Confronter) layerAllReduce(system string, r *measured.StepRow) (collective.Estimate, error) {
	row := measured.Row{Op: parallel.AllReduce, System: system, Ranks: r.TP, Nodes: 1, GPUsPerNode: r.TP, NoMulticast: c.opts.NoMulticast}
	row = c.Complete(row)
	m, err := machineOf(&row)
	if err != nil {
		return collective.Estimate{}, err
	}
	p := c.place(m)
	if p.err != nil {
		return collective.Estimate{}, p.err
	}
	bytes := units.Bytes(2 * r.Batch * r.Tokens * llamaSizes[r.Model].hidden)
	return p.model.Price(collective.Request{Op: parallel.AllReduce, Bytes: bytes, Members: p.members})
}

// stepModel returns the model of plain PyTorch's kernels, making it on first use.
func (c *Confronter) stepModel(system string, phase model.Phase) (*compute.Model, error) {
	key := kernelKey{system, fmt.Sprintf("step %v", phase)}
	if m := c.kernels[key]; m != nil {
		return m, nil
	}
	sheet, err := c.catalog.GPU(hardwareKey(system))
	if err != nil {
		return nil, errors.New("no datasheet of this GPU")
	}
	k, err := hardware.LoadKernels(c.configs, sheet.System)
	if err != nil {
		return nil, errors.New("no kernel parameters of this GPU")
	}
	for _, o := range c.own {
		if o.System == sheet.System {
			k = o
		}
	}
	m, err := compute.New(sheet, k, compute.Options{Framework: "plain", Phase: phase})
	if err != nil {
		return nil, err
	}
	c.kernels[key] = m
	return m, nil
}
