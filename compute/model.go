package compute

import (
	"errors"
	"fmt"
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

// smallEC is the tensor-core fraction of small operations that compute, such as chunked scans: that of prefill
// attention in plain kernels, no better known.
const smallEC = 0.6

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
	rivals     [numTypes][]moe // other kernels that run the same experts: a plan takes the fastest
	small, ibw float64         // seconds a small kernel, seconds a byte
	iflop      float64         // seconds a FLOP of small operations that compute: scans, indexers
	inarrow    float64         // seconds a FLOP of batched products with misaligned rows
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
	own := fw
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
	m.inarrow = 1 / (narrowRate(gpu) * float64(gpu.SMs) * gpu.BoostGHz * 1e9 * m.sustained)
	errs = append(errs, m.matrices(kernels, fw)...)
	errs = append(errs, m.attention(fw, o.Table)...)
	errs = append(errs, m.experts(fw, kernels.Triton, o)...)
	m.markLent(own)
	return m, errors.Join(errs...)
}

// withKernels lends a framework without records for expert layers and latent attention those of the default one.
func withKernels(fw, base *hardware.Framework) *hardware.Framework {
	if base == nil || fw == base {
		return fw
	}
	out := *fw
	if len(out.MoE) == 0 {
		out.MoE, out.MoEFast = base.MoE, base.MoEFast
	}
	if len(out.MLAPrefill) == 0 {
		out.MLAPrefill = base.MLAPrefill
	}
	if len(out.MLADecode) == 0 {
		out.MLADecode = base.MLADecode
	}
	return &out
}

// markLent flags what withKernels lent to own.
func (m *Model) markLent(own *hardware.Framework) {
	for i := range m.moes {
		if len(own.MoE) == 0 {
			m.moes[i].flags |= LentKernels
			for j := range m.rivals[i] {
				m.rivals[i][j].flags |= LentKernels
			}
		}
	}
	for i := range numAttnKeys {
		if len(own.MLAPrefill) == 0 {
			m.mlaPre[i].flags |= LentKernels
		}
		if len(own.MLADecode) == 0 {
			m.mlaDec[i].flags |= LentKernels
		}
	}
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
