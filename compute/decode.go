package compute

import (
	"math"

	"rankmap/internal/hardware"
)

// decode is attention of one new token a sequence over its cache: n independent blocks (sequence x KV head on the
// grouped path, sequence x query head on the multi-head path), each walking its share of the context at lt a token, the
// context split over idle SMs. The parts add up: a p-norm fits worse.
type decode struct {
	t0, t1   float64
	x, m     decodePath
	maxGroup int
	minSplit int
	cache    float64 // bytes a cached element
	sm       int
	ihbm     float64 // seconds a byte at datasheet rate
	ok       bool
	grid     *Grid
	band     band
	flags    Flags
}

// decodePath is one of the two kernels.
type decodePath struct{ lt, tw, mem float64 }

func newDecode(g *hardware.GPU, key int, k hardware.Decode) decode {
	out := decode{
		t0: k.T0 * 1e-6, t1: k.T1 * 1e-6, maxGroup: k.MaxGroup, minSplit: k.MinSplit, cache: 2, sm: max(g.SMs, 1),
		ihbm: 1 / (g.HBMGBps * 1e9), ok: k.EMX > 0 || k.EMM > 0,
	}
	if key != keyBF16 {
		out.cache = 1
	}
	if out.minSplit == 0 {
		out.minSplit = 512
	}
	path := func(em, lt, tw float64) decodePath {
		if em <= 0 {
			em = 1
		}
		return decodePath{lt: lt * 1e-9, tw: tw * 1e-6, mem: out.ihbm / em}
	}
	out.x, out.m = path(k.EMX, k.LTX, k.TWX), path(k.EMM, k.LTM, k.TWM)
	return out
}

// grouped says whether the kernel that shares K and V among the query heads of a group runs.
func (a *decode) grouped(h, kv int) bool {
	return h > kv && h%kv == 0 && h/kv <= a.maxGroup
}

// time prices b sequences with l cached tokens each.
func (a *decode) time(b, l, h, kv, d, w int) parts {
	n, path := b*h, &a.m
	if a.grouped(h, kv) {
		n, path = b*kv, &a.x
	}
	read := l
	if w > 0 {
		read = min(w, l)
	}
	s := min(max(a.sm/n, 1), (l+a.minSplit-1)/a.minSplit)
	p := parts{launch: a.t0}
	if s > 1 {
		p.launch += a.t1
	} else {
		s = 1
	}
	tok := float64(l) / float64(s)
	if w > 0 {
		tok = math.Min(tok, float64(w))
	}
	fd, fn := float64(d), float64(n)
	p.core = tok*path.lt*math.Sqrt(fd*a.cache/256) + fn*path.tw/float64(a.sm)
	p.mem = 2*fn*float64(read)*fd*a.cache*path.mem + 8*float64(b*h)*fd*a.ihbm
	p.total = p.launch + p.core + p.mem
	if a.grid != nil {
		p.total *= a.grid.factor4(float64(b), float64(l), float64(h), float64(h)/float64(kv))
	}
	return p
}
