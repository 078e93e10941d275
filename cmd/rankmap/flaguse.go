package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"rankmap/internal/engine"
	"rankmap/internal/parallel"
	"rankmap/layout"
	"rankmap/model"
	"rankmap/planner/whatif"
	"rankmap/topology"
)

// A flag that a command would not look at is an error, never silence: these functions name each, and what would be right.

// unusedFlags lists given flags with one reason.
type unusedFlags struct {
	given func(string) bool
	errs  []error
}

// because reports those of the flags that are given.
func (u *unusedFlags) because(why string, flags ...string) {
	for _, f := range flags {
		if u.given(f) {
			u.errs = append(u.errs, fmt.Errorf("--%s: %s", f, why))
		}
	}
}

func (u *unusedFlags) err() error { return inputErr(errors.Join(u.errs...)) }

// unused reports flags of plan that do not go together.
func (o *planOptions) unused() error {
	u := unusedFlags{given: o.given}
	if o.example {
		u.because("--example stands alone: leave out --cluster, --model, --workload and --keep", "cluster", "model", "workload", "keep")
	}
	if o.pareto {
		u.because("--pareto lists every plan of the front: no choice, no losers, nothing to explain", "objective", "top", "explain")
	}
	if o.keep != "" && o.cluster.cluster == "" {
		u.because("the layout of --keep holds its cluster: give --cluster beside it for another one", "gpu", "nodes", "nic-rate", "fabric")
	}
	return u.err()
}

// workloadNames are the flags of a workload.
var workloadNames = []string{"workload", "task", "isl", "osl", "seq-len", "batch", "concurrency", "weights", "kv-cache", "objective", "ttft", "tpot", "chunk", "overlap", "eager", "lora", "lora-targets"}

// unused reports flags of what-if that its question does not look at.
func (o *whatIfOptions) unused() error {
	u := unusedFlags{given: o.given}
	if o.layout != "" {
		u.because("the layout holds its workload; change it by --set, such as --set batch=64", workloadNames...)
		u.because("a layout has its GPUs: give --cluster in place of a LAYOUT", "gpus")
		if len(o.clusters) == 0 {
			u.because("the layout holds its cluster: change it by --set, or give --cluster beside it to compare", "gpu", "nodes", "nic-rate", "fabric")
			if o.changes.Empty() {
				u.because("nothing is planned anew: give --set, --drop, --degrade or --cluster as well", "fix", "forbid")
			}
		}
		u.because("a layout is compared as it is: give --cluster in place of a LAYOUT", "same")
	}
	if !o.ladder {
		u.because("belongs to --ladder", "convention")
	} else {
		u.because("--ladder lists what the links of a machine can carry: no plan is made", "gpus", "same", "fix", "forbid")
		if o.model == "" {
			u.because("--ladder needs --model to know sizes of a workload", workloadNames...)
		} else {
			u.because("--ladder takes the sizes of one all-reduce from isl and batch alone", "task", "seq-len", "osl", "objective", "ttft", "tpot", "chunk", "overlap", "eager", "lora", "lora-targets", "kv-cache", "weights")
		}
	}
	return u.err()
}

// unused reports flags of model that only a split looks at, and keys of one task in another.
func (o *modelOptions) unused(given func(string) bool) error {
	u := unusedFlags{given: given}
	if o.strategy == "" {
		u.because("belongs to --strategy, such as --strategy tp=8", "task", "batch", "context", "weights", "kv-cache", "gpu", "skew", "grad-bytes")
		return u.err()
	}
	if o.task == trainTask {
		u.because("training holds no cache", "kv-cache")
	} else {
		u.because("is about --task train", "grad-bytes")
	}
	return u.err()
}

// Flags of validate by what is compared: a live run, tables of measurements, published placements.
var (
	liveFlags = []string{"report", "require", "sizes", "quick", "timeout", "join-timeout", "step-timeout", "nccl-lib", "allow-busy", "allow-mig", "by-index",
		"no-choices", "dry-run", "nonblocking", "token-file", "rendezvous", "max-bytes", "calibrate"}
	tableFlags     = []string{"system", "nics", "nic-rate", "fabric"}
	placementFlags = []string{"models", "model-configs", "times-only"}
)

// unused reports arguments and flags of validate that belong to another kind of comparison.
func (o *validateOptions) unused(args []string) error {
	u := unusedFlags{given: o.given}
	layouts := fmt.Errorf("want one layout, got %d argument(s)", len(args))
	switch {
	case o.placements.file != "":
		u.because("--placements compares without running anything", liveFlags...)
		u.because("--placements takes one table: leave it out", "measured", "launch", "profile", "no-multicast")
		u.because("belongs to --measured", tableFlags...)
		if len(args) > 0 {
			u.errs = append(u.errs, fmt.Errorf("--placements takes no layout, got %d argument(s)", len(args)))
		}
	case len(o.measured.files) > 0:
		u.because("--measured compares without running anything", liveFlags...)
		u.because("belongs to --placements", placementFlags...)
	default:
		u.because("belongs to --measured", tableFlags...)
		u.because("belongs to --placements", placementFlags...)
		for _, v := range []struct {
			flag string
			t    time.Duration
		}{{"timeout", o.timeout}, {"join-timeout", o.join}, {"step-timeout", o.step}} {
			if o.given(v.flag) && v.t <= 0 {
				u.errs = append(u.errs, fmt.Errorf("--%s is %s, want a positive time such as 30s", v.flag, v.t))
			}
		}
		if len(args) != 1 {
			u.errs = append(u.errs, layouts)
		}
	}
	return u.err()
}

// checkNetwork reports what the workload asks of the model that it does not have.
func checkNetwork(w *layout.Workload, s *model.Spec) error {
	if w.Overlap && s != nil && !s.MoE() {
		return inputErrf("--overlap hides the exchange of experts, and %s has no routed experts: leave it out", s.Name)
	}
	return nil
}

// targetNote says what a target leaves out of the search that a reader might not expect; empty when nothing.
func targetNote(e *engine.Engine) string {
	if e != nil && e.Orders == nil {
		return fmt.Sprintf("target %s: %s, so that no layout was left out", e.Name, e.Why)
	}
	return ""
}

// checkTask reports a target that cannot do the task at all.
func checkTask(e *engine.Engine, target, task string) error {
	if v := e.Check(parallel.Strategy{}, engine.Facts{Training: task == trainTask, Serving: task != trainTask}); len(v) > 0 {
		return inputErrf("--target %s with --task %s: %s", target, task, v[0].Text)
	}
	return nil
}

// target checks the engine that a workload file names, and prices its all-reduce as plan --target does.
func (o *whatIfOptions) target(p *whatif.Problem) error {
	name := p.Workload.Engine
	if name == "" {
		return nil
	}
	e, err := engine.Find(name)
	if err != nil {
		return inputErr(fmt.Errorf("%s: engine: %w", o.workload.file, err))
	}
	if err := checkTask(&e, name, p.Workload.Task); err != nil {
		return err
	}
	_, p.Costs.Kernels, err = (&kernelChoice{name: "engine"}).options(&e, p.Costs.Cost)
	return err
}

// profiles reports profiles of --profile that none of the machines compared is priced by; with another GPU set, any may be.
func (in *whatIfInputs) profiles(b *priceBook, set []string) error {
	if slices.ContainsFunc(set, func(s string) bool { return strings.HasPrefix(s, "gpu=") }) || in.axis != nil && in.axis.Key == "gpu" {
		return nil
	}
	var all []*topology.Cluster
	if in.existing != nil {
		all = append(all, in.existing.Machine.Cluster)
	}
	for i := range in.machines {
		all = append(all, in.machines[i].Cluster)
	}
	return b.serves(all...)
}
