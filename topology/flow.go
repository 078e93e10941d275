package topology

import "math"

// flowNet is a network for maximum flow: Dinic's algorithm on slices. gonum's solver gives the same values (a test
// compares them) but keeps its residual graph in maps, which costs a hundred times more on a cluster of 64 nodes.
type flowNet struct {
	to, next []int32
	cap      []float64
	head     []int32
	level    []int32
	at       []int32
}

func newFlowNet(parts int) *flowNet {
	f := &flowNet{head: make([]int32, parts), level: make([]int32, parts), at: make([]int32, parts)}
	for i := range f.head {
		f.head[i] = -1
	}
	return f
}

// arc adds a one-way connection; its residual twin is the next index, found by xor 1.
func (f *flowNet) arc(a, b int, capacity, back float64) {
	f.to = append(f.to, int32(b), int32(a))
	f.cap = append(f.cap, capacity, back)
	f.next = append(f.next, f.head[a], f.head[b])
	f.head[a], f.head[b] = int32(len(f.to)-2), int32(len(f.to)-1)
}

// max sends as much as possible from s to t. Capacities are whole numbers below 2^53, so the sum is exact.
func (f *flowNet) max(s, t int) float64 {
	total := 0.0
	for f.layer(s, t) {
		copy(f.at, f.head)
		for {
			v := f.push(int32(s), int32(t), math.Inf(1))
			if v == 0 {
				break
			}
			total += v
		}
	}
	return total
}

// layer numbers the parts by distance from s over arcs with room.
func (f *flowNet) layer(s, t int) bool {
	for i := range f.level {
		f.level[i] = -1
	}
	f.level[s] = 0
	queue := []int32{int32(s)}
	for len(queue) > 0 {
		v := queue[0]
		queue = queue[1:]
		for e := f.head[v]; e >= 0; e = f.next[e] {
			if o := f.to[e]; f.cap[e] > 0 && f.level[o] < 0 {
				f.level[o] = f.level[v] + 1
				queue = append(queue, o)
			}
		}
	}
	return f.level[t] >= 0
}

func (f *flowNet) push(v, t int32, most float64) float64 {
	if v == t {
		return most
	}
	for ; f.at[v] >= 0; f.at[v] = f.next[f.at[v]] {
		e := f.at[v]
		o := f.to[e]
		if f.cap[e] <= 0 || f.level[o] != f.level[v]+1 {
			continue
		}
		if sent := f.push(o, t, min(most, f.cap[e])); sent > 0 {
			f.cap[e] -= sent
			f.cap[e^1] += sent
			return sent
		}
	}
	return 0
}
