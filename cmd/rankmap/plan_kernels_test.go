package main

import (
	"testing"

	"rankmap/collective"
	"rankmap/configs"
	"rankmap/internal/engine"
	"rankmap/planner"
	"rankmap/topology"
)

func TestKernelChoice(t *testing.T) {
	vllm := &engine.Engine{Name: "vllm", Version: "0.19.0"}
	for _, c := range []struct {
		flag, cost string
		target     *engine.Engine
		want       collective.Options
		record     string
		bad        bool
	}{
		{"engine", "calibrated", nil, collective.Options{}, "", false},
		{"engine", "calibrated", vllm, collective.Options{Kernels: "vllm", KernelVersion: "0.19.0"}, "vllm@0.19.0", false},
		{"engine", "textbook", vllm, collective.Options{}, "", false},
		{"engine", "calibrated", &engine.Engine{Name: "megatron"}, collective.Options{}, "", false},
		{"nccl", "calibrated", vllm, collective.Options{}, "nccl", false},
		{"trtllm", "calibrated", vllm, collective.Options{Kernels: "trtllm"}, "trtllm", false},
		{"vllm@0.14.0", "calibrated", nil, collective.Options{Kernels: "vllm", KernelVersion: "0.14.0"}, "vllm@0.14.0", false},
		{"vllm", "textbook", nil, collective.Options{}, "", true},
		{"vllm@", "calibrated", nil, collective.Options{}, "", true},
		{"nccl@2.28", "calibrated", nil, collective.Options{}, "", true},
		{"mscclpp", "calibrated", nil, collective.Options{}, "", true},
		{"trtllm+norm", "calibrated", nil, collective.Options{Kernels: "trtllm"}, "trtllm+norm", false},
		{"engine+norm", "calibrated", vllm, collective.Options{Kernels: "vllm", KernelVersion: "0.19.0"}, "vllm@0.19.0+norm", false},
		{"engine+norm", "calibrated", nil, collective.Options{}, "", true},
		{"engine+norm", "textbook", vllm, collective.Options{}, "", true},
		{"nccl+norm", "calibrated", vllm, collective.Options{}, "", true},
		{"symm+norm", "calibrated", nil, collective.Options{}, "", true},
		{"vllm@+norm", "calibrated", nil, collective.Options{}, "", true},
		{"+norm", "calibrated", nil, collective.Options{}, "", true},
	} {
		k := kernelChoice{name: c.flag}
		got, record, err := k.options(c.target, c.cost)
		if got != c.want || record != c.record || (err != nil) != c.bad {
			t.Errorf("--kernels %s, %s: %+v, %q, %v", c.flag, c.cost, got, record, err)
		}
	}
}

// What fusion saves comes from the GPU's own kernel prices; only inference has it.
func TestFuse(t *testing.T) {
	book, err := newPriceBook(&deps{Configs: configs.FS, Open: openFile}, nil)
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := topology.Preset(configs.FS, "hgx-h100", 1, book.cat)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		flag, task string
		want, bad  bool
	}{{"vllm+norm", "decode", true, false}, {"vllm", "decode", false, false}, {"vllm+norm", string(planner.TrainStep), false, true}} {
		k, o := kernelChoice{c.flag}, collective.Options{Kernels: "vllm"}
		r := planner.Request{Cluster: cluster}
		r.Workload.Task = c.task
		err := k.fuse(&o, book, &r)
		if (err != nil) != c.bad || (o.Fused.LaunchUs > 0.1 && o.Fused.LaunchUs < 10 && o.Fused.MemoryGBps > 1000 && o.Fused.MemoryGBps < 3352) != c.want {
			t.Errorf("%s, %s: %+v, %v", c.flag, c.task, o.Fused, err)
		}
	}
}
