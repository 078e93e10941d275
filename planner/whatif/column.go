package whatif

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"rankmap/internal/units"
	"rankmap/layout"
	"rankmap/planner"
	"rankmap/topology"
)

// Column is one machine with one plan.
type Column struct {
	Name      string            `yaml:"name" json:"name"`
	At        *Position         `yaml:"at,omitempty" json:"at,omitempty"` // in a sweep
	Machine   MachineFacts      `yaml:"machine" json:"machine"`
	GPUs      int               `yaml:"gpus" json:"gpus"`                     // with a rank
	Idle      int               `yaml:"idle,omitempty" json:"idle,omitempty"` // usable ones without
	Strategy  *layout.Strategy  `yaml:"strategy" json:"strategy"`             // null when no plan exists
	Predicted *layout.Predicted `yaml:"predicted" json:"predicted"`
	Memory    *layout.Memory    `yaml:"memory" json:"memory"`
	Binding   string            `yaml:"binding" json:"binding"` // what limits it, in words
	// Communication is the time of the step by kind and link, dearest first.
	Communication []Communication `yaml:"communication,omitempty" json:"communication,omitempty"`
	Spans         []Span          `yaml:"spans,omitempty" json:"spans,omitempty"`
	GPUHours      *GPUHours       `yaml:"gpuHours,omitempty" json:"gpuHours,omitempty"`
	Moved         *Moved          `yaml:"moved,omitempty" json:"moved,omitempty"`           // against the kept layout
	Infeasible    string          `yaml:"infeasible,omitempty" json:"infeasible,omitempty"` // why there is no plan
	Notes         []string        `yaml:"notes,omitempty" json:"notes,omitempty"`

	plan  *planner.Plan
	seats []topology.GPUID
	index int // of the machine
}

// MachineFacts is a cluster in a few figures. Bandwidths are GB/s one way.
type MachineFacts struct {
	GPU         string  `yaml:"gpu" json:"gpu"`
	GPUs        int     `yaml:"gpus" json:"gpus"`
	Lost        int     `yaml:"lost,omitempty" json:"lost,omitempty"` // that cannot be used
	Paid        int     `yaml:"paid" json:"paid"`                     // that per-GPU figures count
	Nodes       int     `yaml:"nodes" json:"nodes"`
	Domains     int     `yaml:"domains" json:"domains"` // NVLink domains
	DomainGPUs  int     `yaml:"domainGpus" json:"domainGpus"`
	NVLinkGBps  float64 `yaml:"nvlinkGBps" json:"nvlinkGBps"`   // a GPU
	NetworkGBps float64 `yaml:"networkGBps" json:"networkGBps"` // a GPU
}

// Position is where a column of a sweep stands.
type Position struct {
	Axis  string  `yaml:"axis" json:"axis"`
	Value float64 `yaml:"value" json:"value"` // rates in Gb/s (nic.rate) or GB/s (nvlink.rate); the place in the list otherwise
	Text  string  `yaml:"text" json:"text"`
}

// Communication is the collectives of one kind over one link.
type Communication struct {
	Kind  string  `yaml:"kind" json:"kind"`
	Link  string  `yaml:"link" json:"link"`
	Ms    float64 `yaml:"ms" json:"ms"`
	Share float64 `yaml:"share" json:"share"` // percent of the step
}

// GPUHours compares machines of different size by the work of equal GPU-hours.
type GPUHours struct {
	Hours  float64 `yaml:"hours" json:"hours"`   // that the budget lasts on this machine
	Tokens float64 `yaml:"tokens" json:"tokens"` // made in that time
	Ratio  float64 `yaml:"ratio" json:"ratio"`   // against the first column
}

// factsOf describes a machine. paid is how many GPUs per-GPU figures count.
func factsOf(m *Machine, paid int) MachineFacts {
	c := m.Cluster
	f := MachineFacts{GPUs: c.NumGPUs(), Paid: paid, Nodes: c.NumNodes(), Domains: len(c.Domains)}
	f.Lost = f.GPUs - m.usable()
	for _, d := range c.Domains {
		f.DomainGPUs = max(f.DomainGPUs, len(d))
	}
	for n := range topology.NodeID(c.NumNodes()) {
		node, class := c.Node(n)
		sum := units.Bandwidth(0)
		for x := range class.NICs {
			sum += c.NICBandwidth(n, x)
		}
		if len(class.GPUs) > 0 {
			f.NetworkGBps = max(f.NetworkGBps, round(sum.GBps()/float64(len(class.GPUs)), 4))
		}
		for g := range class.GPUs {
			id := node.First + topology.GPUID(g)
			f.NVLinkGBps = max(f.NVLinkGBps, round(c.LinkBandwidth(id).GBps(), 4))
			if sheet := c.Datasheet(id); sheet != nil && f.GPU == "" {
				f.GPU = sheet.System
			}
		}
	}
	return f
}

// column turns a plan into a column. paid is how many GPUs per-GPU figures count.
func column(m *Machine, r *planner.Request, p *planner.Plan, paid int) *Column {
	st := layout.Of(p.Best.Strategy)
	pred, mem := p.Best.Figures(r.Capacity)
	pred.TokensPerSecondPerGPU = round(p.Best.Tokens/float64(paid), 5)
	col := &Column{
		Name: m.Name, Machine: factsOf(m, paid), GPUs: p.Best.GPUs, Strategy: &st, Predicted: &pred, Memory: &mem,
		Spans: spans(r.Cluster, p.Best.Strategy, p.Seats), plan: p, seats: p.Seats,
	}
	col.Idle = max(0, min(paid, m.numFree())-col.GPUs)
	col.Communication = communication(&pred)
	col.Binding = binding(&pred)
	return col
}

// noPlan is the column of a machine on which nothing fits.
func noPlan(m *Machine, paid int, no *planner.Infeasible) *Column {
	return &Column{
		Name: m.Name, Machine: factsOf(m, paid), Binding: no.Binding,
		Infeasible: no.Binding + "; nearest change that helps: " + no.Nearest,
	}
}

// communication adds the parts of a step that are not computation by kind and link.
func communication(p *layout.Predicted) []Communication {
	var out []Communication
	for _, x := range p.Parts {
		if x.Kind == "compute" {
			continue
		}
		i := slices.IndexFunc(out, func(c Communication) bool { return c.Kind == x.Kind && c.Link == x.Bound })
		if i < 0 {
			i = len(out)
			out = append(out, Communication{Kind: x.Kind, Link: x.Bound})
		}
		out[i].Ms += x.Ms
		out[i].Share += x.Share
	}
	for i := range out {
		out[i].Ms, out[i].Share = round(out[i].Ms, 4), round(out[i].Share, 3)
	}
	slices.SortStableFunc(out, func(a, b Communication) int { return cmp.Compare(b.Ms, a.Ms) })
	return out
}

// binding names the dearest part of the step and what limits it.
func binding(p *layout.Predicted) string {
	if len(p.Parts) == 0 {
		return ""
	}
	top := slices.MaxFunc(p.Parts, func(a, b layout.Part) int { return cmp.Compare(a.Ms, b.Ms) })
	comm := 0.0
	for _, c := range communication(p) {
		if c.Kind != "bubble" && c.Kind != "overhead" {
			comm += c.Ms
		}
	}
	s := fmt.Sprintf("%s %s (%s %% of the step", top.Kind, top.Name, units.Trim(top.Share, 1))
	if top.Kind == "compute" {
		s = fmt.Sprintf("%s (%s %% of the step", top.Name, units.Trim(top.Share, 1))
	}
	if top.Bound != "" {
		s += ", " + top.Bound
	}
	return s + fmt.Sprintf("); communication %s %%", units.Trim(100*comm/p.StepMs, 1))
}

// round keeps n significant digits.
func round(v float64, n int) float64 {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	p := math.Pow(10, float64(n-1)-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*p) / p
}
