package main

import (
	"io/fs"
	"slices"

	"rankmap/collective"
	"rankmap/compute"
	"rankmap/internal/hardware"
	"rankmap/model"
	"rankmap/planner"
	"rankmap/planner/step"
	"rankmap/topology"
)

// priceBook holds the models of time, read once: it makes requests for any number of clusters complete.
type priceBook struct {
	configs  fs.FS
	cat      *hardware.Catalog
	profiles *hardware.Profiles
	users    userProfiles
	kernels  map[string]map[model.Phase]*compute.Model // by system
}

// newPriceBook reads datasheets, profiles, and the user's own profiles.
func newPriceBook(d *deps, own []string) (*priceBook, error) {
	cat, profiles, users, err := loadProfiles(d, own)
	if err != nil {
		return nil, err
	}
	return &priceBook{
		configs: d.Configs, cat: cat, profiles: profiles, users: users,
		kernels: map[string]map[model.Phase]*compute.Model{},
	}, nil
}

// serves reports profiles of --profile that no GPU of the clusters is priced by.
func (b *priceBook) serves(clusters ...*topology.Cluster) error {
	var systems []string
	for _, c := range clusters {
		for i := range c.Classes {
			for g := range c.Classes[i].GPUs {
				if s, err := b.cat.GPU(c.Classes[i].GPUs[g].Model); err == nil && !slices.Contains(systems, s.System) {
					systems = append(systems, s.System)
				}
			}
		}
	}
	if len(systems) == 0 {
		return nil // which is an error of its own
	}
	return b.users.serves(b.profiles, systems)
}

// costs are the ways to price collectives.
var costs = []string{"calibrated", "textbook"}

// fill completes a request that has its cluster: kernels, collectives and memory of the cluster's GPU.
func (b *priceBook) fill(r *planner.Request, cost string, o collective.Options) error {
	sheet, err := oneGPU(r.Cluster, b.cat)
	if err != nil {
		return err
	}
	r.Capacity, r.HostLink = sheet.Memory(), sheet.HostLink()
	r.PeakFLOPS = sheet.Peak("bf16")
	kernels, err := b.models(sheet)
	if err != nil {
		return err
	}
	r.Kernel = kernelPrices(kernels)
	switch cost {
	case "calibrated":
		r.Pricer = collective.New(r.Cluster, b.profiles, o)
	case "textbook":
		r.Pricer = collective.NewTextbook(r.Cluster)
	default:
		return inputErrf("--cost %q is unknown (known: calibrated, textbook)", cost)
	}
	return nil
}

// kernelsOf are the kernel parameters of a system: the user's own, or the built-in ones.
func (b *priceBook) kernelsOf(system string) (*hardware.Kernels, error) {
	k, err := hardware.LoadKernels(b.configs, system)
	for _, p := range b.users.kernels() {
		if p.System == system {
			return p, nil
		}
	}
	return k, err
}

// models returns the kernel prices of a system.
func (b *priceBook) models(sheet *hardware.GPU) (map[model.Phase]*compute.Model, error) {
	if m := b.kernels[sheet.System]; m != nil {
		return m, nil
	}
	k, err := b.kernelsOf(sheet.System)
	if err != nil {
		return nil, err
	}
	m, err := kernelModels(sheet, k)
	if err != nil {
		return nil, inputErr(err)
	}
	b.kernels[sheet.System] = m
	return m, nil
}

// scaled gives a request the kernels of a GPU whose memory bandwidth and FLOP/s are so many times the datasheet's.
func (b *priceBook) scaled(r *planner.Request, sheet *hardware.GPU, memory, ops float64) error {
	x := *sheet
	x.HBMGBps *= memory
	x.TFLOPS = map[string]float64{}
	for k, v := range sheet.TFLOPS {
		x.TFLOPS[k] = v * ops
	}
	k, err := b.kernelsOf(sheet.System)
	if err != nil {
		return err
	}
	m, err := kernelModels(&x, k)
	if err != nil {
		return err
	}
	r.Kernel = kernelPrices(m)
	return nil
}

// kernelPrices prices computations with the models of each phase.
func kernelPrices(m map[model.Phase]*compute.Model) func(model.Phase, model.ComputeOp) (step.Band, string, error) {
	return func(ph model.Phase, op model.ComputeOp) (step.Band, string, error) {
		e, err := m[ph].Price(op)
		return step.Band{Time: e.Time, P10: e.P10, P90: e.P90}, e.Bound.String(), err
	}
}
