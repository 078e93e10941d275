package compute

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"rankmap/internal/measured"
	"rankmap/model"
)

// Sample is one measured computation in the form that Price takes.
type Sample struct {
	Op   model.ComputeOp
	Load Load    // of an expert layer
	Key  string  // record key: compute type, or "compute/cache" for attention
	Time float64 // seconds
}

// SampleOf turns a measured row into a sample; ok is false for kinds and types that no form covers.
func SampleOf(r *measured.OpRow) (s Sample, ok bool) {
	s.Time = r.Time.Seconds()
	s.Op = model.ComputeOp{Name: r.Kind, DType: r.DType, CacheDType: r.Cache, Times: 1}
	o := &s.Op
	attention := func(kind model.OpKind) bool {
		o.Kind, o.Batch, o.Heads, o.KVHeads, o.HeadDim = kind, r.Batch, r.Heads, r.KVHeads, r.HeadDim
		o.Tokens, o.Context, o.Window = r.Tokens, r.Context, r.Window
		key, exact := attnKeyOf(r.DType, r.Cache)
		s.Key = attnKeys[key]
		return exact
	}
	t, known := typeOf(r.DType)
	if !known || s.Time <= 0 {
		return s, false
	}
	switch r.Kind {
	case "gemm":
		o.Kind, o.M, o.N, o.K = model.GEMM, r.M, r.N, r.K
		s.Key = types[t].name
	case "attn_prefill":
		return s, attention(model.AttnPrefill) && r.KVHeads > 0
	case "attn_decode":
		return s, attention(model.AttnDecode) && r.KVHeads > 0
	case "mla_prefill":
		return s, attention(model.MLAPrefill)
	case "mla_decode":
		return s, attention(model.MLADecode)
	case "moe":
		o.Kind, o.MoETokens, o.Hidden, o.Inter = model.MoE, r.M, r.Hidden, r.Inter
		o.TopK, o.Experts, o.EP, o.ExpertTP = r.TopK, r.Experts, r.EP, r.ExpertTP
		o.Gated = gated(r.Hidden, r.Inter)
		s.Key = types[t].name
		var err error
		s.Load, err = LoadOf(r.Routing, r.M, r.TopK, r.Experts, r.EP)
		return s, err == nil && checkMoE(o) == nil
	case "copy":
		o.Kind, o.Bytes, o.Kernels, s.Key = model.Elementwise, r.Bytes, 1, "copy"
	default:
		return s, false
	}
	return s, true
}

// gated says whether the experts of a published layer size have a gate matrix. The tables lack the activation; the two
// sizes without gate are Nemotron 3's squared-ReLU experts.
func gated(hidden, inter int) bool {
	return !(hidden == 2688 && inter == 1856 || hidden == 4096 && inter == 2688)
}

// LoadOf reads a routing as the tables name it: "balanced", "random" (each token picks its experts on its own), or "power_law_A" with exponent A.
func LoadOf(routing string, m, topk, experts, ep int) (Load, error) {
	if routing == "balanced" {
		return Balanced(m, topk, experts, ep), nil
	}
	if routing == "random" {
		return Random(m, topk, experts, ep, 1), nil
	}
	if s, ok := strings.CutPrefix(routing, "power_law_"); ok {
		if a, err := strconv.ParseFloat(s, 64); err == nil && a > 0 && a < 10 {
			return PowerLaw(m, topk, experts, ep, a), nil
		}
	}
	return Load{}, fmt.Errorf("routing %q: want balanced or power_law_A", routing)
}

// HeldOutShare is one in how many shapes the fit never sees.
const HeldOutShare = 5

// HeldOut says whether a row is kept from every fit: one shape in five, by a hash of the shape, so that the same shape
// is held out on every system and for every type.
func HeldOut(r *measured.OpRow) bool { return shapeHash(r, "")%HeldOutShare == 0 }

// FirstHalf says whether a row is of the half of a table that a calibration may see when the other half tests it: by a hash
// of the shape that has nothing to do with HeldOut's.
func FirstHalf(r *measured.OpRow) bool { return shapeHash(r, "half")%2 == 0 }

// shapeHash hashes the sizes of a row, whatever its system, type and time.
func shapeHash(r *measured.OpRow, salt string) uint32 {
	h := fnv.New32a()
	fmt.Fprint(h, salt, r.Kind, r.M, r.N, r.K, r.Batch, r.Heads, r.KVHeads, r.HeadDim, r.Tokens, r.Context, r.Window,
		r.Hidden, r.Inter, r.TopK, r.Experts, r.ExpertTP, r.EP, r.Routing)
	v := h.Sum32() // FNV's low bits are weak for short texts: mix
	v ^= v >> 15
	v *= 0x2c1b3c6d
	return v ^ v>>12
}
