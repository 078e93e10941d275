package topology

import "math/bits"

// maxParts bounds the GPUs, and the NICs, of one node: bit sets of this width make member lists cheap.
const maxParts = 256

// partSet is a set of positions inside one node.
type partSet [maxParts / 64]uint64

func (p *partSet) add(i int)     { p[i>>6] |= 1 << (i & 63) }
func (p partSet) has(i int) bool { return p[i>>6]&(1<<(i&63)) != 0 }

func (p *partSet) addAll(q *partSet) {
	for i := range p {
		p[i] |= q[i]
	}
}

func (p *partSet) and(q *partSet) partSet {
	return partSet{p[0] & q[0], p[1] & q[1], p[2] & q[2], p[3] & q[3]}
}

func (p *partSet) minus(q *partSet) partSet {
	return partSet{p[0] &^ q[0], p[1] &^ q[1], p[2] &^ q[2], p[3] &^ q[3]}
}

func (p *partSet) count() int {
	n := 0
	for _, w := range p {
		n += bits.OnesCount64(w)
	}
	return n
}

func (p *partSet) empty() bool { return p[0]|p[1]|p[2]|p[3] == 0 }

func (p *partSet) meets(q *partSet) bool {
	return p[0]&q[0]|p[1]&q[1]|p[2]&q[2]|p[3]&q[3] != 0
}

// next returns the first position at or after i, or -1.
func (p *partSet) next(i int) int {
	for w := i >> 6; w < len(p); w++ {
		v := p[w]
		if w == i>>6 {
			v &= ^uint64(0) << (i & 63)
		}
		if v != 0 {
			return w<<6 + bits.TrailingZeros64(v)
		}
	}
	return -1
}
