package main

import (
	"context"

	"rankmap/internal/units"
	"rankmap/planner"
	"rankmap/topology"
)

// maxVaried is up to how many GPUs the quantities of the machine are varied: each factor needs a copy of the cluster.
const maxVaried = 4096

// deepen adds what a plan says beyond the choice: the cost of broken parts, and the quantities that it hangs on.
func (in *planInputs) deepen(ctx context.Context, p *planner.Plan, o *planOptions) error {
	if p.Stopped {
		return nil
	}
	if sound, parts := planner.Sound(in.request.Cluster); len(parts) > 0 {
		if err := in.costOfAvoiding(ctx, p, o, sound, parts); err != nil {
			return err
		}
	}
	if !o.explain || in.request.Cluster.NumGPUs() > maxVaried {
		return nil
	}
	return planner.Sensitivity(ctx, in.request, p, in.vary)
}

// costOfAvoiding plans the same on the sound machine.
func (in *planInputs) costOfAvoiding(ctx context.Context, p *planner.Plan, o *planOptions, sound *topology.Cluster, parts []string) error {
	if err := sound.Finish(in.book.cat); err != nil {
		return inputErr(err) // the parts that are broken contradict what the machine is said to be
	}
	r := in.request
	r.Cluster = sound
	if _, err := o.avoid.skip(&r); err != nil {
		return err
	}
	err := in.book.fill(&r, in.cost, in.collectives)
	if err != nil {
		return err
	}
	p.Avoided, err = planner.CostOfAvoiding(ctx, p, r, parts)
	return err
}

// vary is the request on a machine with one quantity times a factor.
func (in *planInputs) vary(q planner.Quantity, factor float64) (planner.Request, bool, error) {
	r := in.request
	switch q {
	case planner.MemorySize:
		r.Capacity = units.Bytes(float64(r.Capacity) * factor)
		return r, true, nil
	case planner.NICLatency:
		r.Pricer = planner.WithLatency(r.Pricer, r.Cluster, factor)
		return r, len(r.Cluster.Domains) > 1, nil
	case planner.HBMRate, planner.ComputeOps:
		sheet, err := oneGPU(r.Cluster, in.book.cat)
		if err != nil {
			return r, false, err
		}
		memory, ops := factor, 1.0
		if q == planner.ComputeOps {
			memory, ops = 1, factor
		}
		err = in.book.scaled(&r, sheet, memory, ops)
		return r, true, err
	}
	links, nics := factor, 1.0
	if q == planner.NICRate {
		links, nics = 1, factor
	}
	c, ok := r.Cluster.Scaled(links, nics)
	if !ok {
		return r, false, nil
	}
	if err := c.Finish(in.book.cat); err != nil {
		return r, false, err
	}
	kernel := r.Kernel
	r.Cluster = c
	err := in.book.fill(&r, in.cost, in.collectives)
	r.Kernel = kernel
	return r, true, err
}
