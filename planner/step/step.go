// Package step adds up one step of a model on one strategy: kernels on the GPU plus collectives on their real groups,
// over the stages of the pipeline.
//
// Bands: the errors of one profile are common to all its predictions, so p10 and p90 of a step are the sums of the
// parts' p10 and p90, never added in quadrature.
package step

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"rankmap/collective"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/model"
)

// Band is a time with its 80 % interval.
type Band struct{ Time, P10, P90 units.Duration }

// Add returns the sum of two bands.
func (b Band) Add(o Band) Band { return Band{b.Time + o.Time, b.P10 + o.P10, b.P90 + o.P90} }

// Scale returns the band times f.
func (b Band) Scale(f float64) Band {
	return Band{b.Time * units.Duration(f), b.P10 * units.Duration(f), b.P90 * units.Duration(f)}
}

// Kernel prices one computation on one GPU and says what binds it.
type Kernel func(model.ComputeOp) (Band, string, error)

// Comm prices one collective of a step on the slowest group of its kind.
type Comm func(model.CollectiveOp) (collective.Estimate, error)

// Part is a share of a step.
type Part struct {
	Name  string
	Kind  string // "compute", "tp", "ep", ..., "bubble", "overhead"
	Band  Band
	Bound string

	exchange bool // dispatch or combine of experts
}

// Used is one collective of the step with its price.
type Used struct {
	Op    model.CollectiveOp
	Times float64 // in a whole step of one rank
	Est   collective.Estimate
	once  bool // of a training step, not of each micro-batch
}

// Result is one step.
type Result struct {
	Band
	Parts []Part // sorted by kind, then name
	Comms []Used
	FLOPs float64 // of the GPU of the slowest stage
	// launches is how many kernels and collectives the host starts on the busiest stage.
	launches int
	// exchange is the time of dispatch and combine, which are exchanges in number.
	exchange  Band
	exchanges int
	experts   units.Duration
	cut       Band           // what its products lose in pieces that run beside tensor parallelism
	network   units.Duration // of transfers beside the kernels that NICs bound
	hops      Band           // what it hands over beside its kernels
	hopParts  []Part
}

// Input is what a step depends on.
type Input struct {
	Spec     *model.Spec
	Strategy parallel.Strategy
	Work     model.Work // of one attention replica, the whole batch
	Kernel   Kernel
	Comm     Comm
	Overhead units.Duration // of the engine, each step
	Launch   units.Duration // of the host, each kernel outside CUDA graphs: no stage is faster than its host starts it. 0 = in graphs
	// Chunk is the piece of a prompt that shares the step with the sequences of Work (Pass only); no tokens = none.
	// ChunkKernel prices what it has a part in.
	Chunk       model.Work
	ChunkKernel Kernel
	ChunkShare  float64 // of the attention replicas that have such a piece at the same time; 0 = all
	// OverlapTP says that the engine cuts the gathers and scatters of sequence parallelism in tp pieces and runs them
	// beside the pieces of the matrix products that need or make them (Transformer Engine's user buffers): one piece stays
	// on the critical path, and so does what the products lose (pieces.go).
	OverlapTP bool
	// HostLink is what a GPU moves to and from its host's memory, for results that wait there (Strategy.OffloadLayers).
	HostLink units.Bandwidth
	// BlockingHops says that a stage of an interleaved pipeline waits until what it hands over has arrived. Training only.
	BlockingHops bool
	// OverlapEP says that the engine runs the exchange of one micro-batch's experts beside the kernels of another (Combined).
	OverlapEP bool
	// Halves says that the engine cuts a step over experts in two batches and hides each one's exchange behind the other.
	Halves bool
	// Brief leaves Parts and Comms empty: a search prices thousands of steps and shows a few.
	Brief bool
	// serial says that nothing of data parallelism runs beside computation (TrainInput.Serial).
	serial bool
	// unpaired is the part of a step's micro-batches that run while a pipeline fills and drains (Combined 1F1B).
	unpaired float64
	// stopAt ends the pricing of stages with the first that takes longer: the caller has seen better. 0 = no limit.
	stopAt  units.Duration
	Scratch *Scratch // reused between calls; nil = none
}

// Scratch holds what one brief step leaves for the next: lists, and the stages of the last strategy without their
// collectives' prices. A search prices the same strategy in many dimension orders, which change only those.
type Scratch struct {
	ops, lastOps []model.ComputeOp
	chunk        []model.ComputeOp
	chunked      []bool // for each of ops: the chunk has a part in it
	chunkColls   []model.CollectiveOp
	key          scratchKey
	spec         *model.Spec
	stages       []stageWork
	colls        []model.CollectiveOp // of all stages, one after the other
	tails        []tailWork           // training: what each distinct stage does once a step; empty until asked for
	half         *Scratch             // of steps cut in two
	floors       map[stageKey]units.Duration
	floorOf      *model.Spec
	floorOps     []model.ComputeOp
}

// scratchKey is everything that a stage's kernels and volumes depend on.
type scratchKey struct {
	tp, pp, dp, cp, ep, etp, interleave, zero, micro int
	sp                                               bool
	recompute                                        string
	redone, first, last                              int
	work, chunk                                      model.Work
	share                                            float64
	brief                                            bool
}

// stageWork is one stage: its kernels priced, its collectives listed.
type stageWork struct {
	kernels  Band
	experts  units.Duration // of the kernels, between dispatch and combine
	cut      Band           // what products lose in pieces (inPieces)
	flops    float64
	launches int    // kernels and collectives that the host starts
	parts    []Part // not when brief
	from, to int    // in Scratch.colls
	twin     bool   // equal to the stage before it
}

func keyOf(st *parallel.Strategy, w, chunk model.Work, share float64, brief bool) scratchKey {
	return scratchKey{st.TP, st.PP, st.DP, st.CP, st.EP, st.ExpertTP, st.Interleave, st.ZeRO, st.MicroBatch, st.SequenceParallel, st.Recompute, st.RecomputeLayers, st.FirstStage, st.LastStage, w, chunk, share, brief}
}

// Forward prices one forward step of an inference engine.
//
// The batch of a replica is cut into m = min(pp, batch) micro-batches that follow each other through the pipeline. With
// pp of them in flight the slowest stage paces: a token needs pp x that stage. With fewer, a step is the sum of the
// stages. Stage-to-stage transfers are on the critical path.
func Forward(in Input) (Result, error) {
	st := in.Strategy
	m := min(st.PP, max(1, in.Work.Batch))
	w := in.Work
	w.Batch = (in.Work.Batch + m - 1) / m
	all, err := stages(in, w)
	if err != nil {
		return Result{}, err
	}
	if in.Launch > 0 {
		for i := range all {
			all[i].launched(in.Launch, in.Brief)
		}
	}
	var out Result
	if m == st.PP {
		slow := slowest(all)
		out = slow
		out.Band = slow.Band.Scale(float64(st.PP))
		out.Parts = slices.Clone(slow.Parts)
		for i := range out.Parts {
			out.Parts[i].Band = out.Parts[i].Band.Scale(float64(st.PP))
		}
	} else {
		for _, r := range all {
			out = join(out, r)
		}
	}
	if in.Overhead > 0 {
		out.add(Part{Name: "engine overhead", Kind: "overhead", Band: Band{in.Overhead, in.Overhead, in.Overhead}})
	}
	if in.Brief {
		out.Parts, out.Comms = nil, nil
		return out, nil
	}
	out.Comms = comms(all)
	out.Parts = merge(out.Parts)
	return out, nil
}

// slowest returns the stage that paces the pipeline.
func slowest(all []Result) Result {
	return slices.MaxFunc(all, func(a, b Result) int { return cmp.Compare(a.Time, b.Time) })
}

// stages prices one micro-batch on every pipeline stage. A stage with the same work as the one before it is priced once.
func stages(in Input, w model.Work) ([]Result, error) {
	sc := in.Scratch
	if sc == nil {
		sc = new(Scratch)
	}
	if err := sc.prepare(in, w); err != nil {
		return nil, err
	}
	out := make([]Result, in.Strategy.PP)
	var alone Result // the last stage priced, without what it hands over
	for s := range out {
		sw := &sc.stages[s]
		colls := sc.colls[sw.from:sw.to]
		if !sw.twin {
			alone = Result{Band: sw.kernels, FLOPs: sw.flops, launches: sw.launches, experts: sw.experts, cut: sw.cut, Parts: slices.Clone(sw.parts)}
			if err := alone.communicate(in, colls); err != nil {
				return nil, err
			}
			alone.offload(&in, w, s)
		}
		out[s] = alone
		if err := out[s].handOver(in, s, colls); err != nil {
			return nil, err
		}
		if in.stopAt > 0 && out[s].Time > in.stopAt {
			return out[:s+1], nil
		}
	}
	if in.Halves {
		if err := overlap(in, w, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// prepare lists and prices the kernels of every stage, unless the last step was of the same strategy and work.
func (sc *Scratch) prepare(in Input, w model.Work) error {
	key := keyOf(&in.Strategy, w, in.Chunk, in.ChunkShare, in.Brief)
	if sc.spec == in.Spec && sc.key == key {
		return nil
	}
	sc.spec = nil // not valid until complete
	sc.stages, sc.colls, sc.tails = sc.stages[:0], sc.colls[:0], sc.tails[:0]
	for s := range in.Strategy.PP {
		if in.alike(s) {
			sw := sc.stages[s-1]
			sw.twin = true
			sc.stages = append(sc.stages, sw)
			continue
		}
		sc.ops, sc.lastOps = sc.lastOps[:0], sc.ops
		sc.ops = in.Spec.AppendStepOps(sc.ops, &in.Strategy, &w, s)
		sw := stageWork{from: len(sc.colls)}
		sc.colls = in.Spec.AppendStepCollectives(sc.colls, &in.Strategy, &w, s)
		if in.Chunk.Tokens > 0 {
			sc.chunk = in.Spec.AppendStepOps(sc.chunk[:0], &in.Strategy, &in.Chunk, s)
			thin(sc.chunk, in.ChunkShare)
			sc.ops, sc.chunked = joinOps(sc.ops, sc.chunk, sc.chunked)
			sc.chunkColls = in.Spec.AppendStepCollectives(sc.chunkColls[:0], &in.Strategy, &in.Chunk, s)
			sc.colls = joinCollectives(sc.colls, sc.chunkColls, sw.from)
		}
		sw.to = len(sc.colls)
		if s > 0 {
			last := &sc.stages[s-1]
			if slices.Equal(sc.ops, sc.lastOps) && slices.EqualFunc(sc.colls[sw.from:sw.to], sc.colls[last.from:last.to], sameCollective) {
				sw = *last
				sw.twin = true
				sc.colls = sc.colls[:sw.to]
				sc.stages = append(sc.stages, sw)
				continue
			}
		}
		if err := sw.compute(in, sc.ops, sc.chunked); err != nil {
			return err
		}
		sc.stages = append(sc.stages, sw)
	}
	sc.key, sc.spec = key, in.Spec
	return nil
}

// alike says without listing anything that a stage does what the one before it does: both are inner stages of a network
// with one kind of layer, and hold as many.
func (in *Input) alike(s int) bool {
	return len(in.Spec.Kinds) == 1 && s > 1 && s < in.Strategy.PP-1 && in.Spec.LayersOn(in.Strategy, s) == in.Spec.LayersOn(in.Strategy, s-1)
}

// sameCollective compares without the description of an exchange, which follows from the rest.
func sameCollective(a, b model.CollectiveOp) bool {
	a.Exchange, b.Exchange = nil, nil
	return a == b
}

// compute prices the kernels of a stage.
func (sw *stageWork) compute(in Input, ops []model.ComputeOp, chunked []bool) error {
	for i := range ops {
		op := &ops[i]
		price := in.Kernel
		if in.Chunk.Tokens > 0 && chunked[i] {
			price = in.ChunkKernel
		}
		b, bound, err := price(*op)
		if err != nil {
			return fmt.Errorf("%s: %w", op.Name, err)
		}
		b = b.Scale(float64(op.Times))
		sw.kernels = sw.kernels.Add(b)
		if in.inPieces(op) {
			if err := sw.pieces(&in, price, op, b); err != nil {
				return err
			}
		}
		if op.Looped || strings.HasPrefix(op.Name, "moe") {
			sw.experts += b.Time
		}
		sw.flops += op.FLOPs * float64(op.Times)
		if in.Work.Phase == model.Train {
			sw.launches += hostOps(op)
		} else {
			sw.launches += op.Times * launchesOf(op)
		}
		if !in.Brief {
			sw.parts = append(sw.parts, Part{Name: op.Name, Kind: "compute", Band: b, Bound: bound})
		}
	}
	return nil
}

// communicate adds the collectives of a stage. Those that run beside computation cost what computation does not cover.
func (r *Result) communicate(in Input, colls []model.CollectiveOp) error {
	var beside hidden
	var pairs paired
	var copies Band // what products lose beside them
	bound, cover := "", r.Band
	for i := range colls {
		op := &colls[i]
		if op.Times == 0 || handsOver(op) {
			continue
		}
		est, err := in.Comm(*op)
		if err != nil {
			return fmt.Errorf("%s: %w", op.Name, err)
		}
		if !in.Brief {
			r.Comms = append(r.Comms, Used{Op: *op, Times: float64(op.Times), Est: est})
		}
		b := Band{est.Time, est.P10, est.P90}.Scale(float64(op.Times))
		r.launches += op.Times
		if exchanges(op) {
			r.exchange, r.exchanges = r.exchange.Add(b), r.exchanges+op.Times
		}
		if exchanges(op) && in.combined() {
			pairs.add(op, b)
			continue
		}
		if op.Overlappable && !(in.serial && ofData(op.Group)) {
			if strings.Contains(est.Bottleneck, "NIC") {
				r.network += b.Time
			}
			if beside.add(b, &est); bound == "" {
				bound = est.Bottleneck
			}
			continue
		}
		if in.OverlapTP && op.Group == parallel.TP && op.Op != parallel.AllReduce && in.Strategy.SequenceParallel && peerToPeer(&est) {
			one := b.Scale(1 / float64(in.Strategy.TP))
			others := b.Add(one.Scale(-1))
			beside.copied(others)
			copies = copies.Add(others.Scale(copyCost))
			b = one
		}
		r.Band = r.Band.Add(b)
		if !in.Brief {
			r.Parts = append(r.Parts, Part{Name: op.Name, Kind: op.Group.String(), Band: b, Bound: est.Bottleneck, exchange: exchanges(op)})
		}
	}
	exposed := beside.exposed(cover, copies)
	if copies.Time > 0 {
		exposed = Band{exposed.Time - copies.Time, exposed.P10 - copies.P10, exposed.P90 - copies.P90}
		r.slower(&in, "products beside copies", copies)
		r.slower(&in, "products in pieces", r.cut)
	}
	if exposed.P90 > 0 {
		r.Band = r.Band.Add(exposed)
		if !in.Brief {
			r.Parts = append(r.Parts, Part{Name: "exposed gathers", Kind: "dp", Band: exposed, Bound: bound})
		}
	}
	r.pair(&in, &pairs, &beside, cover)
	return nil
}

// ofData says that a group shares out the batch: replicas, pieces of a context, and the replicas of experts.
func ofData(g parallel.Dim) bool {
	return g == parallel.DP || g == parallel.CP || g == parallel.ExpertDP
}

func join(a, b Result) Result {
	return Result{Band: a.Band.Add(b.Band), Parts: append(slices.Clone(a.Parts), b.Parts...), FLOPs: max(a.FLOPs, b.FLOPs)}
}

// merge adds parts of the same kind and name and sorts them. The dearest says what binds. Transfers between stages stay
// apart by what they cross: NVLink inside a rack, the network between two.
func merge(parts []Part) []Part {
	hop := parallel.PP.String()
	slices.SortStableFunc(parts, func(a, b Part) int {
		by := cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
		if by == 0 && a.Kind == hop {
			by = cmp.Compare(a.Bound, b.Bound)
		}
		return by
	})
	var out []Part
	var most units.Duration
	for _, p := range parts {
		if n := len(out); n > 0 && out[n-1].Kind == p.Kind && out[n-1].Name == p.Name && (p.Kind != hop || out[n-1].Bound == p.Bound) {
			if p.Band.Time > most {
				most, out[n-1].Bound = p.Band.Time, p.Bound
			}
			out[n-1].Band = out[n-1].Band.Add(p.Band)
			continue
		}
		out, most = append(out, p), p.Band.Time
	}
	return out
}

// comms lists each distinct collective once with how often the busiest stage issues it in a step.
func comms(stages []Result) []Used {
	type key struct {
		name  string
		op    parallel.Op
		group parallel.Dim
		bytes units.Bytes
		dtype string
	}
	at := map[key]int{}
	var out []Used
	for _, r := range stages {
		for _, u := range r.Comms {
			k := key{u.Op.Name, u.Op.Op, u.Op.Group, u.Op.Bytes, u.Op.DType}
			i, ok := at[k]
			if !ok {
				at[k] = len(out)
				out = append(out, u)
				continue
			}
			out[i].Times = max(out[i].Times, u.Times)
			if u.Est.Time > out[i].Est.Time { // the dearest boundary of a pipeline
				out[i].Est = u.Est
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Used) int {
		return cmp.Or(cmp.Compare(a.Op.Group, b.Op.Group), cmp.Compare(a.Op.Name, b.Op.Name), cmp.Compare(a.Op.Bytes, b.Op.Bytes))
	})
	return out
}
