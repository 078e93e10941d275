package model

import "fmt"

// LoRATargets are the linear layers of a block that get adapters, as Megatron names them.
type LoRATargets uint8

// The targets.
const (
	LoRALinear    LoRATargets = iota // linear_qkv, linear_proj, linear_fc1 and linear_fc2: Megatron-Bridge's default
	LoRAAttention                    // linear_qkv and linear_proj: MLPerf's
	LoRAQKV                          // linear_qkv alone: Megatron-Bridge's recipes of large networks
)

var loraTargets = [...]string{"linear", "attention", "qkv"}

// String returns "linear", "attention" or "qkv".
func (t LoRATargets) String() string {
	if int(t) < len(loraTargets) {
		return loraTargets[t]
	}
	return fmt.Sprintf("targets(%d)", uint8(t))
}

// LoRATargetsNamed reads a name; empty is "linear".
func LoRATargetsNamed(s string) (LoRATargets, error) {
	for i, n := range loraTargets {
		if s == n || s == "" {
			return LoRATargets(i), nil
		}
	}
	return 0, fmt.Errorf("unknown targets of adapters %q (known: linear, attention, qkv)", s)
}

// LoRA is low-rank adaptation (Hu et al. 2021, arXiv 2106.09685): the network's own weights are frozen, and beside each
// target W (out x in) runs B A x, with A of rank x in and B of out x rank trained. A frozen weight has no gradient, no optimizer
// state and no traffic of data parallelism, and its backward pass is the input's gradient alone: one product where training has
// two. Routed experts and routers get no adapters here.
type LoRA struct {
	Rank    int // of the adapters; 0 = every weight is trained
	Targets LoRATargets
}

// frozen says that the network's weights are.
func (l LoRA) frozen() bool { return l.Rank > 0 }

// adapts says that a product of a layer has an adapter; row: it is cut over its input, as out- and down-projections are.
func (l LoRA) adapts(part Part, row bool) bool {
	switch {
	case l.Rank == 0:
		return false
	case part == PartAttention:
		return l.Targets != LoRAQKV || !row
	case part == PartMLP, part == PartShared:
		return l.Targets == LoRALinear
	}
	return false
}

// adapterParams is how many parameters of adapters a rank holds in one layer of a kind. Like the weight beside it an adapter
// is cut over tensor parallelism, both of its matrices (Megatron-Bridge peft ParallelLinearAdapter).
func (k *Kind) adapterParams(l LoRA, d degrees) float64 {
	if !l.frozen() {
		return 0
	}
	sum := 0.0
	for i := range k.fmt.gemms {
		g := &k.fmt.gemms[i]
		t := &k.Tensors[g.parts[0]]
		if !l.adapts(g.part, t.Row) {
			continue
		}
		n, in := k.dims(g, d)
		whole, wholeIn := k.dims(g, degrees{tp: 1, ep: 1, etp: 1, shared: 1})
		// The dimension that the weight does not cut is cut by the adapter itself.
		cut := float64(n*in) / float64(max(whole*wholeIn, 1))
		sum += float64(l.Rank) * float64(whole+wholeIn) * cut
	}
	return sum
}

// AdapterParams is how many parameters low-rank adapters add to the network.
func (s *Spec) AdapterParams(l LoRA) int64 {
	sum := 0.0
	for i := range s.Kinds {
		sum += float64(s.prefix[i][len(s.layers)]) * s.Kinds[i].adapterParams(l, degrees{tp: 1, ep: 1, etp: 1, shared: 1})
	}
	return int64(sum + 0.5)
}

// trained is how many parameters with gradients the fullest rank of a stage holds, dense and experts apart.
func (s *Spec) trained(x *shape, stage int, l LoRA) (dense, experts float64) {
	if !l.frozen() {
		return s.rankParams(x, stage)
	}
	for i := range s.Kinds {
		dense += float64(s.kindsOn(i, x.cut, stage)) * s.Kinds[i].adapterParams(l, x.degrees())
	}
	return dense, 0
}

// LoRAFLOPsPerToken is TrainFLOPsPerToken with frozen weights: forward and the gradient of the input for each weight, attention as
// in training, the adapters' own products left out (below 1 % at usual ranks).
func (s *Spec) LoRAFLOPsPerToken(seq int) float64 {
	return s.TrainFLOPsPerToken(seq) - 2*float64(s.Params().ActiveBody)
}

// frozenProduct is a product whose weight has no gradient: result and input gradient. What it multiplies is quantized along one
// dimension only, and with an adapter the adapter's products and additions come beside it.
func (l *opList) frozenProduct(name string, st Storage, m, n, k int, norm bool) {
	op := ComputeOp{Name: name, Kind: GEMM, DType: st.Format.compute(), Times: l.n + l.redo, M: m, N: n, K: k}
	op.fill(st)
	l.add(&op)
	l.casts(st.Format, m, n, k, norm)
	back := ComputeOp{Name: name, Kind: GEMM, DType: op.DType, Times: l.n, M: m, N: k, K: n, Backward: true}
	back.fill(st)
	l.add(&back)
	if !l.adapt {
		return
	}
	r := l.w.LoRA.Rank
	product := func(rows, cols, inner, times int, backward bool, out int) {
		p := ComputeOp{Name: "adapters", Kind: GEMM, DType: "bf16", Times: times, M: rows, N: cols, K: inner, Backward: backward, OutBytes: out}
		p.fill(storeBF16)
		l.add(&p)
	}
	product(m, r, k, l.n+l.redo, false, 0)
	product(m, n, r, l.n+l.redo, false, 0)
	product(m, r, n, l.n, true, 0)
	product(r, n, m, l.n, true, 8)
	product(m, k, r, l.n, true, 0)
	product(k, r, m, l.n, true, 8)
	// The adapter's result and its input's gradient are added to those of the weight.
	l.elementwise("adapter add", addForward*float64(m)*float64(n), addForward*float64(m)*float64(k), 1)
}
