package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rankmap/internal/parallel"
	"rankmap/planner"
	"rankmap/report"
)

// planOptions are the flags of plan.
type planOptions struct {
	cluster  clusterFlags
	model    string
	workload workloadFlags
	avoid    avoidFlags
	gpus     int
	fix      []string
	forbid   []string
	profiles []string
	cost     string
	kernels  kernelChoice
	top      int
	explain  bool
	target   string
	keep     string
	pareto   bool
	copies   string // redundant experts
	example  bool
	out      output
	given    func(flag string) bool
}

const planExamples = `  rankmap plan --example
  rankmap plan --cluster hgx-h100:2 --model llama-3.1-70b --task decode --batch 64 --isl 1024 --osl 512
  rankmap plan --keep layout.yaml --exclude node3/5
  rankmap plan --cluster hgx-h200:2 --model deepseek-v3 --task serve --pareto
  rankmap plan --cluster topo.txt --gpu h200-sxm --nodes 2 --nic-rate 400G --model ./config.json -f layout.yaml`

func newPlanCmd(d *deps) *cobra.Command {
	o := &planOptions{}
	cmd := &cobra.Command{
		Use:     "plan",
		Short:   "Choose TP, EP, PP, DP and CP degrees, seat every rank on a GPU, and predict the time",
		Example: planExamples,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runPlan(cmd.Context(), d, o) },
	}
	f := cmd.Flags()
	f.BoolVar(&o.example, "example", false, "plan the built-in example: llama-3.1-70b decode on two HGX H100 nodes")
	o.cluster.add(f)
	f.StringVar(&o.model, "model", "", "model: a name (see rankmap model --list), a config.json, or the folder that holds it")
	o.workload.add(f)
	o.avoid.add(f)
	f.IntVar(&o.gpus, "gpus", 0, "use exactly this many GPUs (default: all that a strategy fits)")
	f.StringSliceVar(&o.fix, "fix", nil, "degrees that must hold, such as tp=8,pp=2 (tp, pp, dp, cp, ep, expert-tp)")
	f.StringSliceVar(&o.forbid, "forbid", nil, "kinds of parallelism to leave out, such as pp,cp")
	f.StringSliceVar(&o.profiles, "profile", nil, "profile files from rankmap calibrate, in place of the built-in ones")
	f.StringVar(&o.cost, "cost", "calibrated", "how collectives are priced: calibrated, or textbook (alpha-beta)")
	o.kernels.add(f)
	f.StringVar(&o.target, "target", "", "search only what this engine can run, and name its rule where it cannot: vllm, sglang, trtllm, megatron, with a version such as vllm@0.24")
	f.IntVar(&o.top, "top", 5, "how many losers to show")
	f.BoolVar(&o.explain, "explain", true, "say why, and which quantity of the machine would change the choice")
	f.StringVar(&o.keep, "keep", "", "layout that runs: plan again after a failure and move as few ranks as possible; its cluster, model and workload hold where flags give no other")
	f.BoolVar(&o.pareto, "pareto", false, "list the plans of which none is both faster for a user and more productive a GPU (serving)")
	f.StringVar(&o.copies, "redundant-experts", "auto", "copies of experts that every layer holds beside its own (serving): a number, or auto: the fewest that let ep divide them")
	o.out.addFlags(cmd, "table", "wide", "yaml", "json", "csv")
	o.given = f.Changed
	return cmd
}

// runPlan does one plan call: inputs, search, document, output.
func runPlan(ctx context.Context, d *deps, o *planOptions) error {
	if o.top < 0 {
		return inputErrf("--top is %d, want 0 or more", o.top)
	}
	format, err := o.out.pick(d)
	if err != nil {
		return err
	}
	if err := o.unused(); err != nil {
		return err
	}
	if o.example {
		o.useExample()
	}
	in, err := o.load(d)
	if err != nil {
		return err
	}
	if o.pareto {
		return o.runPareto(ctx, d, in, format)
	}
	if format == "csv" {
		return inputErrf("csv is for --pareto alone (known for a plan: table, wide, yaml, json)")
	}
	stop := in.showProgress(d)
	plan, err := in.search(ctx)
	stop()
	if err != nil {
		return planErr(ctx, err)
	}
	if err := in.deepen(ctx, plan, o); err != nil {
		return err
	}
	doc, err := plan.Document(in.request, in.names, in.clusterDoc)
	if err != nil {
		return err
	}
	doc.Notes = append(in.notes, doc.Notes...)
	var b strings.Builder
	switch format {
	case "json":
		err = doc.WriteJSON(&b)
	case "yaml":
		err = doc.WriteYAML(&b)
	default:
		po := report.PlanOptions{Width: d.Width, Wide: format == "wide"}
		if o.explain {
			po.Explain = plan.Explained
		}
		err = report.Plan(&b, doc, po)
	}
	if err != nil {
		return err
	}
	if err := o.out.write(d, []byte(b.String()), in.files...); err != nil {
		return err
	}
	if plan.Stopped {
		d.warnf("interrupted: this is the best plan so far")
		return silent(exitInterrupted)
	}
	return nil
}

// planErr gives the error of a search its exit code.
func planErr(ctx context.Context, err error) error {
	var no *planner.Infeasible
	switch {
	case errors.As(err, &no):
		return withCode(exitInfeasible, no)
	case ctx.Err() != nil:
		return err
	}
	return inputErr(err) // a fact is missing that a price needs
}

// useExample fills in the built-in example where flags say nothing else.
func (o *planOptions) useExample() {
	w := &o.workload
	o.cluster.cluster, o.model = "hgx-h100:2", "llama-3.1-70b"
	if w.task == "" {
		w.task = decodeTask
	}
	if w.task == trainTask {
		return
	}
	if w.isl == 0 && !o.given("isl") {
		w.isl = 1024
	}
	if w.osl == 0 && !o.given("osl") {
		w.osl = 512
	}
	if w.batch == 0 && w.concurrency == 0 && !o.given("batch") && !o.given("concurrency") && !o.pareto {
		w.batch = 64
	}
}

// parseFreedom reads --fix and --forbid.
func parseFreedom(fix, forbid []string) (planner.Freedom, error) {
	f := planner.Freedom{Fix: map[parallel.Dim]int{}, Forbid: map[parallel.Dim]bool{}}
	var errs []error
	for _, s := range fix {
		name, val, ok := strings.Cut(s, "=")
		d, err := parseDim(name)
		n := 0
		if ok && err == nil {
			_, err = fmt.Sscanf(val+"\n", "%d\n", &n)
		}
		if !ok || err != nil || n < 1 {
			errs = append(errs, fmt.Errorf("--fix %q: want DIM=N with N at least 1 and DIM one of tp, pp, dp, cp, ep, expert-tp", s))
			continue
		}
		if was, twice := f.Fix[d]; twice && was != n {
			errs = append(errs, fmt.Errorf("--fix %q: %s is fixed at %d already, want one number for each dimension", s, name, was))
			continue
		}
		f.Fix[d] = n
	}
	for _, s := range forbid {
		d, err := parseDim(s)
		if err != nil {
			errs = append(errs, fmt.Errorf("--forbid %q: want one of tp, pp, dp, cp, ep, expert-tp", s))
			continue
		}
		f.Forbid[d] = true
	}
	return f, inputErr(errors.Join(errs...))
}

// parseDim reads a dimension that a user may choose; expert-dp follows from the others.
func parseDim(s string) (parallel.Dim, error) {
	var d parallel.Dim
	err := d.UnmarshalText([]byte(strings.TrimSpace(s)))
	if err == nil && d == parallel.ExpertDP {
		err = errors.New("expert-dp follows from the other degrees")
	}
	return d, err
}

// millis turns a flag duration into milliseconds.
func millis(t time.Duration) float64 { return float64(t) / float64(time.Millisecond) }
