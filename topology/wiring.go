package topology

import "rankmap/internal/hardware"

// mostLinks is the largest number of NVLinks of any GPU known (Rubin, 36). More than that on one GPU's pairs together
// can only be one set of links counted once for each peer, that is, NVSwitch.
const mostLinks = 36

// switchedPair is the smallest bundle that three or more fully joined GPUs cannot have without NVSwitch, when nothing
// is known of the GPU: two bundles of 12 are 24 links, more than any GPU on a board without NVSwitch has (18).
const switchedPair = 12

// decideWiring tells from the pair counts how the GPUs of a node are joined. Behind NVSwitch every pair shows the
// GPU's full link count, so that the sum over a GPU's pairs exceeds the links that the GPU has; on boards without it
// the sum cannot. Cost: the pairs.
func decideWiring(k *NodeClass, sheets []*hardware.GPU) NVLinkKind {
	n := len(k.GPUs)
	sum, peers, least := make([]int, n), make([]int, n), make([]int, n)
	group := newUnion(n)
	any := false
	for _, l := range k.NVLinks {
		if l.Count == 0 {
			continue
		}
		any = true
		for _, g := range []int{l.A, l.B} {
			sum[g] += l.Count
			peers[g]++
			if least[g] == 0 || l.Count < least[g] {
				least[g] = l.Count
			}
		}
		group.join(l.A, l.B)
	}
	if !any {
		return NVLinkNone
	}
	size := make([]int, n)
	for g := range n {
		size[group.find(g)]++
	}
	cube := false
	for g := range n {
		if sum[g] == 0 {
			continue
		}
		whole := peers[g] == size[group.find(g)]-1
		switch sheet := sheets[g]; {
		case sheet != nil && sheet.NVLinks > 0 && sum[g] > sheet.NVLinks,
			sum[g] > mostLinks,
			sheet == nil && whole && peers[g] >= 2 && least[g] >= switchedPair:
			return NVLinkSwitched
		}
		cube = cube || !whole
	}
	if cube {
		return NVLinkCubeMesh
	}
	return NVLinkDirect
}

// union is a disjoint-set forest whose roots are the smallest members.
type union []int32

func newUnion(n int) union {
	u := make(union, n)
	for i := range u {
		u[i] = int32(i)
	}
	return u
}

func (u union) find(i int) int {
	r := int32(i)
	for u[r] != r {
		u[r] = u[u[r]]
		r = u[r]
	}
	return int(r)
}

func (u union) join(a, b int) {
	x, y := u.find(a), u.find(b)
	if x > y {
		x, y = y, x
	}
	u[y] = int32(x)
}
