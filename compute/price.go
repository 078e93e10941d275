package compute

import (
	"fmt"
	"math"

	"rankmap/model"
)

// Caps on sizes: products stay far from overflow and a slip of a unit is noticed.
const maxSize = 1 << 31

// Price is the time of ONE execution of op; op.Times is left to the caller. It fails on sizes that are not positive or
// absurd, on unknown types, and on kinds that the framework's records do not cover. It does not allocate.
//
// More memory bandwidth never makes a price higher. Sizes do not always act monotonically: a matrix of 129 rows costs a
// second row of tiles, a slightly longer K may split better over idle SMs, and before Blackwell decode attention of few
// sequences runs a slower kernel than that of many.
func (m *Model) Price(op model.ComputeOp) (Estimate, error) {
	if op.Kind == model.MoE {
		if err := checkMoE(&op); err != nil {
			return Estimate{}, err
		}
		return m.priceMoE(&op, Random(op.MoETokens, op.TopK, op.Experts, op.EP, op.Skew))
	}
	return m.price(&op)
}

// PriceLoad prices an expert layer under a given load of this GPU instead of the one that op.Skew implies.
func (m *Model) PriceLoad(op model.ComputeOp, l Load) (Estimate, error) {
	if err := checkMoE(&op); err != nil {
		return Estimate{}, err
	}
	return m.priceMoE(&op, l)
}

func (m *Model) price(op *model.ComputeOp) (Estimate, error) {
	switch op.Kind {
	case model.GEMM:
		return m.priceGEMM(op)
	case model.AttnPrefill, model.AttnDecode:
		return m.priceAttention(op)
	case model.MLAPrefill, model.MLADecode:
		return m.priceMLA(op)
	case model.Elementwise:
		if op.Bytes < 0 || op.Kernels < 0 || !(op.FLOPs >= 0) || math.IsInf(op.FLOPs, 0) {
			return Estimate{}, fmt.Errorf("%s: %d bytes in %d kernels, want 0 or more", op.Name, op.Bytes, op.Kernels)
		}
		p := parts{mem: float64(op.Bytes) * m.ibw, launch: float64(op.Kernels) * m.small, core: op.FLOPs * m.iflop}
		if op.Narrow {
			p.core = op.FLOPs * m.inarrow
		}
		p.total = p.launch + math.Max(p.mem, p.core)
		return m.finish(p, smallBand, 0), nil
	}
	return Estimate{}, fmt.Errorf("%s: unknown kind of computation %d", op.Name, op.Kind)
}

// What a gradient costs in forwards: flash attention's backward runs 5 products for the forward's 2 (it recomputes the
// scores), each less fast than the forward's: on H200, sequences of 4,096 tokens and heads of 64 and 128, cuDNN took 2.8 to 3.0 times
// its forward pass, FlashAttention-2 3.0 to 3.1 (docs/measurements/h200/2026-11-30-training/attention.csv). An expert layer's runs
// the input's and the weight's product for each forward one.
const (
	attnBackward = 2.9
	moeBackward  = 2
)

func backward(op *model.ComputeOp, factor float64) float64 {
	if op.Backward {
		return factor
	}
	return 1
}

// smallBand is the spread of the copy and elementwise kernels measured on H200.
var smallBand = band{0.85, 1.25}

func inRange(vs ...int) bool {
	for _, v := range vs {
		if v < 1 || v > maxSize {
			return false
		}
	}
	return true
}

func (m *Model) priceGEMM(op *model.ComputeOp) (Estimate, error) {
	t, ok := typeOf(op.DType)
	if !ok {
		return Estimate{}, fmt.Errorf("%s: unknown compute type %q", op.Name, op.DType)
	}
	g := &m.gemms[t]
	if !g.ok {
		return Estimate{}, fmt.Errorf("%s: no parameters for %s matrix products on %s in %s", op.Name, op.DType, m.gpu.System, m.framework)
	}
	if op.M < 1 || op.N < 1 || op.K < 1 || op.M > maxSize || op.N > maxSize || op.K > maxSize {
		return Estimate{}, fmt.Errorf("%s: matrix product of %d x %d x %d, want 1 to %d each", op.Name, op.M, op.N, op.K, maxSize)
	}
	f := g.flags
	if m.hopper && t == bf16 && op.M > 64 && op.M <= 128 && op.N >= 28672 {
		f |= PoorKernel
	}
	out := 2.0
	switch {
	case op.OutBytes > 0:
		out = float64(op.OutBytes)
	case t == fp32:
		out = 4
	}
	return m.finish(g.time(op.M, op.N, op.K, out), g.band, f), nil
}

func (m *Model) priceAttention(op *model.ComputeOp) (Estimate, error) {
	key, exact := attnKeyOf(op.DType, op.CacheDType)
	if !inRange(op.Batch, op.Heads, op.KVHeads, op.HeadDim) || op.Window < 0 {
		return Estimate{}, fmt.Errorf("%s: attention of %d sequences, %d heads, %d KV heads of %d, window %d: want positive sizes", op.Name, op.Batch, op.Heads, op.KVHeads, op.HeadDim, op.Window)
	}
	var f Flags
	if !exact {
		f = NearType
	}
	if op.Kind == model.AttnPrefill {
		a := &m.prefills[key]
		c := max(op.Context, op.Tokens)
		if !a.ok || !inRange(op.Tokens, c) {
			return Estimate{}, fmt.Errorf("%s: cannot price %s attention over %d tokens on %s in %s", op.Name, attnKeys[key], op.Tokens, m.gpu.System, m.framework)
		}
		p := a.time(op.Batch, op.Tokens, c, op.Heads, op.KVHeads, op.HeadDim, op.Window)
		return m.finish(p.times(backward(op, attnBackward)), a.band, f|a.flags), nil
	}
	a := &m.decodes[key]
	if !a.ok || !inRange(op.Context) {
		return Estimate{}, fmt.Errorf("%s: cannot price %s attention over a context of %d on %s in %s", op.Name, attnKeys[key], op.Context, m.gpu.System, m.framework)
	}
	if m.hopper && op.Window > 0 && key == keyBF16 {
		f |= WindowedBF16
	}
	return m.finish(a.time(op.Batch, op.Context, op.Heads, op.KVHeads, op.HeadDim, op.Window), a.band, f|a.flags), nil
}

func (m *Model) priceMLA(op *model.ComputeOp) (Estimate, error) {
	key, exact := attnKeyOf(op.DType, op.CacheDType)
	var f Flags
	if !exact {
		f = NearType
	}
	if !inRange(op.Batch, op.Heads) {
		return Estimate{}, fmt.Errorf("%s: latent attention of %d sequences and %d heads, want positive sizes", op.Name, op.Batch, op.Heads)
	}
	if op.Kind == model.MLAPrefill {
		a := &m.mlaPre[key]
		c := max(op.Context, op.Tokens)
		if !a.ok || !inRange(op.Tokens, c) {
			return Estimate{}, fmt.Errorf("%s: cannot price %s latent attention over %d tokens on %s in %s", op.Name, attnKeys[key], op.Tokens, m.gpu.System, m.framework)
		}
		p := a.time(op.Batch, op.Tokens, c, op.Heads, op.Window)
		return m.finish(p.times(backward(op, attnBackward)), a.band, f|a.flags), nil
	}
	a := &m.mlaDec[key]
	if !a.ok || !inRange(op.Context) {
		return Estimate{}, fmt.Errorf("%s: cannot price %s latent attention over a context of %d on %s in %s", op.Name, attnKeys[key], op.Context, m.gpu.System, m.framework)
	}
	return m.finish(a.time(op.Batch, op.Context, op.Heads), a.band, f|a.flags), nil
}

func checkMoE(op *model.ComputeOp) error {
	if !inRange(op.MoETokens, op.Hidden, op.Inter, op.TopK, op.Experts, op.EP, max(op.ExpertTP, 1)) || op.TopK > op.Experts || op.EP > op.Experts {
		return fmt.Errorf("%s: expert layer of %d tokens, hidden %d, inter %d, %d of %d experts, ep %d, expert tp %d: want positive sizes, no more experts a token or ranks than experts",
			op.Name, op.MoETokens, op.Hidden, op.Inter, op.TopK, op.Experts, op.EP, op.ExpertTP)
	}
	return nil
}

func (m *Model) priceMoE(op *model.ComputeOp, l Load) (Estimate, error) {
	t, ok := typeOf(op.DType)
	if !ok {
		return Estimate{}, fmt.Errorf("%s: unknown compute type %q", op.Name, op.DType)
	}
	x := &m.moes[t]
	if !x.ok {
		return Estimate{}, fmt.Errorf("%s: no parameters for %s expert layers on %s in %s", op.Name, op.DType, m.gpu.System, m.framework)
	}
	local := (op.Experts + op.EP - 1) / op.EP
	f := Flags(0)
	if local&(local-1) != 0 {
		f |= OddExperts
	}
	if op.EP >= 64 {
		f |= ManyRanks
	}
	s := shapeOf(op, l)
	p, k := m.fastest(op, &s, t)
	f |= k.flags
	return m.finish(p.times(backward(op, moeBackward)), k.band, f), nil
}
