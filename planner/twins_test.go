package planner

import (
	"math/rand/v2"
	"slices"
	"testing"

	"rankmap/collective"
	"rankmap/internal/parallel"
	"rankmap/layout"
	"rankmap/topology"
)

// How many exchanges change nothing, by hand: a PCIe box swaps the two GPUs of each switch, the switches of each socket and the
// sockets (2^4 x 2^2 x 2); all of an NVSwitch box are alike (8!); a dead link leaves its GPU alone (7!).
func TestTwins(t *testing.T) {
	be := newBench(t)
	box := func(preset string, edits ...topology.Edit) *topology.Cluster {
		c := be.preset(t, preset, 1)
		for _, e := range edits {
			var err error
			if c, _, err = c.Edit(e, be.cat); err != nil {
				t.Fatal(err)
			}
		}
		return c
	}
	for _, x := range []struct {
		name string
		c    *topology.Cluster
		want int
	}{
		{"pcie-rtx-pro-6000", box("pcie-rtx-pro-6000"), 128},
		{"a GPU less on one switch", box("pcie-rtx-pro-6000", topology.Edit{Kind: topology.DropGPU, Node: "node0", GPU: 3}), 2 * 2 * 2 * 2},
		{"two boxes", be.preset(t, "hgx-h100", 2), 0},
	} {
		s := &search{Request: be.request(t, x.c, "llama-3.1-8b", layout.Workload{Task: "decode", ISL: 1024, OSL: 128}), base: newSeating(x.c, func(id topology.GPUID) bool { return x.c.GPUBad(id) != "" })}
		if got := len(s.twins()); got != x.want {
			t.Errorf("%s: %d exchanges, want %d", x.name, got, x.want)
		}
	}
}

// Groups that an exchange turns into each other cost the same, with what runs beside them.
func TestTwinsCostTheSame(t *testing.T) {
	be := newBench(t)
	rng := rand.New(rand.NewPCG(5, 5))
	for trial := range 120 {
		kind, c, free := oddMachine(t, be, rng)
		switch trial % 4 {
		case 1:
			kind, c = "pcie-rtx-pro-6000", be.preset(t, "pcie-rtx-pro-6000", 1)
		case 2:
			kind, c = "dgx1-v100", be.preset(t, "dgx1-v100", 1)
		case 3:
			kind, c = "pcie-l40s", be.preset(t, "pcie-l40s", 1)
		}
		if trial%4 > 0 {
			free = nil
			for id := range topology.GPUID(c.NumGPUs()) {
				if rng.IntN(5) > 0 {
					free = append(free, id)
				}
			}
		}
		r := be.request(t, c, "llama-3.1-8b", layout.Workload{Task: "decode", ISL: 1024, OSL: 128})
		s := &search{Request: r, base: newSeating(c, func(id topology.GPUID) bool { return !slices.Contains(free, id) })}
		twins := s.twins()
		if len(twins) < 2 {
			continue
		}
		for range 20 {
			x := twins[rng.IntN(len(twins))]
			perm := rng.Perm(len(s.base.gpus))
			size := 2 + rng.IntN(len(perm)-1)
			group := func(via []byte) (out [][]topology.GPUID) {
				for i := 0; i < len(perm); i += size {
					var ids []topology.GPUID
					for _, p := range perm[i:min(len(perm), i+size)] {
						ids = append(ids, s.base.gpus[via[p]])
					}
					if slices.Sort(ids); len(ids) > 1 {
						out = append(out, ids)
					}
				}
				return out
			}
			a, b := group(twins[0]), group(x)
			for _, op := range []parallel.Op{parallel.AllReduce, parallel.AllGather, parallel.AllToAll, parallel.SendRecv} {
				price := func(g [][]topology.GPUID) float64 {
					m := g[0]
					if op == parallel.SendRecv {
						m = m[:2]
					}
					e, err := r.Pricer.Price(collective.Request{Op: op, Bytes: 1 << 24, DType: "bf16", Launch: graphLaunch, Members: m, Siblings: g[1:]})
					if err != nil {
						t.Fatal(err)
					}
					return e.Time.Seconds()
				}
				if op == parallel.SendRecv && size > 2 {
					continue // of larger groups the first two, sorted, are not each other's images
				}
				if p, q := price(a), price(b); abs(p-q) > 1e-9*p {
					t.Errorf("%d, %s: %s on %v takes %g s, on %v %g s", trial, kind, op, a, p, b, q)
				}
			}
		}
	}
}
