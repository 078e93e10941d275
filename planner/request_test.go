package planner

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"rankmap/collective"
	"rankmap/compute"
	"rankmap/configs"
	"rankmap/internal/hardware"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/layout"
	"rankmap/model"
	"rankmap/planner/step"
	"rankmap/topology"
)

// bench holds what tests plan with: real datasheets, profiles, presets and models.
type bench struct {
	cat      *hardware.Catalog
	profiles *hardware.Profiles
}

func newBench(t testing.TB) *bench {
	t.Helper()
	cat, err := hardware.Load(configs.FS)
	if err != nil {
		t.Fatal(err)
	}
	p, err := hardware.LoadProfiles(configs.FS)
	if err != nil {
		t.Fatal(err)
	}
	return &bench{cat, p}
}

func (b *bench) preset(t testing.TB, name string, n int) *topology.Cluster {
	t.Helper()
	c, err := topology.Preset(configs.FS, name, n, b.cat)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// request plans model on c with the workload.
func (b *bench) request(t testing.TB, c *topology.Cluster, name string, w layout.Workload) Request {
	t.Helper()
	spec, err := model.Load(configs.FS, name)
	if err != nil {
		t.Fatal(err)
	}
	sheet := c.Datasheet(0)
	k, err := hardware.LoadKernels(configs.FS, sheet.System)
	if err != nil {
		t.Fatal(err)
	}
	models := map[model.Phase]*compute.Model{}
	for _, ph := range []model.Phase{model.Prefill, model.Decode, model.Train} {
		if models[ph], err = compute.New(sheet, k, compute.Options{Phase: ph}); err != nil {
			t.Fatal(err)
		}
	}
	if w.Objective == "" {
		w.Objective = string(Throughput)
		if w.Task == string(TrainStep) {
			w.Objective = string(StepTime)
		}
	}
	return Request{
		Cluster: c, Spec: spec, Workload: w, Capacity: sheet.Memory(), PeakFLOPS: sheet.TFLOPS["bf16"] * 1e12,
		Pricer: collective.New(c, b.profiles, collective.Options{}),
		Kernel: func(ph model.Phase, op model.ComputeOp) (step.Band, string, error) {
			e, err := models[ph].Price(op)
			return step.Band{Time: e.Time, P10: e.P10, P90: e.P90}, e.Bound.String(), err
		},
	}
}

func (b *bench) plan(t testing.TB, c *topology.Cluster, name string, w layout.Workload) (*Plan, Request) {
	t.Helper()
	r := b.request(t, c, name, w)
	p, err := Search(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	return p, r
}

// cheap is a request without real kernels or collectives, for properties of the search itself.
func cheap(t testing.TB, c *topology.Cluster, spec *model.Spec, w layout.Workload) Request {
	t.Helper()
	return Request{
		Cluster: c, Spec: spec, Workload: w, Capacity: units.Bytes(80e9), Pricer: domainPricer{c},
		Kernel: func(_ model.Phase, op model.ComputeOp) (step.Band, string, error) {
			d := units.Duration(1e-6 + op.FLOPs/5e14 + float64(op.Bytes)/3e12)
			return step.Band{Time: d, P10: d, P90: d}, "memory", nil
		},
	}
}

// domainPricer is a transparent price: bytes over 450 GB/s inside an NVLink domain, over 25 GB/s across, 5 us each.
type domainPricer struct{ c *topology.Cluster }

func (p domainPricer) Price(r collective.Request) (collective.Estimate, error) {
	if len(r.Members) == 0 {
		return collective.Estimate{}, errors.New("no members")
	}
	bw := 450e9
	for _, m := range r.Members {
		if p.c.DomainOf(m) != p.c.DomainOf(r.Members[0]) {
			bw = 25e9
		}
	}
	d := units.Duration(5e-6 + float64(r.Bytes)*r.Op.BusFactor(len(r.Members))/bw)
	return collective.Estimate{Time: d, P10: d, P90: d, Bottleneck: "test link"}, nil
}

// mustFix fixes one degree.
func mustFix(t testing.TB, dim, n string) Freedom {
	t.Helper()
	var d parallel.Dim
	if err := d.UnmarshalText([]byte(dim)); err != nil {
		t.Fatal(err)
	}
	v, err := strconv.Atoi(n)
	if err != nil {
		t.Fatal(err)
	}
	return Freedom{Fix: map[parallel.Dim]int{d: v}}
}
