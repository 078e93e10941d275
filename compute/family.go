package compute

import (
	"fmt"
	"math"
	"reflect"
	"sort"
	"strings"

	"rankmap/internal/hardware"
)

// families orders generations by the design of their kernels: before Hopper (mma from registers), Hopper (wgmma, bulk
// copies), Blackwell and later (tensor memory).
var families = map[string]int{"volta": 0, "turing": 0, "ampere": 0, "ada": 0, "hopper": 1, "blackwell": 2, "rubin": 2}

// Source of a family estimate: a fitted GPU.
type Fitting struct {
	GPU     *hardware.GPU
	Kernels *hardware.Kernels
}

// Estimated derives the kernel parameters of a GPU that no table measured: for every record the median over the fitted
// GPUs of its family, or of the nearest family that has the record; times scale with the clock (they are cycles),
// efficiencies stay. The interval widens to the error of predicting one fitted system from the others, at least. GPUs of
// an unknown generation count as the newest.
func Estimated(g *hardware.GPU, from []Fitting) (*hardware.Kernels, error) {
	fam, known := families[g.Generation]
	if !known {
		fam = 2
	}
	out := &hardware.Kernels{System: g.System, GEMM: map[string]hardware.GEMM{}, Frameworks: map[string]*hardware.Framework{}}
	var fitted []Fitting
	for _, f := range from {
		if f.Kernels.Estimate == "" {
			fitted = append(fitted, f)
		}
	}
	if len(fitted) == 0 {
		return nil, fmt.Errorf("gpu %s: no fitted gpu to estimate from", g.System)
	}
	sort.Slice(fitted, func(i, j int) bool { return fitted[i].GPU.System < fitted[j].GPU.System })
	used := map[string]bool{}
	d := deriver{g: g, fam: fam, from: fitted, used: used}
	derive(&d, out.GEMM, func(k *hardware.Kernels) map[string]hardware.GEMM { return k.GEMM })
	for _, name := range []string{"plain", "trtllm"} {
		fw := &hardware.Framework{
			GEMM: map[string]hardware.Launch{}, Prefill: map[string]hardware.Prefill{}, Decode: map[string]hardware.Decode{},
			MLAPrefill: map[string]hardware.MLAPrefill{}, MLADecode: map[string]hardware.MLADecode{}, MoE: map[string]hardware.MoE{},
		}
		have := false
		for _, f := range fitted {
			if x := f.Kernels.Frameworks[name]; x != nil {
				fw.About, fw.Small, have = x.About, x.Small, true
			}
		}
		if !have {
			continue
		}
		in := func(k *hardware.Kernels) *hardware.Framework {
			if x := k.Frameworks[name]; x != nil {
				return x
			}
			return &hardware.Framework{}
		}
		derive(&d, fw.GEMM, func(k *hardware.Kernels) map[string]hardware.Launch { return in(k).GEMM })
		derive(&d, fw.Prefill, func(k *hardware.Kernels) map[string]hardware.Prefill { return in(k).Prefill })
		derive(&d, fw.Decode, func(k *hardware.Kernels) map[string]hardware.Decode { return in(k).Decode })
		derive(&d, fw.MLAPrefill, func(k *hardware.Kernels) map[string]hardware.MLAPrefill { return in(k).MLAPrefill })
		derive(&d, fw.MLADecode, func(k *hardware.Kernels) map[string]hardware.MLADecode { return in(k).MLADecode })
		derive(&d, fw.MoE, func(k *hardware.Kernels) map[string]hardware.MoE { return in(k).MoE })
		out.Frameworks[name] = fw
	}
	names := make([]string, 0, len(used))
	for n := range used {
		names = append(names, n)
	}
	sort.Strings(names)
	out.Estimate = "no measurements: medians over " + strings.Join(names, ", ") + ", times scaled by the clock"
	out.Source = "family rule over the records of " + strings.Join(names, ", ")
	return out, nil
}

// deriver is the state of one estimate.
type deriver struct {
	g    *hardware.GPU
	fam  int
	from []Fitting
	used map[string]bool
}

// derive fills out with one median record a key.
func derive[T any](d *deriver, out map[string]T, of func(*hardware.Kernels) map[string]T) {
	keys := map[string]bool{}
	for _, f := range d.from {
		for k := range of(f.Kernels) {
			keys[k] = true
		}
	}
	for k := range keys {
		var recs []T
		var scale []float64
		var names []string
		dist := math.MaxInt
		for _, f := range d.from {
			r, ok := of(f.Kernels)[k]
			if !ok {
				continue
			}
			way := families[f.GPU.Generation] - d.fam
			if way < 0 {
				way = -way
			}
			if way < dist {
				dist, recs, scale, names = way, nil, nil, nil
			}
			if way == dist {
				recs, names = append(recs, r), append(names, f.GPU.System)
				scale = append(scale, f.GPU.BoostGHz/d.g.BoostGHz)
			}
		}
		for _, n := range names {
			d.used[n] = true
		}
		out[k] = medianRecord(recs, scale, names)
	}
}

// timeFields are the record fields that are kernel times, so cycles.
var timeFields = map[string]bool{"T0": true, "T1": true, "LK": true, "TW": true, "TR": true, "TCTA": true, "TE": true, "LT": true,
	"LTX": true, "LTM": true, "TWX": true, "TWM": true}

// Widening of the interval of a family estimate: factors on the fitted interval's ends and the least half width, from
// predicting each fitted system by the others of its family.
const (
	wideLo, wideHi   = 0.85, 1.2
	leastLo, leastHi = 0.75, 1.35
)

// medianRecord takes the median of every numeric field, times scaled; ints and flags come from the first record.
func medianRecord[T any](recs []T, scale []float64, names []string) T {
	out := recs[0]
	v := reflect.ValueOf(&out).Elem()
	for i := range v.NumField() {
		f := v.Field(i)
		switch name := v.Type().Field(i).Name; {
		case f.Kind() == reflect.Float64:
			xs := make([]float64, len(recs))
			for j := range recs {
				xs[j] = reflect.ValueOf(recs[j]).Field(i).Float()
				if timeFields[name] {
					xs[j] *= scale[j]
				}
			}
			sort.Float64s(xs)
			f.SetFloat(quantile(xs, 0.5))
		case name == "Grid":
			f.SetString("") // a library's kernel choice on another chip
		case name == "Fit":
			fit := hardware.Fit{Lo: leastLo, Hi: leastHi, From: strings.Join(names, ", ")}
			for j := range recs {
				r := reflect.ValueOf(recs[j]).Field(i).Interface().(hardware.Fit)
				if r.Lo > 0 {
					fit.Lo = math.Min(fit.Lo, r.Lo*wideLo)
					fit.Hi = math.Max(fit.Hi, r.Hi*wideHi)
				}
			}
			f.Set(reflect.ValueOf(fit))
		}
	}
	return out
}
