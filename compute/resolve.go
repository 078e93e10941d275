package compute

import (
	"fmt"

	"rankmap/internal/hardware"
)

// matrices resolves one record a compute type.
func (m *Model) matrices(k *hardware.Kernels, fw *hardware.Framework) []error {
	var errs []error
	for t := range numTypes {
		rec, launch, flags, from, ok := gemmRecord(m.gpu, k, fw, t)
		if !ok {
			continue
		}
		g := newGEMM(m.gpu, from, rec, launch, m.sustained)
		if from != t { // weights as stored, math and activations as the record
			g.bw = types[t].weight
		}
		if t == fp32 { // tf32 runs at half the bf16 rate (datasheets of every generation since Ampere)
			for i := range g.tile {
				g.tile[i] *= 2
			}
			g.ba = 4
		}
		g.flags, g.band = flags, bandOf(rec.Fit)
		if launch.Grid != "" && from == t {
			var err error
			if g.grid, err = ParseGrid(launch.Grid, 3); err != nil {
				errs = append(errs, fmt.Errorf("gemm %s of %s: %w", types[t].name, m.gpu.System, err))
			}
		}
		m.gemms[t] = g
	}
	return errs
}

// near lists, for a compute type, the types whose parameters stand in for it, best first.
var near = [numTypes][]dtype{
	bf16:      {bf16},
	fp8:       {fp8, fp8Static, fp8Block},
	fp8Static: {fp8Static, fp8, fp8Block},
	fp8Block:  {fp8Block, fp8, fp8Static},
	nvfp4:     {nvfp4},
	i8:        {i8, fp8Static, fp8},
	mxfp4:     {mxfp4, mxfp4a8, nvfp4},
	mxfp4a8:   {mxfp4a8, fp8},
	int4:      {int4, mxfp4},
	fp32:      {bf16},
}

// gemmRecord finds the parameters for a type: its own, a near type's, or bf16 with unpacked weights.
func gemmRecord(g *hardware.GPU, k *hardware.Kernels, fw *hardware.Framework, t dtype) (hardware.GEMM, hardware.Launch, Flags, dtype, bool) {
	for i, c := range near[t] {
		rec, a := k.GEMM[types[c].name]
		launch, b := fw.GEMM[types[c].name]
		if a && b && g.Peak(types[c].peak) > 0 {
			var f Flags
			if i > 0 {
				f = NearType
			}
			return rec, launch, f, c, true
		}
	}
	rec, a := k.GEMM["bf16"]
	launch, b := fw.GEMM["bf16"]
	return rec, launch, WeightOnly, bf16, a && b
}

// bandOf is a record's interval; a handful of held-out rows cannot narrow the default.
func bandOf(f hardware.Fit) band {
	if f.Lo <= 0 || f.Hi < f.Lo {
		return defaultBand
	}
	if f.Rows > 0 && f.Rows < 10 {
		return band{min(f.Lo, defaultBand.lo), max(f.Hi, defaultBand.hi)}
	}
	return band{f.Lo, f.Hi}
}

// nearKey lists stand-ins for a pair of compute and cache type.
var nearKey = [numAttnKeys][]int{
	keyBF16:    {keyBF16, keyBF16FP8},
	keyBF16FP8: {keyBF16FP8, keyBF16},
	keyFP8:     {keyFP8, keyBF16FP8, keyBF16},
}

func pick[T any](m map[string]T, key int, g *hardware.GPU) (rec T, from int, flags Flags, ok bool) {
	for i, k := range nearKey[key] {
		if k == keyFP8 && g.Peak("fp8") == 0 {
			continue
		}
		if r, has := m[attnKeys[k]]; has {
			if i > 0 {
				flags = NearType
			}
			return r, k, flags, true
		}
	}
	return rec, 0, 0, false
}

func (m *Model) attention(fw *hardware.Framework, table bool) []error {
	var errs []error
	grid := func(text string, dims int, what string) *Grid {
		if text == "" {
			return nil
		}
		g, err := ParseGrid(text, dims)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s of %s: %w", what, m.gpu.System, err))
		}
		return g
	}
	for key := range numAttnKeys {
		if r, from, flags, ok := pick(fw.Prefill, key, m.gpu); ok {
			p := newPrefill(m.gpu, from, r, m.sustained)
			p.flags, p.band, p.grid = flags, bandOf(r.Fit), grid(r.Grid, 4, "prefill attention "+attnKeys[from])
			m.prefills[key] = p
		}
		records := fw.Decode
		if table && fw.DecodeTable != nil {
			records = fw.DecodeTable
		}
		if r, from, flags, ok := pick(records, key, m.gpu); ok {
			if !table && m.framework == DefaultFramework {
				r = planned(r)
				if fw.DecodeTable != nil {
					flags |= BorrowedPath
				}
			}
			d := newDecode(m.gpu, key, r)
			d.flags, d.band = flags, bandOf(r.Fit)
			d.grouped.grid = grid(r.Grouped.Grid, 3, "decode attention "+attnKeys[from])
			d.perHead.grid = grid(r.PerHead.Grid, 3, "decode attention "+attnKeys[from])
			m.decodes[key] = d
		}
		if r, from, flags, ok := pick(fw.MLAPrefill, key, m.gpu); ok {
			p := newMLAPrefill(m.gpu, r, m.sustained)
			p.flags, p.band, p.grid = flags, bandOf(r.Fit), grid(r.Grid, 3, "latent prefill "+attnKeys[from])
			m.mlaPre[key] = p
		}
		if r, from, flags, ok := pick(fw.MLADecode, key, m.gpu); ok {
			d := newMLADecode(m.gpu, key, r)
			d.flags, d.band, d.grid = flags, bandOf(r.Fit), grid(r.Grid, 3, "latent decode "+attnKeys[from])
			m.mlaDec[key] = d
		}
	}
	return errs
}
