package accuracy

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"rankmap/collective"
	"rankmap/compute"
	"rankmap/internal/hardware"
	"rankmap/internal/measured"
	"rankmap/internal/units"
	"rankmap/model"
	"rankmap/planner"
	"rankmap/planner/step"
	"rankmap/topology"
)

// site is the machine of a placement, ready to price.
type site struct {
	cluster *topology.Cluster
	sheet   *hardware.GPU
	pricer  collective.Pricer
	kernels map[model.Phase]*compute.Model
}

// platform is how the machines of a GPU are built beyond usualMachines: NICs of a node and their rate, where a row names
// the GPU alone (reference platforms of the vendor).
type platform struct {
	nics int
	rate units.Bandwidth
}

var platforms = map[string]platform{
	"a100_sxm": {8, units.Gbps(200)}, "h100_sxm": {8, units.Gbps(400)}, "h200_sxm": {8, units.Gbps(400)}, "h800_sxm": {8, units.Gbps(400)},
	"h20": {8, units.Gbps(400)}, "b200_sxm": {8, units.Gbps(400)}, "b300_sxm": {8, units.Gbps(800)}, "gb200": {4, units.Gbps(400)},
	"gb300": {4, units.Gbps(800)}, "l40s": {8, units.Gbps(400)}, "v100_sxm2": {4, units.Gbps(100)},
}

// omniPathShare is the part of an Omni-Path adapter's rate that NCCL reaches: over its verbs, through host memory, 5.06 of 12.5
// GB/s (an all-reduce of 4 GB over 32 A100 of four nodes in 1.53 s, all over one adapter a node: bigscience-workshop/bigscience
// experiments/bandwidth/all_reduce_bench-a100-n4.txt, 2022).
const omniPathShare = 0.405

var (
	perNode = regexp.MustCompile(`(?:^|[\s:;])(\d+)\s?x\s*(?:[A-Za-z][\w-]*\s+)*?(\d+)\s?G(?:b/s)?\b`)
	perGPU  = regexp.MustCompile(`(\d+)G(?: \w+)? per GPU`)
)

// machineOfPlacement describes the machine. Racks that a job fills by halves are taken 64 of 72 GPUs at a time, as their
// users do where the degrees are powers of two.
func machineOfPlacement(p *measured.Placement, sheet *hardware.GPU) (machine, error) {
	u, known := usualMachines[sheet.System]
	if !known {
		return machine{}, fmt.Errorf("no usual machine of %s", sheet.System)
	}
	m := machine{gpu: sheet.System, wiring: u.wiring, gpus: u.gpus, rack: u.rack, sockets: 2, fabric: topology.FabricInfiniBand}
	if u.rack == 0 && p.Domain > 0 && p.Domain < u.gpus {
		m.gpus = p.Domain
	}
	if p.GPUs < m.gpus {
		m.gpus = p.GPUs
	}
	if p.Nodes > 0 && p.GPUs%p.Nodes == 0 && p.GPUs/p.Nodes < m.gpus {
		m.gpus = p.GPUs / p.Nodes
	}
	m.used = m.gpus
	m.nodes = (p.GPUs + m.gpus - 1) / m.gpus
	m.ranks = p.GPUs
	if m.nodes > topology.MaxGPUs/m.gpus {
		return machine{}, fmt.Errorf("more GPUs than a cluster may have")
	}
	if m.rack > 0 && p.GPUs > m.rack*m.gpus && p.GPUs%64 == 0 {
		m.rack = 64 / m.gpus
	}
	pf := platforms[sheet.System]
	m.nics, m.rate = min(pf.nics, m.gpus), pf.rate
	net := p.Interconnect
	if g := perGPU.FindStringSubmatch(net); g != nil {
		n, _ := strconv.Atoi(g[1])
		m.nics, m.rate = m.gpus, units.Gbps(float64(n))
	} else if all := perNode.FindAllStringSubmatch(net, -1); all != nil {
		best := 0 // the compute network has the most NICs
		for _, g := range all {
			n, _ := strconv.Atoi(g[1])
			r, _ := strconv.Atoi(g[2])
			if n > best && n <= 16 && r >= 25 {
				best = n
				m.nics, m.rate = max(1, n*m.gpus/max(u.gpus, m.gpus)), units.Gbps(float64(r))
			}
		}
	}
	if up := strings.ToUpper(net); strings.Contains(up, "ROCE") && !strings.Contains(up, "IB/ROCE") {
		m.fabric = topology.FabricRoCE
	}
	if strings.Contains(strings.ToUpper(net), "OMNI-PATH") {
		m.rate = units.Bandwidth(omniPathShare * float64(m.rate))
	}
	if m.nodes == 1 {
		m.nics, m.rate, m.fabric = 0, 0, ""
	}
	return m, nil
}

// siteKey is a machine under an engine, whose own all-reduce kernels run in its nodes; empty = NCCL's alone.
type siteKey struct {
	machine machine
	engine  string
}

// site returns the machine of a row, made on first use.
func (c *Placer) site(p *measured.Placement, engine string) (*site, error) {
	name, _, _ := strings.Cut(p.GPU, " ")
	sheet, err := c.catalog.GPU(name)
	if err != nil {
		return nil, fmt.Errorf("hardware %s is not known", p.GPU)
	}
	m, err := machineOfPlacement(p, sheet)
	if err != nil {
		return nil, err
	}
	key := siteKey{m, engine}
	if s := c.sites[key]; s != nil {
		return s, nil
	}
	s := &site{sheet: sheet}
	if s.cluster, err = m.cluster(c.catalog); err != nil {
		return nil, fmt.Errorf("machine of %d x %s: %w", m.ranks, sheet.System, err)
	}
	s.pricer = collective.New(s.cluster, c.profiles, collective.Options{Kernels: engine})
	if s.kernels = c.computes[sheet.System]; s.kernels == nil {
		k, err := hardware.LoadKernels(c.configs, sheet.System)
		if err != nil {
			return nil, fmt.Errorf("no kernel parameters of %s", sheet.System)
		}
		s.kernels = map[model.Phase]*compute.Model{}
		for _, ph := range []model.Phase{model.Prefill, model.Decode, model.Train} {
			if s.kernels[ph], err = compute.New(sheet, k, compute.Options{Phase: ph, Framework: compute.FrameworkFor(ph)}); err != nil {
				return nil, err
			}
		}
		c.computes[sheet.System] = s.kernels
	}
	c.sites[key] = s
	return s, nil
}

// request fills in what the machine gives.
func (s *site) request(spec *model.Spec) planner.Request {
	return planner.Request{
		Cluster: s.cluster, Spec: spec, Pricer: s.pricer, Capacity: s.sheet.Memory(), PeakFLOPS: s.sheet.TFLOPS["bf16"] * 1e12, HostLink: s.sheet.HostLink(),
		Kernel: func(ph model.Phase, op model.ComputeOp) (step.Band, string, error) {
			e, err := s.kernels[ph].Price(op)
			return step.Band{Time: e.Time, P10: e.P10, P90: e.P90}, e.Bound.String(), err
		},
	}
}
