package main

import (
	"errors"
	"fmt"
	"strings"

	"rankmap/collective"
	"rankmap/compute"
	"rankmap/internal/engine"
	"rankmap/internal/hardware"
	"rankmap/layout"
	"rankmap/model"
	"rankmap/planner"
	"rankmap/topology"
)

// planInputs is everything that a plan is made from.
type planInputs struct {
	request    planner.Request
	names      layout.Inputs
	clusterDoc *topology.Doc
	notes      []string
	files      []string
	former     *planner.Former // of --keep
	book       *priceBook
	cost       string
	// collectives are NCCL's, or those of the target engine where it has its own.
	collectives collective.Options
}

// load reads every input and reports the problems of all of them at once.
func (o *planOptions) load(d *deps) (*planInputs, error) {
	cat, err := hardware.Load(d.Configs)
	if err != nil {
		return nil, err
	}
	var former *layout.Layout
	var from layout.Source
	if o.keep != "" {
		if former, from, err = o.readKeep(d); err != nil {
			return nil, err
		}
	}
	cluster, cinfo, cerr := o.machine(d, cat, former)
	spec, minfo, merr := loadModel(d, o.model)
	base, wfiles, ferr := o.workload.readFile(d)
	if former != nil && o.workload.file == "" {
		base = former.Inputs.Workload
	}
	work, notes, werr := o.workload.resolve(base)
	free, frerr := parseFreedom(o.fix, o.forbid)
	var gerr error
	if o.gpus < 0 || o.gpus == 0 && o.given("gpus") {
		gerr = inputErrf("--gpus is %d, want at least 1", o.gpus)
	}
	if o.target == "" {
		o.target = work.Engine
	}
	work.Engine = o.target
	target, terr := o.engine(work.Task)
	copies, rerr := o.redundant(spec, work.Task)
	if err := firstCode(cerr, merr, ferr, werr, frerr, gerr, terr, rerr, checkNetwork(&work, spec)); err != nil {
		return nil, err
	}
	in := &planInputs{
		request: planner.Request{Cluster: cluster, Spec: spec, Workload: work, Freedom: free, GPUs: o.gpus, Top: o.top, Engine: target, RedundantExperts: copies},
		names: layout.Inputs{
			Cluster: layout.Source{Name: cinfo.name, Digest: cinfo.digest},
			Model:   layout.Source{Name: minfo.name, Digest: minfo.digest}, Workload: work, Cost: o.cost,
		},
		clusterDoc: nil,
		files:      append(append(cinfo.files, minfo.files...), wfiles...),
	}
	in.clusterDoc = topology.NewDoc(cluster)
	o.inherit(in, former)
	avoided, err := o.avoid.skip(&in.request)
	if err != nil {
		return nil, err
	}
	in.notes = append(in.notes, avoided...)
	if note := targetNote(target); note != "" {
		in.notes = append(in.notes, note)
	}
	in.notes = append(append(append(in.notes, cinfo.notes...), minfo.notes...), notes...)
	if former != nil {
		f, err := planner.FormerOf(former, cluster, o.keep)
		if err != nil {
			return nil, inputErr(err)
		}
		in.former, in.request.Former = &f, from
		in.files = append(in.files, o.keep)
	}
	return in, o.prices(d, in)
}

// prices chooses the models of time for the cluster's GPU.
func (o *planOptions) prices(d *deps, in *planInputs) error {
	book, err := newPriceBook(d, o.profiles)
	if err != nil {
		return err
	}
	if err := book.serves(in.request.Cluster); err != nil {
		return err
	}
	in.files = append(in.files, o.profiles...)
	in.book, in.cost = book, o.cost
	if in.collectives, in.names.Kernels, err = o.kernels.options(in.request.Engine, o.cost); err != nil {
		return err
	}
	if err := o.kernels.check(in.collectives, book, in.request.Workload.Task); err != nil {
		return err
	}
	if err := o.kernels.fuse(&in.collectives, book, &in.request); err != nil {
		return err
	}
	if err := book.fill(&in.request, o.cost, in.collectives); err != nil {
		return err
	}
	sheet, err := oneGPU(in.request.Cluster, book.cat)
	if err != nil {
		return err
	}
	notes, err := book.typeNotes(sheet, in.request.Spec, &in.request.Workload)
	in.notes = append(in.notes, notes...)
	return err
}

// engine is the --target, nil without.
func (o *planOptions) engine(task string) (*engine.Engine, error) {
	if o.target == "" {
		return nil, nil
	}
	e, err := engine.Find(o.target)
	if err != nil {
		return nil, inputErr(fmt.Errorf("--target: %w", err))
	}
	return &e, checkTask(&e, o.target, task)
}

// kernelModels makes the kernel prices of each phase: prefill and training run at the sustained clock, decode at boost.
func kernelModels(sheet *hardware.GPU, k *hardware.Kernels) (map[model.Phase]*compute.Model, error) {
	out := map[model.Phase]*compute.Model{}
	for _, ph := range []model.Phase{model.Prefill, model.Decode, model.Train} {
		m, err := compute.New(sheet, k, compute.Options{Phase: ph, Framework: compute.FrameworkFor(ph)})
		if err != nil {
			return nil, err
		}
		out[ph] = m
	}
	return out, nil
}

// oneGPU returns the datasheet of the cluster's GPUs; several models in one plan are refused.
func oneGPU(c *topology.Cluster, cat *hardware.Catalog) (*hardware.GPU, error) {
	var sheet *hardware.GPU
	names := map[string]bool{}
	for id := range topology.GPUID(c.NumGPUs()) {
		s := c.Datasheet(id)
		if s == nil {
			return nil, withHint(inputErrf("%s: the source names no GPU model: --gpu is missing", c.GPUName(id)),
				"a matrix of links fits several GPUs (NV18: H100, H200, B200, GB200): give --gpu with one of "+strings.Join(cat.Systems(), ", "))
		}
		if sheet == nil || s.MemoryGB < sheet.MemoryGB {
			sheet = s
		}
		names[s.System] = true
	}
	if len(names) > 1 {
		return nil, inputErrf("the cluster mixes GPU models; plan each part for itself")
	}
	return sheet, nil
}

// loadModel reads a model by name, file or folder.
func loadModel(d *deps, arg string) (*model.Spec, sourceInfo, error) {
	if arg == "" {
		return nil, sourceInfo{}, withHint(inputErrf("no model given: --model is missing"),
			"known names: "+strings.Join(model.Names(d.Configs), ", "))
	}
	return openModel(d, arg)
}

// firstCode joins errors; the exit code is the first one's.
func firstCode(errs ...error) error {
	err := errors.Join(errs...)
	if err == nil {
		return nil
	}
	var c *codedError
	hint := ""
	for _, e := range errs {
		var h *codedError
		if errors.As(e, &h) {
			if c == nil {
				c = h
			}
			if hint == "" {
				hint = h.hint
			}
		}
	}
	if c == nil {
		return err
	}
	return &codedError{code: c.code, err: err, hint: hint}
}
