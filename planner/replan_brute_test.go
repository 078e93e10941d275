package planner

import (
	"context"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"rankmap/configs"
	"rankmap/internal/parallel"
	"rankmap/layout"
	"rankmap/model"
	"rankmap/topology"
)

// aFormer draws a machine of up to most GPUs with random links, a mixture of experts seated on it in any strategy, and lost GPUs.
func aFormer(t *rapid.T, b *bench, tb testing.TB, most int, spec *model.Spec) (Request, Former) {
	n := rapid.IntRange(3, most).Draw(t, "gpus")
	c := box(tb, b, n)
	p := pairPricer{make([][]float64, n)}
	for i := range n {
		p.gbps[i] = make([]float64, n)
		for j := range i {
			v := rapid.SampledFrom([]float64{5, 12, 25, 50, 450}).Draw(t, "GB/s")
			p.gbps[i][j], p.gbps[j][i] = v, v
		}
	}
	r := cheap(tb, c, spec, layout.Workload{Task: string(DecodeOnly), ISL: 512, OSL: 128, Batch: 24, Objective: string(Latency)})
	r.Pricer, r.Capacity = p, 1e15
	world := rapid.IntRange(2, n).Draw(t, "ranks")
	s := &search{Request: r, base: newSeating(c, nil)}
	all := slices.DeleteFunc(s.splitter(world).strategies(Freedom{}), func(st parallel.Strategy) bool {
		return len(spec.Check(st.Normalize())) > 0
	})
	st := rapid.SampledFrom(all).Draw(t, "strategy")
	st.Order = rapid.SampledFrom(orders(st.Normalize())).Draw(t, "order")
	f := Former{Strategy: st.Normalize(), Batch: 24}
	seats := make([]topology.GPUID, n)
	for i := range seats {
		seats[i] = topology.GPUID(i)
	}
	f.Seats = rapid.Permutation(seats).Draw(t, "seats")[:world]
	lost := map[topology.GPUID]bool{}
	for range rapid.IntRange(0, n-1).Draw(t, "losses") {
		lost[topology.GPUID(rapid.IntRange(0, n-1).Draw(t, "lost"))] = true
	}
	if len(lost) < n {
		r.Skip = func(id topology.GPUID) bool { return lost[id] }
	}
	return r, f
}

// way is what brute force knows of a seating.
type way struct {
	moves int
	score float64
}

// everyWay prices every seating of every number of replicas, in no clever way; by number of replicas.
func everyWay(t *rapid.T, r Request, f Former) [][]way {
	s := &search{Request: r, base: newSeating(r.Cluster, r.Skip)}
	adp := f.Strategy.AttentionDP()
	out := make([][]way, f.Strategy.DP/adp+1)
	for k := range out {
		st := f.Strategy
		st.DP = k * adp
		if k == 0 || st.World() > len(s.base.gpus) || len(s.Spec.Check(st)) > 0 {
			continue
		}
		was := map[topology.GPUID]held{}
		for r, id := range f.Seats {
			was[id] = share(&f.Strategy, r)
		}
		ids := slices.Clone(s.base.gpus)
		n := st.World()
		var walk func(int)
		walk = func(i int) {
			if i == n {
				o, err := s.evaluate(st, newComm(s.base.seatedOn(ids[:n]), s.Pricer, graphLaunch, st).price, r.Workload.Batch, true)
				if err != nil {
					t.Fatal(err)
				}
				w := way{0, o.score}
				for r, id := range ids[:n] {
					if h, held := was[id]; !held || h != share(&st, r) {
						w.moves++
					}
				}
				out[k] = append(out[k], w)
				return
			}
			for j := i; j < len(ids); j++ {
				ids[i], ids[j] = ids[j], ids[i]
				walk(i + 1)
				ids[i], ids[j] = ids[j], ids[i]
			}
		}
		walk(0)
	}
	return out
}

// Of the plans of the former degrees, the one with fewest moves is found, and of those the cheapest; no plan of the former degrees
// that moves as few ranks as the answer is cheaper, nor is a new one.
func TestKeptPlanEqualsBruteForce(t *testing.T) {
	b := newBench(t)
	most := 6
	for _, name := range []string{"mixtral-8x7b", "llama-3.1-8b"} {
		spec, err := model.Load(configs.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		rapid.Check(t, func(t2 *rapid.T) {
			r, f := aFormer(t2, b, t, most, spec)
			all := everyWay(t2, r, f)
			x, err := newRenewal(context.Background(), r, f)
			if err != nil {
				t2.Fatal(err)
			}
			k := len(all) - 1
			for k > 0 && len(all[k]) == 0 {
				k--
			}
			kept, err := x.kept()
			if err != nil {
				t2.Fatal(err)
			}
			if (kept == nil) != (k == 0) {
				t2.Fatalf("kept %v, brute force has %d replicas", kept, k)
			}
			if k == 0 {
				return
			}
			st := f.Strategy
			st.DP = k * st.AttentionDP()
			c, err := newKeeping(x, st, 24).fewest()
			if err != nil {
				t2.Fatal(err)
			}
			fewest := way{math.MaxInt, 0}
			for _, w := range all[k] {
				if w.moves < fewest.moves || w.moves == fewest.moves && w.score < fewest.score {
					fewest = w
				}
			}
			if c.moves != fewest.moves || c.out.score > fewest.score*(1+1e-9) {
				t2.Fatalf("%s: %d moves at %v, brute force %d at %v", st, c.moves, c.out.score, fewest.moves, fewest.score)
			}
			plan, err := Replan(context.Background(), r, f)
			if err != nil {
				t2.Fatal(err)
			}
			for _, ways := range all {
				for _, w := range ways {
					if w.moves <= plan.Kept.Moved && w.score < plan.Best.score*(1-1e-9) {
						t2.Fatalf("%s: %d moves at %v; %d moves at %v is better", plan.Best.Strategy, plan.Kept.Moved, plan.Best.score, w.moves, w.score)
					}
				}
			}
			if a := x.anew; a != nil && a.Kept.Moved <= plan.Kept.Moved && a.Best.score < plan.Best.score*(1-1e-9) {
				t2.Fatalf("%s moves %d at %v; the new plan %s moves %d at %v", plan.Best.Strategy, plan.Kept.Moved, plan.Best.score, a.Best.Strategy, a.Kept.Moved, a.Best.score)
			}
		})
	}
}

// Where machines are too large for every seating, exchanges find the fewest moves always and the cheapest of them nearly always.
func TestExchangesComeNearBruteForce(t *testing.T) {
	b := newBench(t)
	spec, err := model.Load(configs.FS, "mixtral-8x7b")
	if err != nil {
		t.Fatal(err)
	}
	n, equal, worst := 0, 0, 1.0
	rapid.Check(t, func(t2 *rapid.T) {
		r, f := aFormer(t2, b, t, 6, spec)
		x, err := newRenewal(context.Background(), r, f)
		if err != nil {
			t2.Fatal(err)
		}
		for k := f.Strategy.DP / f.Strategy.AttentionDP(); k > 0; k-- {
			st := f.Strategy
			st.DP = k * st.AttentionDP()
			if _, ok := x.batchOf(st); !ok {
				continue
			}
			keep := newKeeping(x, st, 24)
			got, err := keep.nearest()
			if err != nil {
				t2.Fatal(err)
			}
			all, err := keep.exact(got, keep.least())
			if err != nil {
				t2.Fatal(err)
			}
			if got.moves != keep.least() {
				t2.Fatalf("%s: %d moves, %d are enough", st, got.moves, keep.least())
			}
			n++
			ratio := got.out.score / all[0].out.score
			worst = max(worst, ratio)
			if ratio < 1+1e-9 {
				equal++
			}
			return
		}
	})
	t.Logf("%d of %d equal brute force, the worst costs %.1f %% more", equal, n, 100*(worst-1))
	if n > 0 && float64(equal) < 0.8*float64(n) {
		t.Errorf("%d of %d equal brute force", equal, n)
	}
}
