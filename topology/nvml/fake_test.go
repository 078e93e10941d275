package nvml

import (
	"fmt"

	"rankmap/internal/units"
)

// fake is a library whose devices the test sets up. fail gives a question ("name 3", "linkState 0 17") an error.
type fake struct {
	devs []fakeGPU
	fail map[string]*Error
	// lostAfter makes a device answer "lost" from the nth question to it on; 0 = never.
	lostAfter map[int]int
	asked     map[int]int
	common    Ancestor
	p2p       P2PStatus
	noCount   bool // an old driver that cannot say how many links there are
}

type fakeGPU struct {
	name   string
	numa   int
	mig    bool
	clique Fabric
	bound  int    // links whose state can be asked
	up     []bool // by link
	peer   []string
	kind   RemoteType
	pcie   [4]int
	rate   units.Bandwidth
}

const hidden = "FFFFFFF:FF:FF.0"

// box makes n GPUs with a count of links each. remote is "switch", "hidden", or "mesh" (direct, the links shared out
// evenly over the others).
func box(n, links int, remote string) *fake {
	f := &fake{fail: map[string]*Error{}, lostAfter: map[int]int{}, asked: map[int]int{}, common: AncestorSystem}
	for i := range n {
		g := fakeGPU{name: "NVIDIA H100 80GB HBM3", numa: i * 2 / n, bound: links, kind: RemoteSwitch, pcie: [4]int{5, 5, 16, 16}, rate: 26.562e9,
			clique: Fabric{ClusterUUID: "00000000-0000-0000-0000-000000000000", State: FabricCompleted}}
		for l := range links {
			g.up = append(g.up, true)
			switch remote {
			case "switch":
				g.peer = append(g.peer, fmt.Sprintf("00000000:%02X:00.0", 0xc0+l%4))
			case "hidden":
				g.kind = RemoteUnknown
				g.peer = append(g.peer, hidden)
			case "mesh":
				g.kind = RemoteGPU
				g.peer = append(g.peer, f.address((i+1+l%(n-1))%n))
			}
		}
		f.devs = append(f.devs, g)
	}
	return f
}

func (f *fake) address(i int) string { return fmt.Sprintf("00000000:%02X:00.0", 0x10+i) }

func (f *fake) err(dev int, question string, args ...any) error {
	key := fmt.Sprintf("%s %d", question, dev)
	for _, a := range args {
		key += fmt.Sprintf(" %v", a)
	}
	if e := f.fail[key]; e != nil {
		return e
	}
	if e := f.fail[question]; e != nil {
		return e
	}
	f.asked[dev]++
	if n := f.lostAfter[dev]; n > 0 && f.asked[dev] > n {
		return &Error{CodeLost, "gpu is lost"}
	}
	return nil
}

func (f *fake) DriverVersion() (string, error)  { return "580.95.05", f.err(-1, "driver") }
func (f *fake) LibraryVersion() (string, error) { return "13.580.95.05", f.err(-1, "library") }
func (f *fake) Count() (int, error)             { return len(f.devs), f.err(-1, "count") }
func (f *fake) Name(d int) (string, error)      { return f.devs[d].name, f.err(d, "name") }
func (f *fake) UUID(d int) (string, error) {
	return fmt.Sprintf("GPU-%08d-0000-4000-8000-000000000000", d+1), f.err(d, "uuid")
}
func (f *fake) PCI(d int) (string, error)           { return f.address(d), f.err(d, "pci") }
func (f *fake) Memory(d int) (units.Bytes, error)   { return 80 << 30, f.err(d, "memory") }
func (f *fake) Compute(d int) (Compute, error)      { return Compute{9, 0}, f.err(d, "compute") }
func (f *fake) MIG(d int) (bool, error)             { return f.devs[d].mig, f.err(d, "mig") }
func (f *fake) NUMA(d int) (int, error)             { return f.devs[d].numa, f.err(d, "numa") }
func (f *fake) GPUNUMA(d int) (int, error)          { return -1, &Error{CodeNotSupported, "not supported"} }
func (f *fake) CPUs(d int) (string, error)          { return "0-3", f.err(d, "cpus") }
func (f *fake) Fabric(d int) (Fabric, error)        { return f.devs[d].clique, f.err(d, "fabric") }
func (f *fake) Ancestor(a, b int) (Ancestor, error) { return f.common, f.err(a, "ancestor", b) }
func (f *fake) Close() error                        { return nil }

func (f *fake) PCIe(d int, what PCIeField) (int, error) {
	return f.devs[d].pcie[map[PCIeField]int{PCIeGen: 0, PCIeMaxGen: 1, PCIeWidth: 2, PCIeMaxWidth: 3}[what]], f.err(d, "pcie", what)
}

func (f *fake) LinkCount(d int) (int, error) {
	if f.noCount {
		return 0, &Error{CodeNotSupported, "not supported"}
	}
	return len(f.devs[d].up), f.err(d, "linkCount")
}

func (f *fake) LinkState(d, l int) (bool, error) {
	g := &f.devs[d]
	if l >= g.bound {
		return false, &Error{CodeInvalidArgument, "invalid argument"}
	}
	return l < len(g.up) && g.up[l], f.err(d, "linkState", l)
}

func (f *fake) LinkVersion(d, l int) (int, error) { return 6, f.err(d, "linkVersion", l) }
func (f *fake) LinkRemotePCI(d, l int) (string, error) {
	return f.devs[d].peer[l], f.err(d, "linkRemotePCI", l)
}
func (f *fake) LinkRemoteType(d, l int) (RemoteType, error) {
	return f.devs[d].kind, f.err(d, "linkRemoteType", l)
}
func (f *fake) LinkSpeed(d, l int) (units.Bandwidth, error) {
	return f.devs[d].rate, f.err(d, "linkSpeed", l)
}

func (f *fake) P2P(a, b int, what P2PKind) (P2PStatus, error) { return f.p2p, f.err(a, "p2p", what, b) }
