package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"rankmap/collective"
	"rankmap/layout"
	"rankmap/planner"
	"rankmap/planner/whatif"
	"rankmap/report"
	"rankmap/topology"
)

// whatIfOptions are the flags of what-if.
type whatIfOptions struct {
	clusters []string
	cluster  clusterFlags // what fills the gaps of every source
	model    string
	workload workloadFlags
	gpus     int
	same     string
	fix      []string
	forbid   []string
	profiles []string
	cost     string
	out      output
}

const whatIfExamples = `  rankmap what-if --model deepseek-v3 --task decode --cluster hgx-h100:9 --cluster gb200-nvl72
  rankmap what-if layout.yaml --drop node1.gpu5 --drop node0.nic2
  rankmap what-if --model deepseek-v3 --task decode --cluster hgx-h100:9 --sweep nic.rate=200G..1600G:x2 -f page.html`

func newWhatIfCmd(d *deps) *cobra.Command {
	o := &whatIfOptions{}
	cmd := &cobra.Command{
		Use:     "what-if [LAYOUT]",
		Short:   "Compare machines, drop or change parts, sweep sizes and rates: the answer before the hardware is bought",
		Example: whatIfExamples,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runWhatIf(cmd.Context(), d, o)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.clusters, "cluster", nil, "machine, repeated for each one to compare: a preset with a count such as hgx-h100:9, or files as in plan")
	o.cluster.addDetails(f)
	f.StringVar(&o.model, "model", "", "model: a name, a config.json, or the folder that holds it")
	o.workload.add(f)
	f.IntVar(&o.gpus, "gpus", 0, "use exactly this many GPUs of each machine")
	f.StringVar(&o.same, "same", "whole", "what is equal: "+strings.Join(whatif.Sames(), ", "))
	f.StringSliceVar(&o.fix, "fix", nil, "degrees that must hold, such as tp=8,pp=2")
	f.StringSliceVar(&o.forbid, "forbid", nil, "kinds of parallelism to leave out, such as pp,cp")
	f.StringSliceVar(&o.profiles, "profile", nil, "profile files from rankmap calibrate, in place of the built-in ones")
	f.StringVar(&o.cost, "cost", "calibrated", "how collectives are priced: calibrated, or textbook (alpha-beta)")
	o.out.addFlags(cmd, "table", "wide", "yaml", "json")
	return cmd
}

func runWhatIf(ctx context.Context, d *deps, o *whatIfOptions) error {
	format, err := o.out.pick(d)
	if err != nil {
		return err
	}
	book, err := newPriceBook(d, o.profiles)
	if err != nil {
		return err
	}
	var machines []whatif.Machine
	var files []string
	for _, name := range o.clusters {
		c := o.cluster
		c.cluster = name
		cl, info, err := c.load(d, book.cat)
		if err != nil {
			return err
		}
		machines = append(machines, whatif.Machine{Name: info.name, Source: layout.Source{Name: info.name, Digest: info.digest}, Cluster: cl})
		files = append(files, info.files...)
	}
	spec, minfo, err := loadModel(d, o.model)
	if err != nil {
		return err
	}
	work, notes, err := o.workload.resolve(layout.Workload{})
	if err != nil {
		return err
	}
	free, err := parseFreedom(o.fix, o.forbid)
	if err != nil {
		return err
	}
	p := &whatif.Problem{
		Spec: spec, Model: layout.Source{Name: minfo.name, Digest: minfo.digest}, Workload: work, Freedom: free, GPUs: o.gpus,
		Costs: whatif.Costs{Cost: o.cost}, Catalog: book.cat,
		Price: func(r *planner.Request, c whatif.Costs) error {
			return book.fill(r, c.Cost, collective.Options{NoMulticast: c.NoMulticast})
		},
	}
	cmp, err := whatif.Compare(ctx, p, machines, whatif.Same(o.same))
	if err != nil {
		return err
	}
	cmp.Notes = append(cmp.Notes, notes...)
	var b strings.Builder
	switch format {
	case "json":
		data, err := marshalJSON(cmp)
		if err != nil {
			return err
		}
		b.Write(data)
	case "yaml":
		data, err := marshalYAML(cmp)
		if err != nil {
			return err
		}
		b.Write(data)
	default:
		if err := report.WhatIf(&b, cmp, report.WhatIfOptions{Width: d.Width, Wide: format == "wide"}); err != nil {
			return err
		}
	}
	_ = topology.GPUID(0)
	return o.out.write(d, []byte(b.String()), files...)
}
