package planner

import (
	"cmp"
	"slices"

	"rankmap/internal/parallel"
	"rankmap/topology"
)

// spotsFor lists the spots worth pricing for the worst of the groups of n that a strategy of so many groups has.
//
// A step waits for its slowest group, so that not the best spot counts but the best that is left for the last group. NVLink domains
// hold only so many disjoint groups: where GPUs with all their links up do not give enough, some group has a GPU with fewer or lies
// in several domains; where even all GPUs do not, some group lies in several.
func (i *ideal) spotsFor(n, groups int) counted {
	k := spotKey{n, groups}
	if c, ok := i.counted[k]; ok {
		return c
	}
	var c counted
	if level, tight := i.lastLevel(n, groups); tight {
		c.spots = i.across(n)
		for _, spot := range i.at(n) {
			if slices.ContainsFunc(spot, func(id topology.GPUID) bool { return i.s.Cluster.LinksUp(id) <= level }) {
				c.spots = append(c.spots, spot)
			}
		}
		c.tight = len(c.spots) > 0
	}
	if i.counted == nil {
		i.counted = map[spotKey]counted{}
	}
	i.counted[k] = c
	return c
}

// counted are the spots for the worst of some groups; not tight where any spot is left for it.
type counted struct {
	spots [][]topology.GPUID
	tight bool
}

type spotKey struct{ n, groups int }

// lastLevel is the number of NVLinks up that a GPU of some group has at most, because GPUs with more do not give enough groups inside
// domains; -1 where all GPUs do not. tight is false where the fastest GPUs are enough, and where nothing can be said: groups larger
// than every domain, wirings in which the GPUs of a domain differ in more than their links.
func (i *ideal) lastLevel(n, groups int) (level int, tight bool) {
	c := i.s.Cluster
	for j := range c.Classes {
		if c.Classes[j].Wiring != topology.NVLinkSwitched {
			return 0, false
		}
	}
	if i.levels == nil {
		i.levels = []int{}
		for _, id := range i.s.base.gpus {
			if up := c.LinksUp(id); !slices.Contains(i.levels, up) {
				i.levels = append(i.levels, up)
			}
		}
		slices.SortFunc(i.levels, func(a, b int) int { return cmp.Compare(b, a) })
	}
	most := 0
	for j, up := range i.levels {
		held, at, domain := 0, 0, -1
		for _, id := range i.s.base.gpus {
			if d := c.DomainOf(id); d != domain {
				held, at, domain = held+at/n, 0, d
			}
			if c.LinksUp(id) >= up {
				at++
			}
			most = max(most, at)
		}
		if held += at / n; held >= groups {
			return up, j > 0
		}
	}
	return -1, most >= n
}

// across lists spots of n in two and more domains, the fastest GPUs of each: every split over the two largest, and equal shares of 4,
// 8, ....
func (i *ideal) across(n int) [][]topology.GPUID {
	c := i.s.Cluster
	var lists [][]topology.GPUID
	for _, d := range disjoint(i.units()) {
		d = slices.Clone(d)
		slices.SortStableFunc(d, func(a, b topology.GPUID) int { return cmp.Compare(c.LinksUp(b), c.LinksUp(a)) })
		lists = append(lists, d)
	}
	if len(lists) < 2 {
		return nil
	}
	var out [][]topology.GPUID
	add := func(ids []topology.GPUID) { out = append(out, ids) }
	for a := (n + 1) / 2; a < n; a++ {
		if a <= len(lists[0]) && n-a <= len(lists[1]) {
			add(slices.Concat(lists[0][:a], lists[1][:n-a]))
		}
	}
	for k := 4; k <= len(lists) && k <= n; k *= 2 {
		if n%k == 0 && len(lists[k-1]) >= n/k {
			var ids []topology.GPUID
			for _, d := range lists[:k] {
				ids = append(ids, d[:n/k]...)
			}
			add(ids)
		}
	}
	return out
}

// groupsOf is how many groups of a kind a strategy has.
func groupsOf(st *parallel.Strategy, kind parallel.Dim) int {
	return st.World() / max(1, st.Size(kind))
}
