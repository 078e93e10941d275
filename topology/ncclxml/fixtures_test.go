package ncclxml

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"rankmap/topology"
)

func fixture(t *testing.T, file string) *Result {
	t.Helper()
	data, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	if Sniff(data) != Kind {
		t.Errorf("%s is not recognised", file)
	}
	res, err := Read(bytes.NewReader(data), file)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// TestHandmadeFixture reads a cloud vendor's kind of file.
func TestHandmadeFixture(t *testing.T) {
	res := fixture(t, "cloud-handmade.xml")
	compare(t, res, want{gpus: 4, nics: 2, numa: "1 1 0 0", wiring: topology.NVLinkUnknown, path: topology.PathPHB,
		near: "0102:00:00.0|0102:00:00.0|0101:00:00.0|0101:00:00.0", warn: []string{"cloud-handmade.xml:6: NVLink is not stated"}})
	c := res.Hosts[0].Class
	if c.GPUs[0].PCI != "0000000a:00:00.0" || c.NICPaths[0][0] != topology.PathPIX || c.GPUs[2].PCIe.Gen != 3 || c.GPUs[0].CPUAffinity != "16-31" {
		t.Errorf("GPUs %+v", c.GPUs)
	}
	if c.NICs[0].LinkLayer != "InfiniBand" || c.NICs[1].LinkLayer != "Ethernet" || c.NICs[1].Name != "NIC1" || c.NICs[1].Device != "" {
		t.Errorf("NICs %+v", c.NICs)
	}
	if c.GPUPaths[0][2] != topology.PathSYS || c.Virtual || res.Dump {
		t.Errorf("paths %v, virtual %v, dump %v", c.GPUPaths, c.Virtual, res.Dump)
	}
	if d := res.Hosts[0].Devices[0]; d.Kind != "GPU" || d.Bandwidth.GBps() != 24 || res.Hosts[0].CPUs[0].Socket.GBps() != 16 {
		t.Errorf("device %+v, CPUs %+v", d, res.Hosts[0].CPUs)
	}
}

// TestOddDumpFixture reads a dump with a broken bridge link, GPUs out of order, text between elements, virtual nets
// under each CPU and a slot at half width.
func TestOddDumpFixture(t *testing.T) {
	res := fixture(t, "dump-odd.xml")
	c := res.Hosts[0].Class
	if len(res.Hosts) != 1 || res.Hosts[0].Hash != "0xabc" {
		t.Fatalf("hosts %+v", res.Hosts)
	}
	var dev []string
	for _, g := range c.GPUs {
		dev = append(dev, g.PCI[9:11])
	}
	if s := strings.Join(dev, " "); s != "65 17 b1" || c.GPUs[0].Index != 0 || c.GPUs[1].Index != 2 || c.GPUs[2].Index != 3 {
		t.Errorf("GPUs %s, want the order of dev 0, 2, 3", s)
	}
	if len(c.NVLinks) != 1 || c.NVLinks[0] != (topology.NVLink{A: 0, B: 1, Count: 11, Down: 1}) || c.Wiring != topology.NVLinkDirect || c.GPUs[0].NVLinksUp != 11 || c.GPUs[2].NVLinksUp != 0 {
		t.Errorf("links %+v, wiring %v", c.NVLinks, c.Wiring)
	}
	if len(c.NICs) != 2 || c.NICs[0].Device != "mlx5_4" || c.NICs[0].PCI != c.NICs[1].PCI || c.NICs[1].Index != 5 {
		t.Errorf("NICs %+v", c.NICs)
	}
	if v := res.Hosts[0].VirtualNets; len(v) != 1 || v[0] != "cali0" {
		t.Errorf("virtual nets %v", v)
	}
	if c.GPUs[2].PCIe.Width != 8 || c.GPUPaths[0][1] != topology.PathNV || c.PCIePaths[0][1] != topology.PathPHB || c.GPUPaths[0][2] != topology.PathSYS {
		t.Errorf("paths %v, PCIe %v", c.GPUPaths, c.PCIePaths)
	}
	all := strings.Join(res.Warnings, "\n")
	for _, w := range []string{"dump-odd.xml:4: text between elements", "asymmetric, 12 links one way and 11 the other", "1 virtual nets left out (cali0)", "for Gen3, it knows"} {
		if !strings.Contains(all, w) {
			t.Errorf("no warning says %q in\n%s", w, all)
		}
	}
}
