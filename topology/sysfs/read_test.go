package sysfs

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"rankmap/topology"
)

func fixture(t testing.TB, name string) *Archive {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name + ".sysfs")
	if err != nil {
		t.Fatal(err)
	}
	a, err := ParseArchive(data, name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// node is what the driver would list: the GPUs of the tree by address.
func node(res *Result) *topology.NodeClass {
	n := &topology.NodeClass{}
	for i, d := range res.GPUs() {
		n.GPUs = append(n.GPUs, topology.GPU{Index: i, PCI: d.PCI, NUMA: -1, GPUNUMA: -1})
	}
	return n
}

// picture sums a node up: a row for each GPU with NUMA node, lanes, distances to GPUs and NICs; a row for each NIC.
func picture(n *topology.NodeClass) string {
	var b strings.Builder
	for g := range n.GPUs {
		u := &n.GPUs[g]
		fmt.Fprintf(&b, "GPU%d numa %d gen%d x%d/%d |", g, u.NUMA, u.PCIe.Gen, u.PCIe.Width, u.PCIe.MaxWidth)
		for o := range n.GPUs {
			if o == g {
				b.WriteString(" X")
			} else {
				b.WriteString(" " + n.GPUPaths[g][o].String())
			}
		}
		b.WriteString(" |")
		for x := range n.NICs {
			b.WriteString(" " + n.NICPaths[g][x].String())
		}
		b.WriteByte('\n')
	}
	for i := range n.NICs {
		x := &n.NICs[i]
		fmt.Fprintf(&b, "%s %s %v %s %s numa %d rail %d %s\n", x.Name, x.Device, x.Rate, x.State, x.LinkLayer, x.NUMA, x.Rail, x.Bad)
	}
	fmt.Fprintf(&b, "sockets %d virtual %v\n", n.Sockets, n.Virtual)
	return b.String()
}

// TestMachines reads each fixture; the drawings are the expected topologies.
func TestMachines(t *testing.T) {
	for _, c := range []struct {
		file string
		want string
		warn string // one of the warnings or of the unreadable adapters
	}{
		{"dual-socket", `GPU0 numa 0 gen5 x16/16 | X PIX NODE NODE SYS SYS SYS SYS | PIX PIX NODE NODE SYS SYS SYS SYS NODE NODE
GPU1 numa 0 gen5 x16/16 | PIX X NODE NODE SYS SYS SYS SYS | PIX PIX NODE NODE SYS SYS SYS SYS NODE NODE
GPU2 numa 0 gen5 x16/16 | NODE NODE X PIX SYS SYS SYS SYS | NODE NODE PIX PIX SYS SYS SYS SYS NODE NODE
GPU3 numa 0 gen5 x16/16 | NODE NODE PIX X SYS SYS SYS SYS | NODE NODE PIX PIX SYS SYS SYS SYS NODE NODE
GPU4 numa 1 gen5 x16/16 | SYS SYS SYS SYS X PIX NODE NODE | SYS SYS SYS SYS PIX PIX NODE NODE SYS SYS
GPU5 numa 1 gen5 x8/16 | SYS SYS SYS SYS PIX X NODE NODE | SYS SYS SYS SYS PIX PIX NODE NODE SYS SYS
GPU6 numa 1 gen5 x16/16 | SYS SYS SYS SYS NODE NODE X PIX | SYS SYS SYS SYS NODE NODE PIX PXB SYS SYS
GPU7 numa 1 gen5 x16/16 | SYS SYS SYS SYS NODE NODE PIX X | SYS SYS SYS SYS NODE NODE PIX PXB SYS SYS
NIC0 mlx5_0 50 GB/s ACTIVE InfiniBand numa 0 rail 0 
NIC1 mlx5_1 50 GB/s ACTIVE InfiniBand numa 0 rail 1 
NIC2 mlx5_2 50 GB/s ACTIVE InfiniBand numa 0 rail 2 
NIC3 mlx5_3 50 GB/s ACTIVE InfiniBand numa 0 rail 3 
NIC4 mlx5_4 50 GB/s ACTIVE InfiniBand numa 1 rail 4 
NIC5 mlx5_5 50 GB/s ACTIVE InfiniBand numa 1 rail 5 
NIC6 mlx5_6 50 GB/s ACTIVE InfiniBand numa 1 rail 6 
NIC7 mlx5_7 50 GB/s ACTIVE InfiniBand numa 1 rail 7 
NIC8 mlx5_8 12.5 GB/s ACTIVE Ethernet numa 0 rail -1 
NIC9 mlx5_8:2 5 GB/s DOWN Ethernet numa 0 rail -1 
sockets 2 virtual false
`, ""},
		{"vm-flat", `GPU0 numa 0 gen0 x0/0 | X ? | ?
GPU1 numa 0 gen0 x0/0 | ? X | ?
NIC0 mlx5_0 25 GB/s ACTIVE InfiniBand numa 0 rail -1 
sockets 1 virtual true
`, ""},
		{"no-infiniband", `GPU0 numa 0 gen1 x16/16 | X PHB |
GPU1 numa 0 gen1 x16/16 | PHB X |
sockets 1 virtual false
`, "no class infiniband"},
		{"broken-adapter", `GPU0 numa 0 gen4 x16/16 | X | PIX PIX PIX ?
NIC0 mlx5_0 0 GB/s  InfiniBand numa 0 rail 0 its state cannot be read
NIC1 mlx5_1 1.25 GB/s DOWN InfiniBand numa 0 rail 1 
NIC2 mlx5_2 25 GB/s ACTIVE InfiniBand numa 0 rail 2 
NIC3 mlx5_3 0 GB/s   numa -1 rail -1 no port can be read: input/output error
sockets 2 virtual false
`, "mlx5_0: cannot read state (input/output error), rate (resource temporarily unavailable)"},
		{"domain32", `GPU0 numa 0 gen0 x0/0 | X ? ? ? | ? ?
GPU1 numa 0 gen0 x0/0 | ? X ? ? | ? ?
GPU2 numa 1 gen0 x0/0 | ? ? X ? | ? ?
GPU3 numa 1 gen0 x0/0 | ? ? ? X | ? ?
NIC0 mlx5_ib0 25 GB/s ACTIVE InfiniBand numa 0 rail -1 
NIC1 mlx5_ib1 25 GB/s ACTIVE InfiniBand numa 1 rail -1 
sockets 0 virtual true
`, ""},
	} {
		t.Run(c.file, func(t *testing.T) {
			res := Read(fixture(t, c.file))
			n := node(res)
			if d := res.Apply(n); len(d) > 0 {
				t.Errorf("differences: %v", d)
			}
			if got := picture(n); got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
			if all := strings.Join(append(res.Warnings, res.Unreadable...), "\n"); !strings.Contains(all, c.warn) {
				t.Errorf("no warning says %q in\n%s", c.warn, all)
			}
			cl := &topology.Cluster{Classes: []topology.NodeClass{*n}, Nodes: []topology.Node{{Name: "n0"}}}
			if err := cl.Finish(nil); err != nil {
				t.Errorf("no cluster can be made of it: %v", err)
			}
		})
	}
}

// TestArchiveRoundTrip reads a fixture through a recorder: the record gives the same topology and, written and read
// again, the same bytes.
func TestArchiveRoundTrip(t *testing.T) {
	for _, file := range []string{"dual-socket", "vm-flat", "no-infiniband", "broken-adapter", "domain32"} {
		tree, rec := Record(fixture(t, file))
		live := Read(tree)
		n := node(live)
		live.Apply(n)
		again, err := ParseArchive(rec.Text(), file)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if string(again.Text()) != string(rec.Text()) {
			t.Errorf("%s: the text form does not read back the same", file)
		}
		res := Read(again)
		m := node(res)
		res.Apply(m)
		if picture(m) != picture(n) || fmt.Sprint(res.Facts, res.Warnings, res.Unreadable) != fmt.Sprint(live.Facts, live.Warnings, live.Unreadable) {
			t.Errorf("%s: replay differs from the first reading", file)
		}
	}
}

func TestDriverAndTreeDisagree(t *testing.T) {
	res := Read(fixture(t, "dual-socket"))
	n := node(res)
	n.GPUs[2].NUMA = 1
	n.GPUPaths = matrix(8, 8)
	n.GPUPaths[0][1], n.GPUPaths[1][0] = topology.PathSYS, topology.PathSYS
	n.GPUs[7].PCI = "00000000:ff:00.0"
	all := strings.Join(res.Apply(n), "\n")
	if !strings.Contains(all, "GPU 2 is on NUMA node 0 by sysfs, 1 by the driver") || !strings.Contains(all, "GPU 0 and 1 are PIX apart by sysfs, SYS by the driver") {
		t.Errorf("differences:\n%s", all)
	}
	if !strings.Contains(strings.Join(res.Warnings, "\n"), "GPU 7 at 00000000:ff:00.0 is not on the PCI tree") {
		t.Errorf("warnings %v", res.Warnings)
	}
}

func TestACSNeedsRoot(t *testing.T) {
	config := make([]byte, 4096)
	copy(config[0x100:], []byte{0x03, 0x00, 0x01, 0x14})                         // serial number, next at 0x140
	copy(config[0x104:], []byte{1, 2, 3, 4, 5, 6, 7, 8})                         // which no record may hold
	copy(config[0x140:], []byte{0x0d, 0x00, 0x01, 0x00, 0x1f, 0x00, 0x1d, 0x00}) // ACS, redirecting
	if control, found, readable := acs(config); !found || !readable || control&acsRedirect == 0 {
		t.Errorf("control %#x, found %v, readable %v", control, found, readable)
	}
	if _, _, readable := acs(config[:64]); readable {
		t.Error("64 bytes say nothing about ACS")
	}
	if b := withoutSerial(config); b[0x104] != 0 || b[0x10b] != 0 || b[0x140] != 0x0d || config[0x104] != 1 {
		t.Error("the serial number is kept, or more than it was blanked")
	}
}

func TestDirOfALiveSystemNeverFails(t *testing.T) {
	res := Read(Dir("/sys"))
	res.Apply(node(res))
	if res := Read(Dir(t.TempDir())); len(res.NICs) != 0 || len(res.Warnings) == 0 {
		t.Errorf("an empty folder gives %d NICs and warnings %v", len(res.NICs), res.Warnings)
	}
}

func FuzzArchive(f *testing.F) {
	for _, file := range []string{"dual-socket", "vm-flat", "no-infiniband", "broken-adapter", "domain32"} {
		data, err := os.ReadFile("testdata/" + file + ".sysfs")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("rankmap sysfs 1\nfile a/b\n\tx\nlist a\nlink a/b\n\t../..\nhex c\n\tzz\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := ParseArchive(data, "fuzz")
		if err != nil {
			return
		}
		again, err := ParseArchive(a.Text(), "again")
		if err != nil {
			t.Fatalf("the text form does not read back: %v", err)
		}
		if string(again.Text()) != string(a.Text()) {
			t.Fatal("the text form changes when read again")
		}
		res := Read(a)
		n := node(res)
		res.Apply(n)
		if len(n.GPUs) == 0 || len(n.GPUs) > 64 {
			return
		}
		c := &topology.Cluster{Classes: []topology.NodeClass{*n}, Nodes: []topology.Node{{Name: "n"}}}
		c.Finish(nil)
	})
}
