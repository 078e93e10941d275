package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"rankmap/collective"
	"rankmap/layout"
	"rankmap/model"
	"rankmap/planner"
	"rankmap/planner/whatif"
	"rankmap/report"
)

// whatIfOptions are the flags of what-if.
type whatIfOptions struct {
	layout     string
	clusters   []string
	cluster    clusterFlags // what fills the gaps of every source
	model      string
	workload   workloadFlags
	gpus       int
	same       string
	changes    whatif.Changes
	sweep      []string
	ladder     bool
	convention string
	fix        []string
	forbid     []string
	profiles   []string
	cost       string
	out        output
	given      func(flag string) bool
}

const whatIfExamples = `  rankmap what-if --model deepseek-v3 --task decode --cluster hgx-h100:9 --cluster gb200-nvl72
  rankmap what-if layout.yaml --drop node1.gpu5 --degrade node0.nic2=200G
  rankmap what-if --model deepseek-v3 --task decode --cluster hgx-h100:9 --sweep nic.rate=200G..1600G:x2 -f page.html
  rankmap what-if --ladder --cluster gb200-nvl72:2 --model llama-3.1-70b`

const whatIfLong = `what-if answers before the hardware is bought, or before the part is swapped.

  --cluster A --cluster B      the best plan of each machine, side by side
  LAYOUT --drop, --degrade     what the layout costs when parts fail, kept as it is and planned anew
  --set KEY=VALUE              another quantity, on a layout or on clusters
  --sweep KEY=FROM..TO:x2      one quantity over a range; where the best plan changes is found by bisection
  --ladder                     the bandwidths of a machine from the memory outwards

--drop     HOST, HOST.gpuN, HOST.nicN, HOST.nvlinkA-B, HOST.nvswitchN, RACK.nvswitchN, leaf:NAME, leaf:NAME.railN
--degrade  HOST.nicN=RATE, HOST.nic=RATE, HOST.gpuN=LINKS, HOST.nvlink=50%, leaf:NAME[.railN]=RATE
--sweep    FROM..TO doubles, :xF multiplies by F, :+S adds S; A,B,C is a list

Keys of --set and --sweep:
`

func newWhatIfCmd(d *deps) *cobra.Command {
	o := &whatIfOptions{}
	long := whatIfLong
	keys, help := whatif.Keys()
	for i := range keys {
		long += fmt.Sprintf("  %-18s %s\n", keys[i], help[i])
	}
	cmd := &cobra.Command{
		Use:     "what-if [LAYOUT]",
		Short:   "Compare machines, drop or change parts, sweep sizes and rates",
		Long:    strings.TrimRight(long, "\n"),
		Example: whatIfExamples,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return inputErrf("want at most one LAYOUT, got %d arguments", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.layout = args[0]
			}
			return runWhatIf(cmd.Context(), d, o)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.clusters, "cluster", nil, "machine, repeated for each one to compare: a preset with a count such as hgx-h100:9, or files as in plan")
	o.cluster.addDetails(f)
	f.StringVar(&o.model, "model", "", "model: a name, a config.json, or the folder that holds it (default with a LAYOUT: the model that it names)")
	o.workload.add(f)
	f.IntVar(&o.gpus, "gpus", 0, "use exactly this many GPUs of each machine")
	f.StringVar(&o.same, "same", string(whatif.Whole), "what is equal between machines: "+strings.Join(whatif.Sames(), ", "))
	f.StringSliceVar(&o.changes.Set, "set", nil, "another quantity, such as nic.rate=800G or nvlink.domain=36")
	f.StringSliceVar(&o.changes.Drop, "drop", nil, "take a part away, such as node3.gpu5")
	f.StringSliceVar(&o.changes.Degrade, "degrade", nil, "make a part slower, such as node1.nic2=200G")
	f.StringArrayVar(&o.sweep, "sweep", nil, "one quantity over a range, such as gpus=8..1024:x2")
	f.BoolVar(&o.ladder, "ladder", false, "list the bandwidths of a machine and what an all-reduce costs on each")
	f.StringVar(&o.convention, "convention", string(whatif.OneWay), "of --ladder: one-way, or vendor (NVLink both ways)")
	f.StringSliceVar(&o.fix, "fix", nil, "degrees that must hold, such as tp=8,pp=2")
	f.StringSliceVar(&o.forbid, "forbid", nil, "kinds of parallelism to leave out, such as pp,cp")
	f.StringSliceVar(&o.profiles, "profile", nil, "profile files from rankmap calibrate, in place of the built-in ones")
	f.StringVar(&o.cost, "cost", "calibrated", "how collectives are priced: calibrated, or textbook (alpha-beta)")
	o.out.addFlags(cmd, "table", "wide", "yaml", "json", "csv", "html")
	o.given = f.Changed
	return cmd
}

// runWhatIf answers one question: inputs, whatif, output.
func runWhatIf(ctx context.Context, d *deps, o *whatIfOptions) error {
	for _, ext := range []string{"html", "csv"} {
		if o.out.format == "" && strings.HasSuffix(o.out.file, "."+ext) {
			o.out.format = ext
		}
	}
	format, err := o.out.pick(d)
	if err != nil {
		return err
	}
	in, err := o.load(d)
	if err != nil {
		return err
	}
	if o.ladder {
		return o.runLadder(d, in, format)
	}
	cmp, err := in.answer(ctx, o)
	if err != nil {
		var no *planner.Infeasible
		switch {
		case errors.As(err, &no):
			return withCode(exitInfeasible, no)
		case ctx.Err() != nil:
			return err
		}
		return inputErr(err)
	}
	cmp.Notes = append(in.notes, cmp.Notes...)
	data, err := renderWhatIf(cmp, format, d.Width)
	if err != nil {
		return err
	}
	return o.out.write(d, data, in.files...)
}

// whatIfInputs is everything that an answer is made from.
type whatIfInputs struct {
	problem  *whatif.Problem
	machines []whatif.Machine
	existing *whatif.Existing
	axis     *whatif.Axis
	pricer   func(*whatif.Machine) (collective.Pricer, error)
	notes    []string
	files    []string
}

// answer asks the question that the flags pose.
func (in *whatIfInputs) answer(ctx context.Context, o *whatIfOptions) (*whatif.Comparison, error) {
	switch {
	case in.existing != nil:
		out, err := in.existing.Change(ctx, in.problem, o.changes)
		if err != nil {
			return nil, err
		}
		return out, in.existing.Against(ctx, in.problem, out, in.machines)
	case in.axis != nil:
		return whatif.Sweep(ctx, in.problem, in.machines, in.axis, o.changes, whatif.Same(o.same))
	}
	return whatif.Compare(ctx, in.problem, in.machines, o.changes, whatif.Same(o.same))
}

// renderWhatIf prints a comparison.
func renderWhatIf(c *whatif.Comparison, format string, width int) ([]byte, error) {
	var b bytes.Buffer
	switch format {
	case "json":
		return marshalJSON(c)
	case "yaml":
		return marshalYAML(c)
	case "csv":
		err := report.WhatIfCSV(&b, c)
		return b.Bytes(), err
	case "html":
		err := report.WhatIfHTML(&b, c)
		return b.Bytes(), err
	}
	err := report.WhatIf(&b, c, report.WhatIfOptions{Width: width, Wide: format == "wide"})
	return b.Bytes(), err
}

// runLadder prints the bandwidths of one machine.
func (o *whatIfOptions) runLadder(d *deps, in *whatIfInputs, format string) error {
	var all []*whatif.Ladder
	for i := range in.machines {
		m := &in.machines[i]
		pricer, err := in.pricer(m)
		if err != nil {
			return err
		}
		l, err := whatif.MakeLadder(m, in.problem.Spec, in.problem.Workload, whatif.Convention(o.convention), pricer)
		if err != nil {
			return inputErr(err)
		}
		all = append(all, l)
	}
	var b bytes.Buffer
	var data []byte
	var err error
	var doc any = all
	if len(all) == 1 {
		doc = all[0]
	}
	switch format {
	case "json":
		data, err = marshalJSON(doc)
	case "yaml":
		data, err = marshalYAML(doc)
	case "csv", "html":
		return inputErrf("--ladder has no %s output (known: table, yaml, json)", format)
	default:
		for i, l := range all {
			if i > 0 {
				b.WriteByte('\n')
			}
			err = errors.Join(err, report.Ladder(&b, l))
		}
		data = b.Bytes()
	}
	if err != nil {
		return err
	}
	return o.out.write(d, data, in.files...)
}

// check reports flags that do not go together.
func (o *whatIfOptions) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.layout == "" && len(o.clusters) == 0 {
		bad("nothing to look at: want a LAYOUT or --cluster")
	}
	if len(o.sweep) > 1 {
		bad("--sweep is given %d times: one quantity at a time", len(o.sweep))
	}
	if o.layout != "" {
		if len(o.sweep) > 0 {
			bad("--sweep plans anew at every value: give --cluster in place of a LAYOUT")
		}
		if o.ladder {
			bad("--ladder is about a machine: give --cluster in place of a LAYOUT")
		}
	}
	if o.ladder && (len(o.sweep) > 0 || !o.changes.Empty()) {
		bad("--ladder takes no --sweep, --set, --drop or --degrade")
	}
	if !slices.Contains(whatif.Sames(), o.same) {
		bad("--same %q is unknown (known: %s)", o.same, strings.Join(whatif.Sames(), ", "))
	}
	if c := whatif.Convention(o.convention); c != whatif.OneWay && c != whatif.Vendor {
		bad("--convention %q is unknown (known: %s, %s)", o.convention, whatif.OneWay, whatif.Vendor)
	}
	if !slices.Contains(costs, o.cost) {
		bad("--cost %q is unknown (known: %s)", o.cost, strings.Join(costs, ", "))
	}
	if o.gpus < 0 {
		bad("--gpus is %d, want at least 1", o.gpus)
	}
	if err := o.changes.Check(); err != nil {
		errs = append(errs, err)
	}
	if err := o.unused(); err != nil {
		errs = append(errs, err)
	}
	return inputErr(errors.Join(errs...))
}

// modelOf reads the model: the flag's, else the one that the layout names when it is embedded.
func (o *whatIfOptions) modelOf(d *deps, l *layout.Layout) (*model.Spec, sourceInfo, error) {
	if o.model != "" || l == nil {
		return loadModel(d, o.model)
	}
	name := l.Inputs.Model.Name
	if !slices.Contains(model.Names(d.Configs), name) {
		return nil, sourceInfo{}, withHint(inputErrf("%s: the layout was made for model %q, whose config it does not hold: --model is missing", o.layout, name),
			"give --model with the config.json that the plan was made from")
	}
	return loadModel(d, name)
}
