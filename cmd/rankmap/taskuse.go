package main

import (
	"fmt"
	"slices"
	"strings"

	"rankmap/layout"
	"rankmap/planner"
)

// taskKey is a key of the workload that only some tasks look at.
type taskKey struct {
	flag, key string
	tasks     []string
	why       string // what would be right
	given     func(*layout.Workload) bool
	clear     func(*layout.Workload)
}

const (
	serveTask   = string(planner.Serve)
	prefillTask = string(planner.PrefillOnly)
	decodeTask  = string(planner.DecodeOnly)
	trainTask   = string(planner.TrainStep)
)

// inferenceTasks are all but training.
var inferenceTasks = []string{serveTask, prefillTask, decodeTask}

// taskKeys lists the keys that not every task uses, in the order of help texts.
var taskKeys = []taskKey{
	{"isl", "isl", inferenceTasks, "a training sequence is --seq-len",
		func(w *layout.Workload) bool { return w.ISL != 0 }, func(w *layout.Workload) { w.ISL = 0 }},
	{"osl", "osl", inferenceTasks, "a training sequence is --seq-len",
		func(w *layout.Workload) bool { return w.OSL != 0 }, func(w *layout.Workload) { w.OSL = 0 }},
	{"seq-len", "seqLen", []string{trainTask}, "prompts are --isl, answers --osl",
		func(w *layout.Workload) bool { return w.SeqLen != 0 }, func(w *layout.Workload) { w.SeqLen = 0 }},
	{"concurrency", "concurrency", inferenceTasks, "the global batch is --batch",
		func(w *layout.Workload) bool { return w.Concurrency != 0 }, func(w *layout.Workload) { w.Concurrency = 0 }},
	{"kv-cache", "kvCache", inferenceTasks, "training holds no cache",
		func(w *layout.Workload) bool { return w.KVCache != "" }, func(w *layout.Workload) { w.KVCache = "" }},
	{"ttft", "ttftMs", []string{serveTask, prefillTask}, "only prompts have a first token to wait for",
		func(w *layout.Workload) bool { return w.TTFTMs != 0 }, func(w *layout.Workload) { w.TTFTMs = 0 }},
	{"tpot", "tpotMs", []string{serveTask, decodeTask}, "only decode has a time per token",
		func(w *layout.Workload) bool { return w.TPOTMs != 0 }, func(w *layout.Workload) { w.TPOTMs = 0 }},
	{"chunk", "chunk", []string{serveTask, prefillTask}, "it bounds the tokens of steps with prompts",
		func(w *layout.Workload) bool { return w.Chunk != 0 }, func(w *layout.Workload) { w.Chunk = 0 }},
	{"overlap", "overlap", inferenceTasks, "training hides its exchanges by itself",
		func(w *layout.Workload) bool { return w.Overlap }, func(w *layout.Workload) { w.Overlap = false }},
	{"lora", "lora", []string{trainTask}, "an inference engine serves adapters beside the weights: their cost is not priced",
		func(w *layout.Workload) bool { return w.LoRA != 0 }, func(w *layout.Workload) { w.LoRA = 0 }},
	{"lora-targets", "loraTargets", []string{trainTask}, "it says which layers --lora trains adapters for",
		func(w *layout.Workload) bool { return w.LoRATargets != "" }, func(w *layout.Workload) { w.LoRATargets = "" }},
	{"eager", "eager", []string{serveTask}, "one step of prefill or decode is priced on the GPU alone, without what the host spends on starting kernels",
		func(w *layout.Workload) bool { return w.Eager }, func(w *layout.Workload) { w.Eager = false }},
}

// applies reports what the user gave and the task does not use. What a layout or a workload file for another task holds is
// left out and named in a note.
func (w *workloadFlags) applies(out *layout.Workload, bad func(string, ...any)) []string {
	if !slices.Contains(append([]string{trainTask}, inferenceTasks...), out.Task) {
		return nil
	}
	own := w.file != "" && !w.set("task") // the file's keys are for the file's task
	var left []string
	for _, k := range taskKeys {
		switch {
		case slices.Contains(k.tasks, out.Task) || !k.given(out) && !w.set(k.flag):
		case w.set(k.flag):
			bad("--%s is about --task %s, the task is %s: %s", k.flag, strings.Join(k.tasks, ", "), out.Task, k.why)
		case own:
			bad("%s: %s is about task %s, the task is %s: %s", w.file, k.key, strings.Join(k.tasks, ", "), out.Task, k.why)
		default:
			k.clear(out)
			left = append(left, k.key)
		}
	}
	if out.Task == prefillTask && out.Chunk > 0 && out.Batch > 0 {
		bad("--chunk bounds the prompts of a step that a prefill plan tries: leave out --batch, or take --task serve")
	}
	if out.Task == trainTask && out.Weights == "int4" && out.LoRA == 0 {
		bad("--weights int4: weights of 4 bits cannot be trained: want bf16, fp8, fp8_block, nvfp4 or mxfp4, or adapters beside them (--lora 16)")
	}
	if len(left) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("task %s does not use %s of the workload", out.Task, strings.Join(left, ", "))}
}

// maxQuantity bounds tokens and sequences, so that no product of them overflows.
const maxQuantity = 100_000_000

// inRange reports numbers of a workload file that mean nothing; flags are checked as they are read.
func (w *workloadFlags) inRange(out *layout.Workload, bad func(string, ...any)) {
	for _, v := range []struct {
		flag, key string
		n         int
	}{{"isl", "isl", out.ISL}, {"osl", "osl", out.OSL}, {"seq-len", "seqLen", out.SeqLen}, {"batch", "batch", out.Batch}, {"concurrency", "concurrency", out.Concurrency}, {"chunk", "chunk", out.Chunk}} {
		switch {
		case v.n >= 0 && v.n <= maxQuantity:
		case w.set(v.flag):
			bad("--%s is %d, want at most %d", v.flag, v.n, maxQuantity)
		default:
			bad("%s: %s is %d, want 1 to %d", w.file, v.key, v.n, maxQuantity)
		}
	}
	for _, v := range []struct {
		key string
		ms  float64
	}{{"ttftMs", out.TTFTMs}, {"tpotMs", out.TPOTMs}} {
		if !(v.ms >= 0) || v.ms > 1e12 {
			bad("%s: %s is %v, want a positive time in milliseconds", w.file, v.key, v.ms)
		}
	}
}
