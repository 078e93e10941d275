package compute

import (
	"math"

	"rankmap/internal/hardware"
)

// expPerClock is how many exponentials one SM computes a clock on every GPU to date but Blackwell Ultra
// (CUDA C Programming Guide, throughput of native arithmetic instructions: 16 special functions a clock and SM).
const expPerClock = 16

// prefill is attention over a prompt: blocks of T queries walk over the keys that the causal mask and the window leave.
// One (query, key, head) pair costs its matrix work and one exponential, overlapped as a p-norm: the exponential is
// what keeps Hopper and Blackwell below their tensor-core rate.
type prefill struct {
	t             int
	t0, tcta      float64 // seconds
	tail, wx      float64
	macs          float64 // SM-seconds a pair and head-dimension unit: 4/(ec P/SM)
	exp, pm       float64 // SM-seconds of one exponential
	lin, wkv      float64 // seconds an element of Q, K, V and O
	sm            float64
	ok            bool
	grid          *Grid
	band          band
	flags         Flags
	per64, per128 float64
}

func newPrefill(g *hardware.GPU, key int, k hardware.Prefill, sustained float64) prefill {
	peak := "bf16"
	if key == keyFP8 {
		peak = "fp8"
	}
	p := g.Peak(peak)
	sm := float64(max(g.SMs, 1))
	out := prefill{
		t: max(k.T, 1), t0: k.T0 * 1e-6, tcta: k.TCTA * 1e-6, tail: k.Tail, wx: k.WX, sm: sm, pm: k.PM, wkv: k.WKV,
		macs: 4 * sm / (k.EC * sustained * p), exp: k.SX / (expRate(g) * g.BoostGHz * 1e9 * sustained),
		ok: p > 0 && k.EC > 0,
	}
	if k.EM > 0 {
		out.lin = 8 / (k.EM * g.HBMGBps * 1e9)
	}
	out.per64, out.per128 = norm(64*out.macs, out.exp, out.pm), norm(128*out.macs, out.exp, out.pm)
	return out
}

// expRate is exponentials a clock and SM.
func expRate(g *hardware.GPU) float64 {
	if g.ExpPerClock > 0 {
		return g.ExpPerClock
	}
	return expPerClock
}

// pairs counts (query, key) tile pairs of one head and the keys of the longest block, in tiles of t.
func pairs(s, t, window int) (band, last, nq float64) {
	n := (s + t - 1) / t
	k := n
	if window > 0 {
		k = min(n, (window+t-1)/t+1)
	}
	fk, fn := float64(k), float64(n)
	return fk*(fk+1)/2 + (fn-fk)*fk, fk, fn
}

// reach is what cached tokens in front of the new ones add.
type reach struct{ pairs, last float64 }

// before counts the tile pairs of nq query tiles with the c-s cached tokens before them: all of them, or under a window
// w only those that the first queries still see.
func before(s, c, w, t int, nq float64) reach {
	if c <= s {
		return reach{}
	}
	if w <= 0 {
		extra := float64((c - s + t - 1) / t)
		return reach{nq * extra, extra}
	}
	extra := float64((min(c-s, w) + t - 1) / t)
	return reach{math.Min(nq, math.Ceil(float64(w)/float64(t))) * extra / 2, 0}
}

// time prices b sequences of s new tokens over a context of c tokens (the new ones included), h query and kv key heads
// of size d, window w (0 = none). Context before the new tokens adds full tiles for each query block.
func (a *prefill) time(b, s, c, h, kv, d, w int) parts {
	per := a.per128
	switch d {
	case 128:
	case 64:
		per = a.per64
	default:
		per = norm(float64(d)*a.macs, a.exp, a.pm)
	}
	tiles, last, nq := pairs(s, a.t, w)
	extra := before(s, c, w, a.t, nq)
	tiles, last = tiles+extra.pairs, last+extra.last
	if w > 0 && c > w {
		per *= a.wx
	}
	t2 := float64(a.t) * float64(a.t)
	core := float64(b*h)*(tiles*t2*per+nq*a.tcta)/a.sm + a.tail*last*t2*per
	mem := float64(b) * float64(s) * float64(d) * (float64(h) + a.wkv*float64(kv)) * a.lin
	p := parts{core: core, mem: mem, launch: a.t0, total: a.t0 + core + mem}
	if a.grid != nil {
		p.total *= a.grid.factor(prefillCoords(b, s, h, d, w))
	}
	return p
}
