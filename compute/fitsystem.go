package compute

import (
	"fmt"
	"io"
	"math"

	"rankmap/internal/hardware"
	"rankmap/internal/measured"
	"rankmap/model"
)

// Source names where the measured tables come from.
const Source = "fitted to operation tables of TensorRT-LLM converted from ai-dynamo/aiconfigurator at 095f58a (Apache-2.0)"

// FitSystem fits every record that rows of one GPU support. held says which rows take no part (HeldOut); records carry
// their error on those. log, when not nil, receives a line a record.
func FitSystem(g *hardware.GPU, rows []measured.OpRow, held func(*measured.OpRow) bool, log io.Writer) *hardware.Kernels {
	k := &hardware.Kernels{System: g.System, Source: Source, GEMM: map[string]hardware.GEMM{}}
	fw := &hardware.Framework{
		About: "TensorRT-LLM kernels and launches", GEMM: map[string]hardware.Launch{}, Prefill: map[string]hardware.Prefill{},
		Decode: map[string]hardware.Decode{}, MLAPrefill: map[string]hardware.MLAPrefill{}, MLADecode: map[string]hardware.MLADecode{},
		MoE: map[string]hardware.MoE{}, MoEFast: map[string]hardware.MoE{}, Small: smallKernels,
	}
	k.Frameworks = map[string]*hardware.Framework{DefaultFramework: fw}
	say := func(kind, key string, form, f hardware.Fit) hardware.Fit {
		if log != nil {
			fmt.Fprintf(log, "%-10s %-12s %-10s %5d held-out rows  form %5.1f / %5.1f  with grid %5.1f / %5.1f  band %.2f-%.2f\n",
				g.System, kind, key, f.Rows, form.Median, form.P90, f.Median, f.P90, f.Lo, f.Hi)
		}
		return rounded(f)
	}
	set := newSampleSet(rows, held)
	for t := range numTypes {
		key := types[t].name
		if in, out := set.of(model.GEMM, key); len(in) >= minRows {
			rec, l := fitGEMM(g, t, in)
			x := newGEMM(g, t, rec, l, 1)
			price := func(s *Sample) float64 { return x.time(s.Op.M, s.Op.N, s.Op.K, 2).total }
			form := score(out, price)
			x.grid = gridFor(gemmAxes, in, price)
			l.Grid = x.grid.String()
			rec.Fit = say("gemm", key, form, score(out, price))
			k.GEMM[key], fw.GEMM[key] = rec, l
		}
		if in, out := set.of(model.MoE, key); len(in) >= minRows {
			if fused(g, t) {
				if own, fast, ok := fitTwoKernels(g, t, in, out, func(f hardware.Fit) { say("moe fast", key, f, f) }); ok {
					price := mixedPrice(g, t, own, &fast, in)
					own.Fit = say("moe", key, score(out, price), score(out, price))
					fw.MoE[key], fw.MoEFast[key] = own, fast
					continue
				}
			}
			rec, ok := moeFromNear(g, t, fw.MoE, in)
			if !ok {
				rec = fitMoE(g, t, in)
				if odd := oddFactor(g, t, rec, in); odd > 1 { // away with those rows, then their factor on the better form
					rec = fitMoE(g, t, without(in))
					rec.Odd = oddFactor(g, t, rec, in)
				}
			}
			x := newMoE(g, t, rec, 1)
			x.odd = rec.Odd
			price := func(s *Sample) float64 { return timeMoE(&x, s) }
			form := score(out, price)
			x.grid = gridFor(moeAxes, in, price)
			rec.Grid = x.grid.String()
			rec.Fit = say("moe", key, form, score(out, price))
			fw.MoE[key] = rec
		}
	}
	for i, key := range attnKeys {
		if in, out := set.of(model.AttnPrefill, key); len(in) >= minRows {
			rec := fitPrefill(g, i, in)
			x := newPrefill(g, i, rec, 1)
			price := func(s *Sample) float64 { return timePrefill(&x, s) }
			form := score(out, price)
			x.grid = gridFor(prefillAxes, in, price)
			rec.Grid = x.grid.String()
			rec.Fit = say("prefill", key, form, score(out, price))
			fw.Prefill[key] = rec
		}
		if in, out := set.of(model.AttnDecode, key); len(in) >= minRows {
			rec := fitDecode(g, i, in)
			x := newDecode(g, i, rec)
			price := func(s *Sample) float64 { return timeDecode(&x, s) }
			form := score(out, price)
			grouped, perHead := x.divide(in)
			if len(grouped) >= minRows {
				x.grouped.grid = gridFor(decodeAxes, grouped, price)
				rec.Grouped.Grid = x.grouped.grid.String()
			}
			if len(perHead) >= minRows {
				x.perHead.grid = gridFor(decodeAxes, perHead, price)
				rec.PerHead.Grid = x.perHead.grid.String()
			}
			rec.Fit = say("decode", key, form, score(out, price))
			fw.Decode[key] = rec
		}
		if in, out := set.of(model.MLAPrefill, key); len(in) >= minRows {
			rec := fitMLAPrefill(g, in)
			x := newMLAPrefill(g, rec, 1)
			price := func(s *Sample) float64 { return timeMLAPrefill(&x, s) }
			form := score(out, price)
			x.grid = gridFor(mlaPrefillAxes, in, price)
			rec.Grid = x.grid.String()
			rec.Fit = say("mla prefill", key, form, score(out, price))
			fw.MLAPrefill[key] = rec
		}
		if in, out := set.of(model.MLADecode, key); len(in) >= minRows {
			rec := fitMLADecode(g, i, in)
			x := newMLADecode(g, i, rec)
			price := func(s *Sample) float64 { return timeMLADecode(&x, s) }
			form := score(out, price)
			x.grid = gridFor(mlaDecodeAxes, in, price)
			rec.Grid = x.grid.String()
			rec.Fit = say("mla decode", key, form, score(out, price))
			fw.MLADecode[key] = rec
		}
	}
	SetPlain(g, k)
	return k
}

// minRows is how many fitted rows a record needs; below ownRows an expert layer's is that of a type with the same
// activations, adjusted by three factors, since nine parameters would fit noise.
const (
	minRows = 10
	ownRows = 60
)

// moeFromNear derives a record with few rows from the type that shares its activation type and peak.
func moeFromNear(g *hardware.GPU, t dtype, have map[string]hardware.MoE, in []Sample) (hardware.MoE, bool) {
	from := map[dtype]dtype{mxfp4: bf16, mxfp4a8: fp8, int4: bf16, fp8Static: fp8}
	f, ok := from[t]
	base, fitted := have[types[f].name]
	if len(in) >= ownRows || !ok || !fitted {
		return hardware.MoE{}, false
	}
	base.Grid = ""
	v := fitFactors(in, func(v [3]float64) func(*Sample) float64 {
		x := newMoE(g, t, scaleMoE(base, v), 1)
		return func(s *Sample) float64 { return timeMoE(&x, s) }
	})
	return scaleMoE(base, v), true
}

// scaleMoE applies factors on launch, tensor cores and memory.
func scaleMoE(r hardware.MoE, v [3]float64) hardware.MoE {
	r.T0, r.TE = r.T0*v[0], r.TE*v[0]
	r.EC *= v[1]
	r.EM, r.EA = r.EM*v[2], r.EA*v[2]
	return r
}

// smallKernels are the copy rows of compute.csv on H200: 2 us a kernel in a CUDA graph and 0.82 of the datasheet.
var smallKernels = hardware.Small{T0: 2, EM: 0.82}

// sampleSet groups samples by kind and record key.
type sampleSet struct {
	in, out map[string][]Sample
}

func newSampleSet(rows []measured.OpRow, held func(*measured.OpRow) bool) *sampleSet {
	s := &sampleSet{map[string][]Sample{}, map[string][]Sample{}}
	for i := range rows {
		x, ok := SampleOf(&rows[i])
		if !ok {
			continue
		}
		id := fmt.Sprint(x.Op.Kind, x.Key)
		if held(&rows[i]) {
			s.out[id] = append(s.out[id], x)
		} else {
			s.in[id] = append(s.in[id], x)
		}
	}
	return s
}

func (s *sampleSet) of(kind model.OpKind, key string) (in, out []Sample) {
	id := fmt.Sprint(kind, key)
	return s.in[id], s.out[id]
}

// rounded keeps three digits of an error record.
func rounded(f hardware.Fit) hardware.Fit {
	r := func(v, unit float64) float64 { return math.Round(v/unit) * unit }
	f.Median, f.P90, f.Lo, f.Hi = r(f.Median, 0.1), r(f.P90, 0.1), r(f.Lo, 0.001), r(f.Hi, 0.001)
	return f
}
