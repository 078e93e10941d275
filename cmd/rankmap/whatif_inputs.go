package main

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"

	"rankmap/collective"
	"rankmap/layout"
	"rankmap/planner"
	"rankmap/planner/whatif"
	"rankmap/topology"
)

// load reads every input and reports the problems of all of them at once.
func (o *whatIfOptions) load(d *deps) (*whatIfInputs, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	book, err := newPriceBook(d, o.profiles)
	if err != nil {
		return nil, err
	}
	in := &whatIfInputs{files: append([]string(nil), o.profiles...)}
	var l *layout.Layout
	var lerr error
	if o.layout != "" {
		l, lerr = o.readLayout(d)
		in.files = append(in.files, o.layout)
	}
	if lerr != nil {
		return nil, lerr
	}
	var errs []error
	for _, name := range o.clusters {
		m, info, err := o.machine(d, book, name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for n := 2; slices.ContainsFunc(in.machines, func(o whatif.Machine) bool { return o.Name == m.Name }); n++ {
			m.Name = fmt.Sprintf("%s #%d", name, n)
		}
		in.machines = append(in.machines, m)
		in.notes = append(in.notes, info.notes...)
		in.files = append(in.files, info.files...)
	}
	p := &whatif.Problem{GPUs: o.gpus, Costs: whatif.Costs{Cost: o.cost}, Catalog: book.cat, Price: book.price, Workers: runtime.GOMAXPROCS(0)}
	in.problem = p
	in.pricer = func(m *whatif.Machine) (collective.Pricer, error) {
		r := planner.Request{Cluster: m.Cluster}
		err := book.price(&r, p.Costs)
		return r.Pricer, err
	}
	if !o.ladder || o.model != "" {
		spec, minfo, err := o.modelOf(d, l)
		errs = append(errs, err)
		p.Spec, p.Model = spec, layout.Source{Name: minfo.name, Digest: minfo.digest}
		in.notes = append(in.notes, minfo.notes...)
		in.files = append(in.files, minfo.files...)
		if l != nil && err == nil && l.Inputs.Model.Digest != "" && l.Inputs.Model.Digest != minfo.digest {
			in.notes = append(in.notes, fmt.Sprintf("the layout was made from another config of %s than %s (digest %.19s against %.19s): figures may differ",
				l.Inputs.Model.Name, minfo.name, l.Inputs.Model.Digest, minfo.digest))
		}
	}
	errs = append(errs, o.task(d, in, l), checkNetwork(&p.Workload, p.Spec))
	if p.Freedom, err = parseFreedom(o.fix, o.forbid); err != nil {
		errs = append(errs, err)
	}
	if len(o.sweep) > 0 {
		in.axis, err = whatif.ParseAxis(o.sweep[0])
		errs = append(errs, inputErr(err))
	}
	if l != nil {
		in.existing, err = whatif.FromLayout(l, o.layout, book.cat)
		errs = append(errs, inputErr(err))
		if !o.given("cost") && l.Inputs.Cost != "" {
			p.Costs.Cost = l.Inputs.Cost
		}
		if p.Costs.Cost == "calibrated" {
			p.Costs.Kernels = l.Inputs.Kernels
		}
	}
	if l == nil {
		errs = append(errs, o.target(p))
	}
	errs = append(errs, in.profiles(book, o.changes.Set))
	return in, firstCode(errs...)
}

// task fills in the workload: the layout's, or the flags'.
func (o *whatIfOptions) task(d *deps, in *whatIfInputs, l *layout.Layout) error {
	if l != nil {
		in.problem.Workload = l.Inputs.Workload
		return nil
	}
	base, files, err := o.workload.readFile(d)
	if err != nil {
		return err
	}
	in.files = append(in.files, files...)
	work, notes, err := o.workload.resolve(base)
	in.problem.Workload = work
	if !o.ladder {
		in.notes = append(in.notes, notes...)
	}
	return err
}

// readLayout reads the layout file.
func (o *whatIfOptions) readLayout(d *deps) (*layout.Layout, error) {
	data, err := readAll(d, o.layout, layout.MaxSize)
	if err != nil {
		return nil, inputErr(err)
	}
	l, err := layout.Read(bytes.NewReader(data), o.layout)
	return l, inputErr(err)
}

// machine reads one --cluster.
func (o *whatIfOptions) machine(d *deps, book *priceBook, name string) (whatif.Machine, sourceInfo, error) {
	flags := o.cluster
	flags.cluster = name
	c, info, err := flags.load(d, book.cat)
	if err != nil {
		return whatif.Machine{}, info, err
	}
	m := whatif.Machine{Name: validName(name), Source: layout.Source{Name: info.name, Digest: info.digest}, Cluster: c}
	m.Grow = o.grow(d, book, name, c)
	return m, info, nil
}

// grow makes the function that reads the same machine with more GPUs: a preset with another count, a file of one node with
// another --nodes; nil for all others.
func (o *whatIfOptions) grow(d *deps, book *priceBook, name string, c *topology.Cluster) func(int) (*topology.Cluster, error) {
	flags := o.cluster
	if topology.IsPreset(d.Configs, name) {
		base, count, err := topology.ParsePreset(name)
		if err != nil {
			return nil
		}
		unit := c.NumGPUs() / count
		return func(gpus int) (*topology.Cluster, error) {
			flags.cluster = fmt.Sprintf("%s:%d", base, (gpus+unit-1)/unit)
			out, _, err := flags.load(d, book.cat)
			return out, err
		}
	}
	nodes := max(1, flags.nodes)
	if c.NumNodes() != nodes || name == "-" {
		return nil
	}
	unit := c.NumGPUs() / nodes
	return func(gpus int) (*topology.Cluster, error) {
		flags.cluster, flags.nodes = name, (gpus+unit-1)/unit
		out, _, err := flags.load(d, book.cat)
		return out, err
	}
}

// price is whatif's way to ask the book.
func (b *priceBook) price(r *planner.Request, c whatif.Costs) error {
	var o collective.Options
	if c.Kernels != "" {
		var err error
		k := kernelChoice{c.Kernels}
		if o, _, err = k.options(nil, c.Cost); err != nil {
			return err
		}
		if err := k.fuse(&o, b, r); err != nil {
			return err
		}
	}
	o.NoMulticast = c.NoMulticast
	return b.fill(r, c.Cost, o)
}
