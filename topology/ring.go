package topology

import (
	"math"
	"math/bits"
	"slices"

	"rankmap/internal/units"
)

// ringKey names some GPUs of a node class.
type ringKey struct {
	class int
	set   partSet
}

// ring is what NVLink without switches offers to some GPUs of a node.
type ring struct {
	ok    bool            // a ring over NVLink alone exists (two GPUs: a link)
	sum   units.Bandwidth // slowest GPU's links to the others, all together
	slow  int16           // that GPU
	other int16           // the other GPU of a pair, else -1
	pair  units.Bandwidth // slowest pair; 0 when one has no link
	best  units.Bandwidth // slowest link of the best ring
}

// exactRing is the most GPUs for which rings are searched exactly: 2^16 x 16 steps, once for each set.
const exactRing = 16

// ring looks the answer up, or works it out the first time.
func (s *Shaper) ring(class int, k *NodeClass, d *classInfo, set partSet) ring {
	key := ringKey{class, set}
	r, ok := s.rings[key]
	if !ok {
		if len(s.rings) >= maxCached {
			clear(s.rings)
		}
		r = k.findRing(d, set)
		s.rings[key] = r
	}
	return r
}

func (k *NodeClass) findRing(d *classInfo, set partSet) ring {
	var m []int
	for g := set.next(0); g >= 0; g = set.next(g + 1) {
		m = append(m, g)
	}
	r := ring{sum: units.Bandwidth(math.Inf(1)), pair: units.Bandwidth(math.Inf(1)), other: -1}
	bw := make([][]units.Bandwidth, len(m))
	var rates []units.Bandwidth
	unknown := false
	for i, a := range m {
		bw[i] = make([]units.Bandwidth, len(m))
		sum := units.Bandwidth(0)
		for j, b := range m {
			if i == j {
				continue
			}
			bw[i][j] = d.pair[a*len(k.GPUs)+b]
			if bw[i][j] == 0 && d.gpus[a].peers.has(b) {
				bw[i][j], unknown = 1, true // a link of unknown rate still joins
			}
			sum += bw[i][j]
			r.pair = min(r.pair, bw[i][j])
			if bw[i][j] > 0 {
				rates = append(rates, bw[i][j])
			}
		}
		if sum < r.sum {
			r.sum, r.slow = sum, int16(a)
		}
	}
	if len(m) == 2 {
		r.best, r.ok, r.slow, r.other = r.pair, r.pair > 0, int16(m[0]), int16(m[1])
		return r.forget(unknown)
	}
	slices.Sort(rates)
	rates = slices.Compact(rates)
	lo, hi := 0, len(rates) // the largest rate at which a ring exists
	for lo < hi {
		mid := (lo + hi) / 2
		if hasRing(bw, rates[mid]) {
			r.best, r.ok = rates[mid], true
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return r.forget(unknown)
}

// forget drops the rates where some link's rate is unknown.
func (r ring) forget(unknown bool) ring {
	if unknown {
		r.sum, r.pair, r.best = 0, 0, 0
	}
	return r
}

// hasRing says whether a ring over all GPUs exists whose every link has at least the rate: the usual dynamic
// programme over subsets, reach[set] = last GPUs of paths from GPU 0 over exactly that set. Above exactRing GPUs only
// complete graphs are recognised.
func hasRing(bw [][]units.Bandwidth, rate units.Bandwidth) bool {
	n := len(bw)
	adj := make([]uint32, n)
	complete := true
	for i := range n {
		for j := range n {
			if i != j && bw[i][j] >= rate {
				adj[i] |= 1 << (j & 31)
			} else if i != j {
				complete = false
			}
		}
	}
	if complete || n > exactRing {
		return complete
	}
	reach := make([]uint32, 1<<n)
	reach[1] = 1
	for set := uint32(1); set < 1<<n; set += 2 {
		for ends := reach[set]; ends != 0; ends &= ends - 1 {
			for next := adj[bits.TrailingZeros32(ends)] &^ set; next != 0; next &= next - 1 {
				j := bits.TrailingZeros32(next)
				reach[set|1<<j] |= 1 << j
			}
		}
	}
	return reach[1<<n-1]&adj[0] != 0
}
