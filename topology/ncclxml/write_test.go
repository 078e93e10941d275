package ncclxml

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rankmap/internal/testdata"
	"rankmap/internal/units"
	"rankmap/topology"
)

// same reads written bytes and compares all that the format can hold; AMD names are not written.
func same(t *testing.T, class *topology.NodeClass, data []byte, amd bool) {
	t.Helper()
	res, err := Read(bytes.NewReader(data), "written.xml")
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	got, want := res.Hosts[0].Class, *class
	if len(res.Hosts) != 1 {
		t.Errorf("%d hosts, want 1", len(res.Hosts))
	}
	want.GPUs = append([]topology.GPU(nil), want.GPUs...)
	want.Name = got.Name
	for i := range want.GPUs {
		w := &want.GPUs[i]
		w.Clique = "" // of the whole file, not of the host
		if w.NVLinksUp == 0 {
			got.GPUs[i].NVLinksUp = 0 // not stated by the class, implied by its pairs
		}
		if amd {
			w.Name, got.GPUs[i].Name = "", ""
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("differs after a round trip (-want +got):\n%s\n%s", d, data)
	}
	var again bytes.Buffer
	if err := Write(&again, &got, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if !amd && !bytes.Equal(again.Bytes(), data) {
		t.Errorf("the second write differs:\n%s\nfirst:\n%s", again.Bytes(), data)
	}
}

// hgx is an 8-GPU class with one NIC a GPU behind a switch, two NUMA nodes.
func hgx() *topology.NodeClass {
	c := &topology.NodeClass{Wiring: topology.NVLinkSwitched, CPUModel: "x86_64 GenuineIntel family 6 model 143"}
	c.Switches = []topology.Switch{
		{Name: "NVSwitch0", Kind: topology.NVSwitch, PCI: "00000000:07:00.0"}, {Name: "NVSwitch1", Kind: topology.NVSwitch, PCI: "00000000:08:00.0"},
		{Name: "NVSwitch2", Kind: topology.NVSwitch, PCI: "00000000:09:00.0"}, {Name: "NVSwitch3", Kind: topology.NVSwitch, PCI: "00000000:0a:00.0"}}
	bus := []string{"19", "3b", "4c", "5d", "9b", "bb", "cb", "db"}
	nic := []string{"1a", "3c", "4d", "5e", "9c", "bc", "cc", "dc"}
	for i := range 8 {
		cpus := []string{"0-31", "32-63"}[i/4]
		c.GPUs = append(c.GPUs, topology.GPU{Index: i, Name: "NVIDIA H100 80GB HBM3", Model: "h100_sxm", PCI: "00000000:" + bus[i] + ":00.0", NUMA: i / 4, GPUNUMA: -1,
			CPUAffinity: cpus, ComputeMajor: 9, PCIe: topology.PCIeLink{Gen: 5, Width: 16}})
		c.NICs = append(c.NICs, topology.NIC{Index: i, Name: "mlx5_" + string(rune('0'+i)), Device: "mlx5_" + string(rune('0'+i)), PCI: "00000000:" + nic[i] + ":00.0",
			NUMA: i / 4, Rate: units.Gbps(400), LinkLayer: "InfiniBand", GUID: "0x1" + bus[i], Rail: -1, PCIe: topology.PCIeLink{Gen: 5, Width: 16}})
	}
	c.GPUPaths, c.PCIePaths, c.NICPaths = matrix(8, 8), matrix(8, 8), matrix(8, 8)
	for i := range 8 {
		for j := range 8 {
			far := topology.PathSYS
			if i/4 == j/4 {
				far = topology.PathPHB
			}
			c.GPUPaths[i][j], c.PCIePaths[i][j], c.NICPaths[i][j] = topology.PathNV, far, far
			if i == j {
				c.GPUPaths[i][j], c.PCIePaths[i][j], c.NICPaths[i][j] = topology.PathSelf, topology.PathSelf, topology.PathPIX
			}
			if i < j {
				c.NVLinks = append(c.NVLinks, topology.NVLink{A: i, B: j, Count: 18})
			}
		}
	}
	return c
}

func TestWriteRoundTrip(t *testing.T) {
	degraded := hgx()
	for i := range degraded.NVLinks {
		if l := &degraded.NVLinks[i]; l.A == 2 || l.B == 2 {
			l.Count, l.Down = 16, 2
		}
	}
	unknown := hgx()
	unknown.Wiring, unknown.NVLinks, unknown.Switches = topology.NVLinkUnknown, nil, nil
	unknown.GPUPaths, unknown.PCIePaths = unknown.PCIePaths, nil
	none := hgx()
	none.Wiring, none.NVLinks, none.Switches = topology.NVLinkNone, nil, nil
	none.GPUPaths, none.PCIePaths = none.PCIePaths, nil
	plane := hgx()
	for i := range plane.NICs {
		plane.NICs[i].Rail = i
	}
	for name, c := range map[string]*topology.NodeClass{"HGX": hgx(), "one GPU with two links down": degraded, "wiring unknown": unknown, "no NVLink": none, "rails": plane} {
		t.Run(name, func(t *testing.T) {
			var buf bytes.Buffer
			if err := Write(&buf, c, WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			same(t, c, buf.Bytes(), false)
		})
	}
}

func TestWriteRefuses(t *testing.T) {
	for _, tc := range []struct {
		name, want string
		edit       func(*topology.NodeClass)
	}{
		{"a GPU without PCI id", "gpu 3: no PCI id", func(c *topology.NodeClass) { c.GPUs[3].PCI = "" }},
		{"two GPUs with one PCI id", "gpu 1: PCI id 00000000:19:00.0 is gpu 0's", func(c *topology.NodeClass) { c.GPUs[1].PCI = c.GPUs[0].PCI }},
		{"a NIC on a GPU's PCI id", "nic 0: PCI id", func(c *topology.NodeClass) { c.NICs[0].PCI = c.GPUs[0].PCI }},
		{"distances that no tree has", "fit no PCIe tree", func(c *topology.NodeClass) { c.NICPaths[0][1] = topology.PathPIX }},
		{"a quote in a name", "no escapes", func(c *topology.NodeClass) { c.NICs[0].Device = `a"b` }},
		{"a long name", "NCCL's limit", func(c *topology.NodeClass) { c.NICs[0].Device = strings.Repeat("n", 256) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := hgx()
			tc.edit(c)
			var buf bytes.Buffer
			err := Write(&buf, c, WriteOptions{})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v, want one with %q", err, tc.want)
			}
			if buf.Len() > 0 {
				t.Error("something was written all the same")
			}
		})
	}
}

func TestWriteIsPlain(t *testing.T) {
	var buf bytes.Buffer
	if err := Write(&buf, hgx(), WriteOptions{HostHash: "0x1234", Comment: []string{"made -- by\nhand"}}); err != nil {
		t.Fatal(err)
	}
	s := buf.String()
	if !strings.HasPrefix(s, "<!-- made - - by hand -->\n<system version=\"1\">\n  <cpu host_hash=\"0x1234\" numaid=\"0\" affinity=\"ffffffff\" arch=\"x86_64\"") {
		t.Errorf("unexpected head:\n%.300s", s)
	}
	if strings.ContainsAny(s, "\t&'") {
		t.Error("NCCL's parser would stumble")
	}
}

func TestExampleFileRoundTrip(t *testing.T) {
	data, err := os.ReadFile("testdata/h200x2-vm.xml")
	if err != nil {
		t.Fatal(err)
	}
	res, err := Read(bytes.NewReader(data), "h200x2-vm.xml")
	if err != nil {
		t.Fatal(err)
	}
	c := &res.Hosts[0].Class
	if !c.Virtual || len(c.NVLinks) != 1 || c.NVLinks[0].Count != 18 || c.Wiring != topology.NVLinkSwitched {
		t.Errorf("virtual %v, links %v, wiring %d; want 18 links over a hidden switch", c.Virtual, c.NVLinks, c.Wiring)
	}
	if c.PCIePaths[0][1] != topology.PathUnknown {
		t.Errorf("flat PCI tree of a virtual machine gives path %d, want unknown", c.PCIePaths[0][1])
	}
	if c.GPUs[0].NUMA != -1 || c.GPUs[0].Model != "h200_sxm" || c.GPUs[0].PCIe != (topology.PCIeLink{Gen: 5}) {
		t.Errorf("GPU0 %+v", c.GPUs[0])
	}
	var buf bytes.Buffer
	if err := Write(&buf, c, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	same(t, c, buf.Bytes(), false)
	if _, body, _ := bytes.Cut(data, []byte("\n")); !bytes.Equal(body, buf.Bytes()) {
		t.Errorf("the example is not what Write writes:\n%s", buf.Bytes())
	}
}

// TestExampleIsTheMachine compares the example with NCCL's own dump of the machine.
func TestExampleIsTheMachine(t *testing.T) {
	var got [2]*Result
	for i, p := range []string{"testdata/h200x2-vm.xml", testdata.Dir(t, "measured", "h200-x2", "topo.xml")} {
		f, err := os.Open(p)
		if err != nil {
			t.Fatal(err)
		}
		got[i], err = Read(f, "t.xml")
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(got[1].Hosts[0].Class, got[0].Hosts[0].Class); d != "" {
		t.Errorf("NCCL's dump and the example differ (-dump +example):\n%s", d)
	}
}

// TestWhatIfFile reads a machine that was altered by hand: wiring unknown, one PCIe switch. NCCL 2.28.9 took it on two
// H200 and filled in the links from the driver (2026-11-30).
func TestWhatIfFile(t *testing.T) {
	data, err := os.ReadFile("testdata/h200x2-what-if-switch.xml")
	if err != nil {
		t.Fatal(err)
	}
	res, err := Read(bytes.NewReader(data), "t.xml")
	if err != nil {
		t.Fatal(err)
	}
	c := &res.Hosts[0].Class
	if c.Wiring != topology.NVLinkUnknown || c.GPUPaths[0][1] != topology.PathPIX || c.GPUs[0].CPUAffinity != "0-31" || c.GPUs[0].ComputeMajor != 9 {
		t.Errorf("class %+v", c)
	}
	var buf bytes.Buffer
	if err := Write(&buf, c, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	same(t, c, buf.Bytes(), false)
}
