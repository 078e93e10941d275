package compute

import (
	"fmt"
	"io"

	"rankmap/internal/hardware"
	"rankmap/internal/measured"
	"rankmap/model"
)

// Triton runs an expert layer as one grouped product that gathers its rows and one that scatters them, where the library of the
// tables makes sorted copies. vLLM and SGLang run such a kernel on Hopper wherever experts are not spread by DeepEP.

// FitTriton fits expert layers measured of Triton's kernels on one GPU (docs/measurements/h200): routing, alignment,
// quantization, both products, gate and weighted sum in one CUDA graph, weights from memory. Types with too few rows are left
// out.
func FitTriton(g *hardware.GPU, rows []measured.OpRow, held func(*measured.OpRow) bool, log io.Writer) map[string]hardware.MoE {
	fitted := map[string]hardware.MoE{}
	set := newSampleSet(rows, held)
	for t := range numTypes {
		key := types[t].name
		in, out := set.of(model.MoE, key)
		if len(in) < ownRows {
			continue
		}
		rec := fitMoE(g, t, in)
		x := newMoE(g, t, rec, 1)
		price := func(s *Sample) float64 { return timeMoE(&x, s) }
		form := score(out, price)
		x.grid = gridFor(moeAxes, in, price)
		rec.Grid = x.grid.String()
		rec.Fit = rounded(score(out, price))
		if log != nil {
			fmt.Fprintf(log, "%-10s %-12s %-10s %5d held-out rows  form %5.1f / %5.1f  with grid %5.1f / %5.1f  band %.2f-%.2f\n",
				g.System, "moe triton", key, rec.Fit.Rows, form.Median, form.P90, rec.Fit.Median, rec.Fit.P90, rec.Fit.Lo, rec.Fit.Hi)
		}
		fitted[key] = rec
	}
	return fitted
}

// BorrowTriton gives every GPU of a generation that has measured Triton records, and no own ones, those of its sister there.
// Efficiencies are fractions of the datasheet and stay; times are cycles.
func BorrowTriton(g *hardware.GPU, k *hardware.Kernels, from []Fitting) {
	d := deriver{g: g, fam: familyOf(g), used: map[string]bool{}}
	for _, f := range from {
		if f.GPU != g && f.GPU.Generation == g.Generation && measuredHere(f.Kernels.Triton) {
			d.from = append(d.from, f)
		}
	}
	if len(d.from) == 0 || measuredHere(k.Triton) {
		return
	}
	k.Triton = map[string]hardware.MoE{}
	derive(&d, k.Triton, func(k *hardware.Kernels) map[string]hardware.MoE { return k.Triton })
}

// measuredHere says that there are records and none comes from another GPU.
func measuredHere(recs map[string]hardware.MoE) bool {
	for _, r := range recs {
		if r.Fit.From != "" {
			return false
		}
	}
	return len(recs) > 0
}

// tritonAs is the record that runs the weights of a type: a kernel with one scale a tensor does what one with a scale a block
// does, and less.
var tritonAs = map[dtype]dtype{bf16: bf16, fp8Block: fp8Block, fp8: fp8Block, fp8Static: fp8Block}

// triton is the Triton kernel of a type; false where none was measured in this generation.
func (m *Model) triton(recs map[string]hardware.MoE, t dtype, build func(t, from dtype, rec hardware.MoE, flags Flags) moe) (moe, bool) {
	as, runs := tritonAs[t]
	r, has := recs[types[as].name]
	if !runs || !has || m.gpu.Peak(types[as].peak) <= 0 {
		return moe{}, false
	}
	if as == t {
		return build(t, t, r, 0), true
	}
	x := build(t, as, r, NearType)
	x.band = lent(x.band)
	return x, true
}
