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
		ps = append(ps, param{"q", 0.3, 6, 2, false}, param{"tr", 1e-5, 0.03, 3e-4, false}, param{"ta", 0.01, 15, 0.5, false})
	}
	build := func(v []float64, split bool) (hardware.GEMM, hardware.Launch) {
		k := hardware.GEMM{EC: v[1], EM: v[2], LK: v[3], TW: v[4], P: v[5], T1: v[6]}
		l := hardware.Launch{T0: v[0]}
		if !split {
			k.T1 = 0
		}
		if len(v) > 7 {
			l.Q, l.TR, l.TA = v[7], v[8], v[9]
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
	if o.Dispatched { // the tables time ranks that hold and sort every token of the group
		group := max(o.EP, 1) * tp
		return moeShape{
			tokens: (o.MoETokens + group - 1) / group, hidden: o.Hidden, inter: (o.Inter + tp - 1) / tp,
			local: float64((o.Experts + o.EP - 1) / o.EP), gated: o.Gated, load: l, ep: float64(o.EP), pairs: int(l.Slots),
		}
	}
	return moeShape{
		tokens: o.MoETokens, hidden: o.Hidden, inter: (o.Inter + tp - 1) / tp,
		local: float64((o.Experts + o.EP - 1) / o.EP), gated: o.Gated, load: l, ep: float64(o.EP), pairs: o.MoETokens * o.TopK,
	}
}
