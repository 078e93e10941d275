package compute

import (
	"errors"
	"fmt"
	"math"
	"sort"
	"strings"

	"rankmap/internal/hardware"
	"rankmap/internal/units"
	"rankmap/model"
)

// Options choose what an estimate is for.
type Options struct {
	Framework string      // "trtllm" (default), or "plain": cuBLAS and flash attention in CUDA graphs, as PyTorch engines run
	Phase     model.Phase // prefill and training run at the sustained clock, decode at boost
	Sustained float64     // factor on the tensor-core rate under lasting load; 0 = the datasheet record's, 1 = boost clock
	// Table prices as the published tables measured: boost clock, decode attention with K and V in one buffer, the
	// kernels that the table's version chose. For scoring, never for plans.
	Table bool
}

// planEM is the memory fraction of decode attention in a deployment. Published tables show up to 2 because their K and
// V most likely share one buffer; PyTorch on H200 with real K and V reaches 0.94 of the datasheet (4 measured shapes).
const planEM = 0.9

// smallEC is the tensor-core fraction of small operations that compute, such as chunked scans: that of prefill
// attention in plain kernels, no better known.
const smallEC = 0.6

// planOverlap is how sharply a block's time and memory traffic overlap in a deployment, at least. In the tables K and V in
// one buffer halve the traffic and the fit adds the two up; with twice the traffic the blocks' time hides behind it, as it
// does in the plain kernels, which lose 6 % to it.
const planOverlap = 3

// planWide widens the interval of decode attention for what planEM and planOverlap assume.
const planWide = 0.85

// fromUser marks, in Fit.From, decode records that a user's own rows refitted: they are of real memory already.
const fromUser = "calibrated"

// planned turns a decode record of a table into that of a deployment.
func planned(r hardware.Decode) hardware.Decode {
	if r.Fit.From == fromUser {
		return r
	}
	for _, p := range []*hardware.DecodePath{&r.Grouped, &r.PerHead} {
		p.EM, p.P = math.Min(p.EM, planEM), math.Max(p.P, planOverlap)
		p.Grid = "" // fitted on the table's memory layout
	}
	if r.Fit.Lo > 0 {
		r.Fit.Lo, r.Fit.Hi = r.Fit.Lo*planWide, r.Fit.Hi/planWide
	}
	return r
}

// DefaultFramework is what an empty Options.Framework means.
const DefaultFramework = "trtllm"

// Model prices computations on one GPU. It is immutable and safe for concurrent use.
type Model struct {
	gpu        *hardware.GPU
	framework  string
	provenance Provenance
	sustained  float64
	common     Flags

	gemms      [numTypes]gemm
	prefills   [numAttnKeys]prefill
	decodes    [numAttnKeys]decode
	mlaPre     [numAttnKeys]mlaPrefill
	mlaDec     [numAttnKeys]mlaDecode
	moes       [numTypes]moe
	small, ibw float64 // seconds a small kernel, seconds a byte
	iflop      float64 // seconds a FLOP of small operations that compute: scans, indexers
	hopper     bool
}

// New resolves the parameters of a GPU for one framework and phase. It fails when the records lack the framework or hold
// values outside their bounds.
func New(gpu *hardware.GPU, kernels *hardware.Kernels, o Options) (*Model, error) {
	if gpu == nil || kernels == nil {
		return nil, errors.New("compute: no gpu or no kernel parameters")
	}
	name := o.Framework
	if name == "" {
		name = DefaultFramework
	}
	fw := kernels.Frameworks[name]
	if fw == nil {
		return nil, fmt.Errorf("no framework %q for %s (known: %s)", name, gpu.System, strings.Join(frameworks(kernels), ", "))
	}
	if gpu.HBMGBps <= 0 || gpu.SMs <= 0 || gpu.Peak("bf16") <= 0 {
		return nil, fmt.Errorf("gpu %s: compute needs hbmGBps, sms and tflops of bf16 or fp16 above 0", gpu.System)
	}
	fw = withKernels(fw, kernels.Frameworks[DefaultFramework])
	m := &Model{gpu: gpu, framework: name, provenance: Fitted, sustained: 1, hopper: gpu.Generation == "hopper"}
	switch {
	case kernels.Estimate != "":
		m.provenance = Family
	case kernels.Calibrated != "":
		m.provenance = Calibrated
	}
	if !o.Table && o.Phase != model.Decode {
		m.sustained = o.Sustained
		if m.sustained == 0 {
			m.sustained = gpu.SustainedClk
		}
		if m.sustained == 0 {
			m.sustained, m.common = 1, m.common|NoFactor
		}
		if m.sustained < 0.2 || m.sustained > 1 {
			return nil, fmt.Errorf("sustained-clock factor %g of %s: want 0.2 to 1", m.sustained, gpu.System)
		}
		if m.sustained < 1 {
			m.common |= SustainedUsed
		}
	}
	var errs []error
	m.ibw = 1 / (orOne(fw.Small.EM) * gpu.HBMGBps * 1e9)
	m.small = fw.Small.T0 * 1e-6
	m.iflop = 1 / (smallEC * m.sustained * gpu.Peak("bf16"))
	errs = append(errs, m.matrices(kernels, fw)...)
	errs = append(errs, m.attention(fw, o.Table)...)
	errs = append(errs, m.experts(fw)...)
	return m, errors.Join(errs...)
}

// withKernels lends a framework without records for expert layers and latent attention those of the default one.
func withKernels(fw, base *hardware.Framework) *hardware.Framework {
	if base == nil || fw == base {
		return fw
	}
	out := *fw
	if len(out.MoE) == 0 {
		out.MoE = base.MoE
	}
	if len(out.MLAPrefill) == 0 {
		out.MLAPrefill = base.MLAPrefill
	}
	if len(out.MLADecode) == 0 {
		out.MLADecode = base.MLADecode
	}
	return &out
}

func orOne(v float64) float64 {
	if v <= 0 {
		return 1
	}
	return v
}

func frameworks(k *hardware.Kernels) []string {
	out := make([]string, 0, len(k.Frameworks))
	for n := range k.Frameworks {
		out = append(out, n)
	}
	sort.Strings(out)
	return out
}

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

func bandOf(f hardware.Fit) band {
	if f.Lo <= 0 || f.Hi < f.Lo {
		return defaultBand
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

func (m *Model) experts(fw *hardware.Framework) []error {
	var errs []error
	for t := range numTypes {
		rec, flags, from := hardware.MoE{}, WeightOnly, bf16
		ok := false
		for i, c := range near[t] {
			if r, has := fw.MoE[types[c].name]; has && m.gpu.Peak(types[c].peak) > 0 {
				rec, from, flags, ok = r, c, 0, true
				if i > 0 {
					flags = NearType
				}
				break
			}
		}
		if !ok {
			if rec, ok = fw.MoE["bf16"]; !ok {
				continue
			}
		}
		x := newMoE(m.gpu, from, rec, m.sustained)
		x.w = types[t].weight
		if t == nvfp4 && flags == 0 {
			flags = MixedKernels
		}
		x.flags, x.band = flags, bandOf(rec.Fit)
		if rec.Grid != "" {
			var err error
			if x.grid, err = ParseGrid(rec.Grid, 4); err != nil {
				errs = append(errs, fmt.Errorf("moe %s of %s: %w", types[t].name, m.gpu.System, err))
			}
		}
		m.moes[t] = x
	}
	return errs
}

// GPU returns the datasheet.
func (m *Model) GPU() *hardware.GPU { return m.gpu }

// Sustained returns the sustained-clock factor in use, 1 for decode.
func (m *Model) Sustained() float64 { return m.sustained }

// Provenance returns what all estimates of the model rest on.
func (m *Model) Provenance() Provenance { return m.provenance }

// finish turns parts into an estimate.
func (m *Model) finish(p parts, b band, f Flags) Estimate {
	e := Estimate{
		Time: units.Duration(p.total), P10: units.Duration(p.total * b.lo), P90: units.Duration(p.total * b.hi),
		Provenance: m.provenance, Flags: f | m.common,
	}
	switch {
	case p.launch >= p.core && p.launch >= p.mem:
		e.Bound = LaunchTime
	case p.mem > p.core:
		e.Bound = HBM
	}
	return e
}
