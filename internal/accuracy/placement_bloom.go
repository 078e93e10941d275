package accuracy

import (
	"math"
	"regexp"
	"strconv"

	"rankmap/internal/measured"
)

// network is a trial network before BLOOM.
type network struct{ layers, hidden, heads int }

// bloomVocab is the vocabulary of all of them, 250k rounded up for 8 ways.
const bloomVocab = 250880

// bloomShapes are the trial networks by the size in their name. From bigscience-workshop/bigscience
// train/tr11-176B-ml/chronicles-prequel.md, which states them above its tables; those of the first tables (183B to 205B at hidden
// size 14400) follow from the depth that its pipeline divides. Some sizes name two networks.
var bloomShapes = map[string][]network{
	"18B": {{6, 14336, 64}}, "20B": {{8, 14400, 32}}, "176B": {{70, 14336, 64}}, "177B": {{96, 12288, 64}}, "178B": {{82, 13312, 64}},
	"181B": {{72, 14336, 64}}, "182B": {{84, 13312, 64}, {78, 13824, 64}}, "183B": {{72, 14400, 96}}, "184B": {{100, 12288, 64}},
	"187B": {{80, 13824, 64}}, "191B": {{77, 14400, 96}}, "194B": {{78, 14400, 96}}, "195B": {{77, 14400, 96}, {106, 12288, 64}},
	"196B": {{84, 13824, 64}}, "200B": {{80, 14400, 96}}, "203B": {{94, 13312, 64}}, "205B": {{81, 14400, 96}},
}

var (
	bloomName = regexp.MustCompile(`^GPT (\d+B) \(BLOOM pre-study\)$`)
	headsNote = regexp.MustCompile(`\bheads (\d+)\b`)
)

// bloomShape is the network that a row ran. Of two with one name it is that whose operations are the row's step time times its
// FLOP/s within a part in 2,000, else the first that the row's heads and stages divide.
func bloomShape(size string, p *measured.Placement) (network, bool) {
	heads := 0
	if h := headsNote.FindStringSubmatch(p.Note); h != nil {
		heads, _ = strconv.Atoi(h[1])
	}
	var out network
	found, exact := false, false
	for _, n := range bloomShapes[size] {
		if heads > 0 {
			n.heads = heads
		}
		same := math.Abs(n.flops(p)/statedFLOPs(p)-1) < 5e-4
		if !found || same && !exact || n.fits(p) && !exact && !out.fits(p) {
			out, found, exact = n, true, same
		}
	}
	return out, found
}

// fits says that heads and stages divide the network, embedding and head counting as layers or not.
func (n network) fits(p *measured.Placement) bool {
	return n.hidden%n.heads == 0 && (p.PP < 2 || n.layers%p.PP == 0 || (n.layers+2)%p.PP == 0)
}

// flops are a step's operations with full recomputation (Narayanan et al., SC21, equation 3), as the source counts them from 21
// February 2022 on.
func (n network) flops(p *measured.Placement) float64 {
	l, h, s := float64(n.layers), float64(n.hidden), float64(p.SeqLen)
	return 96 * float64(p.GlobalBatch) * s * l * h * h * (1 + s/(6*h) + bloomVocab/(16*l*h))
}

// statedFLOPs is what a row's step time and FLOP/s multiply to; NaN without both.
func statedFLOPs(p *measured.Placement) float64 {
	t, ok := p.Metric("step time", "iteration time")
	f, also := p.Metric("TFLOP/s/GPU", "model TFLOP/s/GPU")
	if !ok || !also || t.Unit != "s" {
		return math.NaN()
	}
	return t.Value * f.Value * 1e12 * float64(p.GPUs)
}
