package compute

import (
	"math"
	"sort"

	"rankmap/internal/hardware"
	"rankmap/model"
)

// loss is the mean over the samples of |ln(predicted/measured)|, rounded off below 2 % (the repeatability of the
// tables), so that neither outliers nor the last percent of the best rows rule the fit.
func loss(samples []Sample, price func(*Sample) float64) float64 {
	sum := 0.0
	for i := range samples {
		r := math.Log(price(&samples[i]) / samples[i].Time)
		sum += math.Sqrt(r*r+0.02*0.02) - 0.02
	}
	return sum / float64(max(len(samples), 1))
}

// score is the error of a record on samples: percent, and the spread of measured/predicted.
func score(samples []Sample, price func(*Sample) float64) hardware.Fit {
	if len(samples) == 0 {
		return hardware.Fit{}
	}
	e, ratio := make([]float64, len(samples)), make([]float64, len(samples))
	for i := range samples {
		p := price(&samples[i])
		e[i] = 100 * math.Abs(p/samples[i].Time-1)
		ratio[i] = samples[i].Time / p
	}
	sort.Float64s(e)
	sort.Float64s(ratio)
	return hardware.Fit{Rows: len(e), Median: quantile(e, 0.5), P90: quantile(e, 0.9), Lo: quantile(ratio, 0.1), Hi: quantile(ratio, 0.9)}
}

// quantile reads a sorted slice with linear interpolation.
func quantile(s []float64, q float64) float64 {
	at := q * float64(len(s)-1)
	i := int(at)
	if i+1 >= len(s) {
		return s[len(s)-1]
	}
	return s[i] + (at-float64(i))*(s[i+1]-s[i])
}

// fitGEMM fits a matrix product; the launch part goes to the framework. Kernel families without split-K are recognised
// by the better loss.
func fitGEMM(g *hardware.GPU, t dtype, fit []Sample) (hardware.GEMM, hardware.Launch) {
	ps := []param{
		{"t0", 0.5, 20, 3, false}, {"ec", 0.2, 1, 0.75, true}, {"em", 0.3, 1, 0.8, true}, {"lk", 0.1, 3, 0.9, false},
		{"tw", 0.02, 4, 0.3, false}, {"p", 1, 6, 2.5, false}, {"t1", 0.3, 12, 2.5, false},
	}
	if types[t].quantize {
		ps = append(ps, param{"q", 0.3, 6, 2, false}, param{"tr", 1e-5, 0.03, 3e-4, false})
	}
	build := func(v []float64, split bool) (hardware.GEMM, hardware.Launch) {
		k := hardware.GEMM{EC: v[1], EM: v[2], LK: v[3], TW: v[4], P: v[5], T1: v[6]}
		l := hardware.Launch{T0: v[0]}
		if !split {
			k.T1 = 0
		}
		if len(v) > 7 {
			l.Q, l.TR = v[7], v[8]
		}
		return k, l
	}
	var best []float64
	bestLoss, bestSplit := math.Inf(1), true
	for _, split := range []bool{true, false} {
		v, l := search(ps, func(v []float64) float64 {
			k, lc := build(v, split)
			x := newGEMM(g, t, k, lc, 1)
			return loss(fit, func(s *Sample) float64 { return x.time(s.Op.M, s.Op.N, s.Op.K, 2).total })
		})
		if l < bestLoss {
			best, bestLoss, bestSplit = v, l, split
		}
	}
	return build(best, bestSplit)
}

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

func fitMoE(g *hardware.GPU, t dtype, fit []Sample) hardware.MoE {
	ps := []param{
		{"t0", 3, 60, 30, false}, {"te", 1, 500, 30, false}, {"em", 0.2, 1, 0.9, true}, {"ec", 0.2, 1, 0.85, true},
		{"lk", 0.1, 3, 0.8, false}, {"tw", 0.05, 5, 0.8, false}, {"ea", 0.05, 1, 0.3, false}, {"p", 1, 6, 1.5, false}, {"tr", 0.001, 20, 0.5, false},
	}
	build := func(v []float64) hardware.MoE {
		return hardware.MoE{T0: v[0], TE: v[1], EM: v[2], EC: v[3], LK: v[4], TW: v[5], EA: v[6], P: v[7], TR: v[8]}
	}
	v, _ := search(ps, func(v []float64) float64 {
		x := newMoE(g, t, build(v), 1)
		return loss(fit, func(s *Sample) float64 { return timeMoE(&x, s) })
	})
	return build(v)
}

func timeMoE(x *moe, s *Sample) float64 {
	sh := shapeOf(&s.Op, s.Load)
	return x.time(&sh).total
}

// shapeOf resolves an expert layer.
func shapeOf(o *model.ComputeOp, l Load) moeShape {
	tp := max(o.ExpertTP, 1)
	return moeShape{
		tokens: o.MoETokens, hidden: o.Hidden, inter: (o.Inter + tp - 1) / tp,
		local: float64((o.Experts + o.EP - 1) / o.EP), gated: o.Gated, load: l, ep: float64(o.EP), pairs: o.MoETokens * o.TopK,
	}
}
