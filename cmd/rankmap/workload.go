package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
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
	lora               int
	loraTargets        string
	set                func(string) bool
}

func (w *workloadFlags) add(f *pflag.FlagSet) {
	f.StringVar(&w.file, "workload", "", "workload: chat, long-context or pretrain, or a YAML file with the keys of inputs.workload in a layout")
	f.StringVar(&w.task, "task", "", "serve, prefill, decode or train (default serve)")
	f.IntVar(&w.isl, "isl", 0, "input tokens a sequence (inference; default 4096)")
	f.IntVar(&w.osl, "osl", 0, "output tokens a sequence (inference; default 1024)")
	f.IntVar(&w.seqLen, "seq-len", 0, "sequence length in training (default 4096)")
	f.IntVar(&w.batch, "batch", 0, "sequences in flight over all GPUs (default: searched); the global batch in training (default 1024)")
	f.IntVar(&w.concurrency, "concurrency", 0, "requests in flight, the same as --batch (inference)")
	f.StringVar(&w.weights, "weights", "", "weight type: bf16, fp8, fp8_block, nvfp4, mxfp4, int4 (default: as the config stores them)")
	f.StringVar(&w.kvCache, "kv-cache", "", "KV cache type: bf16 or fp8 (inference; default bf16)")
	f.StringVar(&w.objective, "objective", "", "throughput, latency, step-time or min-gpus (default throughput; training step-time, which latency and throughput equal: its batch is given)")
	f.DurationVar(&w.ttft, "ttft", 0, "limit of the time to the first token, such as 500ms (serve, prefill)")
	f.DurationVar(&w.tpot, "tpot", 0, "limit of the time per output token, such as 30ms (serve, decode)")
	f.IntVar(&w.chunk, "chunk", 0, "tokens that a step may carry on one attention replica, decode and prompts together (serve, prefill; default: the target engine's, 8192)")
	f.BoolVar(&w.overlap, "overlap", false, "the engine runs a step over experts as two batches that hide each other's exchange (SGLang --enable-two-batch-overlap, vLLM --enable-dbo; inference)")
	f.BoolVar(&w.eager, "eager", false, "decode runs without CUDA graphs (serve)")
	f.IntVar(&w.lora, "lora", 0, "train adapters of this rank beside frozen weights (train)")
	f.StringVar(&w.loraTargets, "lora-targets", "", "layers with adapters: linear (attention and feed-forward), attention or qkv (train with --lora; default linear)")
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
	if errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(w.file, "/.") {
		return out, nil, inputErrf("--workload %q is neither a known name nor a file%s", w.file, strictyaml.DidYouMean(w.file, workloadFiles(d)))
	}
	if err != nil {
		return out, nil, inputErr(err)
	}
	err = strictyaml.Read(bytes.NewReader(data), w.file, strictyaml.HandWritten, &out)
	return out, []string{w.file}, inputErr(err)
}

// workloadFiles lists the workloads that rankmap ships.
func workloadFiles(d *deps) []string {
	var out []string
	files, _ := fs.Glob(d.Configs, "workloads/*.yaml")
	for _, f := range files {
		out = append(out, strings.TrimSuffix(path.Base(f), ".yaml"))
	}
	return out
}

// weightTypes are the types that the kernels know.
var weightTypes = []string{"bf16", "fp16", "fp8", "fp8_block", "nvfp4", "mxfp4", "int4"}

// suggestion is the known word that was probably meant, as ", did you mean ...".
func suggestion(word string, known []string) string {
	if s := strictyaml.Suggest(word, known); s != "" {
		return fmt.Sprintf(", did you mean %q?", s)
	}
	return ""
}

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
	num("lora", w.lora, &out.LoRA)
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
	str(w.loraTargets, &out.LoRATargets)
	limit := func(name string, v time.Duration, into *float64) {
		if v < 0 || v == 0 && w.set(name) {
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
	w.inRange(&out, bad)
	left := w.applies(&out, bad)
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
			bad("--%s %q is unknown%s (known: %s)", name, v, suggestion(v, known), strings.Join(known, ", "))
		}
	}
	oneOf("task", out.Task, []string{"serve", "prefill", "decode", "train"})
	oneOf("objective", out.Objective, []string{"throughput", "latency", "step-time", "min-gpus"})
	oneOf("weights", out.Weights, weightTypes)
	oneOf("kv-cache", out.KVCache, []string{"bf16", "fp8"})
	oneOf("lora-targets", out.LoRATargets, []string{"linear", "attention", "qkv"})
	if out.LoRATargets != "" && out.LoRA == 0 && !serving {
		bad("--lora-targets %s says which layers get adapters: want their rank too, such as --lora 16", out.LoRATargets)
	}
	if out.LoRA < 0 {
		bad("lora is %d, want a rank of at least 1", out.LoRA)
	}
	notes := left
	if len(used) > 0 {
		notes = append(notes, "defaults in force: "+strings.Join(used, ", "))
	}
	return out, notes, inputErr(errors.Join(errs...))
}
