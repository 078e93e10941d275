package compute

import (
	"math"

	"rankmap/internal/hardware"
)

// Sizes of multi-head latent attention as DeepSeek-V2 and V3 use it (arXiv 2405.04434 table 1, 2412.19437): 128
// dimensions without and 64 with rotary embedding in Q and K, 128 in V, a latent of 512.
const (
	mlaQK     = 192
	mlaV      = 128
	mlaCached = 512 + 64 // elements a token in the cache
)

// mlaPrefill is latent attention over a prompt, expanded to ordinary heads.
type mlaPrefill struct {
	t        int
	t0, tcta float64
	tail     float64
	per      float64
	lin, sm  float64
	ok       bool
	grid     *Grid
	band     band
	flags    Flags
}

func newMLAPrefill(g *hardware.GPU, k hardware.MLAPrefill, sustained float64) mlaPrefill {
	p := g.Peak("bf16")
	sm := float64(max(g.SMs, 1))
	out := mlaPrefill{t: max(k.T, 1), t0: k.T0 * 1e-6, tcta: k.TCTA * 1e-6, tail: k.Tail, sm: sm, ok: p > 0 && k.EC > 0}
	out.per = norm(2*(mlaQK+mlaV)*sm/(k.EC*sustained*p), k.SX/(expRate(g)*g.BoostGHz*1e9*sustained), k.PM)
	if k.EM > 0 {
		out.lin = 1 / (k.EM * g.HBMGBps * 1e9)
	}
	return out
}

func (a *mlaPrefill) time(b, s, c, h, w int) parts {
	tiles, last, nq := pairs(s, a.t, w)
	extra := before(s, c, w, a.t, nq)
	tiles, last = tiles+extra.pairs, last+extra.last
	t2 := float64(a.t) * float64(a.t)
	core := float64(b*h)*(tiles*t2*a.per+nq*a.tcta)/a.sm + a.tail*last*t2*a.per
	mem := float64(b) * float64(s) * (2048*float64(h) + 4608) * a.lin
	p := parts{core: core, mem: mem, launch: a.t0, total: a.t0 + core + mem}
	if a.grid != nil {
		p.total *= a.grid.factor(coords(float64(b*h), float64(s), float64(h), 1))
	}
	return p
}

// mlaDecode is absorbed latent attention: all heads of a sequence share one latent cache.
type mlaDecode struct {
	t0, t1, lt, tw float64
	mem, mac, q    float64
	cache          float64
	sm             int
	whole          bool
	ok             bool
	grid           *Grid
	band           band
	flags          Flags
}

func newMLADecode(g *hardware.GPU, key int, k hardware.MLADecode) mlaDecode {
	p := g.Peak("bf16")
	bw := g.HBMGBps * 1e9
	out := mlaDecode{
		t0: k.T0 * 1e-6, t1: k.T1 * 1e-6, lt: k.LT * 1e-9, tw: k.TW * 1e-6, cache: 2, sm: max(g.SMs, 1), whole: k.Whole,
		mem: 1 / (k.EM * bw), mac: 2 * (mlaCached + 512) / (k.EC * p), q: 4480 / (k.EQ * bw), ok: p > 0 && k.EM > 0,
	}
	if key != keyBF16 {
		out.cache = 1
	}
	return out
}

func (a *mlaDecode) time(b, l, h int) parts {
	n := b * ((h + 127) / 128)
	s := 1
	if !a.whole {
		s = max(1, min(max(a.sm/n, 1), (l+511)/512))
	}
	p := parts{launch: a.t0}
	if s > 1 {
		p.launch += a.t1
	}
	fn, fl := float64(n), float64(l)
	read := fn * fl * mlaCached * a.cache * a.mem
	math1 := float64(b) * float64(max(h, 16)) * fl * a.mac
	lat := fl/float64(s)*a.lt + fn*a.tw/float64(a.sm)
	q := float64(b*h) * a.q
	p.core, p.mem = lat+math1, read+q
	p.total = p.launch + lat + math.Max(read, math1) + q
	if a.grid != nil {
		p.total *= a.grid.factor(coords(float64(b), fl, float64(h), 1))
	}
	return p
}
