package compute

import (
	"fmt"
	"maps"
	"math"

	"rankmap/internal/hardware"
	"rankmap/internal/measured"
	"rankmap/model"
)

// UserFit is what a user's own measurements changed.
type UserFit struct {
	Kernels   *hardware.Kernels
	Sustained float64 // tensor-core rate under lasting load over boost; 0 = rows were bursts or do not show it
	Records   []UserRecord
}

// UserRecord is one refitted record with its error before and after, on the same rows.
type UserRecord struct {
	Kind, Key     string
	Before, After hardware.Fit
}

// userRows is how few rows a record is refitted from: three factors need more, and each is held near 1 by a prior.
const userRows = 6

// gridRows is from how many rows of one record on a correction grid is fitted too: with fewer its cells stay empty.
const gridRows = 120

// unseenSpread is how much wider, in logarithms, the spread of rows that a grid of n rows has not seen is than that of those
// that it was fitted to: from the calibrations of each measured GPU with half of its table (docs/accuracy.md), so that four
// of five rows of the other half fall inside.
func unseenSpread(n int) float64 { return 1.3 + 250/float64(n) }

// userPrior is the spread (in ln) that a factor is expected to have before any row is seen: machines with the same GPU
// differ by some percent in clock and memory rate, launch times by a third.
const userPrior = 0.25

// FitUser refits launch time, tensor-core efficiency and memory efficiency of the records that a user's rows cover, and
// leaves the rest, the shape of every form, as it is. A dozen rows a record suffice; from 120 on, a table rather than a
// sample, the correction grid follows them too. With lasting = true the rows were
// timed under lasting load, as a serving or training machine runs: what the tensor cores lose then is returned as the
// sustained-clock factor instead of going into the burst efficiency. Rows with a framework other than the one named are
// ignored. base is not changed.
func FitUser(gpu *hardware.GPU, base *hardware.Kernels, framework string, rows []measured.OpRow, lasting bool) (*UserFit, error) {
	if framework == "" {
		framework = DefaultFramework
	}
	fw := base.Frameworks[framework]
	if fw == nil {
		return nil, fmt.Errorf("no framework %q for %s", framework, gpu.System)
	}
	out := &UserFit{Kernels: clone(base)}
	to := out.Kernels.Frameworks[framework]
	full := withKernels(to, out.Kernels.Frameworks[DefaultFramework])
	to.MoE, to.MoEFast, to.MLAPrefill, to.MLADecode = maps.Clone(full.MoE), maps.Clone(full.MoEFast), maps.Clone(full.MLAPrefill), maps.Clone(full.MLADecode)
	set := newSampleSet(rows, func(r *measured.OpRow) bool { return r.Framework != "" && r.Framework != framework })
	used := 0
	// regrid puts what the rows show beyond a fit into the correction grid, and their spread into the interval, where there
	// are rows enough for that.
	regrid := func(grid *string, fit *hardware.Fit, axes [][]float64, in []Sample, price func(*Sample) float64) {
		if len(in) < gridRows {
			return
		}
		extra := gridFor(axes, in, price)
		seen := score(in, func(s *Sample) float64 { return price(s) * extra.factor(coordsOf(s)) })
		out.Records[len(out.Records)-1].After = rounded(seen)
		*grid = extra.on(*grid, len(axes)).String()
		*fit = rounded(hardware.Fit{Lo: math.Pow(seen.Lo, unseenSpread(len(in))), Hi: math.Pow(seen.Hi, unseenSpread(len(in))), From: fromUser})
	}
	add := func(kind, key string, in []Sample, f func(v [3]float64) func(*Sample) float64) [3]float64 {
		v := fitFactors(in, f)
		out.Records = append(out.Records, UserRecord{kind, key, rounded(score(in, f([3]float64{1, 1, 1}))), rounded(score(in, f(v)))})
		used += len(in)
		return v
	}
	var factors []float64
	for t := range numTypes {
		key := types[t].name
		if in, _ := set.of(model.GEMM, key); len(in) >= userRows {
			rec, launch, _, from, ok := gemmRecord(gpu, out.Kernels, to, t)
			if !ok {
				continue
			}
			build := func(v [3]float64) (hardware.GEMM, hardware.Launch) {
				r, l := rec, launch
				l.T0 *= v[0]
				r.EC *= v[1]
				r.EM *= v[2]
				return r, l
			}
			grid, _ := gridOf(launch.Grid, 3)
			price := func(v [3]float64) func(*Sample) float64 {
				r, l := build(v)
				x := newGEMM(gpu, from, r, l, 1)
				x.bw, x.grid = types[t].weight, grid
				return func(s *Sample) float64 { return x.time(s.Op.M, s.Op.N, s.Op.K, 2).total }
			}
			v := add("gemm", key, in, price)
			if from == t {
				regrid(&launch.Grid, &rec.Fit, gemmAxes, in, price(v))
			}
			if lasting {
				factors = append(factors, v[1])
				v[1] = 1
			}
			r, l := build(v)
			out.Kernels.GEMM[key], to.GEMM[key] = r, l
		}
		if in, _ := set.of(model.MoE, key); len(in) >= userRows && has(to.MoE, key) {
			rec, fast := to.MoE[key], to.MoEFast[key]
			rec.Fit.From = fromUser
			price := userExperts(gpu, t, rec, fast, has(to.MoEFast, key))
			v := add("moe", key, in, price)
			extra := in
			if has(to.MoEFast, key) {
				extra = nil // a row does not say which of the two ran
			}
			regrid(&rec.Grid, &rec.Fit, moeAxes, extra, price(v))
			to.MoE[key] = scaleMoE(rec, v)
			if has(to.MoEFast, key) {
				to.MoEFast[key] = scaleMoE(fast, v)
			}
		}
	}
	for i, key := range attnKeys {
		if in, _ := set.of(model.AttnPrefill, key); len(in) >= userRows && has(to.Prefill, key) {
			rec := to.Prefill[key]
			grid, _ := gridOf(rec.Grid, 4)
			build := func(v [3]float64) hardware.Prefill {
				r := rec
				r.T0 *= v[0]
				r.EC, r.SX = r.EC*v[1], r.SX/v[1]
				r.EM *= v[2]
				return r
			}
			price := func(v [3]float64) func(*Sample) float64 {
				x := newPrefill(gpu, i, build(v), 1)
				x.grid = grid
				return func(s *Sample) float64 { return timePrefill(&x, s) }
			}
			v := add("attn_prefill", key, in, price)
			regrid(&rec.Grid, &rec.Fit, prefillAxes, in, price(v))
			to.Prefill[key] = build(v)
		}
		if in, _ := set.of(model.AttnDecode, key); len(in) >= userRows && has(to.Decode, key) {
			rec := to.Decode[key]
			if framework == DefaultFramework {
				rec = planned(rec)
			}
			rec.Fit.From = fromUser
			build := func(v [3]float64) hardware.Decode {
				r := rec
				for _, p := range []*hardware.DecodePath{&r.Grouped, &r.PerHead} {
					p.T0 *= v[0]
					p.TW, p.LT = p.TW/v[1], p.LT/v[1]
					p.EM *= v[2]
				}
				return r
			}
			grouped, perHead := gridsOf(rec)
			price := func(v [3]float64) func(*Sample) float64 {
				x := newDecode(gpu, i, build(v))
				x.grouped.grid, x.perHead.grid = grouped, perHead
				return func(s *Sample) float64 { return timeDecode(&x, s) }
			}
			v := add("attn_decode", key, in, price)
			x := newDecode(gpu, i, build(v))
			ofGroup, ofHead := x.divide(in)
			regrid(&rec.Grouped.Grid, &rec.Fit, decodeAxes, ofGroup, price(v))
			regrid(&rec.PerHead.Grid, &rec.Fit, decodeAxes, ofHead, price(v))
			to.Decode[key] = build(v)
		}
		if in, _ := set.of(model.MLAPrefill, key); len(in) >= userRows && has(to.MLAPrefill, key) {
			rec := to.MLAPrefill[key]
			grid, _ := gridOf(rec.Grid, 3)
			build := func(v [3]float64) hardware.MLAPrefill {
				r := rec
				r.T0 *= v[0]
				r.EC, r.SX = r.EC*v[1], r.SX/v[1]
				r.EM *= v[2]
				return r
			}
			price := func(v [3]float64) func(*Sample) float64 {
				x := newMLAPrefill(gpu, build(v), 1)
				x.grid = grid
				return func(s *Sample) float64 { return timeMLAPrefill(&x, s) }
			}
			v := add("mla_prefill", key, in, price)
			regrid(&rec.Grid, &rec.Fit, mlaPrefillAxes, in, price(v))
			to.MLAPrefill[key] = build(v)
		}
		if in, _ := set.of(model.MLADecode, key); len(in) >= userRows && has(to.MLADecode, key) {
			rec := to.MLADecode[key]
			grid, _ := gridOf(rec.Grid, 3)
			build := func(v [3]float64) hardware.MLADecode {
				r := rec
				r.T0 *= v[0]
				r.EC *= v[1]
				r.EM, r.EQ = r.EM*v[2], r.EQ*v[2]
				return r
			}
			price := func(v [3]float64) func(*Sample) float64 {
				x := newMLADecode(gpu, i, build(v))
				x.grid = grid
				return func(s *Sample) float64 { return timeMLADecode(&x, s) }
			}
			v := add("mla_decode", key, in, price)
			regrid(&rec.Grid, &rec.Fit, mlaDecodeAxes, in, price(v))
			to.MLADecode[key] = build(v)
		}
	}
	if used == 0 {
		return nil, fmt.Errorf("no record of %s has %d rows of framework %s to calibrate from", gpu.System, userRows, framework)
	}
	if len(factors) > 0 {
		mean := 0.0
		for _, f := range factors {
			mean += math.Log(f) / float64(len(factors))
		}
		out.Sustained = math.Min(math.Exp(mean), 1)
	}
	out.Kernels.Calibrated = fmt.Sprintf("%d rows of the user's machine", used)
	out.Kernels.Estimate = ""
	return out, nil
}

// userExperts prices an expert layer of the user's machine: of two kernels the faster, as his library picks it.
func userExperts(g *hardware.GPU, t dtype, rec, fast hardware.MoE, two bool) func([3]float64) func(*Sample) float64 {
	grid, _ := gridOf(rec.Grid, 4)
	fastGrid, _ := gridOf(fast.Grid, 4)
	return func(v [3]float64) func(*Sample) float64 {
		x, y := newMoE(g, t, scaleMoE(rec, v), 1), newMoE(g, t, scaleMoE(fast, v), 1)
		x.grid, x.odd, y.grid = grid, rec.Odd, fastGrid
		return func(s *Sample) float64 {
			if two && s.Op.Gated {
				return math.Min(timeMoE(&x, s), timeMoE(&y, s))
			}
			return timeMoE(&x, s)
		}
	}
}

func has[T any](m map[string]T, k string) bool { _, ok := m[k]; return ok }

// gridsOf parses those of a decode record.
func gridsOf(r hardware.Decode) (grouped, perHead *Grid) {
	grouped, _ = gridOf(r.Grouped.Grid, 3) // New says what is wrong with one
	perHead, _ = gridOf(r.PerHead.Grid, 3)
	return grouped, perHead
}

// gridOf parses a grid that may be absent.
func gridOf(s string, dims int) (*Grid, error) {
	if s == "" {
		return nil, nil
	}
	return ParseGrid(s, dims)
}

// fitFactors finds factors on launch time, tensor-core efficiency and memory efficiency.
func fitFactors(in []Sample, f func([3]float64) func(*Sample) float64) [3]float64 {
	ps := []param{{"launch", 0.2, 5, 1, false}, {"tensor", 0.4, 2.5, 1, false}, {"memory", 0.4, 2.5, 1, false}}
	v, _ := search(ps, func(v []float64) float64 {
		prior := 0.0
		for _, x := range v {
			prior += math.Pow(math.Log(x)/userPrior, 2)
		}
		return loss(in, f([3]float64(v))) + 0.02*prior/float64(len(in))
	})
	return [3]float64(v)
}

// clone copies records deep enough that no map is shared.
func clone(k *hardware.Kernels) *hardware.Kernels {
	out := *k
	out.GEMM = maps.Clone(k.GEMM)
	if out.GEMM == nil {
		out.GEMM = map[string]hardware.GEMM{}
	}
	out.Frameworks = map[string]*hardware.Framework{}
	for n, f := range k.Frameworks {
		c := *f
		c.GEMM, c.Prefill, c.Decode = maps.Clone(f.GEMM), maps.Clone(f.Prefill), maps.Clone(f.Decode)
		c.MLAPrefill, c.MLADecode, c.DecodeTable = maps.Clone(f.MLAPrefill), maps.Clone(f.MLADecode), maps.Clone(f.DecodeTable)
		c.MoE, c.MoEFast = maps.Clone(f.MoE), maps.Clone(f.MoEFast)
		out.Frameworks[n] = &c
	}
	return &out
}
