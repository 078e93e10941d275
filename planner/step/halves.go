package step

import (
	"slices"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/model"
)

// Two-batch overlap: a step over experts is cut in two halves, and while one half computes the other half's dispatch or
// combine is on its way (SGLang --enable-two-batch-overlap, vLLM --enable-dbo, DeepSeek's dual micro-batches). With C the
// computation and X the exchange of one half in all layers of a stage, n exchanges a half,
//
//	step = 2 max(C, X) + min(C, X)/n
//
// the last term being the first half's first piece and the second half's last one, which have nothing beside them. Halving
// is not free: weights are read twice, and while prompts are exchanged the exchange holds a share of the SMs, so that C
// grows by that share of what runs beside it. An engine that can overlap does so where it helps; the shorter of both steps
// counts.

// exchangeSMs is the share of a GPU that DeepEP's normal kernels hold: 24 of 132 SMs (deep_ep, Buffer.set_num_sms(24)).
// The low-latency kernels of decode receive by a hook and hold none.
const exchangeSMs = 24.0 / 132

// exchanges says that a collective is a dispatch or combine of experts.
func exchanges(op *model.CollectiveOp) bool {
	return op.Group == parallel.EP && op.Op == parallel.AllToAll
}

// halved cuts a work in two; false when there is nothing to cut.
func halved(w model.Work) (model.Work, bool) {
	switch {
	case w.Batch > 1:
		w.Batch = (w.Batch + 1) / 2
	case w.Tokens > 1:
		w.Context = max(1, w.Context-w.Tokens/4) // the halves of a prompt see a quarter less on average
		w.Tokens = (w.Tokens + 1) / 2
		w.Context = max(w.Context, w.Tokens)
	default:
		return w, false
	}
	return w, true
}

// overlap replaces the stages that are shorter in two halves.
func overlap(in Input, w model.Work, all []Result) error {
	half, ok := halved(w)
	if !ok || !slices.ContainsFunc(all, func(r Result) bool { return r.exchanges > 0 }) {
		return nil
	}
	in.Halves, in.stopAt = false, 0
	if in.Chunk.Tokens > 0 {
		if in.Chunk, ok = halved(in.Chunk); !ok {
			return nil
		}
	}
	if in.Scratch != nil {
		if in.Scratch.half == nil {
			in.Scratch.half = new(Scratch)
		}
		in.Scratch = in.Scratch.half
	}
	parts, err := stages(in, half)
	if err != nil {
		return err
	}
	held := 0.0
	if half.Phase != model.Decode || in.Chunk.Tokens > 0 {
		held = exchangeSMs
	}
	for i := range all {
		if h := parts[i].twice(held); h.exchanges > 0 && h.started(in.Launch) < all[i].started(in.Launch) {
			h.FLOPs = all[i].FLOPs
			all[i] = h
		}
	}
	return nil
}

// twice is a stage that runs two halves beside each other, of which r is one. held is the share of the GPU that the
// exchange takes from the computation beside it.
func (r Result) twice(held float64) Result {
	if r.exchanges == 0 {
		return r
	}
	n := units.Duration(r.exchanges)
	out := r
	for _, f := range bandFields {
		x := f.get(r.exchange)
		c := f.get(r.Band) - x
		c += units.Duration(held) * min(c, x)
		f.set(&out.Band, 2*max(c, x)+min(c, x)/n)
	}
	out.launches *= 2
	shown := 0.0 // of the exchange: what is not hidden
	if x := 2 * r.exchange.Time; x > 0 {
		shown = max(0, float64((out.Time-2*(r.Time-r.exchange.Time))/x))
	}
	out.Parts, out.Comms = slices.Clone(r.Parts), slices.Clone(r.Comms)
	for i := range out.Parts {
		f := 2.0
		if p := &out.Parts[i]; p.exchange {
			f *= shown
			p.Name += ", not hidden"
		}
		out.Parts[i].Band = out.Parts[i].Band.Scale(f)
	}
	for i := range out.Comms {
		out.Comms[i].Times *= 2
	}
	return out
}
