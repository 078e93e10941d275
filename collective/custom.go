package collective

import (
	"fmt"
	"math"

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
)

// CustomKernel names the kernel that a framework takes: "one-shot", "two-shot", or "nccl" beyond its limit.
func CustomKernel(framework string, n int, s units.Bytes) string {
	switch {
	case n < 2 || n > maxCustomRank || s > customLimit || (s == customLimit && framework == "vllm"):
		return "nccl"
	case n == 2, n <= 4 && s < oneShotFour, s < oneShotEight:
		return "one-shot"
	}
	return "two-shot"
}

// customMicros is the time of a framework's all_reduce launched from a graph, us, and the kernel; NaN where it hands over to
// NCCL. link is GB/s one way a GPU.
func customMicros(k *hardware.CustomAllReduce, link float64, n int, s units.Bytes) (us float64, kernel string) {
	kernel = CustomKernel(k.Kernel, n, s)
	one, two := oneShot(k, link, n, float64(s)), twoShot(k, link, n, float64(s))
	if k.Kernel == "trtllm" && kernel != "nccl" { // its own tables pick the faster one
		if one <= two {
			return one, "one-shot"
		}
		return two, "two-shot"
	}
	switch kernel {
	case "one-shot":
		return one, kernel
	case "two-shot":
		return two, kernel
	}
	return math.NaN(), kernel
}

func oneShot(k *hardware.CustomAllReduce, link float64, n int, s float64) float64 {
	return k.B1 + k.C1*float64(n-1) + s*float64(n-1)/(1000*link*k.E1)
}

func twoShot(k *hardware.CustomAllReduce, link float64, n int, s float64) float64 {
	return k.B2 + k.C2*float64(n-1) + s*2*float64(n-1)/float64(n)/(1000*link*k.E2)
}

// CustomMulticast is the time of the in-switch kernel (multimem) of newer framework versions on n ranks; false where the
// record has none. No version's choice of it was measured closely enough to be made here: callers that force it ask.
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
// system; beyond the framework's limit it is NCCL's time. Errors: no such measurement.
func CustomAllReduce(profiles *hardware.Profiles, system, framework string, n int, s units.Bytes, launch Launch) (Estimate, error) {
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
		us, kernel := customMicros(k, p.LinkGBps, n, s)
		start := "graph"
		if launch == Eager {
			start = "eager"
		}
		b := kernelBand(k.Bands, start, s)
		low, high := widen*b.low, widen*b.high
		e := Estimate{Algorithm: kernel, Protocol: framework, Bottleneck: "NVLink " + units.GBps(p.LinkGBps).String(), Provenance: prov}
		if math.IsNaN(us) {
			pr := NewPredictor(Resolve(profiles, p))
			us = pr.hybrid(0, n, float64(s), false, pr.minor)
			b := newBandTable(p.Bands, prov)[0][classOf(s)]
			low, high = b.low, b.high
		}
		if launch == Eager {
			us = customEager(k, us, s)
		}
		e.Time = units.Micros(us)
		e.P10, e.P90 = logBand{low, high}.interval(e.Time)
		return e, nil
	}
	return Estimate{}, fmt.Errorf("no measurements of %s's all_reduce on %s", framework, system)
}
