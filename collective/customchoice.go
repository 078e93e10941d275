package collective

import (
	"math"
	"slices"

	"rankmap/internal/hardware"
	"rankmap/internal/units"
)

// Which kernel a framework's version takes for an all_reduce.

// multicastFrom is the first version of vLLM that is taken to reduce in the switch (torch symmetric memory) by itself: the tables of
// 0.14 show two-shot times, those of 0.19 do not.
const multicastFrom = "0.15.0"

// window is the range of sizes, bytes, in which vLLM's in-switch kernel runs; below it the custom kernel does, from its end NCCL.
type window struct{ from, to units.Bytes }

// multicastWindows by number of ranks, from vLLM's all_reduce_utils.py (sizes for compute capability 9.0 and 10.0; the custom
// kernel's own limit of 8 MiB stays). Two ranks have none; four only on Hopper, where the kernel supports them.
var multicastWindows = map[bool]map[int]window{
	false: {4: {8 << 20, 32 << 20}, 6: {512 << 10, 64 << 20}, 8: {256 << 10, 64 << 20}}, // Hopper
	true:  {6: {1 << 20, 128 << 20}, 8: {1 << 20, 128 << 20}},                           // Blackwell
}

// customRoute is a framework's all_reduce on n ranks of one domain.
type customRoute struct {
	k         *hardware.CustomAllReduce
	link      float64 // GB/s one way a GPU
	n         int
	multicast window // empty without
	norm      Norm   // that the kernels do as well; zero without
	grid      *grid  // what the forms leave; nil without
	version   float64
	floors    []floor // of the corrected time, by size
}

// blackwellGBps tells the generations apart by their links (450 and 900 GB/s).
const blackwellGBps = 700

// customRouteOf works a framework's choice out for a version ("" = the newest measured).
func customRouteOf(k *hardware.CustomAllReduce, link float64, n int, version string) customRoute {
	if version == "" {
		version = newest(k.Libraries)
	}
	c := customRoute{k: k, link: link, n: n}
	if k.Kernel == "vllm" && k.BM > 0 && k.EM > 0 && version != "" && compareVersions(version, multicastFrom) >= 0 {
		c.multicast = multicastWindows[link > blackwellGBps][n]
	}
	return c
}

// kernel names the kernel for a size.
func (c *customRoute) kernel(s units.Bytes) string {
	if w := c.multicast; w.to > 0 && s >= w.from {
		if s < w.to {
			return "multicast"
		}
		return "nccl"
	}
	return CustomKernel(c.k.Kernel, c.n, s)
}

// micros is the time launched from a graph, us, less what a fused norm saves, and the kernel; NaN where the framework hands over
// to NCCL.
func (c *customRoute) micros(s units.Bytes) (us float64, kernel string) {
	us, kernel = c.apart(s)
	return math.Max(us-c.norm.Saves(s), 0), kernel
}

// apart is micros of the all_reduce alone.
func (c *customRoute) apart(s units.Bytes) (us float64, kernel string) {
	kernel = c.kernel(s)
	switch kernel {
	case "nccl":
		return math.NaN(), kernel
	case "multicast":
		d, _ := CustomMulticast(c.k, c.link, c.n, s)
		return d.Micros() * c.correction(s), kernel
	}
	one, two := oneShot(c.k, c.link, c.n, float64(s)), twoShot(c.k, c.link, c.n, float64(s))
	if c.k.Kernel == "trtllm" || c.k.Kernel == symmetric { // its own tables pick the faster one
		if kernel = "two-shot"; one <= two {
			kernel = "one-shot"
		}
	}
	if kernel == "one-shot" {
		return one * c.correction(s), kernel
	}
	return two * c.correction(s), kernel
}

// changes are the sizes just below which a kernel ends, ascending: where the next one is faster, more bytes would take less.
var changes = [...]units.Bytes{oneShotEight, oneShotFour, 1 << 20, customLimit, 32 << 20, 64 << 20, 128 << 20}

// rising is micros with what the model promises: more bytes never take less. NCCL's time is passed in.
func (c *customRoute) rising(s units.Bytes, nccl float64) (us float64, kernel string) {
	us, kernel = c.micros(s)
	if math.IsNaN(us) {
		us = nccl
	}
	for _, f := range c.floors {
		if f.bytes > s {
			break
		}
		before := f.us
		if kernel != "nccl" {
			before = math.Max(before-c.norm.Saves(f.bytes), 0)
		}
		us = math.Max(us, before)
	}
	for _, b := range changes {
		if b > s || c.grid != nil {
			break
		}
		at := c.micros
		if kernel == "nccl" {
			at = c.apart
		}
		if before, k := at(b - 1); k != "nccl" {
			us = math.Max(us, before)
		}
	}
	return us, kernel
}

// customSizes are the group sizes that the frameworks' kernels take.
var customSizes = []int{2, 4, 6, 8}

// Frameworks lists the values of Options.Kernels; "symm" is PyTorch's symmetric-memory all-reduce.
func Frameworks() []string { return []string{"nccl", "vllm", "sglang", "trtllm", symmetric} }

// customOf finds a framework's all_reduce for n ranks in a profile; false where it leaves the work to NCCL or was not measured.
func customOf(p *hardware.CollectiveProfile, framework string, n int, version string) (customRoute, bool) {
	if !slices.Contains(customSizes, n) {
		return customRoute{}, false
	}
	for i := range p.Custom {
		if p.Custom[i].Kernel == framework {
			return customRouteOf(&p.Custom[i], p.LinkGBps, n, version), true
		}
	}
	return customRoute{}, false
}
