package collective

import (
	"fmt"
	"math"
	"strings"

	"rankmap/internal/hardware"
	"rankmap/internal/units"
)

// Custom all-reduces: kernels of vLLM, SGLang and TensorRT-LLM that read peers' memory directly. docs/collective-model.md,
// section 5.

// Limits of the frameworks' own choice between their kernels (vllm custom_all_reduce.py; docs/collective-model.md, section 5).
const (
	oneShotFour   = 512 << 10 // bytes: one-shot below this on up to 4 ranks
	oneShotEight  = 256 << 10 // bytes: the same on up to 8
	customLimit   = 8 << 20   // bytes: NCCL from here
	maxCustomRank = 8
	symmetric     = "symm" // PyTorch's symmetric-memory kernels: called for by name, at any size
	symmetricOn   = 2      // ranks on which they were measured
)

// CustomKernel names the kernel that a framework takes where the switch does not reduce: "one-shot", "two-shot", or "nccl" beyond
// its limit.
func CustomKernel(framework string, n int, s units.Bytes) string {
	switch {
	case framework == symmetric && n >= 2 && n <= maxCustomRank:
		return "two-shot" // or one-shot: customRoute takes the faster
	case n < 2 || n > maxCustomRank || s > customLimit || (s == customLimit && framework == "vllm"):
		return "nccl"
	case n == 2, n <= 4 && s < oneShotFour, s < oneShotEight:
		return "one-shot"
	}
	return "two-shot"
}

func oneShot(k *hardware.CustomAllReduce, link float64, n int, s float64) float64 {
	return k.B1 + k.C1*float64(n-1) + s*float64(n-1)/(1000*link*k.E1)
}

func twoShot(k *hardware.CustomAllReduce, link float64, n int, s float64) float64 {
	return k.B2 + k.C2*float64(n-1) + s*2*float64(n-1)/float64(n)/(1000*link*k.E2)
}

// CustomMulticast is the time of the in-switch kernel (multimem) of newer framework versions on n ranks; false where the
// record has none.
func CustomMulticast(k *hardware.CustomAllReduce, linkGBps float64, n int, s units.Bytes) (units.Duration, bool) {
	if k.BM <= 0 || k.EM <= 0 || n < 2 {
		return 0, false
	}
	return units.Micros(k.BM + float64(s)*(1+1/float64(n))/(1000*linkGBps*k.EM)), true
}

// customEager is the time of an eager launch: the host's floor and a copy into the registered buffer.
func customEager(k *hardware.CustomAllReduce, us float64, s units.Bytes) float64 {
	if k.CopyGBps > 0 {
		us = max(us, k.FloorUs+float64(s)/(1000*k.CopyGBps))
	}
	return us
}

// CustomAllReduce prices a framework's own all_reduce ("vllm", "sglang", "trtllm") on n ranks of one NVLink domain of a
// system; beyond the framework's limit it is NCCL's time. version is the framework's; empty = the newest measured; one that was
// not measured is flagged and gets twice the interval. Errors: no such measurement.
func CustomAllReduce(profiles *hardware.Profiles, system, framework, version string, n int, s units.Bytes, launch Launch) (Estimate, error) {
	p := profiles.Collective(system)
	prov, widen := Measured, 1.0
	if p != nil && p.Like != "" {
		p, prov, widen = profiles.Collective(p.Like), Sibling, 2 // a sibling's in-sample residuals double (docs/collective-model.md, section 4)
	}
	if p == nil {
		return Estimate{}, fmt.Errorf("no collective profile of %s", system)
	}
	for i := range p.Custom {
		k := &p.Custom[i]
		if k.Kernel != framework {
			continue
		}
		if n < 2 {
			return alone, nil
		}
		c := customRouteOf(k, p.LinkGBps, n, version)
		siblings := siblingKernels(profiles, p.System, framework)
		c.correct(siblings, version)
		us, kernel := c.rising(s, math.NaN())
		start := "graph"
		if launch == Eager {
			start = "eager"
		}
		b := kernelBand(k.Bands, start, s)
		low, high := widen*b.low, widen*b.high
		outside := versionMeasured(k.Libraries, version) == versionOutside
		if outside && !knownToSibling(k.Libraries, siblings, version) {
			low, high = 2*low, 2*high
		}
		e := Estimate{Algorithm: kernel, Protocol: framework, Bottleneck: "NVLink " + units.GBps(p.LinkGBps).String(), Provenance: prov}
		if math.IsNaN(us) {
			pr := NewPredictor(Resolve(profiles, p))
			us = pr.hybrid(0, n, float64(s), false, pr.minor)
			name := prov.String()
			if prov == Measured {
				name = "version" // which NCCL the framework brings is not stated
			}
			b := namedBandTable(p.Bands, name, prov)[0][classOf(s)]
			low, high = b.low, b.high
		}
		if launch == Eager {
			us = customEager(k, us, s)
		}
		if outside {
			e.Flags = append(e.Flags, fmt.Sprintf("%s %s outside the profile (measured: %s)", framework, version, strings.Join(k.Libraries, ", ")))
		}
		e.Time = units.Micros(us)
		e.P10, e.P90 = logBand{low, high}.interval(e.Time)
		return e, nil
	}
	return Estimate{}, fmt.Errorf("no measurements of %s's all_reduce on %s", framework, system)
}
