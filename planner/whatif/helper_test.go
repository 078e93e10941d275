package whatif

import (
	"os"
	"testing"

	"rankmap/collective"
	"rankmap/compute"
	"rankmap/internal/hardware"
	"rankmap/layout"
	"rankmap/model"
	"rankmap/planner"
	"rankmap/planner/step"
	"rankmap/topology"
)

var configs = os.DirFS("../../configs")

func catalog(t testing.TB) *hardware.Catalog {
	t.Helper()
	cat, err := hardware.Load(configs)
	if err != nil {
		t.Fatal(err)
	}
	return cat
}

// machine is count units of a preset that can grow.
func machine(t testing.TB, name string, count int) Machine {
	t.Helper()
	cat := catalog(t)
	c, err := topology.Preset(configs, name, count, cat)
	if err != nil {
		t.Fatal(err)
	}
	unit := c.NumGPUs() / count
	return Machine{Name: name, Source: layout.Source{Name: name}, Cluster: c, Grow: func(gpus int) (*topology.Cluster, error) {
		return topology.Preset(configs, name, (gpus+unit-1)/unit, cat)
	}}
}

// problem asks for decode at isl 4096, osl 1024, under a TPOT limit of 50 ms.
func problem(t testing.TB, name string) *Problem {
	t.Helper()
	spec, err := model.Load(configs, name)
	if err != nil {
		t.Fatal(err)
	}
	cat := catalog(t)
	profiles, err := hardware.LoadProfiles(configs)
	if err != nil {
		t.Fatal(err)
	}
	return &Problem{
		Spec: spec, Model: layout.Source{Name: name}, Catalog: cat, Costs: Costs{Cost: "calibrated"},
		Workload: layout.Workload{Task: "decode", ISL: 4096, OSL: 1024, Objective: "throughput", TPOTMs: 50},
		Price: func(r *planner.Request, c Costs) error {
			sheet := r.Cluster.Datasheet(0)
			r.Capacity = sheet.Memory()
			k, err := hardware.LoadKernels(configs, sheet.System)
			if err != nil {
				return err
			}
			models := map[model.Phase]*compute.Model{}
			for _, ph := range []model.Phase{model.Prefill, model.Decode, model.Train} {
				if models[ph], err = compute.New(sheet, k, compute.Options{Phase: ph}); err != nil {
					return err
				}
			}
			r.Kernel = func(ph model.Phase, op model.ComputeOp) (step.Band, string, error) {
				e, err := models[ph].Price(op)
				return step.Band{Time: e.Time, P10: e.P10, P90: e.P90}, e.Bound.String(), err
			}
			r.Pricer = collective.New(r.Cluster, profiles, collective.Options{NoMulticast: c.NoMulticast})
			if c.Cost == "textbook" {
				r.Pricer = collective.NewTextbook(r.Cluster)
			}
			return nil
		},
	}
}

// existing plans a problem on a machine and reads the plan back as a layout.
func existing(t testing.TB, p *Problem, m Machine) *Existing {
	t.Helper()
	r, err := p.request(&m, 0)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := planner.Search(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	l, err := plan.Document(r, layout.Inputs{Cluster: m.Source, Model: p.Model, Workload: p.Workload}, topology.NewDoc(m.Cluster))
	if err != nil {
		t.Fatal(err)
	}
	e, err := FromLayout(l, "layout.yaml", p.Catalog)
	if err != nil {
		t.Fatal(err)
	}
	return e
}
