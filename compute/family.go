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
var families = map[string]int{
	"volta": 0, "turing": 0, "ampere": 0, "ada": 0, "hopper": 1, "blackwell": tensorMemory, "rubin": tensorMemory,
}

// tensorMemory is the newest family.
const tensorMemory = 2

// familyOf places a GPU; an unknown generation counts as the newest. Compute capability 12.x is called Blackwell but has
// neither wgmma nor tensor memory: its kernels are those of the first family.
func familyOf(g *hardware.GPU) int {
	if g.SM/10 == 12 {
		return 0
	}
	if f, ok := families[g.Generation]; ok {
		return f
	}
	return tensorMemory
}

// Fitting is the source of a family estimate: a fitted GPU.
type Fitting struct {
	GPU     *hardware.GPU
	Kernels *hardware.Kernels
}

// Estimated derives the kernel parameters of a GPU that no table measured: every record from its sister, the fitted GPU
// of the same generation with as many SMs (B300 of B200, GB300 of GB200); where there is none or it lacks the record, the
// median over the fitted GPUs of its family, or of the nearest family that has the record. Times scale with the clock
// (they are cycles), efficiencies stay. The interval widens to the error of predicting one fitted system from the others, at least. GPUs of
// an unknown generation count as the newest.
func Estimated(g *hardware.GPU, from []Fitting) (*hardware.Kernels, error) {
	fam := familyOf(g)
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
			MLAPrefill: map[string]hardware.MLAPrefill{}, MLADecode: map[string]hardware.MLADecode{}, MoE: map[string]hardware.MoE{}, MoEFast: map[string]hardware.MoE{},
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
		for k, r := range fw.Decode { // these grids are for scoring tables, and there is none
			r.Grouped.Grid, r.PerHead.Grid = "", ""
			fw.Decode[k] = r
		}
		derive(&d, fw.MLAPrefill, func(k *hardware.Kernels) map[string]hardware.MLAPrefill { return in(k).MLAPrefill })
		derive(&d, fw.MLADecode, func(k *hardware.Kernels) map[string]hardware.MLADecode { return in(k).MLADecode })
		derive(&d, fw.MoE, func(k *hardware.Kernels) map[string]hardware.MoE { return in(k).MoE })
		d.asSister(fw.MoE, in)
		if fam == tensorMemory { // the fused kernels are written for it
			derive(&d, fw.MoEFast, func(k *hardware.Kernels) map[string]hardware.MoE { return in(k).MoEFast })
			for k, r := range fw.MoEFast { // as above
				r.Mix = ""
				fw.MoEFast[k] = r
			}
		}
		out.Frameworks[name] = fw
	}
	names := make([]string, 0, len(used))
	for n := range used {
		names = append(names, n)
	}
	sort.Strings(names)
	out.Estimate = "no measurements: from " + strings.Join(names, ", ") + ", times scaled by the clock"
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

func (d *deriver) gpu(system string) *hardware.GPU {
	for _, f := range d.from {
		if f.GPU.System == system {
			return f.GPU
		}
	}
	return d.g
}

// sister says whether a fitted GPU is of the same generation with as many SMs.
func (d *deriver) sister(system string) bool {
	g := d.gpu(system)
	return g.Generation == d.g.Generation && g.SMs == d.g.SMs && familyOf(g) == d.fam
}

// asSister drops the expert layers of types that the sister has no record of, so that such a type stands on the same near type
// on both and the newer GPU does not come out slower.
func (d *deriver) asSister(moe map[string]hardware.MoE, in func(*hardware.Kernels) *hardware.Framework) {
	known := map[string]bool{}
	for _, f := range d.from {
		if d.sister(f.GPU.System) {
			for k := range in(f.Kernels).MoE {
				known[k] = true
			}
		}
	}
	for k := range moe {
		if len(known) > 0 && !known[k] {
			delete(moe, k)
		}
	}
}

// sistersOf keeps the sisters' records, or all where there are none.
func sistersOf[T any](d *deriver, recs []T, scale []float64, names []string) ([]T, []float64, []string) {
	var r []T
	var s []float64
	var n []string
	for i := range recs {
		if d.sister(names[i]) {
			r, s, n = append(r, recs[i]), append(s, scale[i]), append(n, names[i])
		}
	}
	if len(r) == 0 {
		return recs, scale, names
	}
	return r, s, n
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
		dist, same := math.MaxInt, true
		for _, f := range d.from {
			r, ok := of(f.Kernels)[k]
			if !ok {
				continue
			}
			way := familyOf(f.GPU) - d.fam
			if way < 0 {
				way = -way
			}
			if way < dist {
				dist, recs, scale, names, same = way, nil, nil, nil, true
			}
			if way == dist {
				recs, names = append(recs, r), append(names, f.GPU.System)
				same = same && f.GPU.Generation == d.g.Generation && familyOf(f.GPU) == d.fam
				scale = append(scale, f.GPU.BoostGHz/d.g.BoostGHz)
			}
		}
		recs, scale, names = sistersOf(d, recs, scale, names)
		for _, n := range names {
			d.used[n] = true
		}
		w := sameGeneration
		if !same {
			w = otherGeneration
		}
		w.sister = -1
		for i, n := range names {
			if d.sister(n) {
				w.sister = i
			}
		}
		out[k] = medianRecord(recs, scale, names, w)
	}
}

// timeFields are the record fields that are kernel times, so cycles.
var timeFields = map[string]bool{"T0": true, "T1": true, "LK": true, "TW": true, "TR": true, "TA": true, "TCTA": true, "TE": true, "LT": true}

// widening says how the interval of a record grows when it is carried to another GPU: factors on its ends, and what it
// is at least. From predicting each fitted system by the others: within a generation four of five rows stay inside;
// A100 from Hopper sets the wider one.
type widening struct {
	lo, hi, leastLo, leastHi float64
	sister                   int // source with the same SMs, whose grids (its library's kernel choice) hold here too; -1 = none
}

var (
	sameGeneration  = widening{lo: 0.92, hi: 1.1, leastLo: 0.83, leastHi: 1.22}
	otherGeneration = widening{lo: 0.8, hi: 1.25, leastLo: 0.65, leastHi: 1.5}
)

// medianRecord takes the median of every numeric field, times scaled; ints and flags come from the first record.
func medianRecord[T any](recs []T, scale []float64, names []string, w widening) T {
	out := recs[0]
	vs := make([]reflect.Value, len(recs))
	for i := range recs {
		vs[i] = reflect.ValueOf(recs[i])
	}
	medianInto(reflect.ValueOf(&out).Elem(), vs, scale, names, w)
	return out
}

func medianInto(out reflect.Value, from []reflect.Value, scale []float64, names []string, w widening) {
	for i := range out.NumField() {
		f, name := out.Field(i), out.Type().Field(i).Name
		switch {
		case f.Kind() == reflect.Float64:
			xs := make([]float64, len(from))
			for j := range from {
				xs[j] = from[j].Field(i).Float()
				if timeFields[name] {
					xs[j] *= scale[j]
				}
			}
			sort.Float64s(xs)
			f.SetFloat(quantile(xs, 0.5))
		case f.Kind() == reflect.String:
			f.SetString("")
			if w.sister >= 0 {
				f.SetString(from[w.sister].Field(i).String())
			}
		case name == "Fit":
			fit := hardware.Fit{Lo: w.leastLo, Hi: w.leastHi, From: strings.Join(names, ", ")}
			for j := range from {
				if r := from[j].Field(i).Interface().(hardware.Fit); r.Lo > 0 {
					fit.Lo = math.Min(fit.Lo, r.Lo*w.lo)
					fit.Hi = math.Max(fit.Hi, r.Hi*w.hi)
				}
			}
			f.Set(reflect.ValueOf(fit))
		case f.Kind() == reflect.Struct:
			sub := make([]reflect.Value, len(from))
			for j := range from {
				sub[j] = from[j].Field(i)
			}
			medianInto(f, sub, scale, names, w)
		}
	}
}
