package topology

import (
	"os"
	"sync"
	"testing"

	"rankmap/internal/hardware"
	"rankmap/internal/units"
)

var loadCatalog = sync.OnceValues(func() (*hardware.Catalog, error) { return hardware.Load(os.DirFS("../configs")) })

// catalog loads the datasheets of the repository.
func catalog(t testing.TB) *hardware.Catalog {
	t.Helper()
	cat, err := loadCatalog()
	if err != nil {
		t.Fatal(err)
	}
	return cat
}

// hgx builds a class of n GPUs behind NVSwitch with one NIC each, two sockets, rail-optimised:
//
//	CPU0 ── 4 x (GPU ─PIX─ NIC)   CPU1 ── 4 x (GPU ─PIX─ NIC)
//	          └──── NVSwitch, links a GPU to every other ────┘
func hgx(model string, n, links int, rate units.Bandwidth) NodeClass {
	k := NodeClass{Name: model, GPUPaths: newMatrix(n, n), PCIePaths: newMatrix(n, n), NICPaths: newMatrix(n, n), Sockets: 2}
	for g := range n {
		numa := g * 2 / n
		k.GPUs = append(k.GPUs, GPU{Index: g, Model: model, NUMA: numa, GPUNUMA: -1})
		k.NICs = append(k.NICs, NIC{Index: g, Name: "NIC" + string(rune('0'+g)), Device: "mlx5_" + string(rune('0'+g)), NUMA: numa, Rate: rate, Rail: g})
		for o := range n {
			far := PathSYS
			if o*2/n == numa {
				far = PathNODE
			}
			k.PCIePaths[g][o], k.NICPaths[g][o] = far, far
			if o == g {
				k.PCIePaths[g][o], k.NICPaths[g][o] = PathSelf, PathPIX
			}
			if o > g {
				k.NVLinks = append(k.NVLinks, NVLink{A: g, B: o, Count: links})
			}
		}
	}
	return k
}

// cubeMesh builds a DGX-1 with V100: links by hand from the published hybrid cube mesh (two quads, doubled edges).
func cubeMesh() NodeClass {
	k := NodeClass{Name: "dgx1", GPUPaths: newMatrix(8, 8), Sockets: 2}
	for g := range 8 {
		k.GPUs = append(k.GPUs, GPU{Index: g, Model: "v100_sxm2", NUMA: g / 4, GPUNUMA: -1})
	}
	for _, l := range [][3]int{{0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {0, 4, 2}, {1, 2, 2}, {1, 3, 1}, {1, 5, 2}, {2, 3, 2}, {2, 6, 1}, {3, 7, 1},
		{4, 5, 1}, {4, 6, 1}, {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2}} {
		k.NVLinks = append(k.NVLinks, NVLink{A: l[0], B: l[1], Count: l[2]})
	}
	return k
}

// pcieBox builds n GPUs without NVLink, two below each switch, half on each socket.
func pcieBox(model string, n int) NodeClass {
	k := NodeClass{Name: model, GPUPaths: newMatrix(n, n), NICPaths: newMatrix(n, 1), Sockets: 2,
		NICs: []NIC{{Name: "NIC0", Device: "mlx5_0", Rate: units.Gbps(200), Rail: 0}}}
	for g := range n {
		k.GPUs = append(k.GPUs, GPU{Index: g, Model: model, NUMA: g * 2 / n, GPUNUMA: -1})
		k.NICPaths[g][0] = PathSYS
		if g*2/n == 0 {
			k.NICPaths[g][0] = PathNODE
		}
		for o := range n {
			switch {
			case o/2 == g/2:
				k.GPUPaths[g][o] = PathPIX
			case o*2/n == g*2/n:
				k.GPUPaths[g][o] = PathNODE
			default:
				k.GPUPaths[g][o] = PathSYS
			}
		}
	}
	return k
}

// cluster makes n nodes "node0".. of one class and finishes.
func cluster(t testing.TB, k NodeClass, n int, edit ...func(*Cluster)) *Cluster {
	t.Helper()
	c := &Cluster{Name: "test", Classes: []NodeClass{k}}
	for i := range n {
		c.Nodes = append(c.Nodes, Node{Name: "node" + itoa(i)})
	}
	for _, e := range edit {
		e(c)
	}
	if err := c.Finish(catalog(t)); err != nil {
		t.Fatal(err)
	}
	return c
}

func itoa(i int) string {
	if i < 10 {
		return string(rune('0' + i))
	}
	return itoa(i/10) + itoa(i%10)
}

func ids(from, step, n int) []GPUID {
	g := make([]GPUID, n)
	for i := range g {
		g[i] = GPUID(from + i*step)
	}
	return g
}
