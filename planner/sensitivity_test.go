package planner

import (
	"context"
	"math"
	"strings"
	"testing"

	"rankmap/collective"
	"rankmap/configs"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/layout"
	"rankmap/model"
	"rankmap/planner/step"
	"rankmap/topology"
)

// scaledPricer divides what crosses NVLink domains, or stays inside, by a factor.
type scaledPricer struct {
	p             collective.Pricer
	inside, cross float64
	across        *slower
}

func (s scaledPricer) Price(r collective.Request) (collective.Estimate, error) {
	e, err := s.p.Price(r)
	f := s.inside
	if s.across.crosses(r.Members) {
		f = s.cross
	}
	e.Time /= units.Duration(f)
	return e, err
}

// varyCheap varies the transparent prices of cheap.
func varyCheap(r Request) Vary {
	return func(q Quantity, f float64) (Request, bool, error) {
		x := r
		at := &slower{c: r.Cluster}
		switch q {
		case NVLinkRate:
			x.Pricer = scaledPricer{r.Pricer, f, 1, at}
		case NICRate:
			x.Pricer = scaledPricer{r.Pricer, 1, f, at}
		case NICLatency:
			x.Pricer = WithLatency(r.Pricer, r.Cluster, f)
		case MemorySize:
			x.Capacity = units.Bytes(float64(r.Capacity) * f)
		default:
			x.Kernel = func(ph model.Phase, op model.ComputeOp) (step.Band, string, error) {
				b, bound, err := r.Kernel(ph, op)
				return b.Scale(1 / f), bound, err
			}
		}
		return x, true, nil
	}
}

// A flip is where two plans cost the same: priced just before it the plan still wins, just behind it the other one does.
func TestFlipsAreWhereTheChoiceChanges(t *testing.T) {
	b := newBench(t)
	spec, err := model.Load(configs.FS, "llama-3.1-70b")
	if err != nil {
		t.Fatal(err)
	}
	c := b.preset(t, "hgx-h100", 2)
	r := cheap(t, c, spec, layout.Workload{Task: "decode", ISL: 1024, OSL: 512, Batch: 64, Objective: string(Latency)})
	r.Freedom.Forbid = map[parallel.Dim]bool{parallel.PP: true}
	p, err := Search(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	if err := Sensitivity(context.Background(), r, p, varyCheap(r)); err != nil {
		t.Fatal(err)
	}
	if len(p.Flips) == 0 {
		t.Fatal("nothing between 1/8 and 8 changes the choice; want at least one flip on two boxes")
	}
	for _, f := range p.Flips {
		if f.Strategy == p.Best.Strategy.String() || f.Factor < 1/maxFactor*0.99 || f.Factor > maxFactor*1.01 {
			t.Errorf("%+v", f)
		}
		x, _, err := varyCheap(r)(Quantity(f.Quantity), math.Exp(math.Log(f.Factor)*1.05))
		if err != nil {
			t.Fatal(err)
		}
		again, err := Search(context.Background(), x)
		if err != nil {
			t.Fatal(err)
		}
		if again.Best.Strategy.String() == p.Best.Strategy.String() {
			t.Errorf("%+v: a full search behind the flip still chooses %s", f, p.Best.Strategy)
		}
		if x, _, err = varyCheap(r)(Quantity(f.Quantity), math.Exp(math.Log(f.Factor)*0.8)); err != nil {
			t.Fatal(err)
		}
		if again, err = Search(context.Background(), x); err != nil || again.Best.Strategy.String() != p.Best.Strategy.String() {
			t.Errorf("%+v: a full search well before the flip chooses another plan (%v)", f, err)
		}
	}
	if !strings.Contains(strings.Join(p.Explained, "\n"), p.Flips[0].Quantity) {
		t.Error("the explanation does not name the quantity")
	}
}

// The seats of the candidates remember prices of the machine as it is; a varied machine has its own.
func TestVariedMachinesHaveTheirOwnPrices(t *testing.T) {
	b := newBench(t)
	spec, err := model.Load(configs.FS, "llama-3.1-70b")
	if err != nil {
		t.Fatal(err)
	}
	c := b.preset(t, "hgx-h100", 2)
	r := cheap(t, c, spec, layout.Workload{Task: "decode", ISL: 1024, OSL: 512, Batch: 64, Objective: string(Latency)})
	p, err := Search(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []Quantity{NVLinkRate, NICRate, NICLatency} {
		x, _, err := varyCheap(r)(q, 1.0/8)
		if err != nil {
			t.Fatal(err)
		}
		changed := false
		for _, o := range p.found {
			v := &varied{r: r, p: p, cands: []*Outcome{o}}
			got, err := v.best(x)
			if err != nil || got == nil {
				t.Fatalf("%s: %v", o.Strategy, err)
			}
			s := &search{Request: x, base: newSeating(c, nil)}
			want, err := s.evaluate(o.Strategy, newComm(s.base.seatedOn(o.Seats()), x.Pricer, graphLaunch, o.Strategy).price, o.Batch, true)
			if err != nil {
				t.Fatal(err)
			}
			if math.Abs(float64(got.Step.Time/want.Step.Time)-1) > 1e-9 {
				t.Errorf("%s at an eighth: %s takes %s, anew %s", q, o.Strategy, got.Step.Time, want.Step.Time)
			}
			changed = changed || got.Step.Time != o.Step.Time
		}
		if !changed {
			t.Errorf("an eighth of the %s changes no step", q)
		}
	}
}

func TestLatencyScalesTheFixedTimeAcrossDomainsAlone(t *testing.T) {
	b := newBench(t)
	c := b.preset(t, "hgx-h100", 2)
	plain := domainPricer{c}
	twice := WithLatency(plain, c, 2)
	for _, x := range []struct {
		req   collective.Request
		extra bool
	}{
		{collective.Request{Op: parallel.AllReduce, Bytes: 1 << 20, Members: ids(0, 1, 2)}, false},
		{collective.Request{Op: parallel.AllReduce, Bytes: 1 << 20, Members: ids(0, 8)}, true},
	} {
		a, _ := plain.Price(x.req)
		e, err := twice.Price(x.req)
		if err != nil {
			t.Fatal(err)
		}
		if d := e.Time - a.Time; x.extra && math.Abs(d.Micros()-5) > 0.01 || !x.extra && d != 0 {
			t.Errorf("%v: %v more; want 5 us across domains, nothing inside", x.req.Members, d)
		}
	}
}

func ids(list ...topology.GPUID) []topology.GPUID { return list }
