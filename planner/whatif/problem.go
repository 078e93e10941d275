package whatif

import (
	"errors"
	"fmt"

	"rankmap/internal/hardware"
	"rankmap/layout"
	"rankmap/model"
	"rankmap/planner"
	"rankmap/topology"
)

// Machine is a cluster with a name and where it comes from.
type Machine struct {
	Name    string
	Source  layout.Source
	Cluster *topology.Cluster
	// Grow returns the same kind of machine with at least that many GPUs, for sweeps over the number; nil where a source
	// describes one machine of fixed size.
	Grow func(gpus int) (*topology.Cluster, error)

	limit int       // use at most this many GPUs; 0 = all
	undo  []restore // takes changes back, last first
}

// changed says that Changes.Apply made the machine what it is.
func (m *Machine) changed() bool { return len(m.undo) > 0 || m.limit > 0 }

// paid is how many GPUs per-GPU figures count.
func (m *Machine) paid(p *Problem, budget int) int {
	n := m.Cluster.NumGPUs()
	for _, most := range []int{budget, m.limit} {
		if most > 0 {
			n = min(n, most)
		}
	}
	if p.GPUs > 0 {
		return p.GPUs
	}
	return n
}

// restore takes one change back: an edit, or the whole cluster that was there.
type restore struct {
	edit topology.Edit
	was  *topology.Cluster
}

// usable counts the GPUs that are not bad.
func (m *Machine) usable() int {
	n := 0
	for id := range topology.GPUID(m.Cluster.NumGPUs()) {
		if m.Cluster.GPUBad(id) == "" {
			n++
		}
	}
	return n
}

// Costs says how collectives are priced.
type Costs struct {
	Cost        string // "calibrated" or "textbook"
	Library     string // NCCL version; empty = the newest that a profile knows
	NoMulticast bool   // in-switch reduction is off
}

// Problem is what the columns of a question share.
type Problem struct {
	Spec     *model.Spec
	Model    layout.Source
	Workload layout.Workload
	Freedom  planner.Freedom
	GPUs     int // exactly this many; 0 = as many as fit
	Costs    Costs
	// Price completes a request that has its cluster: kernels, collectives, memory of its GPU.
	Price   func(*planner.Request, Costs) error
	Catalog *hardware.Catalog
}

// request is what the planner needs to know for a machine. budget bounds the GPUs in use, first ones first; 0 = no bound.
func (p *Problem) request(m *Machine, budget int) (planner.Request, error) {
	c := m.Cluster
	if m.limit > 0 && (budget == 0 || m.limit < budget) {
		budget = m.limit
	}
	r := planner.Request{Cluster: c, Spec: p.Spec, Workload: p.Workload, Freedom: p.Freedom, GPUs: p.GPUs, Top: 3}
	last := topology.GPUID(c.NumGPUs())
	for id, n := topology.GPUID(0), 0; budget > 0 && id < last; id++ {
		if c.GPUBad(id) != "" {
			continue
		}
		if n++; n == budget {
			last = id + 1
		}
	}
	r.Skip = func(id topology.GPUID) bool { return id >= last || c.GPUBad(id) != "" }
	if err := p.Price(&r, p.Costs); err != nil {
		return r, fmt.Errorf("%s: %w", m.Name, err)
	}
	if p.Costs.Library != "" {
		r.Pricer = withLibrary{r.Pricer, p.Costs.Library}
	}
	return r, nil
}

// infeasible returns the reason when err says that no plan exists.
func infeasible(err error) (*planner.Infeasible, bool) {
	var no *planner.Infeasible
	return no, errors.As(err, &no)
}
