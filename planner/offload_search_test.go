package planner

import (
	"context"
	"testing"

	"rankmap/internal/parallel"
	"rankmap/layout"
)

// Data parallelism alone over 64 GPUs of GB200, sharded, holds the kept results of a sequence only in part. Grace's memory
// takes the rest beside the kernels, where recomputation would run layers again; over a link as slow as PCIe of old it would not.
func TestResultsWaitInHostMemoryWhereTheLinkIsFast(t *testing.T) {
	b := newBench(t)
	cl := b.preset(t, "gb200-nvl72", 1)
	r := b.request(t, cl, "llama-3.1-70b", layout.Workload{Task: "train", SeqLen: 8192, Batch: 256})
	r.GPUs, r.Held.MicroBatch, r.Held.ZeRO = 64, 1, 3
	r.Freedom.Fix = map[parallel.Dim]int{parallel.TP: 1, parallel.CP: 1, parallel.PP: 1}
	plan := func() *Plan {
		p, err := Search(context.Background(), r)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	without := plan()
	if st := without.Best.Strategy; st.OffloadLayers != 0 || st.RecomputeLayers == 0 {
		t.Fatalf("without a link: %+v, want layers recomputed", st)
	}
	r.HostLink = 256e9
	fast := plan()
	if st := fast.Best.Strategy; st.OffloadLayers == 0 || st.Recompute != "" || fast.Best.score >= without.Best.score {
		t.Errorf("at 256 GB/s: %+v takes %v, without %v", st, fast.Best.Step.Time, without.Best.Step.Time)
	}
	if fast.Best.Memory.Total() > r.Capacity {
		t.Errorf("%v do not fit %v", fast.Best.Memory.Total(), r.Capacity)
	}
	if back := layout.Of(fast.Best.Strategy).Parallel(); back.OffloadLayers != fast.Best.Strategy.OffloadLayers {
		t.Errorf("the layout keeps %d off-loaded layers of %d", back.OffloadLayers, fast.Best.Strategy.OffloadLayers)
	}
	r.HostLink = 2e9
	if slow := plan(); slow.Best.Strategy.OffloadLayers != 0 {
		t.Errorf("at 2 GB/s: %+v", slow.Best.Strategy)
	}
	r.HostLink, r.Held.Graphs = 256e9, true
	if graphs := plan(); graphs.Best.Strategy.OffloadLayers != 0 {
		t.Error("off-loaded under CUDA graphs, which Megatron refuses")
	}
}

// FP4 parameters are sharded by no framework: no option has ZeRO-3.
func TestFP4IsNotSharded(t *testing.T) {
	b := newBench(t)
	cl := b.preset(t, "gb200-nvl72", 1)
	r := b.request(t, cl, "llama-3.1-70b", layout.Workload{Task: "train", SeqLen: 8192, Batch: 256, Weights: "nvfp4"})
	r.GPUs = 64
	k, err := NewRanking(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range k.s.splitter(64).strategies(r.Freedom) {
		fit, large, _ := k.s.trainOptions(st.Normalize())
		for _, o := range append(fit, large...) {
			if o.st.ZeRO == 3 {
				t.Fatalf("%+v", o.st)
			}
		}
	}
}

// More than a host has room for is not off-loaded: four sequences keep 300 GB beyond the GPU.
func TestOffloadStaysWithinTheHost(t *testing.T) {
	b := newBench(t)
	cl := b.preset(t, "gb200-nvl72", 1)
	r := b.request(t, cl, "llama-3.1-70b", layout.Workload{Task: "train", SeqLen: 8192, Batch: 256})
	r.GPUs, r.Held.MicroBatch, r.Held.ZeRO, r.HostLink = 64, 4, 3, 256e9
	k, err := NewRanking(r)
	if err != nil {
		t.Fatal(err)
	}
	fit, _, _ := k.s.trainOptions(parallel.Strategy{DP: 64}.Normalize())
	if len(fit) == 0 {
		t.Fatal("nothing fits")
	}
	for _, o := range fit {
		if o.st.OffloadLayers > 0 {
			t.Errorf("%+v", o.st)
		}
	}
}

// Where results of replicated weights fit with most layers in host memory, sharded weights are tried all the same: they may
// leave every result on the GPU.
func TestShardingIsTriedBesideOffload(t *testing.T) {
	b := newBench(t)
	cl := b.preset(t, "hgx-h200", 2)
	r := b.request(t, cl, "llama-3.1-70b", layout.Workload{Task: "train", SeqLen: 4096, Batch: 32, LoRA: 16})
	r.HostLink = 57.6e9
	k, err := NewRanking(r)
	if err != nil {
		t.Fatal(err)
	}
	fit, _, _ := k.s.trainOptions(parallel.Strategy{DP: 16}.Normalize())
	offloaded, whole := false, false
	for _, o := range fit {
		offloaded = offloaded || o.st.ZeRO == 1 && o.st.OffloadLayers > 0
		whole = whole || o.st.ZeRO == 3 && o.st.OffloadLayers == 0 && o.st.Recompute == ""
	}
	if !offloaded || !whole {
		t.Errorf("replicated and off-loaded %v, sharded and whole %v", offloaded, whole)
	}
}
