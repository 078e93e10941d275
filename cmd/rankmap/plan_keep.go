package main

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"

	"rankmap/internal/hardware"
	"rankmap/layout"
	"rankmap/model"
	"rankmap/planner"
	"rankmap/topology"
)

// readKeep reads the layout of --keep; its model stands where --model is not given.
func (o *planOptions) readKeep(d *deps) (*layout.Layout, layout.Source, error) {
	src := layout.Source{Name: validName(o.keep)}
	data, err := readAll(d, o.keep, layout.MaxSize)
	if err != nil {
		return nil, src, inputErr(err)
	}
	src.Digest = digest(data)
	l, err := layout.Read(bytes.NewReader(data), o.keep)
	if err != nil {
		return nil, src, inputErr(err)
	}
	if o.model == "" {
		o.model = l.Inputs.Model.Name
	}
	if !o.given("kernels") && !o.given("target") && l.Inputs.Kernels != "" {
		o.kernels.name = l.Inputs.Kernels
	}
	if !o.given("cost") && l.Inputs.Cost != "" {
		o.cost = l.Inputs.Cost
	}
	return l, src, nil
}

// machine is the cluster of the flags, or the one that the layout of --keep holds.
func (o *planOptions) machine(d *deps, cat *hardware.Catalog, former *layout.Layout) (*topology.Cluster, sourceInfo, error) {
	if former == nil || o.cluster.cluster != "" || former.Cluster == nil {
		return o.cluster.load(d, cat)
	}
	c, err := former.Cluster.Cluster(o.keep, cat)
	src := former.Inputs.Cluster
	return c, sourceInfo{name: src.Name, digest: src.Digest, files: []string{o.keep}}, inputErr(err)
}

// redundant reads --redundant-experts.
func (o *planOptions) redundant(spec *model.Spec, task string) (int, error) {
	if o.copies == "auto" {
		return 0, nil
	}
	n, err := strconv.Atoi(o.copies)
	switch {
	case err != nil || n < 0 || n > 4096:
		return 0, inputErrf("--redundant-experts %q: want a number from 0 to 4096, or auto", o.copies)
	case n == 0:
		return -1, nil
	case task == string(planner.TrainStep):
		return 0, inputErrf("--redundant-experts %d: training holds every expert once", n)
	case spec != nil && !spec.MoE():
		return 0, inputErrf("--redundant-experts %d: the model has no routed experts", n)
	}
	return n, nil
}

// search plans, or plans again.
func (in *planInputs) search(ctx context.Context) (*planner.Plan, error) {
	if in.former == nil {
		return planner.Search(ctx, in.request)
	}
	return planner.Replan(ctx, in.request, *in.former)
}

// inherit sets what a plan may use: the flags', and of --keep what its layout was made with. Names that the cluster does not have
// are left out.
func (o *planOptions) inherit(in *planInputs, former *layout.Layout) {
	use := layout.Use{GPUs: o.gpus, Hosts: joinLists(o.avoid.hosts), Exclude: joinLists(o.avoid.exclude)}
	if former == nil || former.Inputs.Use.Empty() {
		in.names.Use = (*layout.Use)(nil).Then(use)
		return
	}
	was := former.Inputs.Use
	in.names.Use = was.Then(use)
	if o.gpus == 0 {
		in.request.Budget = was.GPUs
	}
	barred, missing := (&layout.Use{Hosts: pick(len(o.avoid.hosts) == 0, was.Hosts), Exclude: was.Exclude}).Barred(in.request.Cluster)
	o.avoid.barred = barred
	in.notes = append(in.notes, fmt.Sprintf("as %s was made: %s", o.keep, was.Text()))
	if len(missing) > 0 {
		in.notes = append(in.notes, fmt.Sprintf("%s: the cluster has no %s, which the layout was made with or without", o.keep, strings.Join(missing[:min(len(missing), 8)], ", ")))
	}
}

// pick is the list where cond holds, else nothing.
func pick(cond bool, list []string) []string {
	if cond {
		return list
	}
	return nil
}
