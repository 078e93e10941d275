package source

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"rankmap/topology"
	"rankmap/topology/capture"
)

// matrix is topo -m of n GPUs with one NIC each, joined by NVLink.
func matrix(n int, cell string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "\tGPU%d", i)
	}
	for i := range n {
		fmt.Fprintf(&b, "\tNIC%d", i)
	}
	b.WriteString("\tCPU Affinity\tNUMA Affinity\n")
	for i := range 2 * n {
		if i < n {
			fmt.Fprintf(&b, "GPU%d", i)
		} else {
			fmt.Fprintf(&b, "NIC%d", i-n)
		}
		for j := range 2 * n {
			switch {
			case i == j:
				b.WriteString("\t X ")
			case i < n && j < n:
				b.WriteString("\t" + cell)
			case i%n == j%n:
				b.WriteString("\tPIX")
			default:
				b.WriteString("\tNODE")
			}
		}
		if i < n {
			b.WriteString("\t0-7\t0")
		} else {
			b.WriteString("\t\t")
		}
		b.WriteByte('\n')
	}
	b.WriteString("\nNIC Legend:\n\n")
	for i := range n {
		fmt.Fprintf(&b, "  NIC%d: mlx5_%d\n", i, i)
	}
	return b.String()
}

func linkStatus(n, links int, inactive map[int]int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "GPU %d: NVIDIA H100 80GB HBM3 (UUID: GPU-%08d-0000-4000-8000-000000000000)\n", i, i)
		for l := range links {
			if l >= links-inactive[i] {
				fmt.Fprintf(&b, "\t Link %d: <inactive>\n", l)
			} else {
				fmt.Fprintf(&b, "\t Link %d: 26.562 GB/s\n", l)
			}
		}
	}
	return b.String()
}

func devinfo(n int, state string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "hca_id:\tmlx5_%d\n\ttransport:\t\t\tInfiniBand (0)\n\tfw_ver:\t\t\t\t28.39.1002\n\tnode_guid:\t\t\ta088:c203:0000:00%02x\n\tphys_port_cnt:\t\t\t1\n"+
			"\t\tport:\t1\n\t\t\tstate:\t\t\t%s (4)\n\t\t\tactive_width:\t\t4X (2)\n\t\t\tactive_speed:\t\t100.0 Gbps (128)\n\t\t\tlink_layer:\t\tInfiniBand\n\n", i, i, state)
	}
	return b.String()
}

func TestFilesOfOneHostJoin(t *testing.T) {
	files := map[string]string{"topo.txt": matrix(4, "NV18"), "nvlink.txt": linkStatus(4, 18, nil), "ibv.txt": devinfo(4, "PORT_ACTIVE")}
	r, err := LoadAll([]string{"ibv.txt", "nvlink.txt", "topo.txt"}, options(t, files))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Cluster.Nodes) != 1 || r.Cluster.Nodes[0].Name != "node0" {
		t.Fatalf("nodes %+v", r.Cluster.Nodes)
	}
	k := &r.Cluster.Classes[0]
	g, n := k.GPUs[2], k.NICs[3]
	if g.Model != "h100_sxm" || g.UUID != "GPU-00000002-0000-4000-8000-000000000000" || g.NUMA != 0 || g.NVLinksUp != 18 {
		t.Errorf("GPU 2 is %+v", g)
	}
	if n.Rate.Gbps() != 400 || n.State != "ACTIVE" || n.Firmware != "28.39.1002" || n.Name != "NIC3" || n.Device != "mlx5_3" {
		t.Errorf("NIC 3 is %+v", n)
	}
	if len(r.Warnings) > 0 {
		t.Errorf("warnings %v", r.Warnings)
	}
	var sources []string
	for _, f := range r.Cluster.Facts {
		kind, _, _ := strings.Cut(f.Source, ":")
		if !strings.HasPrefix(f.What, "node0/") {
			t.Errorf("fact %+v names no host", f)
		}
		sources = append(sources, kind)
	}
	for _, kind := range []string{"smi", "nvlink", "ibv"} {
		if !strings.Contains(strings.Join(sources, " "), kind) {
			t.Errorf("no fact comes from %s", kind)
		}
	}
}

func TestLinksThatAreDownComeFromTheStatus(t *testing.T) {
	files := map[string]string{"topo.txt": matrix(4, "NV16"), "nvlink.txt": linkStatus(4, 18, map[int]int{0: 2, 1: 2, 2: 2, 3: 2})}
	r, err := LoadAll([]string{"topo.txt", "nvlink.txt"}, options(t, files))
	if err != nil {
		t.Fatal(err)
	}
	if len(found(r, "nvlink-missing")) != 4 {
		t.Errorf("findings %v", r.View().Findings)
	}
}

func TestStatusAloneNamesGPUsAndLeavesDomainsUnknown(t *testing.T) {
	r, err := LoadAll([]string{"nvlink:s.txt"}, options(t, map[string]string{"s.txt": linkStatus(8, 18, nil)}))
	if err != nil {
		t.Fatal(err)
	}
	v := r.View()
	if len(v.Nodes[0].GPUs) != 8 || v.NVLinkDomains != nil || v.Nodes[0].GPUs[7].NVLinksUp != 18 || v.Nodes[0].Links[0].Kind != "unknown" {
		t.Errorf("view %+v", v.Nodes[0].GPUs[7])
	}
}

func TestHostsAreNamedByTheirFiles(t *testing.T) {
	topo, links := matrix(2, "NV18"), linkStatus(2, 18, nil)
	other := strings.ReplaceAll(links, "0-4000", "1-4000")
	for name, args := range map[string][]string{
		"file names":       {"n10.topo.txt", "n9.topo.txt", "n9-nvlink.txt", "n10_nvlink-s.txt"},
		"folders":          {"data/n10/topo.txt", "data/n9/topo.txt", "data/n9/nvlink.txt", "data/n10/nvlink.txt"},
		"tool words alone": {"n10/nvidia-smi-topo-m.txt", "n9/nvidia-smi-topo-m.txt", "n9/nvlink.txt", "n10/nvlink.txt"},
	} {
		files := map[string]string{}
		for _, a := range args {
			files[a] = topo
			if strings.Contains(a, "nvlink") {
				files[a] = links
				if strings.Contains(a, "n10") {
					files[a] = other
				}
			}
		}
		r, err := LoadAll(args, options(t, files))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(r.Cluster.Nodes) != 2 || r.Cluster.Nodes[0].Name != "n9" || r.Cluster.Nodes[1].Name != "n10" || len(r.Cluster.Classes) != 1 || r.Cluster.Classes[0].GPUs[0].Model != "h100_sxm" {
			t.Errorf("%s: nodes %+v, %d classes", name, r.Cluster.Nodes, len(r.Cluster.Classes))
		}
	}
	_, err := LoadAll([]string{"topo.txt", "x/topo.txt"}, options(t, map[string]string{"topo.txt": topo, "x/topo.txt": topo}))
	if err == nil || !strings.Contains(err.Error(), "which hosts") {
		t.Errorf("two matrices without names: %v", err)
	}
}

const tree = "SwitchName=l0 Nodes=n[0-2]\nSwitchName=l1 Nodes=n[3-5]\nSwitchName=s Switches=l[0-1]\n"

func TestNodesAndNetworkMakeACluster(t *testing.T) {
	files := map[string]string{"n0.txt": matrix(2, "NV18"), "n4.txt": matrix(2, "NV18"), "topo.txt": matrix(2, "NV18"), "t.conf": tree}
	r, err := LoadAll([]string{"n0.txt", "n4.txt", "t.conf"}, options(t, files))
	if err != nil {
		t.Fatal(err)
	}
	if n := r.Cluster.Nodes; len(n) != 2 || n[0].Leaf != "l0" || n[1].Leaf != "l1" || len(r.Cluster.Fabric.Tiers) != 2 {
		t.Errorf("nodes %+v, tiers %+v", n, r.Cluster.Fabric.Tiers)
	}
	if !strings.Contains(strings.Join(r.Warnings, "\n"), "4 of the network's 6 hosts are not described") {
		t.Errorf("warnings %v", r.Warnings)
	}
	r, err = LoadAll([]string{"t.conf", "topo.txt"}, options(t, files))
	if err != nil {
		t.Fatal(err)
	}
	if r.Cluster.NumNodes() != 6 || r.Cluster.NumGPUs() != 12 || len(r.Cluster.Classes) != 1 || r.Cluster.Nodes[5].Leaf != "l1" {
		t.Errorf("%d nodes of %d classes, last %+v", r.Cluster.NumNodes(), len(r.Cluster.Classes), r.Cluster.Nodes[5])
	}
}

func TestNodesFlagReplicatesOneNode(t *testing.T) {
	o := options(t, map[string]string{"topo.txt": matrix(2, "NV18"), "two/a.txt": matrix(2, "NV18"), "two/b.txt": matrix(2, "NV18"), "t.conf": tree})
	o.Nodes = 3
	r, err := LoadAll([]string{"topo.txt"}, o)
	if err != nil || r.Cluster.NumGPUs() != 6 || r.Cluster.Nodes[2].Name != "node2" {
		t.Fatalf("%v %v", r, err)
	}
	if _, err := LoadAll([]string{"two/a.txt", "two/b.txt"}, o); err == nil || !strings.Contains(err.Error(), "leave out --nodes") {
		t.Errorf("two nodes taken three times: %v", err)
	}
	if _, err := LoadAll([]string{"topo.txt", "t.conf"}, o); err == nil || !strings.Contains(err.Error(), "6 hosts") {
		t.Errorf("three nodes on a network of six: %v", err)
	}
}

func TestClusterYAMLReadsBack(t *testing.T) {
	files := map[string]string{"topo.txt": matrix(2, "NV18"), "nvlink.txt": linkStatus(2, 18, nil), "t.conf": tree}
	r, err := LoadAll([]string{"topo.txt", "nvlink.txt"}, options(t, files))
	if err != nil {
		t.Fatal(err)
	}
	var first, second bytes.Buffer
	if err := topology.WriteYAML(&first, r.Cluster); err != nil {
		t.Fatal(err)
	}
	files["node.yaml"] = first.String()
	r, err = LoadAll([]string{"node.yaml"}, options(t, files))
	if err != nil {
		t.Fatal(err)
	}
	if err := topology.WriteYAML(&second, r.Cluster); err != nil {
		t.Fatal(err)
	}
	if first.String() != second.String() {
		t.Errorf("the YAML changes when read again:\n%s\n%s", &first, &second)
	}
	r, err = LoadAll([]string{"yaml:node.yaml", "slurm:t.conf"}, options(t, files))
	if err != nil || r.Cluster.NumNodes() != 6 {
		t.Errorf("a node's YAML on a network: %v", err)
	}
}

func TestWithoutGPUsThereIsAPartialView(t *testing.T) {
	files := map[string]string{"t.conf": tree, "ibv.txt": devinfo(2, "PORT_DOWN")}
	r, err := LoadAll([]string{"t.conf"}, options(t, files))
	if err != nil {
		t.Fatal(err)
	}
	if v := r.View(); r.Cluster != nil || len(v.Nodes) != 6 || v.Nodes[4].Leaf != "l1" || len(v.Switches) != 3 || v.NVLinkDomains != nil || len(v.Links) != 8 {
		t.Errorf("view %+v", v)
	}
	r, err = LoadAll([]string{"ibv.txt"}, options(t, files))
	if err != nil {
		t.Fatal(err)
	}
	if got := found(r, "ports-down"); len(got) != 1 {
		t.Errorf("findings %v", r.View().Findings)
	}
	if _, err := Load("t.conf", options(t, files)); err == nil || !strings.Contains(err.Error(), "no source describes the GPUs") {
		t.Errorf("a plan without GPUs: %v", err)
	}
	if r, err := Load("t.conf,ibv.txt,topo.txt", options(t, map[string]string{"t.conf": tree, "ibv.txt": files["ibv.txt"], "topo.txt": matrix(2, "NV18")})); err != nil || r.Cluster.NumNodes() != 6 {
		t.Errorf("three sources with commas: %v", err)
	}
}

func TestEveryRefusalIsTold(t *testing.T) {
	files := map[string]string{"p2p.txt": "\tGPU0\tGPU1\nGPU0\tX\tOK\nGPU1\tOK\tX\n", "t.j2": "SwitchName={{ name }} Nodes={{ nodes }}\n", "x.gz": "\x1f\x8bnothing", "y.yaml": "apiVersion: other/v9\n"}
	for arg, want := range map[string]string{
		"p2p.txt":        "topo -p2p",
		"t.j2":           "t.j2",
		"x.gz":           "x.gz",
		"y.yaml":         "y.yaml:1",
		"missing.txt":    "missing.txt",
		"hgx-h999":       "neither a preset nor a file",
		"smj:topo.txt":   "neither a preset nor a kind of file",
		"smi:":           "names no file",
		"hgx-h100,t.j2":  "stands alone",
		"nvlink:p2p.txt": "p2p",
	} {
		if _, err := Load(arg, options(t, files)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", arg, err, want)
		}
	}
	_, err := LoadAll([]string{"p2p.txt", "y.yaml"}, options(t, files))
	if err == nil || !strings.Contains(err.Error(), "p2p.txt") || !strings.Contains(err.Error(), "y.yaml") {
		t.Errorf("two bad files, one told: %v", err)
	}
	if s := fmt.Sprint(err); strings.Count(s, "\n") > 3 {
		t.Errorf("%d lines for two files", strings.Count(s, "\n")+1)
	}
}

func TestRedactedFiles(t *testing.T) {
	files := map[string]string{"/home/ann/secret-host.txt": matrix(2, "NV18"), "/home/ann/other-host.txt": matrix(2, "NV18"),
		"t.conf": "SwitchName=secret-leaf Nodes=secret-host,other-host\n"}
	for _, args := range [][]string{{"/home/ann/secret-host.txt", "/home/ann/other-host.txt", "t.conf"}, {"t.conf"}} {
		o := options(t, files)
		r, err := LoadAll(args, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Redact([]byte("s"), o.Catalog); err != nil {
			t.Fatal(err)
		}
		all := fmt.Sprintf("%+v %v", r.View(), r.Warnings)
		if r.Cluster != nil {
			all += viewBytes(t, r)
		}
		for _, s := range []string{"secret", "other-host", "ann/"} {
			if strings.Contains(all, s) {
				at := strings.Index(all, s)
				t.Errorf("%v: %q is still there: %s", args, s, all[max(0, at-50):min(len(all), at+50)])
			}
		}
	}
}

func TestOneHostDescribedTwice(t *testing.T) {
	m := newMachine(t, "vm-flat", "NVIDIA H200", 18)
	c, err := m.live().Capture(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := capture.Write(&b, c); err != nil {
		t.Fatal(err)
	}
	_, err = LoadAll([]string{"a.gz", "b.gz"}, options(t, map[string]string{"a.gz": b.String(), "b.gz": b.String()}))
	if err == nil || !strings.Contains(err.Error(), "a.gz and b.gz both describe the host") {
		t.Errorf("error %v", err)
	}
}

// TestTrayOfARackOnANetwork spreads a capture of one tray: its fabric identity is not the other hosts'.
func TestTrayOfARackOnANetwork(t *testing.T) {
	m := newMachine(t, "vm-flat", "NVIDIA H200", 18)
	m.host = ""
	c, err := m.live().Capture(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := capture.Write(&b, c); err != nil {
		t.Fatal(err)
	}
	r, err := LoadAll([]string{"a.gz", "t.conf"}, options(t, map[string]string{"a.gz": b.String(), "t.conf": tree}))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Cluster.Domains) != 6 || !strings.Contains(strings.Join(r.Warnings, "\n"), "NVLink is taken to end in each host") {
		t.Errorf("domains %v, warnings %v", r.Cluster.Domains, r.Warnings)
	}
}

// FuzzLoad guesses and reads any bytes, alone and beside a matrix.
func FuzzLoad(f *testing.F) {
	for _, s := range []string{matrix(2, "NV4"), linkStatus(2, 2, nil), devinfo(1, "PORT_ACTIVE"), tree, "apiVersion: rankmap/v1\nkind: Cluster\n", "\x1f\x8b",
		"-[0000:00]-+-01.0-[01]----00.0  NVIDIA Corporation GH100 [H100 SXM5 80GB]\n", "<system version=\"1\"></system>"} {
		f.Add([]byte(s))
	}
	topo := matrix(2, "NV4")
	f.Fuzz(func(t *testing.T, data []byte) {
		o := options(t, map[string]string{"x": string(data), "topo": topo})
		for _, args := range [][]string{{"x"}, {"x", "topo"}} {
			r, err := LoadAll(args, o)
			if err != nil {
				continue
			}
			if _, err := json.Marshal(r.View()); err != nil {
				t.Fatalf("the view cannot be written: %v", err)
			}
			if err := r.Redact([]byte("s"), o.Catalog); err != nil {
				t.Fatalf("redaction: %v", err)
			}
		}
	})
}

// BenchmarkSlurmAndNode makes 100,000 GPUs of a node's YAML and a Slurm topology of 12,500 hosts.
func BenchmarkSlurmAndNode(b *testing.B) {
	var conf, node bytes.Buffer
	for i := range 625 {
		fmt.Fprintf(&conf, "SwitchName=leaf%d Nodes=n[%05d-%05d]\n", i, 20*i, 20*i+19)
	}
	for i := range 25 {
		fmt.Fprintf(&conf, "SwitchName=spine%d Switches=leaf[%d-%d]\n", i, 25*i, 25*i+24)
	}
	conf.WriteString("SwitchName=core Switches=spine[0-24]\n")
	o := options(b, nil)
	c, err := topology.Preset(o.Presets, "hgx-h100", 1, o.Catalog)
	if err != nil {
		b.Fatal(err)
	}
	if err := topology.WriteYAML(&node, c); err != nil {
		b.Fatal(err)
	}
	o = options(b, map[string]string{"node.yaml": node.String(), "t.conf": conf.String()})
	b.ReportAllocs()
	for b.Loop() {
		r, err := LoadAll([]string{"node.yaml", "t.conf"}, o)
		if err != nil || r.Cluster.NumGPUs() != 100_000 {
			b.Fatal(err)
		}
	}
}

func TestMatrixAndXMLOfOneHost(t *testing.T) {
	xml := `<system version="1"><cpu numaid="-1" affinity="ff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="207">
<pci busid="0000:00:06.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="0"><gpu dev="0" sm="90" rank="0" gdr="1"><nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/></gpu></pci>
<pci busid="0000:00:07.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="0"><gpu dev="1" sm="90" rank="1" gdr="1"><nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/></gpu></pci>
</cpu></system>`
	r, err := LoadAll([]string{"topo.xml", "topo.txt"}, options(t, map[string]string{"topo.xml": xml, "topo.txt": smiMatrix("NV18")}))
	if err != nil {
		t.Fatal(err)
	}
	k := &r.Cluster.Classes[0]
	if len(r.Cluster.Nodes) != 1 || k.Wiring != topology.NVLinkSwitched || !k.Virtual || k.GPUs[1].PCI != "00000000:00:07.0" || k.GPUs[1].NUMA != 0 || k.GPUs[1].ComputeMajor != 9 {
		t.Errorf("%d nodes, %v, virtual %v, GPU 1 %+v", len(r.Cluster.Nodes), k.Wiring, k.Virtual, k.GPUs[1])
	}
}

func TestCablesOfAFabricGiveLinksRailsAndLeaves(t *testing.T) {
	dump, err := os.ReadFile("../fabric/testdata/ibnetdiscover-rails.txt")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"gpu2.txt": matrix(2, "NV18"), "gpu10.txt": matrix(2, "NV18"), "fabric.txt": string(dump)}
	o := options(t, files)
	r, err := LoadAll([]string{"gpu10.txt", "fabric.txt", "gpu2.txt"}, o)
	if err != nil {
		t.Fatal(err)
	}
	v := r.View()
	if len(v.Nodes) != 2 || v.Nodes[0].Name != "gpu2" || v.Nodes[1].Name != "gpu10" || *v.Nodes[0].NICs[1].GBps != 50 || r.Cluster.Fabric.Kind != topology.FabricInfiniBand {
		t.Fatalf("nodes %+v", v.Nodes)
	}
	ends := map[string]string{}
	for _, l := range v.Links {
		ends[l.A] += l.B + " "
	}
	if ends["gpu2/NIC0"] != "LEAF-1 " || ends["gpu2/NIC1"] != "LEAF-2 " || ends["gpu10/NIC1"] != "LEAF-2 " || ends["LEAF-1"] != "SPINE-1 SPINE-2 " {
		t.Errorf("links %v", ends)
	}
	if len(v.Switches) != 4 || !r.Cluster.Fabric.Tiers[0].RailOptimized {
		t.Errorf("switches %+v, tiers %+v", v.Switches, r.Cluster.Fabric.Tiers)
	}
	if err := r.Redact([]byte("s"), o.Catalog); err != nil {
		t.Fatal(err)
	}
	if all := fmt.Sprintf("%+v", r.View().Links) + viewBytes(t, r); strings.Contains(all, "gpu10") || strings.Contains(all, "LEAF-1") || strings.Contains(all, "SPINE") {
		t.Errorf("names are left: %s", all)
	}
}
