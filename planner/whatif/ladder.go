package whatif

import (
	"fmt"
	"slices"

	"rankmap/collective"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/layout"
	"rankmap/model"
	"rankmap/topology"
)

// KindLadder heads a ladder document.
const KindLadder = "Ladder"

// Convention is how bandwidths are quoted.
type Convention string

// The conventions. Vendors quote NVLink both ways and PCIe by its raw signalling rate; networks are quoted one way in both.
const (
	OneWay Convention = "one-way"
	Vendor Convention = "vendor"
)

// Ladder is the bandwidths of a machine from the memory outwards, text-book arithmetic and prediction side by side.
type Ladder struct {
	APIVersion string     `yaml:"apiVersion" json:"apiVersion"`
	Kind       string     `yaml:"kind" json:"kind"`
	Cluster    string     `yaml:"cluster" json:"cluster"`
	GPU        string     `yaml:"gpu" json:"gpu"`
	Model      string     `yaml:"model,omitempty" json:"model,omitempty"`
	Convention Convention `yaml:"convention" json:"convention"`
	Rungs      []Rung     `yaml:"rungs" json:"rungs"`
	Notes      []string   `yaml:"notes,omitempty" json:"notes,omitempty"`
}

// Rung is one level. GBps is what one GPU has of it.
type Rung struct {
	Name     string       `yaml:"name" json:"name"`
	Between  string       `yaml:"between" json:"between"` // what it joins
	GBps     float64      `yaml:"gbps" json:"gbps"`
	Ratio    float64      `yaml:"ratioToNext,omitempty" json:"ratioToNext,omitempty"`
	Boundary bool         `yaml:"boundary,omitempty" json:"boundary,omitempty"` // below it a group leaves the NVLink domain
	Costs    []LadderCost `yaml:"costs" json:"costs"`
}

// LadderCost is one layer's all-reduce on a level.
type LadderCost struct {
	What        string  `yaml:"what" json:"what"`
	Bytes       int64   `yaml:"bytes" json:"bytes"`
	Ranks       int     `yaml:"ranks" json:"ranks"`
	MovedBytes  int64   `yaml:"movedBytes" json:"movedBytes"` // a GPU sends and receives: 2(n-1)/n of the buffer
	Ms          float64 `yaml:"ms" json:"ms"`                 // moved bytes over the bandwidth, nothing else
	Layers      int     `yaml:"layers" json:"layers"`         // how often a step pays it
	StepMs      float64 `yaml:"stepMs" json:"stepMs"`
	PredictedUs float64 `yaml:"predictedUs,omitempty" json:"predictedUs,omitempty"` // by the profiles, on real GPUs of this machine
	Basis       string  `yaml:"basis,omitempty" json:"basis,omitempty"`
}

// The all-reduce that textbooks use for this comparison, and the layers of the model that they take it from.
const (
	ladderBytes  = 100_000_000
	ladderRanks  = 8
	ladderLayers = 80
)

// MakeLadder lists the levels of a machine. p.Spec may be nil; price, if not nil, prices the same all-reduce on the GPUs.
func MakeLadder(m *Machine, spec *model.Spec, work layout.Workload, conv Convention, price collective.Pricer) (*Ladder, error) {
	c := m.Cluster
	id := topology.GPUID(-1)
	for g := range topology.GPUID(c.NumGPUs()) {
		if c.GPUBad(g) == "" {
			id = g
			break
		}
	}
	if id < 0 {
		return nil, fmt.Errorf("%s: no usable GPU", m.Name)
	}
	sheet := c.Datasheet(id)
	if sheet == nil {
		return nil, fmt.Errorf("%s: the source names no GPU model: --gpu is missing", m.Name)
	}
	l := &Ladder{APIVersion: APIVersion, Kind: KindLadder, Cluster: m.Name, GPU: sheet.System, Convention: conv}
	facts := factsOf(m, c.NumGPUs())
	nvlink, pcie := c.LinkBandwidth(id).GBps(), c.PCIeBandwidth(id).GBps()
	if conv == Vendor {
		nvlink *= 2
		if sheet.PCIeGen >= 3 && sheet.PCIeGen <= 5 {
			pcie *= 130.0 / 128 // raw signalling rate; PCIe Base Specification 3.0 to 5.0: 128b/130b
		}
	}
	l.add("HBM", "the GPU's own memory", sheet.HBM().GBps())
	if facts.DomainGPUs > 1 {
		l.add("NVLink", fmt.Sprintf("the %d GPUs of an NVLink domain", facts.DomainGPUs), nvlink)
	}
	l.add("PCIe", fmt.Sprintf("GPU and host, gen %d x%d", sheet.PCIeGen, sheet.PCIeWidth), pcie)
	if facts.NetworkGBps > 0 {
		kind := string(c.Fabric.Kind)
		if kind == "" {
			kind = "network"
		}
		l.add(kind, "nodes, one GPU's share of the NICs", facts.NetworkGBps)
	} else {
		l.Notes = append(l.Notes, "the network is not known: state it (--nic-rate 400G)")
	}
	if l.ratios(); len(l.Rungs) < 2 {
		return nil, fmt.Errorf("%s: fewer than two bandwidths are known", m.Name)
	}
	sizes := []LadderCost{{What: "100 MB", Bytes: ladderBytes, Layers: ladderLayers}}
	if spec != nil {
		l.Model = spec.Name
		sizes = append(sizes, modelSizes(spec, work)...)
	}
	for i := range l.Rungs {
		r := &l.Rungs[i]
		members := rungMembers(c, r.Name)
		for _, s := range sizes {
			s.Ranks = ladderRanks
			s.MovedBytes = int64(float64(s.Bytes) * parallel.AllReduce.BusFactor(ladderRanks))
			s.Ms = round(float64(s.MovedBytes)/(r.GBps*1e9)*1e3, 4)
			s.StepMs = round(s.Ms*float64(s.Layers), 4)
			if price != nil && len(members) == ladderRanks {
				e, err := price.Price(collective.Request{Op: parallel.AllReduce, Bytes: units.Bytes(s.Bytes), Launch: collective.Graph, Members: members})
				if err != nil {
					return nil, err
				}
				s.PredictedUs, s.Basis = round(e.Time.Micros(), 4), e.Provenance.String()
			}
			r.Costs = append(r.Costs, s)
		}
	}
	return l, nil
}

func (l *Ladder) add(name, between string, gbps float64) {
	if gbps > 0 {
		l.Rungs = append(l.Rungs, Rung{Name: name, Between: between, GBps: round(gbps, 4), Costs: []LadderCost{}})
	}
}

// ratios fills in each level's ratio to the next, and where NVLink ends.
func (l *Ladder) ratios() {
	for i := range len(l.Rungs) - 1 {
		r := &l.Rungs[i]
		r.Ratio = round(r.GBps/l.Rungs[i+1].GBps, 4)
		r.Boundary = r.Name == "NVLink"
	}
}

// Cliff is NVLink against the network; 0 when one is missing.
func (l *Ladder) Cliff() float64 {
	at := slices.IndexFunc(l.Rungs, func(r Rung) bool { return r.Name == "NVLink" })
	last := l.Rungs[len(l.Rungs)-1]
	if at < 0 || last.Name == "PCIe" || last.Name == "NVLink" {
		return 0
	}
	return round(l.Rungs[at].GBps/last.GBps, 4)
}

// rungMembers finds eight GPUs that talk over a level and no other: of one NVLink domain, of one PCIe box, or one of each
// of eight endpoints of the network.
func rungMembers(c *topology.Cluster, name string) []topology.GPUID {
	var out []topology.GPUID
	switch name {
	case "HBM":
	case "NVLink":
		for _, d := range c.Domains {
			if len(d) >= ladderRanks && healthy(c, d[:ladderRanks]) {
				return d[:ladderRanks]
			}
		}
	case "PCIe":
		for n := range topology.NodeID(c.NumNodes()) {
			node, k := c.Node(n)
			if k.Wiring == topology.NVLinkNone && len(k.GPUs) >= ladderRanks {
				for g := range ladderRanks {
					out = append(out, node.First+topology.GPUID(g))
				}
				return out
			}
		}
	default:
		seenDomain, seenNode := map[int]bool{}, map[topology.NodeID]bool{}
		for id := range topology.GPUID(c.NumGPUs()) {
			if d, n := c.DomainOf(id), c.NodeOf(id); len(out) < ladderRanks && c.GPUBad(id) == "" && !seenDomain[d] && !seenNode[n] {
				seenDomain[d], seenNode[n] = true, true
				out = append(out, id)
			}
		}
	}
	return out
}

func healthy(c *topology.Cluster, ids []topology.GPUID) bool {
	return !slices.ContainsFunc(ids, func(id topology.GPUID) bool { return c.GPUBad(id) != "" })
}

// modelSizes is one layer's all-reduce of the model's own hidden state when tp is 8: hidden x tokens x 2 bytes, in decode
// of a batch and in prefill of one prompt.
func modelSizes(s *model.Spec, w layout.Workload) []LadderCost {
	batch, isl := w.Batch, w.ISL
	if batch == 0 {
		batch = 64
	}
	if isl == 0 {
		isl = 4096
	}
	times := 0
	for i := range s.Layers() {
		k := s.Layer(i)
		if k.Mixer.Kind != model.NoMixer {
			times++
		}
		if k.FFN.Kind != model.NoFFN && !k.Parallel {
			times++
		}
	}
	of := func(what string, tokens int) LadderCost {
		return LadderCost{What: what, Bytes: 2 * int64(s.Hidden) * int64(tokens), Layers: times}
	}
	return []LadderCost{
		of(fmt.Sprintf("decode, batch %d", batch), batch),
		of(fmt.Sprintf("prefill, %d tokens", isl), isl),
	}
}
