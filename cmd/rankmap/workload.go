package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"rankmap/internal/strictyaml"
	"rankmap/layout"
	"rankmap/planner"
)

// workloadFlags describe what the GPUs are for; a --workload file is read first and flags win over it.
type workloadFlags struct {
	file               string
	task               string
	isl, osl, seqLen   int
	batch, concurrency int
	weights, kvCache   string
	objective          string
	ttft, tpot         time.Duration
	chunk              int
	overlap, eager     bool
	set                func(string) bool
}

func (w *workloadFlags) add(f *pflag.FlagSet) {
	f.StringVar(&w.file, "workload", "", "workload: chat, long-context or pretrain, or a YAML file with the keys of inputs.workload in a layout")
	f.StringVar(&w.task, "task", "", "serve, prefill, decode or train (default serve)")
	f.IntVar(&w.isl, "isl", 0, "input tokens a sequence (default 4096)")
	f.IntVar(&w.osl, "osl", 0, "output tokens a sequence (default 1024)")
	f.IntVar(&w.seqLen, "seq-len", 0, "sequence length in training (default 4096)")
	f.IntVar(&w.batch, "batch", 0, "sequences in flight over all GPUs (default: searched); the global batch in training (default 1024)")
	f.IntVar(&w.concurrency, "concurrency", 0, "requests in flight; for serving the same as --batch")
	f.StringVar(&w.weights, "weights", "", "weight type: bf16, fp8, fp8_block, nvfp4, mxfp4, int4 (default: as the config stores them)")
	f.StringVar(&w.kvCache, "kv-cache", "", "KV cache type: bf16 or fp8 (default bf16)")
	f.StringVar(&w.objective, "objective", "", "throughput, latency, step-time or min-gpus (default throughput, training step-time)")
	f.DurationVar(&w.ttft, "ttft", 0, "limit of the time to the first token, such as 500ms")
	f.DurationVar(&w.tpot, "tpot", 0, "limit of the time per output token, such as 30ms")
	f.IntVar(&w.chunk, "chunk", 0, "serving: tokens that a step may carry on one attention replica, decode and prompts together (default: the target engine's, 8192)")
	f.BoolVar(&w.overlap, "overlap", false, "serving: the engine runs a step over experts as two batches that hide each other's exchange (SGLang --enable-two-batch-overlap, vLLM --enable-dbo)")
	f.BoolVar(&w.eager, "eager", false, "serving: decode runs without CUDA graphs")
	w.set = f.Changed
}

// readFile reads the --workload file, if any.
func (w *workloadFlags) readFile(d *deps) (layout.Workload, []string, error) {
	var out layout.Workload
	if w.file == "" {
		return out, nil, nil
	}
	if data, err := fs.ReadFile(d.Configs, "workloads/"+w.file+".yaml"); err == nil {
		return out, nil, strictyaml.Read(bytes.NewReader(data), w.file, strictyaml.HandWritten, &out)
	}
	data, err := readAll(d, w.file, maxInput)
	if err != nil {
		return out, nil, inputErr(err)
	}
	err = strictyaml.Read(bytes.NewReader(data), w.file, strictyaml.HandWritten, &out)
	return out, []string{w.file}, inputErr(err)
}

// weightTypes are the types that the kernels know.
var weightTypes = []string{"bf16", "fp16", "fp8", "fp8_block", "nvfp4", "mxfp4", "int4"}

// resolve applies flags and defaults, says which defaults it used, and reports every problem at once.
func (w *workloadFlags) resolve(base layout.Workload) (layout.Workload, []string, error) {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	out := base
	num := func(name string, v int, into *int) {
		if !w.set(name) && v == 0 {
			return
		}
		if v < 1 {
			bad("--%s is %d, want at least 1", name, v)
			return
		}
		*into = v
	}
	num("isl", w.isl, &out.ISL)
	num("osl", w.osl, &out.OSL)
	num("batch", w.batch, &out.Batch)
	num("seq-len", w.seqLen, &out.SeqLen)
	num("concurrency", w.concurrency, &out.Concurrency)
	num("chunk", w.chunk, &out.Chunk)
	out.Overlap, out.Eager = out.Overlap || w.overlap, out.Eager || w.eager
	str := func(v string, into *string) {
		if v != "" {
			*into = v
		}
	}
	str(w.task, &out.Task)
	str(w.weights, &out.Weights)
	str(w.kvCache, &out.KVCache)
	str(w.objective, &out.Objective)
	limit := func(name string, v time.Duration, into *float64) {
		if v < 0 {
			bad("--%s is %s, want a positive time such as 500ms", name, v)
		} else if v > 0 {
			*into = millis(v)
		}
	}
	limit("ttft", w.ttft, &out.TTFTMs)
	limit("tpot", w.tpot, &out.TPOTMs)

	var used []string
	def := func(name string, missing bool, apply func() string) {
		if missing {
			used = append(used, name+" "+apply())
		}
	}
	def("task", out.Task == "", func() string { out.Task = string(planner.Serve); return out.Task })
	serving := out.Task != string(planner.TrainStep)
	if !serving && (out.Chunk > 0 || out.Overlap || out.Eager) {
		bad("--chunk, --overlap and --eager are about serving, the task is train")
	}
	def("isl", serving && out.ISL == 0, func() string { out.ISL = 4096; return "4096" })
	def("osl", serving && out.OSL == 0, func() string { out.OSL = 1024; return "1024" })
	def("objective", out.Objective == "", func() string {
		out.Objective = string(planner.Throughput)
		if !serving {
			out.Objective = string(planner.StepTime)
		}
		return out.Objective
	})
	if out.Batch == 0 && out.Concurrency > 0 {
		out.Batch = out.Concurrency
	}
	if out.Batch > 0 && out.Concurrency > 0 && out.Batch != out.Concurrency {
		bad("--batch %d and --concurrency %d differ: give one", out.Batch, out.Concurrency)
	}
	def("seqLen", !serving && out.SeqLen == 0, func() string { out.SeqLen = 4096; return "4096" })
	def("global batch", !serving && out.Batch == 0, func() string { out.Batch = 1024; return "1024" })
	if out.Batch == 0 {
		used = append(used, "batch searched")
	}
	oneOf := func(name, v string, known []string) {
		if v != "" && !slices.Contains(known, v) {
			bad("--%s %q is unknown (known: %s)", name, v, strings.Join(known, ", "))
		}
	}
	oneOf("task", out.Task, []string{"serve", "prefill", "decode", "train"})
	oneOf("objective", out.Objective, []string{"throughput", "latency", "step-time", "min-gpus"})
	oneOf("weights", out.Weights, weightTypes)
	oneOf("kv-cache", out.KVCache, []string{"bf16", "fp8"})
	var notes []string
	if len(used) > 0 {
		notes = append(notes, "defaults in force: "+strings.Join(used, ", "))
	}
	return out, notes, inputErr(errors.Join(errs...))
}
