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

// userPrior is the spread (in ln) that a factor is expected to have before any row is seen: machines with the same GPU
// differ by some percent in clock and memory rate, launch times by a third.
const userPrior = 0.25

// FitUser refits launch time, tensor-core efficiency and memory efficiency of the records that a user's rows cover, and
// leaves the rest, the shape of every form, as it is. A dozen rows a record suffice. With lasting = true the rows were
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
	to.MoE, to.MLAPrefill, to.MLADecode = maps.Clone(full.MoE), maps.Clone(full.MLAPrefill), maps.Clone(full.MLADecode)
	set := newSampleSet(rows, func(r *measured.OpRow) bool { return r.Framework != "" && r.Framework != framework })
	used := 0
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
			v := add("gemm", key, in, func(v [3]float64) func(*Sample) float64 {
				r, l := build(v)
				x := newGEMM(gpu, from, r, l, 1)
				x.bw, x.grid = types[t].weight, grid
				return func(s *Sample) float64 { return x.time(s.Op.M, s.Op.N, s.Op.K, 2).total }
			})
			if lasting {
				factors = append(factors, v[1])
				v[1] = 1
			}
			r, l := build(v)
			out.Kernels.GEMM[key], to.GEMM[key] = r, l
		}
		if in, _ := set.of(model.MoE, key); len(in) >= userRows && has(to.MoE, key) {
			rec := to.MoE[key]
			grid, _ := gridOf(rec.Grid, 4)
			build := func(v [3]float64) hardware.MoE { return scaleMoE(rec, v) }
			v := add("moe", key, in, func(v [3]float64) func(*Sample) float64 {
				x := newMoE(gpu, t, build(v), 1)
				x.grid = grid
				return func(s *Sample) float64 { return timeMoE(&x, s) }
			})
			to.MoE[key] = build(v)
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
			to.Prefill[key] = build(add("attn_prefill", key, in, func(v [3]float64) func(*Sample) float64 {
				x := newPrefill(gpu, i, build(v), 1)
				x.grid = grid
				return func(s *Sample) float64 { return timePrefill(&x, s) }
			}))
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
			to.Decode[key] = build(add("attn_decode", key, in, func(v [3]float64) func(*Sample) float64 {
				x := newDecode(gpu, i, build(v))
				return func(s *Sample) float64 { return timeDecode(&x, s) }
			}))
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
			to.MLAPrefill[key] = build(add("mla_prefill", key, in, func(v [3]float64) func(*Sample) float64 {
				x := newMLAPrefill(gpu, build(v), 1)
				x.grid = grid
				return func(s *Sample) float64 { return timeMLAPrefill(&x, s) }
			}))
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
			to.MLADecode[key] = build(add("mla_decode", key, in, func(v [3]float64) func(*Sample) float64 {
				x := newMLADecode(gpu, i, build(v))
				x.grid = grid
				return func(s *Sample) float64 { return timeMLADecode(&x, s) }
			}))
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

func has[T any](m map[string]T, k string) bool { _, ok := m[k]; return ok }

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
		c.MLAPrefill, c.MLADecode, c.MoE, c.DecodeTable = maps.Clone(f.MLAPrefill), maps.Clone(f.MLADecode), maps.Clone(f.MoE), maps.Clone(f.DecodeTable)
		out.Frameworks[n] = &c
	}
	return &out
}
