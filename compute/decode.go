package compute

import (
	"math"

	"rankmap/internal/hardware"
)

// decode is attention of one new token a sequence over its cache. The grouped kernel runs one block for each sequence,
// KV head and split of the context; the per-head kernel one for each query head. Blocks run over the SMs as
//
//	max( (blocks tw + tokens lt)/SM, tw + lt tokens of one block ),
//
// which is throughput when there are many and latency when there are few; memory traffic overlaps that as a p-norm.
type decode struct {
	grouped, perHead decodePath
	maxGroup         int
	fill             float64 // blocks (with one split for each 128 tokens) that the grouped kernel needs
	cache            float64 // bytes a cached element
	ihbm             float64 // seconds a byte at datasheet rate
	ok               bool
	band             band
	flags            Flags
}

// decodePath is one kernel, resolved.
type decodePath struct {
	t0, t1, tw, lt, ld float64
	at64, at128        float64 // (64/256)^ld, (128/256)^ld
	mem, p, wide       float64
	waves              bool
	split              int
	sm                 int
	grid               *Grid
}

func newDecode(g *hardware.GPU, key int, k hardware.Decode) decode {
	out := decode{
		maxGroup: k.MaxGroup, fill: k.Fill * float64(g.SMs), cache: 2, ihbm: 1 / (g.HBMGBps * 1e9),
		ok: k.PerHead.EM > 0 || k.Grouped.EM > 0,
	}
	if key != keyBF16 {
		out.cache = 1
	}
	out.grouped, out.perHead = newDecodePath(g, k.Grouped), newDecodePath(g, k.PerHead)
	return out
}

func newDecodePath(g *hardware.GPU, k hardware.DecodePath) decodePath {
	return decodePath{
		t0: k.T0 * 1e-6, t1: k.T1 * 1e-6, tw: k.TW * 1e-6, lt: k.LT * 1e-9, ld: k.LD, p: math.Max(k.P, 1),
		at64: math.Exp2(-2 * k.LD), at128: math.Exp2(-k.LD),
		mem: 1 / (orOne(k.EM) * g.HBMGBps * 1e9), wide: orOne(k.Wide), waves: k.Waves, split: k.Split, sm: max(g.SMs, 1),
	}
}

// minHistory is how many tokens of context TensorRT-LLM's grouped kernel gives a block at least, and its unit when it
// asks whether that kernel fills the GPU (cpp/tensorrt_llm/kernels/decoderMaskedMultiheadAttention, version 1.x).
const minHistory = 128

// useGrouped says whether the grouped kernel runs.
func (a *decode) useGrouped(b, l, h, kv int) bool {
	if h <= kv || h%kv != 0 || h/kv > a.maxGroup {
		return false
	}
	return float64(b*kv)*float64(max(l/minHistory, 1)) >= a.fill
}

// divide sorts samples by the kernel that runs them.
func (a *decode) divide(all []Sample) (grouped, perHead []Sample) {
	for _, s := range all {
		if a.useGrouped(s.Op.Batch, s.Op.Context, s.Op.Heads, s.Op.KVHeads) {
			grouped = append(grouped, s)
		} else {
			perHead = append(perHead, s)
		}
	}
	return grouped, perHead
}

// splits is in how many parts each of n rows over l tokens is cut.
func (a *decodePath) splits(n, l int) int {
	if !a.waves {
		if a.split <= 0 {
			return 1
		}
		return max(1, min(a.sm/n, (l+a.split-1)/a.split))
	}
	// TensorRT-LLM's rule: a split for each 128 tokens, but no more than sqrt(8 splits), so that the combine stays
	// cheap, and no more than fill the GPU eight times.
	s := l / minHistory
	s = max(min(s, int(math.Round(math.Sqrt(8*float64(s))))), 1)
	if waves := float64(n) * float64(s) / float64(a.sm); waves > 8 {
		s = max(int(float64(s)*8/waves), 1)
	}
	return s
}

// time prices b sequences with l cached tokens each, of which a window w (0 = none) counts.
func (a *decode) time(b, l, h, kv, d, w int) parts {
	n, path := b*h, &a.perHead
	if a.useGrouped(b, l, h, kv) {
		n, path = b*kv, &a.grouped
	}
	s := path.splits(n, l)
	read := l
	if w > 0 {
		read = min(w, l)
	}
	fn, fs, fr, sm := float64(n), float64(s), float64(read), float64(path.sm)
	bytes := float64(d) * a.cache
	lt, tw := path.lt, path.tw
	switch {
	case bytes == 256:
	case bytes == 128:
		lt *= path.at128
	case bytes == 64:
		lt *= path.at64
	default:
		lt *= math.Pow(bytes/256, path.ld)
	}
	if path.wide != 1 && n == b*kv && h > 16*kv {
		lt *= path.wide
		tw *= path.wide
	}
	p := parts{launch: path.t0}
	if s > 1 {
		p.launch += path.t1
	}
	one := math.Min(math.Ceil(float64(l)/fs), fr) // tokens that one block reads
	p.core = math.Max((fn*fs*tw+fn*fr*lt)/sm, tw+one*lt)
	p.mem = 2*fn*fr*bytes*path.mem + 8*float64(b*h)*float64(d)*a.ihbm
	p.total = p.launch + norm(p.core, p.mem, path.p)
	if path.grid != nil {
		p.total *= path.grid.factor(coords(float64(b*kv), float64(l), float64(h)/float64(kv), 1))
	}
	return p
}
