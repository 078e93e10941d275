package validate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"rankmap/internal/measured"
	"rankmap/internal/parallel"
)

// netFindings says how ranks reached other nodes and whether that is what the plan meant.
func (c *campaign) netFindings(res map[int]result) {
	var socket, noGDR, other []string
	for _, r := range c.s.all() {
		u := res[r].Net
		if u == nil {
			continue
		}
		f := c.s.facts[r]
		rdma := slices.ContainsFunc(f.Net.NICs, func(n NICFacts) bool { return n.active() })
		at := fmt.Sprintf("rank %d on %s", r, f.Host)
		for _, t := range u.Transports {
			if c.rep.Transports == nil {
				c.rep.Transports = map[string]int{}
			}
			c.rep.Transports[t]++
			switch {
			case strings.HasPrefix(t, "NET/Socket") && rdma:
				socket = append(socket, at)
			case strings.HasPrefix(t, "NET/IB") && !strings.Contains(t, "GDRDMA"):
				noGDR = append(noGDR, at)
			}
		}
		var odd []string
		for _, n := range u.NICs {
			if want := c.job.Ranks[r].NICs; len(want) > 0 && !slices.ContainsFunc(want, func(w string) bool { return nicName(w) == n }) {
				odd = append(odd, n)
			}
		}
		if len(odd) > 0 {
			other = append(other, fmt.Sprintf("%s uses %s, planned %s", at, strings.Join(odd, ","), strings.Join(c.job.Ranks[r].NICs, ",")))
		}
	}
	if len(socket) > 0 {
		c.found("net-socket", "%s", list(socket))
	}
	if len(noGDR) > 0 {
		c.found("no-gdr", "%s", list(noGDR))
	}
	if len(other) > 0 {
		c.found("other-nic", "%s", list(other))
	}
}

// rail is the ranks of one local rank over the nodes.
type rail struct {
	local int
	ranks []int
}

// railsOf lists the rails of a job that spans nodes: the k-th rank of each node together. Nodes with fewer ranks are missing
// from the higher rails.
func railsOf(job *Job, facts map[int]facts) []rail {
	hosts, _ := nodesOf(job.World(), facts)
	if len(hosts) < 2 {
		return nil
	}
	var rails []rail
	seen := map[string]int{}
	for _, h := range hosts {
		for r := range job.Ranks {
			if facts[r].Host != h {
				continue
			}
			k := seen[h]
			seen[h]++
			if k == len(rails) {
				rails = append(rails, rail{local: k})
			}
			rails[k].ranks = append(rails[k].ranks, r)
		}
	}
	return slices.DeleteFunc(rails, func(l rail) bool { return len(l.ranks) < 2 })
}

// maxRailNodes bounds the steps along a rail.
const maxRailNodes = 16

// rails times one-way transfers from node to node along each rail by itself, and then along all rails at once, twice each and
// the second time in reverse order.
func (c *campaign) rails(ctx context.Context) error {
	rails := railsOf(c.job, c.s.facts)
	if len(rails) == 0 {
		return nil
	}
	if _, err := c.s.do(ctx, c.s.all(), step{Do: doPairs}, c.s.d.Init, "preparing rail tests"); err != nil {
		return err
	}
	c.s.talk("%d rail(s) over %d nodes", len(rails), len(rails[0].ranks))
	alone := map[direction][2]float64{}
	together := map[direction][2]float64{}
	for round := range 2 {
		for hop := 0; hop+1 < min(len(rails[0].ranks), maxRailNodes); hop++ {
			var all [][2]int
			for i := range rails {
				l := rails[i]
				if round == 1 {
					l = rails[len(rails)-1-i]
				}
				if hop+1 >= len(l.ranks) {
					continue
				}
				p := [2]int{l.ranks[hop], l.ranks[hop+1]}
				if round == 1 {
					p = [2]int{p[1], p[0]}
				}
				all = append(all, p)
				if err := c.pairsAtOnce(ctx, measured.TestRail, round, [][2]int{p}, alone); err != nil {
					return err
				}
			}
			if len(all) > 1 {
				if err := c.pairsAtOnce(ctx, measured.TestRails, round, all, together); err != nil {
					return err
				}
			}
		}
	}
	c.judgeRails(rails, alone, together)
	return nil
}

// pairsAtOnce times pairs of disjoint ranks at the same time.
func (c *campaign) pairsAtOnce(ctx context.Context, test string, round int, pairs [][2]int, into map[direction][2]float64) error {
	b := c.pairBytes()
	st := step{
		Do: doPair, Pairs: pairs, Warm: 2, Inner: 4, Batches: 5,
		Calls: []call{{Family: -1, Op: parallel.SendRecv, Bytes: b, DType: "int8"}},
	}
	var ranks []int
	for _, p := range pairs {
		ranks = append(ranks, p[0], p[1])
	}
	res, err := c.s.do(ctx, ranks, st, c.limit(0, 32*b), fmt.Sprintf("the rail test of %d pair(s)", len(pairs)))
	if err != nil {
		return err
	}
	for _, p := range pairs {
		t := median(slowest(batches(map[int]result{p[0]: res[p[0]], p[1]: res[p[1]]})))
		key := direction{min(p[0], p[1]), max(p[0], p[1])}
		v := into[key]
		v[round] = t
		into[key] = v
		c.rep.Pairs = append(c.rep.Pairs, measured.ReportPair{
			Test: test, From: p[0], To: p[1], Round: round + 1, Bytes: b, Us: t, GBps: float64(b) / t / 1e3,
		})
	}
	return nil
}

// judgeRails names a rail that is slower than the best fifth in both rounds, and rails that share what should be theirs.
func (c *campaign) judgeRails(rails []rail, alone, together map[direction][2]float64) {
	var base [2]float64
	for round := range 2 {
		var v []float64
		for _, t := range alone {
			v = append(v, t[round])
		}
		slices.Sort(v)
		base[round] = quantile(v, 0.2)
	}
	shared, most := 0, 1.0
	for _, l := range rails {
		for hop := 0; hop+1 < len(l.ranks); hop++ {
			d := direction{min(l.ranks[hop], l.ranks[hop+1]), max(l.ranks[hop], l.ranks[hop+1])}
			t, ok := alone[d]
			if !ok {
				continue
			}
			if t[0] > slowPair*base[0] && t[1] > slowPair*base[1] {
				c.found("slow-rail", "rail %d between %s and %s: ranks %d and %d take %s for %d MiB, %.2f times what the best fifth of the rails takes, both ways",
					l.local, c.s.facts[d.from].Host, c.s.facts[d.to].Host, d.from, d.to, us(min(t[0], t[1])), c.pairBytes()>>20, min(t[0]/base[0], t[1]/base[1]))
			}
			if u, ok := together[d]; ok {
				if by := min(u[0]/t[0], u[1]/t[1]); by > slowPair {
					shared++
					most = max(most, by)
				}
			}
		}
	}
	if shared > 0 {
		c.found("slow-rails", "%d of %d transfers take up to %.2f times as long when all rails are busy", shared, len(together), most)
	}
}
