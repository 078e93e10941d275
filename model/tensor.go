package model

// Part says what a weight belongs to.
type Part uint8

// The parts.
const (
	PartEmbedding Part = iota
	PartHead
	PartAttention
	PartMLP
	PartExperts
	PartShared // shared experts
	PartRouter
	PartNorm
	PartMTP // multi-token prediction, counted apart from the main network
	numParts
)

var partNames = [numParts]string{"embedding", "head", "attention", "mlp", "experts", "sharedExperts", "router", "norm", "mtp"}

// String returns the part's name, such as "attention".
func (p Part) String() string {
	if p < numParts {
		return partNames[p]
	}
	return "part"
}

// Split says how a weight is dealt out over the ranks of a pipeline stage.
type Split uint8

// The splits.
const (
	Replicated  Split = iota // a copy on every rank: norms, router, low-rank down-projections
	TensorSplit              // over tp, in whole units (heads, or columns of the MLP)
	KVSplit                  // over tp in KV heads; copied once tp exceeds them
	VocabSplit               // rows of the vocabulary over tp
	ExpertSplit              // Count experts over ep, each one's matrices over expertTp
	SharedSplit              // over tp when experts reduce with the layer, copied when tokens are exchanged
)

// Tensor is one weight, or Count equal ones.
type Tensor struct {
	Module string // path below the layer, such as "self_attn.q_proj"; what quantisation rules name
	Part   Part
	Out    int
	In     int // 0 for a vector of Out
	Count  int // copies of the same shape: experts; 0 means 1
	Split  Split
	Units  int  // in how many indivisible pieces the split may cut; 0 means Out (columns)
	Row    bool // the split cuts In (row-parallel), not Out
	Linear bool // a quantiser converts it
	// Op names the GEMM that multiplies with it; tensors of one layer and one Op are fused. Empty = no GEMM.
	Op      string
	Storage Storage
}

// Params is how many numbers the tensor holds.
func (t Tensor) Params() int64 {
	n := int64(t.Out)
	if t.In > 0 {
		n *= int64(t.In)
	}
	if t.Count > 1 {
		n *= int64(t.Count)
	}
	return n
}

// Bytes is what the tensor takes in memory as stored, scales included.
func (t Tensor) Bytes() int64 { return t.Storage.bytes(t) }

// degrees are the sharding degrees that decide a rank's share of a tensor.
type degrees struct {
	tp, ep, etp int
	shared      int // over how many ranks the shared experts are cut: tp or 1
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// share returns the fraction of the tensor on the fullest rank.
func (t *Tensor) share(d degrees) float64 {
	switch t.Split {
	case TensorSplit, VocabSplit:
		return unitShare(t.units(), d.tp)
	case SharedSplit:
		return unitShare(t.units(), d.shared)
	case KVSplit:
		u := t.units()
		if d.tp >= u {
			return 1 / float64(u)
		}
		return unitShare(u, d.tp)
	case ExpertSplit:
		n := max(t.Count, 1)
		s := float64(ceilDiv(n, d.ep)) / float64(n)
		if t.In == 0 && t.Units == 1 {
			return s
		}
		return s * unitShare(t.units(), d.etp)
	default:
		return 1
	}
}

func (t *Tensor) units() int {
	if t.Units > 0 {
		return t.Units
	}
	return max(t.Out, 1)
}

func unitShare(units, n int) float64 {
	if n <= 1 {
		return 1
	}
	return float64(ceilDiv(units, n)) / float64(units)
}
