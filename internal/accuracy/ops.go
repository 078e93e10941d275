package accuracy

import (
	"errors"

	"rankmap/compute"
	"rankmap/internal/hardware"
	"rankmap/internal/measured"
	"rankmap/model"
)

// kernelKey names a model of computations.
type kernelKey struct{ system, framework string }

// op predicts one measured computation as the table measured it: boost clock, the table's own kernels. The error is the
// reason to skip it.
func (c *Confronter) op(r *measured.OpRow) (Case, error) {
	system := r.System
	if system == "" {
		system = c.opts.System
	}
	asked := measured.Row{System: system}
	switch {
	case system == "":
		return Case{}, errors.New("the file names no GPU (--system is missing)")
	case c.other(&asked):
		return Case{}, errOtherSystem
	case c.configs == nil:
		return Case{}, errors.New("no kernel parameters to price computations with")
	}
	m, err := c.kernelModel(system, r.Framework)
	if err != nil {
		return Case{}, err
	}
	return opCaseOf(m, system, r)
}

// opCaseOf predicts one measured computation with a model.
func opCaseOf(m *compute.Model, system string, r *measured.OpRow) (Case, error) {
	sample, ok := compute.SampleOf(r)
	if !ok {
		return Case{}, errors.New("no model of this computation's type")
	}
	var e compute.Estimate
	var err error
	if sample.Op.Kind == model.MoE {
		e, err = m.PriceLoad(sample.Op, sample.Load)
	} else {
		e, err = m.Price(sample.Op)
	}
	if err != nil {
		return Case{}, err
	}
	return Case{
		System: system, Collective: r.Kind, Nodes: 1, Ranks: 1, Measured: r.Time, Ours: e.Time, P10: e.P10, P90: e.P90, Op: r,
	}, nil
}

// kernelModel returns the model of a GPU and framework, making it on first use.
func (c *Confronter) kernelModel(system, framework string) (*compute.Model, error) {
	key := kernelKey{system, framework}
	if m := c.kernels[key]; m != nil {
		return m, nil
	}
	sheet, err := c.catalog.GPU(hardwareKey(system))
	if err != nil {
		return nil, errors.New("no datasheet of this GPU")
	}
	k, err := hardware.LoadKernels(c.configs, sheet.System)
	if err != nil {
		return nil, errors.New("no kernel parameters of this GPU")
	}
	for _, o := range c.own {
		if o.System == sheet.System {
			k = o
		}
	}
	m, err := compute.New(sheet, k, compute.Options{Framework: framework, Phase: model.Decode, Table: true})
	if err != nil {
		return nil, err
	}
	c.kernels[key] = m
	return m, nil
}
