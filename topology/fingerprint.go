package topology

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
	"sort"
)

// partGraph is a node class as a complete coloured graph: GPUs first, then NICs. Labels say what a part is, edges how
// two parts are related; neither holds numbers that only name things.
type partGraph struct {
	label []uint64
	edge  [][]uint64
}

// Fingerprint is equal for node classes that differ only in how their parts are numbered and named, and differs where
// a link, a width, a rate or a distance does (but for rare coincidences, which Match settles). It does not depend on
// UUIDs, PCI addresses, host or NUMA numbers. Cost: cubic in the parts, a few microseconds for a usual node.
func (k *NodeClass) Fingerprint() string {
	g := k.partGraph()
	n := len(g.label)
	base := g.refine(nil)
	var views []uint64
	for v := 0; v < n && n <= 64; v++ {
		views = append(views, fold(sorted(g.refine([]int{v}))))
	}
	sum := fold(append(append(sorted(base), sorted(views)...), uint64(n), uint64(k.Wiring), uint64(k.Sockets), text(k.CPUModel), bit(k.Virtual), uint64(len(k.Switches)), text(fmt.Sprint(k.LinkScale))))
	return fmt.Sprintf("%016x", sum)
}

// refine colours the parts until no colour splits further: a part's new colour is its old one with the multiset of
// (edge, colour of the other end). The parts in apart start with colours of their own.
func (g *partGraph) refine(apart []int) []uint64 {
	n := len(g.label)
	colour := slices.Clone(g.label)
	for i, v := range apart {
		colour[v] = fold([]uint64{colour[v], uint64(i) + 1})
	}
	next, seen := make([]uint64, n), make([]uint64, 0, n)
	classes := distinct(colour)
	for range n {
		for v := range n {
			seen = seen[:0]
			for o := range n {
				if o != v {
					seen = append(seen, fold([]uint64{g.edge[v][o], colour[o]}))
				}
			}
			slices.Sort(seen)
			next[v] = fold(append(seen, colour[v]))
		}
		colour, next = next, colour
		now := distinct(colour)
		if now == classes {
			break
		}
		classes = now
	}
	return colour
}

// maxMatchSteps bounds the search for a renumbering. Usual nodes need as many steps as they have parts.
const maxMatchSteps = 200_000

// Match finds a renumbering that turns class b into class k: gpus[i] is the position in b of what is GPU i in k, nics
// the same for NICs. ok is false when there is none (or, on contrived inputs, none was found within a bounded search;
// then the classes simply stay apart).
func (k *NodeClass) Match(b *NodeClass) (gpus, nics []int, ok bool) {
	if len(k.GPUs) != len(b.GPUs) || len(k.NICs) != len(b.NICs) || k.Wiring != b.Wiring || k.Sockets != b.Sockets ||
		k.CPUModel != b.CPUModel || k.Virtual != b.Virtual || k.LinkScale != b.LinkScale || len(k.Switches) != len(b.Switches) {
		return nil, nil, false
	}
	x, y := k.partGraph(), b.partGraph()
	cx, cy := x.refine(nil), y.refine(nil)
	if fold(sorted(cx)) != fold(sorted(cy)) {
		return nil, nil, false
	}
	n := len(cx)
	to, used := make([]int, n), make([]bool, n)
	steps := 0
	var place func(v int) bool
	place = func(v int) bool {
		if v == n {
			return true
		}
		for i := range n {
			w := (v + i) % n // the same number first: equal nodes match at once
			if used[w] || cx[v] != cy[w] {
				continue
			}
			if steps++; steps > maxMatchSteps {
				return false
			}
			fits := true
			for u := 0; u < v && fits; u++ {
				fits = x.edge[v][u] == y.edge[w][to[u]]
			}
			if !fits {
				continue
			}
			to[v], used[w] = w, true
			if place(v + 1) {
				return true
			}
			used[w] = false
		}
		return false
	}
	if !place(0) {
		return nil, nil, false
	}
	gpus, nics = to[:len(k.GPUs):len(k.GPUs)], make([]int, len(k.NICs))
	for i := range nics {
		nics[i] = to[len(k.GPUs)+i] - len(k.GPUs)
	}
	return gpus, nics, true
}

func (k *NodeClass) partGraph() *partGraph {
	n, m := len(k.GPUs), len(k.NICs)
	g := &partGraph{label: make([]uint64, n+m), edge: make([][]uint64, n+m)}
	for i := range g.edge {
		g.edge[i] = make([]uint64, n+m)
	}
	for i := range k.GPUs {
		u := k.GPUs[i]
		g.label[i] = text(fmt.Sprint("gpu", u.Model, "|", u.Name, "|", u.NUMARange, u.GPUNUMA >= 0, u.NUMA >= 0, u.Memory, u.ComputeMajor, u.ComputeMinor, u.MIG, u.NoP2P,
			"|", u.FabricState, "|", u.NVLinksUp, u.PCIe, u.Bad))
	}
	for i := range k.NICs {
		x := k.NICs[i]
		g.label[n+i] = text(fmt.Sprint("nic", float64(x.Rate), "|", x.LinkLayer, "|", x.State, "|", x.Firmware, "|", x.PCIe, x.Bad, "|", x.NUMA >= 0))
	}
	set := func(a, b int, v ...uint64) {
		h := fold(v)
		g.edge[a][b], g.edge[b][a] = h, h
	}
	link := map[[2]int]NVLink{}
	for _, l := range k.NVLinks {
		link[[2]int{l.A, l.B}] = l
	}
	for a := range n {
		for b := a + 1; b < n; b++ {
			l := link[[2]int{a, b}]
			set(a, b, uint64(kindAt(k.GPUPaths, a, b)), uint64(kindAt(k.PCIePaths, a, b)), uint64(l.Count), uint64(l.Down), uint64(l.PerLink),
				bit(k.GPUs[a].NUMA == k.GPUs[b].NUMA), bit(k.GPUs[a].Clique == k.GPUs[b].Clique))
		}
		for b := range m {
			set(a, n+b, uint64(kindAt(k.NICPaths, a, b)), bit(k.GPUs[a].NUMA == k.NICs[b].NUMA))
		}
	}
	for a := range m {
		for b := a + 1; b < m; b++ {
			set(n+a, n+b, bit(k.NICs[a].NUMA == k.NICs[b].NUMA), bit(k.NICs[a].Rail == k.NICs[b].Rail))
		}
	}
	return g
}

func kindAt(m [][]PathKind, a, b int) PathKind {
	if m == nil {
		return PathUnknown
	}
	return m[a][b]
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func text(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return h.Sum64()
}

// fold hashes a list, order included.
func fold(v []uint64) uint64 {
	h := fnv.New64a()
	var b [8]byte
	for _, x := range v {
		binary.LittleEndian.PutUint64(b[:], x)
		h.Write(b[:])
	}
	return h.Sum64()
}

func sorted(v []uint64) []uint64 {
	out := slices.Clone(v)
	sort.Slice(out, func(i, j int) bool { return out[i] < out[j] })
	return out
}

func distinct(v []uint64) int { return len(slices.Compact(sorted(v))) }
