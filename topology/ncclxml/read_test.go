package ncclxml

import (
	"fmt"
	"strings"
	"testing"

	"rankmap/internal/units"
	"rankmap/topology"
)

func read(t *testing.T, doc string) *Result {
	t.Helper()
	res, err := Read(strings.NewReader(doc), "t.xml")
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// cpuDoc wraps the inside of one cpu element.
func cpuDoc(inside string) string {
	return "<system version=\"1\">\n<cpu numaid=\"0\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\">\n" + inside + "\n</cpu>\n</system>\n"
}

const (
	gpuA = `<pci busid="0000:17:00.0" class="0x030200" vendor="0x10de" device="0x2330" link_speed="32.0 GT/s PCIe" link_width="16"><gpu dev="0" sm="90" rank="0" gdr="1">%s</gpu></pci>`
	gpuB = `<pci busid="0000:3D:00.0" class="0x030200" vendor="0x10de" device="0x2330" link_speed="32.0 GT/s PCIe" link_width="16"><gpu dev="1" sm="90" rank="1" gdr="1">%s</gpu></pci>`
)

func two(a, b string) string { return cpuDoc(fmt.Sprintf(gpuA, a) + "\n" + fmt.Sprintf(gpuB, b)) }

func TestRefusals(t *testing.T) {
	deep := strings.Repeat("<pci busid=\"0000:01:00.0\">\n", 200000)
	wide := strings.Repeat("<x/>", 641)
	long := strings.Repeat("v", 256)
	attrs := ""
	for i := range 17 {
		attrs += fmt.Sprintf(" a%d=\"\"", i)
	}
	for _, tc := range []struct{ name, doc, want string }{
		{"empty file", " \n", "t.xml:1: empty file"},
		{"not XML", "GPU0\tGPU1\n", "t.xml:1: text before the root"},
		{"document type", "<!DOCTYPE system [<!ENTITY x SYSTEM \"file:///etc/passwd\">]>\n<system version=\"1\"/>", "DOCTYPE"},
		{"hwloc", "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology/>", "t.xml:2: <!DOCTYPE ...> is refused: no document types or entities (an hwloc file"},
		{"nvidia-smi -x", "<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM \"x.dtd\">\n", "(the output of nvidia-smi -q -x"},
		{"entity", "<system version=\"1\"><cpu numaid=\"&x;\"/></system>", "not well-formed"},
		{"processing instruction", "<?php echo ?><system version=\"1\"/>", "<?php?> is refused"},
		{"graph file", "<graphs version=\"1\">\n<graph id=\"0\"/></graphs>", "t.xml:1: root is <graphs>: an NCCL graph file"},
		{"fragment", "\n<pci busid=\"0000:01:00.0\"/>", "t.xml:2: root is <pci>: a fragment"},
		{"several roots", "<system version=\"1\"/>\n<system version=\"1\"/>", "t.xml:2: <system> after the end"},
		{"trailing text", "<system version=\"1\"/>\njunk", "t.xml:2: data after the end"},
		{"cut off", "<system version=\"1\">\n<cpu numaid=\"0\">\n", "<cpu> of line 2 is never closed"},
		{"crossed tags", "<system version=\"1\">\n<cpu>\n</system>", "t.xml:3: not well-formed: </system> where <cpu>"},
		{"bare value", "<system version=1></system>", "not well-formed"},
		{"attribute twice", "<system version=\"1\">\n<cpu numaid=\"0\" numaid=\"1\"/></system>", "t.xml:2: <cpu> states attribute numaid twice: \"0\" and \"1\""},
		{"long value", "<system version=\"1\" name=\"" + long + "\"/>", "more than 255 bytes"},
		{"many attributes", "<system version=\"1\"" + attrs + "/>", "NCCL's limit is 16"},
		{"many children", "<system version=\"1\">" + wide + "</system>", "more than 640 children"},
		{"deep", "<system version=\"1\">" + deep, "nested deeper than 32"},
		{"no version", "<system/>", "no version"},
		{"strange version", "<system version=\"7\"><cpu numaid=\"0\"/></system>", "version \"7\""},
		{"no cpu", "<system version=\"1\"/>", "no <cpu>"},
		{"other XML", "<nvidia_smi_log/>", "nvidia-smi -q -x"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Read(strings.NewReader(tc.doc), "t.xml")
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestAllErrorsAtOnce(t *testing.T) {
	doc := "<system version=\"1\">\n<cpu>\n<pci busid=\"17:00.0\" class=\"0x030200\"/>\n<pci class=\"0x0207\"/>\n" +
		"<pci busid=\"0000:18:00.0\" class=\"0x030200\"><gpu dev=\"zero\" sm=\"90\" rank=\"0\">\n<nvlink target=\"here\" count=\"2\" tclass=\"0x0302\"/>\n<nvlink target=\"0000:19:00.0\" count=\"-1\" tclass=\"0x0302\"/></gpu></pci>\n</cpu></system>"
	_, err := Read(strings.NewReader(doc), "t.xml")
	for _, want := range []string{"t.xml:2: <cpu> has no numaid", "t.xml:3: busid \"17:00.0\"", "t.xml:4: <pci> has no busid", "t.xml:5: <gpu> dev=\"zero\"", "t.xml:6: <nvlink> target \"here\"", "t.xml:7: <nvlink> count=-1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no error says %q in\n%v", want, err)
		}
	}
}

func TestLinks(t *testing.T) {
	link := func(target string, n int, class string) string {
		return fmt.Sprintf("<nvlink target=\"%s\" count=\"%d\" tclass=\"%s\"/>", target, n, class)
	}
	for _, tc := range []struct {
		name, doc   string
		wiring      topology.NVLinkKind
		count, down int
		warn        string
	}{
		{"a bridge", two(link("0000:3d:00.0", 12, "0x030200"), link("0000:17:00.0", 12, "0x030200")), topology.NVLinkDirect, 12, 0, ""},
		{"one link fewer one way", two(link("0000:3d:00.0", 18, "0x030200"), link("0000:17:00.0", 17, "0x030200")), topology.NVLinkDirect, 17, 1, "asymmetric, 18 links one way and 17"},
		{"one way only", two(link("0000:3d:00.0", 4, "0x030200"), ""), topology.NVLinkDirect, 0, 4, "asymmetric, 4 links one way and 0"},
		{"two switches", two(link("0000:c0:00.0", 9, "0x068000")+link("0000:c1:00.0", 9, "0x068000"), link("0000:c0:00.0", 9, "0x068000")+link("0000:c1:00.0", 7, "0x068000")), topology.NVLinkSwitched, 16, 2, "GPU1 has 16 links to the switches where others have 18"},
		{"a hidden switch", two(link("fffffff:ffff:ff", 18, "0x068000"), link("fffffff:ff:ff.0", 18, "0x068000")), topology.NVLinkSwitched, 18, 0, ""},
		{"itself", two(link("0000:17:00.0", 12, "0x030200"), link("0000:3d:00.0", 12, "0x030200")), topology.NVLinkUnknown, -1, 0, "GPU1: 12 links whose target is the GPU itself"},
		{"a GPU that is not there", two(link("0000:99:00.0", 4, "0x030200"), ""), topology.NVLinkNone, -1, 0, "4 links to 0000:99:00.0, which is no GPU of this file"},
		{"POWER's CPU", two(link("0006:00:00.0", 3, "0x068001"), link("0006:00:00.0", 3, "0x068001")), topology.NVLinkNone, -1, 0, ""},
		{"none", two("", ""), topology.NVLinkNone, -1, 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			res := read(t, tc.doc)
			c := res.Hosts[0].Class
			if c.Wiring != tc.wiring {
				t.Errorf("wiring %d, want %d", c.Wiring, tc.wiring)
			}
			count, down := -1, 0
			if len(c.NVLinks) > 0 {
				count, down = c.NVLinks[0].Count, c.NVLinks[0].Down
			}
			if count != tc.count || down != tc.down {
				t.Errorf("count %d, down %d; want %d, %d", count, down, tc.count, tc.down)
			}
			all := strings.Join(res.Warnings, "\n")
			if tc.warn == "" && all != "" || !strings.Contains(all, tc.warn) {
				t.Errorf("warnings %q, want %q", all, tc.warn)
			}
		})
	}
}

func TestWiringOfAMesh(t *testing.T) {
	links := func(pairs ...int) (out []topology.NVLink) {
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, topology.NVLink{A: pairs[i], B: pairs[i+1], Count: 2})
		}
		return out
	}
	for _, tc := range []struct {
		name  string
		gpus  int
		links []topology.NVLink
		want  topology.NVLinkKind
	}{
		{"four GPUs, all pairs", 4, links(0, 1, 0, 2, 0, 3, 1, 2, 1, 3, 2, 3), topology.NVLinkDirect},
		{"two bridged pairs", 4, links(0, 1, 2, 3), topology.NVLinkDirect},
		{"a ring of four", 4, links(0, 1, 1, 2, 2, 3, 0, 3), topology.NVLinkCubeMesh},
	} {
		if got := directWiring(tc.gpus, tc.links); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestSeveralHosts(t *testing.T) {
	host := func(hash string) string {
		s := "<cpu host_hash=\"" + hash + "\" numaid=\"0\" arch=\"arm64\">"
		for i := range 2 {
			s += fmt.Sprintf("<pci busid=\"000%d:01:00.0\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x2941\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><gpu dev=\"%d\" sm=\"100\" rank=\"%d\"><nvlink target=\"fffffff:ffff:ff\" count=\"18\" tclass=\"0x068000\"/><c2c bw=\"44712\" count=\"10\"/></gpu></pci>", i+8, i, i)
		}
		return s + "</cpu>"
	}
	res := read(t, "<system version=\"1\">"+host("0xaa")+host("0xbb")+"</system>")
	if len(res.Hosts) != 2 || res.Hosts[1].Hash != "0xbb" || res.Hosts[1].Name != "node1" {
		t.Fatalf("hosts %+v", res.Hosts)
	}
	for _, h := range res.Hosts {
		if len(h.Class.GPUs) != 2 || h.Clique == "" || h.Clique != res.Hosts[0].Clique || h.Class.GPUs[0].Clique != h.Clique {
			t.Errorf("%s: %d GPUs, clique %q", h.Name, len(h.Class.GPUs), h.Clique)
		}
		if h.Class.GPUs[0].PCI != "00000008:01:00.0" || h.Class.GPUs[0].Model != "gb200" || h.Class.GPUs[0].ComputeMajor != 10 {
			t.Errorf("GPU %+v", h.Class.GPUs[0])
		}
	}
	found := false
	for _, f := range res.Facts {
		found = found || strings.Contains(f.What, "C2C") && f.Value == "447.12 GB/s"
	}
	if !found {
		t.Error("no fact states C2C bandwidth")
	}
}

func TestPartitionsOfOneGPU(t *testing.T) {
	res := read(t, cpuDoc(`<pci busid="0002:81:00.0" class="0x030200" vendor="0x10de" device="0x307f" link_speed="64.0 GT/s PCIe" link_width="2">
<gpu dev="0" sm="107" mlopart="0" rank="0"><nvlink target="fffffff:ff:ff.0" count="36" tclass="0x068000"/></gpu>
<gpu dev="0" sm="107" mlopart="1" rank="1"><nvlink target="fffffff:ff:ff.0" count="36" tclass="0x068000"/></gpu></pci>`))
	c := res.Hosts[0].Class
	if len(c.GPUs) != 2 || c.GPUs[0].Index != 0 || c.GPUs[1].Index != 1 || c.GPUs[0].PCI != c.GPUs[1].PCI || c.GPUs[0].PCIe.Gen != 6 {
		t.Errorf("GPUs %+v", c.GPUs)
	}
	if len(res.Warnings) > 0 {
		t.Errorf("warnings %q", res.Warnings)
	}
}

func TestSeveralRanksOnOneGPU(t *testing.T) {
	res := read(t, cpuDoc(`<pci busid="0002:81:00.0" class="0x030200"><gpu dev="0" sm="90" rank="0"/><gpu dev="0" sm="90" rank="1"/></pci>`))
	if n := len(res.Hosts[0].Class.GPUs); n != 1 || len(res.Warnings) != 1 || !strings.Contains(res.Warnings[0], "several ranks on one GPU") {
		t.Errorf("%d GPUs, warnings %q", n, res.Warnings)
	}
}

// TestSwitchTrees checks distances as NCCL counts them.
func TestSwitchTrees(t *testing.T) {
	bridge := func(bus, ids, inside string) string {
		return "<pci busid=\"" + bus + "\" class=\"0x060400\" " + ids + " link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">" + inside + "</pci>"
	}
	gen4 := `vendor="0x1000" device="0xc010" subsystem_vendor="0x1000" subsystem_device="0xa096"`
	top5 := `vendor="0x1000" device="0xc030" subsystem_vendor="0x1000" subsystem_device="0x0072"`
	sub5 := `vendor="0x1000" device="0xc030" subsystem_vendor="0x1000" subsystem_device="0x1003"`
	other := `vendor="0x11f8" device="0x4000"`
	g := fmt.Sprintf(gpuA, "")
	n := `<pci busid="0000:19:00.0" class="0x020700"><nic><net name="mlx5_0" dev="0" speed="200000"/></nic></pci>`
	for _, tc := range []struct {
		name, inside string
		want         topology.PathKind
	}{
		{"one switch", bridge("0000:01:00.0", other, g+n), topology.PathPIX},
		{"below the CPU", g + n, topology.PathPHB},
		{"two levels of some switch", bridge("0000:01:00.0", other, bridge("0000:02:00.0", other, g)+n), topology.PathPXB},
		{"two levels of a Broadcom Gen4 switch", bridge("0000:01:00.0", gen4, bridge("0000:02:00.0", gen4, g)+bridge("0000:03:00.0", gen4, n)), topology.PathPIX},
		{"two levels of a Broadcom Gen5 switch", bridge("0000:01:00.0", top5, bridge("0000:02:00.0", sub5, g)+bridge("0000:03:00.0", sub5, n)), topology.PathPIX},
		{"two top levels of Broadcom Gen5", bridge("0000:01:00.0", top5, bridge("0000:02:00.0", top5, g)+n), topology.PathPXB},
		{"a Broadcom switch with another maker's subsystem", bridge("0000:01:00.0", gen4, bridge("0000:02:00.0", `vendor="0x1000" device="0xc010" subsystem_vendor="0x10de" subsystem_device="0x13b8"`, g)+n), topology.PathPXB},
		{"three levels of Broadcom Gen4", bridge("0000:01:00.0", gen4, bridge("0000:02:00.0", gen4, bridge("0000:04:00.0", gen4, g))+n), topology.PathPXB},
		{"two switches with a peer link", bridge("0000:01:00.0", gen4, `<pcilink target="0000:02:00.0"/>`+g) + bridge("0000:02:00.0", gen4, `<pcilink target="0000:01:00.0"/>`+n), topology.PathPXB},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := read(t, cpuDoc(tc.inside)).Hosts[0].Class
			if got := c.NICPaths[0][0]; got != tc.want {
				t.Errorf("path %d, want %d", got, tc.want)
			}
		})
	}
}

func TestNUMADistances(t *testing.T) {
	cpu := func(numa, inside string) string { return "<cpu numaid=\"" + numa + "\">" + inside + "</cpu>" }
	doc := func(a, b string) string {
		return "<system version=\"1\">" + cpu(a, fmt.Sprintf(gpuA, "")) + cpu(b, fmt.Sprintf(gpuB, "")) + "</system>"
	}
	for _, tc := range []struct {
		a, b string
		want topology.PathKind
	}{{"0", "1", topology.PathSYS}, {"0", "0", topology.PathNODE}} {
		if got := read(t, doc(tc.a, tc.b)).Hosts[0].Class.GPUPaths[0][1]; got != tc.want {
			t.Errorf("NUMA %s and %s: path %d, want %d", tc.a, tc.b, got, tc.want)
		}
	}
}

func TestNICs(t *testing.T) {
	res := read(t, cpuDoc(`<pci busid="0000:17:00.0" class="0x030200"><gpu dev="0" sm="90" rank="0"/></pci>
<pci busid="0000:19:00.0" class="0x020700" link_speed="16.0 GT/s" link_width="8"><nic>
<net name="mlx5_0" dev="4" speed="400000" port="1" guid="0x1" rail="2"/><net name="mlx5_9" dev="5" speed="100000" port="2" guid="0x1" net="0"/></nic></pci>
<pci busid="0000:1a:00.0" class="0x020000" link_speed="16 GT/s" link_width="16"><nic><net name="mlx5_1+mlx5_2" dev="1" speed="-1"/><gin name="mlx5_1+mlx5_2" dev="1"/></nic></pci>
<nic><net name="docker0" dev="7" speed="10000"/><net name="lo" dev="8"/><net name="eth0" dev="9" speed="25000"/></nic>`))
	c := res.Hosts[0].Class
	if len(c.NICs) != 3 {
		t.Fatalf("NICs %+v", c.NICs)
	}
	if n := c.NICs[0]; n.Device != "mlx5_1+mlx5_2" || n.Rate != 0 || n.LinkLayer != "Ethernet" || n.PCIe != (topology.PCIeLink{Gen: 4, Width: 16}) {
		t.Errorf("merged NIC %+v", n)
	}
	if n := c.NICs[1]; n.Device != "mlx5_0" || n.Rate != units.Gbps(400) || n.Rail != 2 || n.LinkLayer != "InfiniBand" || n.PCIe.Gen != 4 || n.PCI != "00000000:19:00.0" {
		t.Errorf("InfiniBand NIC %+v", n)
	}
	if n := c.NICs[2]; n.Device != "eth0" || n.PCI != "" || n.NUMA != -1 || c.NICPaths[0][2] != topology.PathUnknown {
		t.Errorf("NIC without PCI %+v", n)
	}
	all := strings.Join(res.Warnings, "\n")
	for _, w := range []string{"docker0, lo", "net speed -1", "NCCL takes link_speed \"16.0 GT/s\" for Gen3, it knows \"16.0 GT/s PCIe\"", "\"eth0\" has no PCI device"} {
		if !strings.Contains(all, w) {
			t.Errorf("no warning says %q in\n%s", w, all)
		}
	}
}

func TestNCCLLink(t *testing.T) {
	for _, tc := range []struct {
		speed string
		width int
		gen   int
		gbps  float64
	}{
		{"2.5 GT/s PCIe", 16, 1, 3}, {"5.0 GT/s PCIe", 16, 2, 6}, {"8 GT/s", 16, 3, 12}, {"16.0 GT/s PCIe", 16, 4, 24}, {"16 GT/s", 8, 4, 12},
		{"32.0 GT/s PCIe", 16, 5, 48}, {"64.0 GT/s PCIe", 16, 6, 96}, {"", 0, 3, 12}, {"16.0 GT/s", 16, 3, 12}, {"Unknown", 4, 3, 3}, {"64.0 GT/s PCIe", 2, 6, 12},
	} {
		l, bw := NCCLLink(tc.speed, tc.width)
		if l.Gen != tc.gen || bw.GBps() != tc.gbps {
			t.Errorf("%q x%d: Gen%d, %v; want Gen%d, %v GB/s", tc.speed, tc.width, l.Gen, bw, tc.gen, tc.gbps)
		}
	}
}

func TestAffinity(t *testing.T) {
	for _, tc := range []struct{ mask, want string }{
		{"00000000,00ffffff", "0-23"}, {"c0c0", "6-7,14-15"}, {"55555555", "0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30"},
		{"000000ff,ffff0000,00ffffff", "0-23,48-71"}, {"fff0000", "16-27"}, {"", ""}, {"0", ""}, {"ffffffff,ffffffff", "0-63"},
	} {
		got, ok := affinityRanges(tc.mask)
		if !ok || got != tc.want {
			t.Errorf("%q: %q, want %q", tc.mask, got, tc.want)
		}
		if back, _ := affinityRanges(affinityMask(got)); back != got {
			t.Errorf("%q: %q after a round trip", got, back)
		}
	}
	for _, bad := range []string{"xyz", "123456789", "ff,,ff", strings.Repeat("ff,", 300) + "ff"} {
		if _, ok := affinityRanges(bad); ok {
			t.Errorf("%.20q is taken for a mask", bad)
		}
	}
}

func TestSniff(t *testing.T) {
	for _, tc := range []struct{ head, want string }{
		{"<system version=\"1\">", Kind}, {"\n<system>", Kind}, {"\xef\xbb\xbf<?xml version=\"1.0\"?>\n<!-- x -->\n<system>", Kind}, {"<!--\nCopyright", Kind},
		{"<graphs version=\"1\">", Kind}, {"<pci busid=\"0\">", Kind}, {"<html>", ""}, {"GPU0 GPU1", ""}, {"", ""}, {"# comment", ""},
	} {
		if got := Sniff([]byte(tc.head)); got != tc.want {
			t.Errorf("%.30q: %q, want %q", tc.head, got, tc.want)
		}
	}
}

func TestFactsNameTheirLine(t *testing.T) {
	res := read(t, two(`<nvlink target="0000:3d:00.0" count="4" tclass="0x0302"/>`, `<nvlink target="0000:17:00.0" count="4" tclass="0x0302"/>`))
	got := map[string]string{}
	for _, f := range res.Facts {
		got[f.What] = f.Value + " " + f.Source
	}
	for what, want := range map[string]string{
		"node0/GPU1 PCI":                "00000000:3d:00.0 nccl-xml:t.xml:4",
		"node0/GPU0 NUMA":               "0 nccl-xml:t.xml:2",
		"node0/GPU0 NVLink":             "4 links to 0000:3d:00.0 nccl-xml:t.xml:3",
		"node0/GPU0 compute capability": "9.0 nccl-xml:t.xml:3",
		"node0/GPU0 PCIe":               "Gen5 x16 nccl-xml:t.xml:3",
	} {
		if got[what] != want {
			t.Errorf("%s: %q, want %q", what, got[what], want)
		}
	}
}

func TestReadIsDeterministic(t *testing.T) {
	doc := two(`<nvlink target="0000:c0:00.0" count="9" tclass="0x068000"/><nvlink target="0000:c1:00.0" count="9" tclass="0x068000"/>`, "")
	first := fmt.Sprintf("%+v", read(t, doc))
	for range 20 {
		if got := fmt.Sprintf("%+v", read(t, doc)); got != first {
			t.Fatalf("two readings differ:\n%s\n%s", first, got)
		}
	}
}
