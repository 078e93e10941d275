package compute

import (
	"math"

	"rankmap/internal/hardware"
)

// moe is the expert layer of one GPU: route, permute, first grouped product, activation, second, combine. Memory counts
// the weights of the active experts only; the math counts tile rows, which is what many small experts waste.
type moe struct {
	sm         float64
	tile       [len(moeTiles)]float64
	tw, p      float64
	t0, te, tr float64
	odd        float64 // factor on three-fold local experts, above 1 in tables only
	w, act     float64 // bytes a weight; bytes of a quantized activation
	imem, iact float64
	ok         bool
	gated      bool  // runs experts with a gate matrix only
	mix        *Grid // of a fused kernel: from its price to that of a table's row, which may be of the other kernel
	grid       *Grid
	band       band
	flags      Flags
}

// moeTiles are the block shapes; the third reads Load.Rows[1].
var moeTiles = [3][2]int{{128, 256}, {128, 128}, {64, 128}}

func newMoE(g *hardware.GPU, t dtype, k hardware.MoE, sustained float64) moe {
	info := types[t]
	peak := g.Peak(info.peak)
	bw := g.HBMGBps * 1e9
	out := moe{
		sm: float64(max(g.SMs, 1)), tw: k.TW * 1e-6, p: k.P, t0: k.T0 * 1e-6, te: k.TE * 1e-9, tr: k.TR * 1e-9, w: info.weight, act: info.act,
		imem: 1 / (k.EM * bw), iact: 1 / (k.EA * bw), ok: peak > 0 && k.EC > 0,
	}
	for i, s := range moeTiles {
		out.tile[i] = math.Max(2*float64(s[0]*s[1])*out.sm/(k.EC*sustained*peak), k.LK*1e-9)
	}
	return out
}

// moeShape is one layer on one GPU.
type moeShape struct {
	tokens, hidden, inter int // inter is this GPU's share
	pairs                 int // (token, expert) pairs of the whole expert-parallel group
	local, ep             float64
	gated                 bool
	load                  Load
}

func (s *moeShape) coords() [4]float64 {
	return coords(math.Max(s.load.Slots, 1)/math.Max(s.load.Active, 1), s.local, float64(s.hidden)*float64(s.inter), s.ep)
}

func (a *moe) time(s *moeShape) parts {
	g := 1.0
	if s.gated {
		g = 2
	}
	h, i := float64(s.hidden), float64(s.inter)
	core := math.Inf(1)
	for ti, t := range moeTiles {
		rows := s.load.Rows[0]
		if t[0] == 64 {
			rows = s.load.Rows[1]
		}
		tn := float64(t[1])
		c := math.Max(1, rows*math.Ceil(g*i/tn)/a.sm)*(h*a.tile[ti]+a.tw) +
			math.Max(1, rows*math.Ceil(h/tn)/a.sm)*(i*a.tile[ti]+a.tw)
		core = math.Min(core, c)
	}
	mem := s.load.Active * (g + 1) * h * i * a.w * a.imem
	act := (2*float64(s.tokens)*h + s.load.Slots*(h*(2+a.act)+2*g*i+2*a.act*i+4*h)) * a.iact
	p := parts{core: core, mem: mem + act, launch: a.t0 + a.te*s.local + a.tr*float64(s.pairs)}
	p.total = p.launch + norm(core, mem, a.p) + act
	if a.grid != nil {
		p.total *= a.grid.factor(s.coords())
	}
	if a.odd > 1 && threefold(s.local) {
		p.total *= a.odd
	}
	return p
}

// threefold says whether a GPU holds 3, 6 or 12 experts: the library of the Hopper tables has no tuned kernel for them and
// falls back to one several times slower. Other libraries do not, so plans only carry a flag.
func threefold(local float64) bool { return local == 3 || local == 6 || local == 12 }
