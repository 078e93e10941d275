package step

import (
	"math"

	"rankmap/internal/engine"
	"rankmap/internal/units"
)

// Apart is a deployment with prefill and decode on instances of their own.
type Apart struct {
	Prefill, Decode   int // instances of each
	PrefillReplicas   int // attention replicas of a prefill instance
	DecodeReplicas    int
	DecodeSlots       int            // requests that the cache of one decode instance holds; 0 = all
	Transfer          units.Duration // of a prompt's KV cache from prefill to decode
	PrefillE, DecodeE engine.Serving
}

// ServeApart finds the steady state of a deployment with prefill and decode apart, whose clients all share it.
//
// N clients pass at X = N/(TTFT + OSL TPOT) requests a second. Decode runs D = X OSL TPOT sequences and nothing else. A
// prompt needs t(prefill), n steps of the budget at most; each prefill instance is busy for u = X t/n(instances), and a
// prompt waits u t/(2 (1-u)) (M/D/1). Where prefill cannot keep up (u = 1) prompts queue until X is what it passes:
// TTFT = N t/n - OSL TPOT. TTFT holds the transfer of the cache and the first decode step, after which the answer comes
// from the decode instance.
func ServeApart(l Load, a Apart, prefill, decode Steps) (Service, error) {
	p := solver{l: l, e: a.PrefillE, slots: l.Clients}
	p.l.Replicas = a.PrefillReplicas
	p.cutBy(p.e.Budget)
	context := max(p.piece, (l.ISL+p.piece)/2)
	one, err := prefill.Prompt(0, p.piece, context, 1)
	if err != nil {
		return Service{}, err
	}
	perStep := min(p.room(p.left), max(1, float64(l.Clients)/float64(a.Prefill)))
	full := one
	if t := int(math.Ceil(float64(p.piece) * max(1, perStep/float64(max(1, a.PrefillReplicas))))); t > p.piece {
		if full, err = prefill.Prompt(0, t, context, 1); err != nil {
			return Service{}, err
		}
	}
	clients, osl := float64(l.Clients), float64(max(1, l.OSL))
	d := clients
	if a.DecodeSlots > 0 {
		d = min(d, float64(a.DecodeSlots*a.Decode))
	}
	out := Service{Chunks: p.chunks}
	for range 2 {
		dec, err := decode.Decode(max(1, int(math.Ceil(d/float64(a.Decode*max(1, a.DecodeReplicas))))))
		if err != nil {
			return Service{}, err
		}
		for _, f := range bandFields {
			p.apart(f, &out, a, one, full, dec, perStep)
		}
		next := min(d, clients*osl*out.TPOT.Time.Seconds()/(osl*out.TPOT.Time.Seconds()+out.TTFT.Time.Seconds()))
		if next > 0.97*d {
			break
		}
		d = max(1, next)
	}
	out.Running = int(d + 0.5)
	out.TTFT, out.TPOT = widen(out.TTFT, ttftSpread), widen(out.TPOT, tpotSpread)
	out.Rate = clients / (out.TTFT.Time.Seconds() + osl*out.TPOT.Time.Seconds())
	return out, nil
}

// apart fills one field of the bands.
func (v *solver) apart(f bandField, out *Service, a Apart, one, full, dec Passage, perStep float64) {
	clients, osl, n := float64(v.l.Clients), units.Duration(max(1, v.l.OSL)), units.Duration(v.chunks)
	dv := solver{e: a.DecodeE}
	tpot := dv.floor(f.get(dec.Pace), dec.Kernels, a.DecodeE.Eager)*units.Duration(max(1, dec.Ring)) + a.DecodeE.Step*units.Duration(max(1, dec.Stages))
	own := n * (v.floor(f.get(one.Through), one.Kernels, true) + v.e.Step*units.Duration(max(1, one.Stages)))
	group := n * (v.floor(f.get(full.Pace), full.Kernels, true) + v.e.Step)
	pass := group / units.Duration(perStep*float64(a.Prefill)) // of a prompt when all instances are busy
	fixed := v.e.Request + a.DecodeE.Request + a.Transfer + own + tpot
	// u from the cycle without queue; the queue then lowers it, which one more look settles.
	queue := units.Duration(0)
	for range 8 {
		x := units.Duration(clients) / (fixed + queue + osl*tpot)
		u := min(0.95, x*pass)
		queue = max(u/(2*(1-u))*group, units.Duration(clients)*pass-osl*tpot-fixed)
	}
	steady := fixed + queue
	groups := max(1, clients/(perStep*float64(a.Prefill)))
	burst := v.e.Request + a.DecodeE.Request + a.Transfer + tpot + group*units.Duration((groups+1)/2)
	ttft := steady + units.Duration(v.l.Burst)*max(0, burst-steady)
	f.set(&out.Decode, tpot)
	f.set(&out.TPOT, tpot)
	f.set(&out.Prompt, own)
	f.set(&out.Queue, queue)
	f.set(&out.TTFT, ttft)
}

// cutBy divides a prompt by the tokens that a step has for it; 0 = any number.
func (v *solver) cutBy(left int) {
	v.left, v.chunks, v.piece = left, 1, max(1, v.l.ISL)
	if !v.e.Whole && left > 0 && v.l.ISL > left {
		v.chunks = (v.l.ISL + left - 1) / left
		v.piece = (v.l.ISL + v.chunks - 1) / v.chunks
	}
}
