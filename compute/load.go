package compute

import (
	"math"
	"math/rand/v2"
	"sort"
)

// Load is what the most loaded GPU of an expert-parallel group computes.
type Load struct {
	Slots  float64    // (token, expert) pairs
	Active float64    // experts with at least one token
	Rows   [2]float64 // tile rows: sum over the experts of ceil(tokens/128), and of ceil(tokens/64)
}

// loadTiles are the tile heights that Load.Rows counts.
var loadTiles = [2]float64{128, 64}

// Balanced is the load when a router deals m tokens with topk experts each evenly, in turn, over all experts.
func Balanced(m, topk, experts, ep int) Load {
	local := float64(experts) / float64(ep)
	slots := float64(m*topk) / float64(ep)
	l := Load{Slots: slots, Active: math.Min(local, math.Max(slots, 0))}
	if l.Active == 0 {
		return l
	}
	for i, t := range loadTiles {
		l.Rows[i] = l.Active * math.Ceil(slots/l.Active/t)
	}
	return l
}

// Random is the expected load when each token picks its experts independently of the others and the most loaded GPU
// receives skew times the mean; skew below 1 means 1. A trained router that is balanced over many tokens is random, not
// even, over the few of one step: 64 tokens with 8 of 256 experts miss 13 % of the experts.
func Random(m, topk, experts, ep int, skew float64) Load {
	local := float64(experts) / float64(ep)
	skew = math.Min(math.Max(skew, 1), float64(ep))
	p := math.Min(skew*float64(topk)/float64(experts), 1) // that one expert of this GPU is among a token's choices
	slots := local * p * float64(m)
	none := math.Pow(1-p, float64(m))
	l := Load{Slots: slots, Active: local * (1 - none)}
	mean := float64(m) * p
	sd := math.Sqrt(mean * (1 - p))
	for i, t := range loadTiles {
		l.Rows[i] = local * (1 - none + tailTiles(mean, sd, t))
	}
	return l
}

// tailTiles is the sum over j >= 1 of P(X > j t) for X normal: the tiles beyond the first.
func tailTiles(mean, sd, t float64) float64 {
	if sd < 1e-9 {
		return math.Max(math.Ceil(mean/t)-1, 0)
	}
	sum := 0.0
	j := math.Max(math.Floor((mean-4*sd)/t), 0)
	sum = j
	for j++; j*t < mean+4*sd; j++ {
		sum += 0.5 * math.Erfc((j*t+0.5-mean)/(sd*math.Sqrt2))
	}
	return sum
}

// loadDraws is how many draws PowerLaw averages.
const loadDraws = 12

// PowerLaw is the mean load over 12 draws with a fixed seed when the experts' shares follow a power law with exponent
// a, as the published tables draw them: weights x = ((hi^(1-a) - lo^(1-a)) u + lo^(1-a))^(1/(1-a)) with u uniform, lo 1
// and hi 0.8 m (0.01 and 2 when m topk <= experts), scaled and rounded to m topk slots with at most m an expert, the
// experts split in ep consecutive groups, the most loaded group taken. Same input, same result; about 0.2 ms.
func PowerLaw(m, topk, experts, ep int, a float64) Load {
	rng := rand.New(rand.NewPCG(0x72616e6b, 0x6d6170)) // fixed: the result is a function of the arguments
	lo, hi := 1.0, 0.8*float64(m)
	if m*topk <= experts {
		lo, hi = 0.01, 2
	}
	if a == 1 {
		a += 1e-9
	}
	p, q := math.Pow(lo, 1-a), math.Pow(hi, 1-a)
	x := make([]float64, experts)
	n := make([]int, experts)
	var sum Load
	for range loadDraws {
		for i := range x {
			x[i] = math.Pow((q-p)*rng.Float64()+p, 1/(1-a))
		}
		slotsOf(x, m, topk, n)
		l := hottest(n, ep)
		sum.Slots += l.Slots
		sum.Active += l.Active
		sum.Rows[0] += l.Rows[0]
		sum.Rows[1] += l.Rows[1]
	}
	sum.Slots /= loadDraws
	sum.Active /= loadDraws
	sum.Rows[0] /= loadDraws
	sum.Rows[1] /= loadDraws
	return sum
}

// slotsOf scales the weights x to m topk slots, rounds, and moves what rounding and the cap of m an expert leave over to
// the heaviest experts that have room.
func slotsOf(x []float64, m, topk int, n []int) {
	total := 0.0
	for _, v := range x {
		total += v
	}
	left := m * topk
	order := make([]int, len(x))
	for i, v := range x {
		n[i] = min(int(math.Round(v/total*float64(m*topk))), m)
		left -= n[i]
		order[i] = i
	}
	sort.Slice(order, func(i, j int) bool {
		if n[order[i]] != n[order[j]] {
			return n[order[i]] > n[order[j]]
		}
		return order[i] < order[j]
	})
	for left != 0 {
		moved := false
		for _, i := range order {
			switch {
			case left > 0 && n[i] < m:
				n[i]++
				left--
				moved = true
			case left < 0 && n[i] > 0:
				n[i]--
				left++
				moved = true
			}
			if left == 0 {
				break
			}
		}
		if !moved {
			return
		}
	}
}

// hottest is the load of the group of consecutive experts with the most slots.
func hottest(n []int, ep int) Load {
	size := max(len(n)/max(ep, 1), 1)
	best, at := -1, 0
	for g := 0; g+size <= len(n); g += size {
		s := 0
		for _, v := range n[g : g+size] {
			s += v
		}
		if s > best {
			best, at = s, g
		}
	}
	var l Load
	for _, v := range n[at : at+size] {
		if v > 0 {
			l.Slots += float64(v)
			l.Active++
			for i, t := range loadTiles {
				l.Rows[i] += math.Ceil(float64(v) / t)
			}
		}
	}
	return l
}

// HotRank is the hot-rank factor of a power law: slots of the most loaded GPU over the mean.
func HotRank(m, topk, experts, ep int, a float64) float64 {
	mean := float64(m*topk) / float64(ep)
	if mean <= 0 {
		return 1
	}
	return math.Max(PowerLaw(m, topk, experts, ep, a).Slots/mean, 1)
}
