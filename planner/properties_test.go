package planner

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"rankmap/internal/units"
	"rankmap/layout"
	"rankmap/topology"
)

// A machine with a link less is never faster.
func TestRemovingALinkNeverHelps(t *testing.T) {
	b := newBench(t)
	w := layout.Workload{Task: "decode", ISL: 1024, OSL: 128, Batch: 32, Objective: string(Latency)}
	for _, c := range []struct {
		preset string
		nodes  int
		model  string
		edit   topology.Edit
	}{
		{"dgx1-v100", 1, "llama-3.1-8b", topology.Edit{Kind: topology.DropNVLink, GPU: 0, Peer: 3}},
		{"dgx1-v100", 1, "llama-3.1-8b", topology.Edit{Kind: topology.DropNVLink, GPU: 1, Peer: 5}},
		{"hgx-h100", 2, "llama-3.1-70b", topology.Edit{Kind: topology.SetLinks, GPU: 5, Links: 9}},
		{"hgx-h100", 2, "llama-3.1-405b", topology.Edit{Kind: topology.DropNIC, NIC: 2}},
		{"hgx-h100", 2, "llama-3.1-70b", topology.Edit{Kind: topology.DropGPU, GPU: 6}},
	} {
		whole := b.preset(t, c.preset, c.nodes)
		e := c.edit
		e.Node = whole.Nodes[0].Name
		hurt, _, err := whole.Edit(e, b.cat)
		if err != nil {
			t.Fatal(err)
		}
		before, _ := b.plan(t, whole, c.model, w)
		r := b.request(t, hurt, c.model, w)
		r.Skip = func(id topology.GPUID) bool { return hurt.GPUBad(id) != "" }
		after, err := Search(context.Background(), r)
		if err != nil {
			t.Fatal(err)
		}
		if after.Best.score < before.Best.score*(1-1e-9) {
			t.Errorf("%s with %+v: %v, whole %v", c.preset, c.edit, after.Best.TPOT.Time, before.Best.TPOT.Time)
		}
	}
}

// GPUs of a node renumbered, with their links: the cost stays. On an irregular wiring the search must find the same seats
// under their new names.
func TestCostIgnoresTheNumbersOfGPUs(t *testing.T) {
	b := newBench(t)
	w := layout.Workload{Task: "prefill", ISL: 2048, Batch: 4, Objective: string(Latency)}
	c := b.preset(t, "dgx1-v100", 1)
	want, _ := b.plan(t, c, "llama-3.1-8b", w)
	rng := rand.New(rand.NewPCG(3, 9))
	for range 3 {
		to := rng.Perm(8)
		d := renumbered(t, b, c, to)
		got, _ := b.plan(t, d, "llama-3.1-8b", w)
		if diff := float64(got.Best.Step.Time/want.Best.Step.Time) - 1; abs(diff) > 1e-9 {
			t.Errorf("GPUs renumbered %v: %v, before %v", to, got.Best.Step.Time, want.Best.Step.Time)
		}
	}
}

// renumbered gives GPU i of the only class the number to[i].
func renumbered(t *testing.T, b *bench, c *topology.Cluster, to []int) *topology.Cluster {
	t.Helper()
	k := c.Clone().Classes[0]
	was := c.Classes[0]
	n := len(k.GPUs)
	for i := range n {
		k.GPUs[to[i]] = was.GPUs[i]
		k.GPUs[to[i]].Index = to[i]
		for j := range n {
			k.GPUPaths[to[i]][to[j]] = was.GPUPaths[i][j]
			if was.PCIePaths != nil {
				k.PCIePaths[to[i]][to[j]] = was.PCIePaths[i][j]
			}
		}
		if was.NICPaths != nil {
			k.NICPaths[to[i]] = was.NICPaths[i]
		}
	}
	for i, l := range was.NVLinks {
		l.A, l.B = min(to[l.A], to[l.B]), max(to[l.A], to[l.B])
		k.NVLinks[i] = l
	}
	out, err := topology.Replicate(k, 1, c.Fabric, b.cat)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// More NVLink bandwidth never makes the plan slower.
func TestMoreNVLinkNeverHurts(t *testing.T) {
	b := newBench(t)
	last := 1e9
	for _, f := range []float64{0.25, 0.5, 1, 2, 4} {
		c, ok := b.preset(t, "hgx-h100", 2).Scaled(f, 1)
		if !ok {
			t.Fatal("no NVLink to scale")
		}
		if err := c.Finish(b.cat); err != nil {
			t.Fatal(err)
		}
		p, _ := b.plan(t, c, "llama-3.1-70b", layout.Workload{Task: "decode", ISL: 1024, OSL: 512, Batch: 32, Objective: string(Latency)})
		if got := p.Best.TPOT.Time.Seconds(); got > last*(1+1e-9) {
			t.Errorf("NVLink times %v: %v, slower than with less", f, units.Duration(got))
		} else {
			last = got
		}
	}
}

// Cancelled in the middle, a search ends with the best so far, says so, and the plan is whole. How long that took is logged; the
// limit catches a search that goes on.
func TestCancelledInTheMiddle(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		preset string
		nodes  int
		model  string
		w      layout.Workload
	}{
		{"hgx-h200", 8, "deepseek-v3", layout.Workload{Task: "serve", ISL: 4096, OSL: 1024}},
		{"hgx-h100", 512, "llama-3.1-405b", layout.Workload{Task: "serve", ISL: 4096, OSL: 1024}},
	} {
		r := b.request(t, b.preset(t, c.preset, c.nodes), c.model, c.w)
		ctx, cancel := context.WithCancel(context.Background())
		var at time.Time
		r.Progress = func(done, all int) {
			if done == all/2 {
				at = time.Now()
				cancel()
			}
		}
		p, err := Search(ctx, r)
		took := time.Since(at)
		cancel()
		if err != nil {
			if errors.Is(err, context.Canceled) {
				t.Errorf("%s: nothing found by the middle of the search", c.preset)
				continue
			}
			t.Fatal(err)
		}
		t.Logf("%s: %v from the cancellation to the plan", c.preset, took) // 100 ms on an idle machine
		if took > 2*time.Second {
			t.Errorf("%s: %v from the cancellation to the plan: it was not heeded", c.preset, took)
		}
		if !p.Stopped || len(p.Seats) != p.Best.Strategy.World() || p.Best.Step.Time <= 0 {
			t.Errorf("%s: stopped %v, %d seats of %s", c.preset, p.Stopped, len(p.Seats), p.Best.Strategy)
		}
		if _, err := p.Document(r, layout.Inputs{Workload: r.Workload}, topology.NewDoc(r.Cluster)); err != nil {
			t.Errorf("%s: the document of a stopped search: %v", c.preset, err)
		}
	}
}
