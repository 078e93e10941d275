package accuracy

import (
	"fmt"

	"rankmap/internal/hardware"
	"rankmap/internal/measured"
	"rankmap/internal/units"
	"rankmap/topology"
)

// machine is what a row says about the hardware, completed by what is usual for its GPU. Rows of one machine share a
// cluster, so it is a map key.
type machine struct {
	gpu     string // datasheet's key
	wiring  measured.Wiring
	gpus    int // on a node
	nodes   int
	rack    int // nodes of one NVLink domain; 0 = the node is the domain
	used    int // GPUs of each node that take part
	ranks   int
	nics    int // on a node
	rate    units.Bandwidth
	fabric  topology.FabricKind
	sockets int
	sharp   bool // the network's switches reduce
	noNVLS  bool // in-switch reduction off
}

// usual is how the machines of a GPU are built, where a table names the GPU alone (measured/README: preset of a system).
type usual struct {
	wiring measured.Wiring
	gpus   int // on a node
	rack   int // nodes of an NVLink domain
	nic    units.Bandwidth
}

var usualMachines = map[string]usual{
	"a100_sxm":     {measured.WiringNVSwitch, 8, 0, 0},
	"h100_sxm":     {measured.WiringNVSwitch, 8, 0, 0},
	"h200_sxm":     {measured.WiringNVSwitch, 8, 0, 0},
	"h800_sxm":     {measured.WiringNVSwitch, 8, 0, 0},
	"h20":          {measured.WiringNVSwitch, 8, 0, 0},
	"b200_sxm":     {measured.WiringNVSwitch, 8, 0, 0},
	"b300_sxm":     {measured.WiringNVSwitch, 8, 0, 0},
	"gb200":        {measured.WiringRack, 4, 18, units.Gbps(400)}, // tray of 4, 18 trays, a ConnectX-7 a GPU
	"gb300":        {measured.WiringRack, 4, 18, units.Gbps(800)}, // ConnectX-8
	"gh200":        {measured.WiringDirect, 4, 0, 0},
	"v100_sxm2":    {measured.WiringCubeMesh, 8, 0, 0},
	"rtx_pro_6000": {measured.WiringPCIe, 8, 0, 0},
	"l40s":         {measured.WiringPCIe, 8, 0, 0},
}

// machineOf describes the machine of a row. The error is a reason to skip it.
func machineOf(r *measured.Row) (machine, error) {
	u, known := usualMachines[r.Hardware]
	if !known {
		if r.Hardware == "" && r.GPU == "" {
			return machine{}, fmt.Errorf("the file names no GPU (--system is missing)")
		}
		return machine{}, fmt.Errorf("no datasheet of this GPU")
	}
	m := machine{gpu: r.Hardware, wiring: r.Wiring, gpus: u.gpus, nodes: r.Nodes, used: r.GPUsPerNode, ranks: r.Ranks,
		nics: r.NICs, rate: r.NICRate, fabric: topology.FabricKind(r.Fabric), sockets: 2, noNVLS: r.NoMulticast,
		sharp: reducedInNetwork(r)}
	if m.wiring == measured.WiringUnstated {
		m.wiring = u.wiring
	}
	if m.wiring == measured.WiringPCIeHost {
		return machine{}, fmt.Errorf("no peer access between the GPUs")
	}
	if m.wiring == measured.WiringDirect {
		m.gpus = 4
	}
	if m.wiring == measured.WiringRack {
		m.rack = u.rack
		if m.used > u.gpus { // a table that calls the whole domain one node
			m.nodes = (m.ranks + u.gpus - 1) / u.gpus
		}
		m.used = min(m.used, u.gpus)
	}
	m.gpus = max(m.gpus, m.used)
	if m.nodes > topology.MaxGPUs/m.gpus {
		return machine{}, fmt.Errorf("more GPUs than a cluster may have")
	}
	if m.used*m.nodes < m.ranks {
		return machine{}, fmt.Errorf("more ranks than GPUs")
	}
	if m.crosses() {
		if m.nics == 0 && m.rate == 0 && u.nic > 0 && m.fabric != "" { // racks come with one NIC a GPU
			m.nics, m.rate = m.gpus, u.nic
		}
		if m.nics == 0 || m.rate == 0 {
			return machine{}, fmt.Errorf("crosses nodes, and the NICs are not stated (--nics, --nic-rate, --fabric)")
		}
	} else {
		m.nics, m.rate, m.fabric = 0, 0, ""
	}
	return m, nil
}

// crosses says whether the ranks sit in several NVLink domains' nodes.
func (m *machine) crosses() bool {
	if m.rack > 0 {
		return m.nodes > m.rack
	}
	return m.nodes > 1
}

// cluster builds the machine:
//
//	NIC0 -- GPU0 -+
//	NIC1 -- GPU1 -+- NVSwitch (or pairs, or a cube mesh, or PCIe alone: half of the GPUs on each socket)
//	 ...          |
//
// NICs are spread over the GPUs that take part; a GPU without one of its own uses the nearest.
func (m *machine) cluster(cat *hardware.Catalog) (*topology.Cluster, error) {
	sheet, err := cat.GPU(m.gpu)
	if err != nil {
		return nil, err
	}
	class := m.class(sheet)
	c := &topology.Cluster{Name: m.gpu, Classes: []topology.NodeClass{class}, Fabric: topology.Fabric{Kind: m.fabric, NICRate: m.rate, SHARP: m.sharp}}
	for i := range m.nodes {
		n := topology.Node{Name: fmt.Sprintf("node%d", i)}
		if m.rack > 0 {
			n.Clique = fmt.Sprintf("rack%d.1", i/m.rack)
			n.Rack = fmt.Sprintf("rack%d", i/m.rack)
		}
		c.Nodes = append(c.Nodes, n)
	}
	return c, c.Finish(cat)
}

func (m *machine) class(sheet *hardware.GPU) topology.NodeClass {
	k := topology.NodeClass{Name: m.gpu, Sockets: m.sockets, Wiring: wiringKind(m.wiring)}
	far := topology.PathNV
	if k.Wiring == topology.NVLinkNone {
		far = topology.PathSYS
	}
	k.GPUPaths = square(m.gpus, m.gpus, far)
	for g := range m.gpus {
		k.GPUPaths[g][g] = topology.PathSelf
		k.GPUs = append(k.GPUs, topology.GPU{Index: g, Model: m.gpu, NUMA: g * m.sockets / m.gpus, GPUNUMA: -1})
		for o := range m.gpus {
			if o != g && far == topology.PathSYS && g*m.sockets/m.gpus == o*m.sockets/m.gpus {
				k.GPUPaths[g][o] = topology.PathNODE
			}
		}
	}
	m.links(&k, sheet)
	k.NICPaths = square(m.gpus, m.nics, topology.PathNODE)
	for i := range m.nics {
		at := i * m.used / m.nics
		k.NICs = append(k.NICs, topology.NIC{Index: i, Name: fmt.Sprintf("NIC%d", i), Rate: m.rate, Rail: i, NUMA: at * m.sockets / m.gpus})
		for g := range m.gpus {
			if g*m.nics/m.used == i || at == g { // this NIC is the GPU's own, or the one it shares
				k.NICPaths[g][i] = topology.PathPIX
			}
		}
	}
	return k
}

func wiringKind(w measured.Wiring) topology.NVLinkKind {
	switch w {
	case measured.WiringNVSwitch, measured.WiringRack:
		return topology.NVLinkSwitched
	case measured.WiringDirect:
		return topology.NVLinkDirect
	case measured.WiringCubeMesh:
		return topology.NVLinkCubeMesh
	}
	return topology.NVLinkNone
}

// cubeMesh lists the double (2) and single (1) links of DGX-1V: GPUs 0-3 and 4-7 are each fully joined, and each has one
// partner across (NVIDIA DGX-1 with Tesla V100 System Architecture, 2017, figure 4).
var cubeMesh = []topology.NVLink{
	{A: 0, B: 1, Count: 1}, {A: 0, B: 2, Count: 1}, {A: 0, B: 3, Count: 2}, {A: 0, B: 4, Count: 2},
	{A: 1, B: 2, Count: 2}, {A: 1, B: 3, Count: 1}, {A: 1, B: 5, Count: 2},
	{A: 2, B: 3, Count: 2}, {A: 2, B: 6, Count: 1}, {A: 3, B: 7, Count: 1},
	{A: 4, B: 5, Count: 1}, {A: 4, B: 6, Count: 1}, {A: 4, B: 7, Count: 2},
	{A: 5, B: 6, Count: 2}, {A: 5, B: 7, Count: 1}, {A: 6, B: 7, Count: 2},
}

// links fills the NVLinks and corrects the paths of pairs without one.
func (m *machine) links(k *topology.NodeClass, sheet *hardware.GPU) {
	switch k.Wiring {
	case topology.NVLinkSwitched, topology.NVLinkDirect:
		count := sheet.NVLinks
		if k.Wiring == topology.NVLinkDirect {
			count /= m.gpus - 1
		}
		for a := range m.gpus {
			for b := a + 1; b < m.gpus; b++ {
				k.NVLinks = append(k.NVLinks, topology.NVLink{A: a, B: b, Count: count})
			}
		}
	case topology.NVLinkCubeMesh:
		k.NVLinks = cubeMesh
		for a := range m.gpus {
			for b := range m.gpus {
				if a != b {
					k.GPUPaths[a][b] = topology.PathSYS
				}
			}
		}
		for _, l := range cubeMesh {
			k.GPUPaths[l.A][l.B], k.GPUPaths[l.B][l.A] = topology.PathNV, topology.PathNV
		}
	}
}

func square(rows, cols int, fill topology.PathKind) [][]topology.PathKind {
	p := make([][]topology.PathKind, rows)
	for i := range p {
		p[i] = make([]topology.PathKind, cols)
		for j := range p[i] {
			p[i][j] = fill
		}
	}
	return p
}

// members seats the ranks: the same GPUs of every node, the last node short where the numbers do not divide.
func (m *machine) members() []topology.GPUID {
	ids := make([]topology.GPUID, 0, m.ranks)
	for n := range m.nodes {
		for g := range m.used {
			if len(ids) < m.ranks {
				ids = append(ids, topology.GPUID(n*m.gpus+g))
			}
		}
	}
	return ids
}

// neighbours are two ranks that follow each other where the way is longest: nccl-tests' send/recv passes the buffer on
// round the ranks, so the slowest hop counts, from one node (or rack) to the next if there are several.
func (m *machine) neighbours() []topology.GPUID {
	ids := m.members()
	at := 1
	if m.crosses() {
		at = m.used * max(m.rack, 1)
	}
	return ids[at-1 : at+1]
}
