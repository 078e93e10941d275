package collective

import (
	"math"
	"slices"

	"rankmap/internal/hardware"
	"rankmap/internal/units"
)

// CustomSample is one measured all_reduce of a serving framework.
type CustomSample struct {
	Version string
	Ranks   int
	Bytes   units.Bytes
	Eager   bool
	Time    units.Duration
}

// customParams lists the unknowns of the custom all-reduces. Centres: the fits of docs/collective-model.md, section 5.
var customParams = []param[hardware.CustomAllReduce]{
	{"b1", func(k *hardware.CustomAllReduce) *float64 { return &k.B1 }, 4.5, .4, .5, 60, false},
	{"c1", func(k *hardware.CustomAllReduce) *float64 { return &k.C1 }, .08, .5, .005, 5, false},
	{"e1", func(k *hardware.CustomAllReduce) *float64 { return &k.E1 }, .6, .4, .02, 1.3, false},
	{"b2", func(k *hardware.CustomAllReduce) *float64 { return &k.B2 }, 7, .5, .5, 60, false},
	{"c2", func(k *hardware.CustomAllReduce) *float64 { return &k.C2 }, 1, .6, .02, 10, false},
	{"e2", func(k *hardware.CustomAllReduce) *float64 { return &k.E2 }, .6, .4, .02, 1.3, false},
	// In the switch: two barriers and every byte in and out of the port, one after the other (vLLM only).
	{"bm", func(k *hardware.CustomAllReduce) *float64 { return &k.BM }, 9, .4, .5, 60, false},
	{"em", func(k *hardware.CustomAllReduce) *float64 { return &k.EM }, .5, .3, .02, 1.3, false},
}

// FitCustom fits a framework's all_reduce on one link rate; nil with fewer than 10 samples within its limit.
func FitCustom(framework string, linkGBps float64, samples []CustomSample) *hardware.CustomAllReduce {
	out := hardware.CustomAllReduce{Kernel: framework}
	start := priorCentre(customParams)
	start.Kernel = framework
	micros := func(k *hardware.CustomAllReduce, s *CustomSample) (float64, string) {
		c := customRouteOf(k, linkGBps, s.Ranks, s.Version)
		return c.micros(s.Bytes)
	}
	graph := slices.DeleteFunc(slices.Clone(samples), func(s CustomSample) bool {
		_, kernel := micros(&start, &s)
		return s.Eager || kernel == "nccl"
	})
	if len(graph) < 10 {
		return nil
	}
	predict := func(k *hardware.CustomAllReduce, s *CustomSample) float64 {
		us, _ := micros(k, s)
		return us
	}
	f := &fitProblem[hardware.CustomAllReduce, CustomSample]{space: customParams, points: graph, strength: 1, centre: start, predict: predict,
		micros: func(s *CustomSample) float64 { return s.Time.Micros() }}
	out = roundParams(customParams, f.fit(start))
	if framework != "vllm" {
		out.BM, out.EM = 0, 0
	}
	for _, s := range samples {
		if s.Version != "" && !slices.Contains(out.Libraries, s.Version) {
			out.Libraries = append(out.Libraries, s.Version)
		}
	}
	slices.SortFunc(out.Libraries, compareVersions)
	out.Points = len(graph)
	out.Curves = customCurves(graph, func(s *CustomSample) float64 { return predict(&out, s) })
	corrected := func(s *CustomSample) float64 {
		c := customRouteOf(&out, linkGBps, s.Ranks, s.Version)
		c.correct(nil, s.Version)
		us, _ := c.rising(s.Bytes, math.NaN())
		return us
	}
	fitEager(&out, samples)
	graphRes, eagerRes := newResiduals(), newResiduals()
	for i := range samples {
		q := &samples[i]
		us, kernel := micros(&out, q)
		switch {
		case kernel == "nccl":
		case q.Eager:
			eagerRes.add(q.Bytes, q.Time.Micros()/customEager(&out, corrected(q), q.Bytes))
		default:
			graphRes.add(q.Bytes, q.Time.Micros()/us) // of the form: how far versions move, of which the correction knows few
		}
	}
	// Half of the interval's evidence are versions left out.
	leaveGroups(graph, func(s *CustomSample) string { return s.Version }, func(train, test []CustomSample) {
		f.points = train
		left := f.fit(out)
		for i := range test {
			graphRes.add(test[i].Bytes, test[i].Time.Micros()/predict(&left, &test[i]))
		}
	})
	out.Bands = append(graphRes.bands("graph"), eagerRes.bands("eager")...)
	if !several(graph, func(s *CustomSample) string { return s.Version }) {
		for i := range out.Bands { // what another version does is not known: twice the residuals
			out.Bands[i].Low, out.Bands[i].High = decimals(2*out.Bands[i].Low, 3), decimals(2*out.Bands[i].High, 3)
		}
	}
	return &out
}

// fitEager takes the floor from small eager samples and the copy rate from the largest within the limit.
func fitEager(k *hardware.CustomAllReduce, samples []CustomSample) {
	var floor, copies []float64
	for _, s := range samples {
		if s.Eager && s.Bytes <= 64<<10 {
			floor = append(floor, s.Time.Micros())
		}
	}
	if len(floor) == 0 {
		return
	}
	k.FloorUs = signif(median(floor), 3)
	for _, s := range samples {
		if over := s.Time.Micros() - k.FloorUs; s.Eager && s.Ranks == 2 && s.Bytes >= 4<<20 && s.Bytes < customLimit && over > 0 {
			copies = append(copies, float64(s.Bytes)/(1000*over))
		}
	}
	if len(copies) > 0 {
		k.CopyGBps = signif(median(copies), 3)
	} else {
		k.CopyGBps = 1000
	}
}

// ExchangeSample is one measured expert-parallel exchange.
type ExchangeSample struct {
	Exchange
	Time units.Duration
}

// dispatchParams lists the unknowns of each mode. Centres are round numbers near the fits of docs/collective-model.md, section 6.
var dispatchParams = map[string][]param[hardware.DispatchKernel]{
	"low_latency": {
		{"b", func(k *hardware.DispatchKernel) *float64 { return &k.B }, 11, .5, 1, 100, false},
		{"cE", func(k *hardware.DispatchKernel) *float64 { return &k.CE }, .015, .7, .0005, 1, false},
		{"tok", func(k *hardware.DispatchKernel) *float64 { return &k.Tok }, 2, .5, .1, 20, false},
		{"smr", func(k *hardware.DispatchKernel) *float64 { return &k.SMR }, 50, .5, 2, 500, false},
		{"e", func(k *hardware.DispatchKernel) *float64 { return &k.E }, .6, .4, .05, 2, false},
		{"p", func(k *hardware.DispatchKernel) *float64 { return &k.P }, 1.05, .3, .5, 4, false},
	},
	"normal": {
		{"b0", func(k *hardware.DispatchKernel) *float64 { return &k.B0 }, 28, .4, 2, 200, false},
		{"b1", func(k *hardware.DispatchKernel) *float64 { return &k.B1 }, 3, 1, .05, 50, false},
		{"r", func(k *hardware.DispatchKernel) *float64 { return &k.R }, 40, .6, 3, 300, false},
		{"e", func(k *hardware.DispatchKernel) *float64 { return &k.E }, 1, .5, .1, 4, false},
		{"p", func(k *hardware.DispatchKernel) *float64 { return &k.P }, .9, .3, .4, 3, false},
		{"a", func(k *hardware.DispatchKernel) *float64 { return &k.A }, 1.5, .6, .01, 10, false},
		{"c0", func(k *hardware.DispatchKernel) *float64 { return &k.C0 }, 2500, 1, 20, 30000, false},
	},
	"low_latency" + acrossNodes: {
		{"b", func(k *hardware.DispatchKernel) *float64 { return &k.B }, 20, .5, 1, 200, false},
		{"c", func(k *hardware.DispatchKernel) *float64 { return &k.C }, 2, .7, .05, 50, false},
		{"e", func(k *hardware.DispatchKernel) *float64 { return &k.E }, .9, .2, .1, 1, false},
		{"p", func(k *hardware.DispatchKernel) *float64 { return &k.P }, 1.1, .3, .5, 4, false},
	},
	"normal" + acrossNodes: {
		{"b0", func(k *hardware.DispatchKernel) *float64 { return &k.B0 }, 40, .5, 2, 300, false},
		{"c", func(k *hardware.DispatchKernel) *float64 { return &k.C }, 30, .7, .5, 300, false},
		{"r", func(k *hardware.DispatchKernel) *float64 { return &k.R }, 20, .6, 1, 300, false},
		{"e", func(k *hardware.DispatchKernel) *float64 { return &k.E }, .9, .2, .1, 1, false},
		{"x", func(k *hardware.DispatchKernel) *float64 { return &k.X }, .2, 1, .01, 2, false},
		{"p", func(k *hardware.DispatchKernel) *float64 { return &k.P }, 1.2, .3, .4, 4, false},
		{"a", func(k *hardware.DispatchKernel) *float64 { return &k.A }, .5, 1, .01, 10, false},
		{"c0", func(k *hardware.DispatchKernel) *float64 { return &k.C0 }, 500, 1, 20, 30000, false},
	},
	oneSided: {
		{"b", func(k *hardware.DispatchKernel) *float64 { return &k.B }, 11, .4, 1, 100, false},
		{"c", func(k *hardware.DispatchKernel) *float64 { return &k.C }, 1.5, .7, .05, 20, false},
		{"e", func(k *hardware.DispatchKernel) *float64 { return &k.E }, .7, .5, .05, 6, false},
		{"p", func(k *hardware.DispatchKernel) *float64 { return &k.P }, 1.1, .3, .5, 4, false},
		{"a", func(k *hardware.DispatchKernel) *float64 { return &k.A }, 2, .8, .01, 40, false},
		{"c0", func(k *hardware.DispatchKernel) *float64 { return &k.C0 }, 800, .7, 20, 30000, false},
	},
	"nvlink": {
		{"b", func(k *hardware.DispatchKernel) *float64 { return &k.B }, 11, .4, 1, 100, false},
		{"c", func(k *hardware.DispatchKernel) *float64 { return &k.C }, 1.5, .7, .05, 20, false},
		{"x", func(k *hardware.DispatchKernel) *float64 { return &k.X }, .1, .7, .001, 1, false},
		{"e", func(k *hardware.DispatchKernel) *float64 { return &k.E }, .7, .5, .05, 6, false},
		{"p", func(k *hardware.DispatchKernel) *float64 { return &k.P }, 1.1, .3, .5, 4, false},
		{"a", func(k *hardware.DispatchKernel) *float64 { return &k.A }, 50, .7, .5, 500, false},
		{"c0", func(k *hardware.DispatchKernel) *float64 { return &k.C0 }, 800, .7, 20, 30000, false},
	},
}

// FitDispatch fits one phase of an exchange in a mode; nil with fewer than 20 samples. kernel is kept as the name.
func FitDispatch(mode, phase, kernel string, linkGBps float64, sms int, samples []ExchangeSample) *hardware.DispatchKernel {
	space := dispatchParams[mode]
	if kernel == oneSided {
		space = dispatchParams[oneSided]
	}
	if len(samples) < 20 || space == nil {
		return nil
	}
	start := priorCentre(space)
	start.Mode, start.Phase, start.Kernel = mode, phase, kernel
	predict := func(k *hardware.DispatchKernel, s *ExchangeSample) float64 {
		return formMicros(k, &s.Exchange, linkGBps, sms)
	}
	f := &fitProblem[hardware.DispatchKernel, ExchangeSample]{space: space, points: samples, strength: 1, centre: start, predict: predict,
		micros: func(s *ExchangeSample) float64 { return s.Time.Micros() }}
	k := roundParams(space, f.fit(start))
	for _, name := range f.unidentified(k) { // a phase does not have every term
		for i := range space {
			if space[i].name == name {
				*space[i].at(&k) = 0
			}
		}
	}
	if probe := predict(&k, &samples[0]); math.IsNaN(probe) || math.IsInf(probe, 0) {
		k = roundParams(space, f.fit(start))
	}
	local := func(k *hardware.DispatchKernel, samples []ExchangeSample) {
		k.Local = fitLocal(k, samples, func(x *Exchange) float64 { return formMicros(k, x, linkGBps, sms) })
	}
	local(&k, samples)
	k.Points = len(samples)
	for i := range samples {
		if n := samples[i].Nodes; n > 1 {
			k.MaxNodes = max(k.MaxNodes, n)
		}
	}
	res := newResiduals()
	add := func(k *hardware.DispatchKernel, test []ExchangeSample) {
		for i := range test {
			q := &test[i]
			res.add(q.payload(), q.Time.Micros()/risingMicros(k, &q.Exchange, linkGBps, sms))
		}
	}
	// The interval's evidence are shapes left out: group sizes (over nodes: node counts) where there are several, else widths. The
	// NVLink kernels' few group sizes are most of what anybody runs: a fifth of their evidence are samples themselves.
	group := func(s *ExchangeSample) int { return s.Ranks }
	if !several(samples, group) {
		group = func(s *ExchangeSample) int { return s.Hidden }
	}
	switch {
	case !several(samples, group):
		add(&k, samples)
	case mode == "nvlink":
		var some []ExchangeSample
		for i := 0; i < len(samples); i += 4 {
			some = append(some, samples[i])
		}
		add(&k, some)
	}
	leaveGroups(samples, group, func(train, test []ExchangeSample) {
		f.points = train
		left := f.fit(k)
		local(&left, train)
		add(&left, test)
	})
	k.Bands = res.bands("graph")
	return &k
}

// several says whether samples fall into more than one group.
func several[S any, K comparable](samples []S, group func(*S) K) bool {
	for i := range samples {
		if group(&samples[i]) != group(&samples[0]) {
			return true
		}
	}
	return false
}

// leaveGroups calls f with each group left out in turn, in order of appearance; not at all where there is only one.
func leaveGroups[S any, K comparable](samples []S, group func(*S) K, f func(train, test []S)) {
	if !several(samples, group) {
		return
	}
	done := map[K]bool{}
	for i := range samples {
		k := group(&samples[i])
		if done[k] {
			continue
		}
		done[k] = true
		var train, test []S
		for j := range samples {
			if group(&samples[j]) == k {
				test = append(test, samples[j])
			} else {
				train = append(train, samples[j])
			}
		}
		if len(train) >= 10 {
			f(train, test)
		}
	}
}

// kernelResiduals collects ln(measured/predicted) by size class.
type kernelResiduals [numSizes][]float64

func newResiduals() *kernelResiduals { return new(kernelResiduals) }

func (r *kernelResiduals) add(b units.Bytes, ratio float64) {
	c := classOf(b)
	r[c] = append(r[c], math.Log(ratio))
}

// bands are the 80 % intervals of the classes with ten samples or more.
func (r *kernelResiduals) bands(provenance string) []hardware.Band {
	var out []hardware.Band
	for c := range r {
		if len(r[c]) < 10 {
			continue
		}
		out = append(out, hardware.Band{Provenance: provenance, Size: sizeNames[c], Points: len(r[c]),
			Low: decimals(min(quantileOf(r[c], 0.1), -0.01), 3), High: decimals(max(quantileOf(r[c], 0.9), 0.01), 3)})
	}
	return out
}

// kernelBand finds the band of a size among a kernel's; a class that was not measured takes the widest.
func kernelBand(bands []hardware.Band, provenance string, b units.Bytes) logBand {
	wide := logBand{}
	for _, x := range bands {
		if x.Provenance != provenance {
			continue
		}
		if x.Size == SizeClass(b) {
			return logBand{x.Low, x.High}
		}
		wide.low, wide.high = min(wide.low, x.Low), max(wide.high, x.High)
	}
	if wide == (logBand{}) {
		return defaultBands[Sibling][classOf(b)]
	}
	return wide
}

// quantileOf is the p-quantile of v with linear interpolation; it sorts v.
func quantileOf(v []float64, p float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	slices.Sort(v)
	x := p * float64(len(v)-1)
	i := int(x)
	if i+1 >= len(v) {
		return v[len(v)-1]
	}
	return v[i] + (x-float64(i))*(v[i+1]-v[i])
}
