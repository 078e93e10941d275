package whatif

import (
	"errors"
	"fmt"

	"rankmap/internal/engine"
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

	limit int // use at most this many GPUs, the first ones; 0 = all
	// count and barred are what a layout was allowed: at most this many GPUs, which per-GPU figures count (0 = all), and those that
	// it leaves out (nil = none).
	count  int
	barred []bool
	undo   []restore // takes changes back, last first
}

// changed says that Changes.Apply made the machine what it is.
func (m *Machine) changed() bool { return len(m.undo) > 0 || m.limit > 0 }

// paid is how many GPUs per-GPU figures count.
func (m *Machine) paid(p *Problem, budget int) int {
	n := max(1, m.Cluster.NumGPUs()-m.numBarred())
	for _, most := range []int{budget, m.limit, m.count} {
		if most > 0 {
			n = min(n, most)
		}
	}
	if p.GPUs > 0 {
		return p.GPUs
	}
	return n
}

// bars says that the layout leaves a GPU out.
func (m *Machine) bars(id topology.GPUID) bool { return int(id) < len(m.barred) && m.barred[id] }

// numBarred is how many GPUs the layout leaves out.
func (m *Machine) numBarred() int {
	n := 0
	for _, out := range m.barred {
		if out {
			n++
		}
	}
	return n
}

// restore takes one change back: an edit, or the whole cluster that was there.
type restore struct {
	edit topology.Edit
	was  *topology.Cluster
}

// free says that a plan may use a GPU: it is not bad and the layout does not leave it out.
func (m *Machine) free(id topology.GPUID) bool { return m.Cluster.GPUBad(id) == "" && !m.bars(id) }

// numFree counts the GPUs that a plan may use.
func (m *Machine) numFree() int {
	n := 0
	for id := range topology.GPUID(m.Cluster.NumGPUs()) {
		if m.free(id) {
			n++
		}
	}
	return n
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
	Kernels     string // whose all-reduce a layout was planned with (layout.Inputs.Kernels); empty = NCCL's
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
	Workers int // how many plans may be searched at the same time; 0 = one
}

// request is what the planner needs to know for a machine. budget bounds the GPUs in use, first ones first; 0 = no bound.
func (p *Problem) request(m *Machine, budget int) (planner.Request, error) {
	c := m.Cluster
	if m.limit > 0 && (budget == 0 || m.limit < budget) {
		budget = m.limit
	}
	r := planner.Request{Cluster: c, Spec: p.Spec, Workload: p.Workload, Freedom: p.Freedom, GPUs: p.GPUs, Budget: m.count, Barred: m.numBarred(), Top: 1, BestOnly: true}
	use := m.chosen(budget)
	inside, _ := m.island()
	r.Skip = func(id topology.GPUID) bool {
		return c.GPUBad(id) != "" || m.bars(id) || use != nil && !use[id] || inside != nil && !inside[id]
	}
	if name := p.Workload.Engine; name != "" {
		e, err := engine.Find(name)
		if err != nil {
			return r, err
		}
		r.Engine = &e
	}
	if err := p.Price(&r, p.Costs); err != nil {
		return r, fmt.Errorf("%s: %w", m.Name, err)
	}
	if p.Costs.Library != "" {
		r.Pricer = withLibrary{r.Pricer, p.Costs.Library}
	}
	return r, nil
}

// chosen picks the GPUs of a budget: equal shares of as few NVLink domains as hold it, since 128 GPUs of two racks of 72 are
// better 64 and 64 than 72 and 56; the first ones where no equal shares exist. nil is all.
func (m *Machine) chosen(budget int) []bool {
	c := m.Cluster
	if budget <= 0 || budget >= m.numFree() {
		return nil
	}
	use := make([]bool, c.NumGPUs())
	take := func(share int) int {
		clear(use)
		n := 0
		for _, d := range c.Domains {
			k := 0
			for _, id := range d {
				if k < share && n < budget && m.free(id) {
					use[id] = true
					k, n = k+1, n+1
				}
			}
		}
		return n
	}
	most := 0
	for _, d := range c.Domains {
		most = max(most, len(d))
	}
	if most > 1 {
		if k := (budget + most - 1) / most; budget%k == 0 && take(budget/k) == budget {
			return use
		}
	}
	clear(use)
	n := 0
	for id := range topology.GPUID(c.NumGPUs()) {
		if n < budget && m.free(id) {
			use[id] = true
			n++
		}
	}
	return use
}

// infeasible returns the reason when err says that no plan exists.
func infeasible(err error) (*planner.Infeasible, bool) {
	var no *planner.Infeasible
	return no, errors.As(err, &no)
}
