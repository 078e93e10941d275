package planner

import (
	"context"
	"strings"
	"testing"

	"rankmap/internal/parallel"
	"rankmap/layout"
	"rankmap/topology"
)

func launcherOf(p *Plan, name string) layout.Launcher {
	for _, l := range p.Launchers {
		if l.Target == name {
			return l
		}
	}
	return layout.Launcher{}
}

func TestLaunchersLoseNothingOnEqualBoxes(t *testing.T) {
	b := newBench(t)
	p, _ := b.plan(t, b.preset(t, "hgx-h100", 2), "llama-3.1-70b", layout.Workload{Task: "decode", ISL: 1024, OSL: 512, Batch: 64})
	for _, l := range p.Launchers {
		if !l.Expressible || l.LossPercent != 0 || l.Best != nil {
			t.Errorf("%+v; want every launcher to express %s", l, p.Best.Strategy)
		}
	}
	if p.Best.Plain != 0 {
		t.Errorf("the plain deal would take %v; want no other deal than the plan's", p.Best.Plain)
	}
}

// Eight GPUs here and four there: torchrun starts as many ranks on each node, so it cannot fill both, and its best layout
// costs more. A host file can.
func TestUnevenNodesCostTorchrun(t *testing.T) {
	b := newBench(t)
	r, _ := irregular(t, b)
	r.Skip = func(id topology.GPUID) bool { return id == 2 }
	r.GPUs = 12
	r.Freedom.Fix = map[parallel.Dim]int{parallel.TP: 4}
	r.Freedom.Forbid = map[parallel.Dim]bool{parallel.PP: true}
	p, err := Search(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	tr, sl := launcherOf(p, "torchrun"), launcherOf(p, "slurm")
	if tr.Expressible || tr.Best == nil || tr.LossPercent <= 1 || !strings.Contains(tr.Why, "as many ranks on every node") {
		t.Errorf("torchrun: %+v; want a loss and the reason", tr)
	}
	if !sl.Expressible || sl.LossPercent != 0 {
		t.Errorf("slurm: %+v; want no loss", sl)
	}
	if p.Best.Plain <= p.Best.Step.Time {
		t.Errorf("dealt plainly %v, planned %v: want the plan better", p.Best.Plain, p.Best.Step.Time)
	}
	if text := strings.Join(p.Explained, "\n"); !strings.Contains(text, "torchrun") || !strings.Contains(text, "dealt in host and GPU order") {
		t.Errorf("the explanation says nothing of the loss:\n%s", text)
	}
}

func TestServingEnginesCannotTrain(t *testing.T) {
	p, err := Search(context.Background(), trainingRequest(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"vllm", "sglang", "trtllm"} {
		if l := launcherOf(p, name); l.Expressible || l.Best != nil || !strings.Contains(l.Why, "cannot train") {
			t.Errorf("%+v", l)
		}
	}
	if l := launcherOf(p, "megatron"); !l.Expressible && l.Best == nil {
		t.Errorf("%+v", l)
	}
}

func TestSeatsOfANode(t *testing.T) {
	b := newBench(t)
	c := b.preset(t, "hgx-h100", 2)
	if counts, ok := seatsOf(c, []topology.GPUID{8, 9, 1, 0, 2}); !ok || len(counts) != 2 || counts[0] != 2 || counts[1] != 3 {
		t.Errorf("%v %v", counts, ok)
	}
	if _, ok := seatsOf(c, []topology.GPUID{0, 8, 1}); ok {
		t.Error("a node visited twice is not consecutive")
	}
}
