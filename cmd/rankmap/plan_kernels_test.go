package main

import (
	"testing"

	"rankmap/collective"
	"rankmap/internal/engine"
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
	} {
		k := kernelChoice{name: c.flag}
		got, record, err := k.options(c.target, c.cost)
		if got != c.want || record != c.record || (err != nil) != c.bad {
			t.Errorf("--kernels %s, %s: %+v, %q, %v", c.flag, c.cost, got, record, err)
		}
	}
}
