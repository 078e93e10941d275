package collective

import (
	"slices"
	"sync"

	"rankmap/topology"
)

// groupCache remembers groups that were priced: a search asks for the same group again and again, with other sizes and
// operations, and working out its shape costs more than the price. Entries are compared in full; the hash only finds
// them.
type groupCache struct {
	mu     sync.RWMutex
	groups map[uint64]*group
	held   int // members in all entries
}

// group is one remembered group.
type group struct {
	members  []topology.GPUID
	siblings [][]topology.GPUID
	library  string
	oneByte  bool
	shape    topology.Shape
	route    *route
}

// maxHeld bounds the members kept in all entries together; beyond it the cache starts again.
const maxHeld = 1 << 20

// groupHash mixes what a group is (a multiply-and-rotate hash of the ids, in their order).
func groupHash(r *Request) uint64 {
	const m = 0x9E3779B97F4A7C15
	h := uint64(len(r.Members))
	if OneByte(r.DType) {
		h += 1 << 32
	}
	for i := range len(r.Library) {
		h = (h ^ uint64(r.Library[i])) * m
	}
	for _, g := range r.Members {
		h = (h ^ uint64(uint32(g))) * m
		h ^= h >> 29
	}
	for _, s := range r.Siblings {
		h = (h ^ uint64(len(s))<<40) * m
		for _, g := range s {
			h = (h ^ uint64(uint32(g))) * m
			h ^= h >> 29
		}
	}
	return h
}

// find returns the remembered group; nil if there is none.
func (c *groupCache) find(hash uint64, r *Request) *group {
	c.mu.RLock()
	g := c.groups[hash]
	c.mu.RUnlock()
	if g == nil || g.library != r.Library || g.oneByte != OneByte(r.DType) || !slices.Equal(g.members, r.Members) || len(g.siblings) != len(r.Siblings) {
		return nil
	}
	for i, s := range g.siblings {
		if !slices.Equal(s, r.Siblings[i]) {
			return nil
		}
	}
	return g
}

// keep remembers a group; the caller's slices are copied.
func (c *groupCache) keep(hash uint64, r *Request, shape topology.Shape, rt *route) {
	size := len(r.Members) + 8
	for _, s := range r.Siblings {
		size += len(s) + 4
	}
	if size > maxHeld/4 {
		return
	}
	g := &group{members: slices.Clone(r.Members), library: r.Library, oneByte: OneByte(r.DType), shape: shape, route: rt}
	if len(r.Siblings) > 0 {
		g.siblings = make([][]topology.GPUID, len(r.Siblings))
		for i, s := range r.Siblings {
			g.siblings[i] = slices.Clone(s)
		}
	}
	c.mu.Lock()
	if c.groups == nil || c.held+size > maxHeld {
		c.groups, c.held = map[uint64]*group{}, 0
	}
	c.groups[hash] = g
	c.held += size
	c.mu.Unlock()
}
