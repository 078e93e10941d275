package compute

import (
	"math"

	"rankmap/internal/hardware"
)

// gemm is a matrix product resolved for one GPU, one compute type, one framework.
//
// The form is that of a tiled kernel with split-K: blocks of tm x tn run in waves over the SMs; a block's main loop
// takes what the tensor cores need for it, but never less than lk a step of K (latency of shared memory and issue);
// math and memory traffic overlap as a p-norm; the cheapest of 4 tiles x 5 splits is taken, as the library's own
// heuristic does. It is not monotone: m=129 costs a second row of blocks.
type gemm struct {
	sm            int
	tile          [len(tiles)]float64 // seconds a unit of k, per tile
	tw, t1, p     float64             // seconds, seconds, -
	flat          float64             // 2^(1/p-1): the p-norm of two terms over their sum, at least
	split, late   bool
	ba, bw        float64 // bytes an element of A and of B
	imem          float64 // seconds a byte
	t0, q, tr, ta float64 // seconds, seconds an element of A, seconds a row, seconds when m is no multiple of 4
	grid          *Grid
	ok            bool
	band          band
	flags         Flags
}

// tiles are the block shapes (rows, columns) of the candidates; more or larger ones did not improve held-out rows.
var tiles = [4][2]int{{128, 256}, {128, 128}, {64, 128}, {64, 64}}

// accumulates is the traffic of an output element of a product that adds to an fp32 matrix.
const accumulates = 8

// late says that half of what a product reads and writes that adds to an fp32 matrix comes on top of its time: at the end of a
// block, when the registers that its next block needs still hold its sums. On H200 (cuBLAS 13, docs/measurements/h200/2026-11-30-training) weight gradients
// of 512 to 8,192 tokens took 0.25 to 1 of that traffic longer than the same product that writes bf16, those of experts in turn
// most; products that add to a bf16 matrix took no longer. Blackwell keeps the sums of two blocks in a memory of their own; on
// Ampere nothing was measured, and its published steps do not ask for it.
func late(g *hardware.GPU) bool { return g.Generation == "hopper" }

// splits are the candidate numbers of K slices.
var splits = [5]int{1, 2, 4, 8, 16}

// newGEMM resolves parameters. sustained multiplies the tensor-core efficiency.
func newGEMM(g *hardware.GPU, t dtype, k hardware.GEMM, l hardware.Launch, sustained float64) gemm {
	info := types[t]
	peak := g.Peak(info.peak)
	out := gemm{
		sm: max(g.SMs, 1), tw: k.TW * 1e-6, t1: k.T1 * 1e-6, p: max(k.P, 1), flat: math.Exp2(1/max(k.P, 1) - 1), split: k.T1 > 0, late: late(g),
		ba: info.act, bw: info.weight, imem: 1 / (k.EM * g.HBMGBps * 1e9),
		t0: l.T0 * 1e-6, tr: l.TR * 1e-6, ta: l.TA * 1e-6, ok: peak > 0 && k.EC > 0,
	}
	if info.quantize {
		out.q = l.Q * (2 + info.act) * out.imem
	} else {
		out.tr, out.ta = 0, 0
	}
	for i, s := range tiles {
		out.tile[i] = math.Max(2*float64(s[0]*s[1])*float64(out.sm)/(k.EC*sustained*peak), k.LK*1e-9)
	}
	return out
}

// norm is (a^p + b^p)^(1/p) for non-negative a and b.
func norm(a, b, p float64) float64 {
	if a < b {
		a, b = b, a
	}
	if b <= 0 {
		return a
	}
	if p == 1 {
		return a + b
	}
	y := math.Exp(p * math.Log(b/a)) // math.Pow's care for special values costs twice the time
	if y < 1e-9 {
		return a
	}
	return a * math.Exp(math.Log(1+y)/p)
}

// parts are the summands of an estimate, seconds.
type parts struct {
	total             float64
	core, mem, launch float64
}

// times scales all parts.
func (p parts) times(f float64) parts {
	return parts{total: p.total * f, core: p.core * f, mem: p.mem * f, launch: p.launch * f}
}

// time prices one product C[m,n] = A[m,k] B[k,n] with bo bytes of traffic for an element of C.
func (g *gemm) time(m, n, k int, bo float64) parts {
	fm, fn, fk := float64(m), float64(n), float64(k)
	late := 0.0
	if g.late && bo >= accumulates {
		late = bo * fm * fn * g.imem / 2
	}
	mem := (g.ba*fm*fk + g.bw*fn*fk + bo*fm*fn) * g.imem
	var blocks [len(tiles)]int
	for i := range tiles {
		blocks[i] = ((m + tiles[i][0] - 1) / tiles[i][0]) * ((n + tiles[i][1] - 1) / tiles[i][1])
	}
	best, bestCore, bestRed := math.Inf(1), 0.0, 0.0
	step := (k + 63) / 64
	for si, s := range splits {
		if si > 0 && (!g.split || step < s) {
			break
		}
		red := 0.0
		if s > 1 {
			red = g.t1 + 4*float64(s)*fm*fn*g.imem
		}
		if mem+red >= best {
			break // deeper splits only add traffic
		}
		kk := float64(64 * ((step + s - 1) / s))
		core := math.Inf(1)
		for i := range tiles {
			waves := (blocks[i]*s + g.sm - 1) / g.sm
			if c := float64(waves) * (kk*g.tile[i] + g.tw); c < core {
				core = c
			}
		}
		// A p-norm is no less than its larger term, nor than the mean of powers allows.
		if max(core, mem, g.flat*(core+mem))+red >= best {
			continue
		}
		if t := norm(core, mem, g.p) + red; t < best {
			best, bestCore, bestRed = t, core, red
		}
	}
	fixed := g.t0 + g.q*fm*fk + g.tr*fm
	if m%4 != 0 {
		fixed += g.ta
	}
	p := parts{core: bestCore, mem: mem + late, launch: fixed + bestRed, total: fixed + best + late}
	if g.grid != nil {
		p.total *= g.grid.factor(coords(fm, fn, fk, 1))
	}
	return p
}
