package compute

import (
	"math"

	"rankmap/internal/hardware"
)

func fitPrefill(g *hardware.GPU, key int, fit []Sample) hardware.Prefill {
	ps := []param{
		{"t0", 2, 25, 12, false}, {"ec", 0.3, 1.2, 0.75, true}, {"sx", 0.3, 3, 1.4, false}, {"pm", 1, 6, 1.6, false},
		{"em", 0.2, 1, 0.5, true}, {"wkv", 0.1, 2, 0.4, false}, {"tcta", 0.02, 5, 1, false}, {"tail", 0, 3, 1, true}, {"wx", 1, 6, 2.5, false},
	}
	var best hardware.Prefill
	bestLoss := math.Inf(1)
	for _, tile := range []int{64, 128} {
		build := func(v []float64) hardware.Prefill {
			return hardware.Prefill{T: tile, T0: v[0], EC: v[1], SX: v[2], PM: v[3], EM: v[4], WKV: v[5], TCTA: v[6], Tail: v[7], WX: v[8]}
		}
		v, l := search(ps, func(v []float64) float64 {
			x := newPrefill(g, key, build(v), 1)
			return loss(fit, func(s *Sample) float64 { return timePrefill(&x, s) })
		})
		if l < bestLoss {
			best, bestLoss = build(v), l
		}
	}
	return best
}

func timePrefill(x *prefill, s *Sample) float64 {
	o := &s.Op
	return x.time(o.Batch, o.Tokens, o.Context, o.Heads, o.KVHeads, o.HeadDim, o.Window).total
}

// fitDecode fits both kernels, each to the rows that run it, and chooses by loss which rows those are: the largest
// group, and whether the grouped kernel must fill a quarter of the SMs (TensorRT-LLM's rule before Blackwell).
func fitDecode(g *hardware.GPU, key int, fit []Sample) hardware.Decode {
	var best hardware.Decode
	bestLoss := math.Inf(1)
	for _, limit := range []int{0, 16, 32, 64} {
		for _, fill := range []float64{0, 0.25} {
			if limit == 0 && fill > 0 {
				continue
			}
			rec := hardware.Decode{MaxGroup: limit, Fill: fill}
			x := newDecode(g, key, rec)
			grouped, perHead := x.divide(fit)
			var lg, lh float64
			if len(grouped) > 0 {
				rec.Grouped, lg = fitDecodePath(g, key, rec, grouped)
			}
			rec.PerHead, lh = fitDecodePath(g, key, rec, perHead)
			l := (lg*float64(len(grouped)) + lh*float64(len(perHead))) / float64(len(fit))
			if l < bestLoss*0.99 {
				best, bestLoss = rec, l
			}
		}
	}
	return best
}

// fitDecodePath fits one kernel to rows that all run it, and chooses its rule of splitting.
func fitDecodePath(g *hardware.GPU, key int, rec hardware.Decode, fit []Sample) (hardware.DecodePath, float64) {
	ps := []param{
		{"t0", 2, 25, 9, false}, {"t1", 0.05, 15, 3, false}, {"tw", 0.1, 12, 3, false}, {"lt", 0.3, 60, 8, false},
		{"ld", 0, 1, 0.5, true}, {"em", 0.3, 2, 1, false}, {"p", 1, 6, 2, false}, {"wide", 1, 2.5, 1.3, true},
	}
	var best hardware.DecodePath
	bestLoss := math.Inf(1)
	for _, split := range []int{0, 128, 512} { // 0 = TensorRT-LLM's waves
		build := func(v []float64) hardware.DecodePath {
			return hardware.DecodePath{T0: v[0], T1: v[1], TW: v[2], LT: v[3], LD: v[4], EM: v[5], P: v[6], Wide: v[7], Waves: split == 0, Split: split}
		}
		v, l := search(ps, func(v []float64) float64 {
			x := newDecode(g, key, hardware.Decode{MaxGroup: rec.MaxGroup, Fill: rec.Fill, Grouped: build(v), PerHead: build(v)})
			return loss(fit, func(s *Sample) float64 { return timeDecode(&x, s) })
		})
		if l < bestLoss*0.99 {
			best, bestLoss = build(v), l
		}
	}
	return best, bestLoss
}

func timeDecode(x *decode, s *Sample) float64 {
	o := &s.Op
	return x.time(o.Batch, o.Context, o.Heads, o.KVHeads, o.HeadDim, o.Window).total
}

func fitMLAPrefill(g *hardware.GPU, fit []Sample) hardware.MLAPrefill {
	ps := []param{
		{"t0", 2, 30, 14, false}, {"ec", 0.3, 1.2, 0.8, true}, {"sx", 0.3, 3, 1.1, false}, {"pm", 1, 6, 1.6, false},
		{"em", 0.3, 2.5, 1.5, false}, {"tcta", 0.02, 5, 2, false}, {"tail", 0, 4, 1, true},
	}
	var best hardware.MLAPrefill
	bestLoss := math.Inf(1)
	for _, tile := range []int{64, 128} {
		build := func(v []float64) hardware.MLAPrefill {
			return hardware.MLAPrefill{T: tile, T0: v[0], EC: v[1], SX: v[2], PM: v[3], EM: v[4], TCTA: v[5], Tail: v[6]}
		}
		v, l := search(ps, func(v []float64) float64 {
			x := newMLAPrefill(g, build(v), 1)
			return loss(fit, func(s *Sample) float64 { return timeMLAPrefill(&x, s) })
		})
		if l < bestLoss {
			best, bestLoss = build(v), l
		}
	}
	return best
}

func timeMLAPrefill(x *mlaPrefill, s *Sample) float64 {
	return x.time(s.Op.Batch, s.Op.Tokens, s.Op.Context, s.Op.Heads, 0).total
}

func fitMLADecode(g *hardware.GPU, key int, fit []Sample) hardware.MLADecode {
	ps := []param{
		{"t0", 2, 40, 14, false}, {"t1", 0.2, 15, 4, false}, {"em", 0.15, 1, 0.8, true}, {"ec", 0.2, 1.4, 0.7, true},
		{"lt", 0.5, 150, 4, false}, {"tw", 0.5, 20, 6, false}, {"eq", 0.3, 3, 1, false},
	}
	var best hardware.MLADecode
	bestLoss := math.Inf(1)
	for _, whole := range []bool{false, true} {
		build := func(v []float64) hardware.MLADecode {
			return hardware.MLADecode{T0: v[0], T1: v[1], EM: v[2], EC: v[3], LT: v[4], TW: v[5], EQ: v[6], Whole: whole}
		}
		v, l := search(ps, func(v []float64) float64 {
			x := newMLADecode(g, key, build(v))
			return loss(fit, func(s *Sample) float64 { return timeMLADecode(&x, s) })
		})
		if l < bestLoss {
			best, bestLoss = build(v), l
		}
	}
	return best
}

func timeMLADecode(x *mlaDecode, s *Sample) float64 {
	return x.time(s.Op.Batch, s.Op.Context, s.Op.Heads).total
}
