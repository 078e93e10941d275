package validate

import (
	"context"
	"fmt"
	"slices"

	"rankmap/internal/measured"
	"rankmap/internal/parallel"
)

// maxPairMembers bounds the pair tests: 16 members are 240 directed pairs.
const maxPairMembers = 16

// blame looks for the member that makes a group slow, where the group is slower than the interval by more than a little. Every directed pair of the group's members is timed by itself; then
// all once more in reverse order, because one measurement may be bad luck. Only what is slow both times is named.
func (c *campaign) blame(ctx context.Context) error {
	slow := map[string]measured.ReportGroup{}
	for _, g := range c.rep.Groups {
		if g.Bytes >= 1<<20 && g.Predicted.Us > 0 && g.Times.MedianUs > slowGroup*g.Predicted.P90Us && g.Verdict == measured.VerdictSlow {
			slow[fmt.Sprint(g.Members)] = g
		}
	}
	var keys []string
	for k := range slow {
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return nil
	}
	if _, err := c.s.do(ctx, c.s.all(), step{Do: doPairs}, c.s.d.Init, "preparing pair tests"); err != nil {
		return err
	}
	slices.Sort(keys)
	for _, k := range keys {
		g := slow[k]
		if len(g.Members) > maxPairMembers {
			c.found("slow-all", "the %s group of ranks %v has too many members for pair tests", g.Kind, g.Members)
			continue
		}
		rounds, err := c.pairs(ctx, g.Members)
		if err != nil {
			return err
		}
		c.name(g, rounds)
	}
	return nil
}

// direction is an ordered pair of ranks.
type direction struct{ from, to int }

// pairs times all directed pairs in two rounds, the second in reverse order. For a group of two, pairs with other ranks of the
// job serve as comparison, where there are any.
func (c *campaign) pairs(ctx context.Context, members []int) ([2]map[direction]float64, error) {
	var dirs []direction
	for i, a := range members {
		for _, b := range members[i+1:] {
			dirs = append(dirs, direction{a, b}, direction{b, a})
		}
	}
	if len(members) == 2 {
		others := 0
		for _, r := range c.s.all() {
			if !slices.Contains(members, r) && others < 2 {
				dirs = append(dirs, direction{members[0], r}, direction{members[1], r})
				others++
			}
		}
	}
	var rounds [2]map[direction]float64
	for round := range rounds {
		rounds[round] = map[direction]float64{}
		for _, d := range dirs {
			us, err := c.onePair(ctx, d)
			if err != nil {
				return rounds, err
			}
			rounds[round][d] = us
			c.rep.Pairs = append(c.rep.Pairs, measured.ReportPair{
				From: d.from, To: d.to, Round: round + 1, Bytes: c.pairBytes(), Us: us, GBps: float64(c.pairBytes()) / us / 1e3,
			})
		}
		slices.Reverse(dirs)
	}
	return rounds, nil
}

func (c *campaign) pairBytes() int64 {
	b := c.m.PairBytes
	for c.cap > 0 && bufferNeed(spec{bytes: b}) > c.cap && b > 1<<20 {
		b /= 2
	}
	return b
}

func (c *campaign) onePair(ctx context.Context, d direction) (float64, error) {
	b := c.pairBytes()
	st := step{
		Do: doPair, From: d.from, To: d.to, Warm: 2, Inner: 4, Batches: 5,
		Calls: []call{{Family: -1, Op: parallel.SendRecv, Bytes: b, DType: "int8"}},
	}
	res, err := c.s.do(ctx, []int{d.from, d.to}, st, c.limit(0, 32*b), fmt.Sprintf("the pair test %d to %d", d.from, d.to))
	if err != nil {
		return 0, err
	}
	return median(slowest(batches(res))), nil
}

// name draws the conclusion from the two rounds.
func (c *campaign) name(g measured.ReportGroup, rounds [2]map[direction]float64) {
	host := func(r int) string { return c.s.facts[r].Host }
	bad := slowPairs(rounds, host)
	evidence := func(p [2]int) string {
		d, e := direction{p[0], p[1]}, direction{p[1], p[0]}
		worst := max(min(rounds[0][d], rounds[1][d]), min(rounds[0][e], rounds[1][e]))
		return fmt.Sprintf("%d to %d takes %s for %d MiB, %.2f times what the best fifth of the pairs takes, in both rounds",
			p[0], p[1], us(worst), c.pairBytes()>>20, worst/healthy(alike(rounds[0], direction{p[0], p[1]}, host)))
	}
	what := fmt.Sprintf("the %s group of ranks %v (%s of %d B: %s)", g.Kind, g.Members, g.Op, g.Bytes, g.Why)
	if len(bad) == 0 {
		c.found("slow-all", "%s: all %d pairs are alike (median %s for %d MiB)", what, len(rounds[0]), us(median(values(rounds[0]))), c.pairBytes()>>20)
		return
	}
	if id, who := slowNodes(bad, g.Members, host); id != "" {
		c.found(id, "%s in %s: all %d slow pairs cross there; %s", who, what, len(bad), evidence(bad[0]))
		return
	}
	if m, ok := commonMember(bad, g.Members); ok {
		c.found("slow-member", "rank %d (%s) in %s: %s", m, c.gpuName(m), what, evidence(bad[0]))
		return
	}
	for _, p := range bad {
		c.found("slow-link", "between rank %d (%s) and rank %d (%s) in %s: %s", p[0], c.gpuName(p[0]), p[1], c.gpuName(p[1]), what, evidence(p))
	}
}

func (c *campaign) gpuName(rank int) string {
	f := c.s.facts[rank]
	return fmt.Sprintf("GPU %d, %s", f.Device, f.PCI)
}

func values(m map[direction]float64) []float64 {
	var v []float64
	for _, x := range m {
		v = append(v, x)
	}
	return v
}

// healthy is what a pair without fault takes: the 20 % quantile. A sick GPU spoils two thirds of the pairs among three
// members, so that the median would be spoiled too.
func healthy(round map[direction]float64) float64 {
	v := values(round)
	slices.Sort(v)
	return quantile(v, 0.2)
}

// alike keeps the pairs of the same kind: inside a node, or between nodes. NVLink and a network are not compared.
func alike(round map[direction]float64, d direction, host func(int) string) map[direction]float64 {
	inside := func(d direction) bool { return host(d.from) == host(d.to) }
	out := map[direction]float64{}
	for e, t := range round {
		if inside(e) == inside(d) {
			out[e] = t
		}
	}
	return out
}

// slowNodes finds what the slow pairs between nodes have in common: one node, of which several ranks are slow towards others,
// or two nodes. The id is empty when that is not what they say.
func slowNodes(bad [][2]int, members []int, host func(int) string) (id, who string) {
	var hosts []string
	ranks := map[string]map[int]bool{}
	for _, p := range bad {
		if host(p[0]) == host(p[1]) {
			return "", ""
		}
		for _, r := range p {
			if ranks[host(r)] == nil {
				ranks[host(r)] = map[int]bool{}
				hosts = append(hosts, host(r))
			}
			ranks[host(r)][r] = true
		}
	}
	nodes := map[string]bool{}
	for _, m := range members {
		nodes[host(m)] = true
	}
	if len(hosts) == 2 && len(nodes) > 2 && len(ranks[hosts[0]]) > 1 && len(ranks[hosts[1]]) > 1 {
		return "slow-nodes", "between " + hosts[0] + " and " + hosts[1]
	}
	for _, h := range hosts {
		all := !slices.ContainsFunc(bad, func(p [2]int) bool { return host(p[0]) != h && host(p[1]) != h })
		if all && len(hosts) > 2 && len(ranks[h]) > 1 {
			return "slow-node", h
		}
	}
	return "", ""
}

// slowPairs lists the unordered pairs of which a direction is slow in both rounds, ascending.
func slowPairs(rounds [2]map[direction]float64, host func(int) string) [][2]int {
	var bad [][2]int
	for d, first := range rounds[0] {
		if first > slowPair*healthy(alike(rounds[0], d, host)) && rounds[1][d] > slowPair*healthy(alike(rounds[1], d, host)) {
			p := [2]int{min(d.from, d.to), max(d.from, d.to)}
			if !slices.Contains(bad, p) {
				bad = append(bad, p)
			}
		}
	}
	slices.SortFunc(bad, func(a, b [2]int) int { return slices.Compare(a[:], b[:]) })
	return bad
}

// commonMember returns the member that all slow pairs share, when at least two do.
func commonMember(bad [][2]int, members []int) (int, bool) {
	if len(bad) < 2 {
		return 0, false
	}
	for _, m := range members {
		if !slices.ContainsFunc(bad, func(p [2]int) bool { return p[0] != m && p[1] != m }) {
			return m, true
		}
	}
	return 0, false
}
