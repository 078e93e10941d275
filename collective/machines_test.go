package collective

import (
	"testing"

	"rankmap/configs"
	"rankmap/internal/hardware"
	"rankmap/internal/units"
	"rankmap/topology"
)

func catalog(t testing.TB) *hardware.Catalog {
	t.Helper()
	cat, err := hardware.Load(configs.FS)
	if err != nil {
		t.Fatal(err)
	}
	return cat
}

func profiles(t testing.TB) *hardware.Profiles {
	t.Helper()
	ps, err := hardware.LoadProfiles(configs.FS)
	if err != nil {
		t.Fatal(err)
	}
	return ps
}

// box builds a class of GPUs that see each other over NVSwitch, each with one NIC at its side:
//
//	NIC0 - GPU0 -+
//	NIC1 - GPU1 -+- NVSwitch
//	 ...         |
func box(model string, gpus, links int, nic units.Bandwidth) topology.NodeClass {
	k := topology.NodeClass{Name: "box " + model, Wiring: topology.NVLinkSwitched, GPUPaths: square(gpus, topology.PathNV), NICPaths: square(gpus, topology.PathSYS), Sockets: 2}
	for g := range gpus {
		k.GPUs = append(k.GPUs, topology.GPU{Index: g, Model: model, NUMA: g * 2 / gpus, GPUNUMA: -1})
		k.NICs = append(k.NICs, topology.NIC{Index: g, Name: "NIC" + string(rune('0'+g%10)), Rate: nic, Rail: g, NUMA: g * 2 / gpus})
		k.NICPaths[g][g] = topology.PathPIX
		for o := g + 1; o < gpus; o++ {
			k.NVLinks = append(k.NVLinks, topology.NVLink{A: g, B: o, Count: links})
		}
	}
	return k
}

// pcieBox builds GPUs without NVLink, four on each socket.
func pcieBox(model string, gpus int) topology.NodeClass {
	k := topology.NodeClass{Name: "box " + model, GPUPaths: square(gpus, topology.PathSYS), Sockets: 2}
	for g := range gpus {
		k.GPUs = append(k.GPUs, topology.GPU{Index: g, Model: model, NUMA: g / 4, GPUNUMA: -1})
		for o := range gpus {
			if o/4 == g/4 {
				k.GPUPaths[g][o] = topology.PathNODE
			}
		}
	}
	return k
}

func square(n int, fill topology.PathKind) [][]topology.PathKind {
	m := make([][]topology.PathKind, n)
	for i := range m {
		m[i] = make([]topology.PathKind, n)
		for j := range m[i] {
			m[i][j] = fill
		}
		m[i][i] = topology.PathSelf
	}
	return m
}

// cluster makes n nodes of one class on a fabric.
func cluster(t testing.TB, k topology.NodeClass, n int, fabric topology.FabricKind, edit ...func(*topology.Cluster)) *topology.Cluster {
	t.Helper()
	c := &topology.Cluster{Name: "test", Classes: []topology.NodeClass{k}, Fabric: topology.Fabric{Kind: fabric}}
	for i := range n {
		c.Nodes = append(c.Nodes, topology.Node{Name: "node" + string(rune('a'+i/26)) + string(rune('a'+i%26))})
	}
	for _, e := range edit {
		e(c)
	}
	if err := c.Finish(catalog(t)); err != nil {
		t.Fatal(err)
	}
	return c
}

// rack puts all nodes of a cluster into one NVLink domain.
func rack(c *topology.Cluster) {
	for i := range c.Nodes {
		c.Nodes[i].Clique = "rack0.1"
	}
}

func ids(from, step, n int) []topology.GPUID {
	g := make([]topology.GPUID, n)
	for i := range g {
		g[i] = topology.GPUID(from + i*step)
	}
	return g
}
