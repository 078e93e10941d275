package fabric

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rankmap/topology"
)

func fixture(t *testing.T, file string) *Result {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	res, err := Read(Sniff(data), bytes.NewReader(data), file)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// TestFixtures reads our own files in the real formats, with the oddities of real ones.
func TestFixtures(t *testing.T) {
	for _, tc := range []struct {
		file, shape string
		warn        []string
	}{
		{"ibnetdiscover-rails.txt", "ibnetdiscover/blocks: 4 hosts, [2 2 0] switches, 4 bundles, 0 blocks [], 0 domains, 1 loose", []string{"1 adapter ports name no host (\"MT4129 ConnectX7", "1 SHARP aggregation nodes"}},
		{"ibnetdiscover-ports.txt", "ibnetdiscover/ports: 2 hosts, [1 1 0] switches, 1 bundles, 0 blocks [], 0 domains, 0 loose", []string{"2 ports have no link (leaf1, spine1)"}},
		{"slurm-odd.conf", "slurm/tree: 22 hosts, [5 1 0] switches, 4 bundles, 0 blocks [], 0 domains, 0 loose",
			[]string{"slurm-odd.conf:6: node \"dc-n04\" is below two switches, \"leaf1\" (line 3) and \"leaf3\"", "slurm-odd.conf:3: \"leaf1\": 2 names begin with \"n\"", "no entry of their own: ghost", "leaf switches in none (island)", "blank inside a list"}},
		{"slurm-both.conf", "slurm/tree+block: 8 hosts, [2 1 0] switches, 2 bundles, 2 blocks [4 8], 1 domains, 0 loose", nil},
		{"topology.yaml", "slurm/yaml: 4 hosts, [0 0 0] switches, 0 bundles, 2 blocks [2 4], 0 domains, 0 loose", nil},
		{"topograph-nested.yaml", "topograph/model: 10 hosts, [3 1 1] switches, 4 bundles, 3 blocks [], 1 domains, 0 loose", []string{"a block of 2 nodes has no switch"}},
		{"topograph-old.yaml", "topograph/model: 3 hosts, [2 1 0] switches, 2 bundles, 2 blocks [], 1 domains, 0 loose", nil},
		{"netq.json", "topograph/graph: 1 hosts, [1 1 0] switches, 1 bundles, 0 blocks [], 0 domains, 0 loose", []string{"link \"d1\" to \"gone\""}},
		{"ibv_devinfo.txt", "ibv: 0 gpus, 3 nics, 1 down, 0 silent", []string{"2 of 3 ports are not active", "2 of 3 ports without a rate"}},
		{"ibstat.txt", "ibstat: 0 gpus, 2 nics, 1 down, 0 silent", []string{"1 of 2 ports are not active"}},
		{"ibstatus.txt", "ibstat: 0 gpus, 2 nics, 1 down, 0 silent", nil},
		{"lspci-tv.txt", "lspci: 4 gpus, 3 nics, 0 down, 3 silent", []string{"several host bridges", "NVLink is not shown"}},
	} {
		t.Run(tc.file, func(t *testing.T) {
			res := fixture(t, tc.file)
			if got := shape(res); got != tc.shape {
				t.Errorf("got  %s\nwant %s", got, tc.shape)
			}
			all := strings.Join(res.Warnings, "\n")
			for _, s := range tc.warn {
				if !strings.Contains(all, s) {
					t.Errorf("no warning says %q in\n%s", s, all)
				}
			}
		})
	}
}

func TestTemplateIsRefused(t *testing.T) {
	data, err := os.ReadFile("testdata/template.conf.j2")
	if err != nil {
		t.Fatal(err)
	}
	if k := Sniff(data); k != KindSlurm {
		t.Errorf("kind %q, want slurm, so that its reader can name the template", k)
	}
	if _, err := Slurm(bytes.NewReader(data), "template.conf.j2"); err == nil || !strings.Contains(err.Error(), "template.conf.j2:2: a Jinja") {
		t.Errorf("error %v", err)
	}
}

func TestRailsFabric(t *testing.T) {
	d := fixture(t, "ibnetdiscover-rails.txt").Fabric
	var names []string
	for _, h := range d.Hosts {
		names = append(names, h.Name)
	}
	if got := strings.Join(names, " "); got != "gpu1 gpu2 gpu10 ufm1" {
		t.Errorf("hosts %q, want them in numeric order", got)
	}
	sw := map[string]topology.DescSwitch{}
	for _, s := range d.Switches {
		sw[s.Name] = s
	}
	if s := sw["LEAF-1"]; s.Tier != 0 || s.Hosts != 3 || s.Oversubscription != 0.75 {
		t.Errorf("LEAF-1 %+v, want 3 hosts down, 4 links up", s)
	}
	if s := sw["LEAF-2"]; s.Oversubscription != 1 {
		t.Errorf("LEAF-2 %+v, want 3 down, 3 up", s)
	}
	if s := sw["SPINE-1"]; s.Tier != 1 || s.Hosts != 1 {
		t.Errorf("SPINE-1 %+v, want a spine in spite of its one management host", s)
	}
	for _, l := range d.Links {
		want := 2
		if l.A == "LEAF-2" && l.B == "SPINE-2" {
			want = 1
		}
		if l.Count != want || l.Rate.Gbps() != 400 {
			t.Errorf("bundle %+v, want %d links", l, want)
		}
	}
	if a := d.Hosts[1].HCAs; len(a) != 2 || a[0].Name != "mlx5_0" || a[0].Leaf != "LEAF-1" || a[1].Leaf != "LEAF-2" || a[0].LeafPort != 1 {
		t.Errorf("gpu2's adapters %+v", a)
	}
}

func TestTopologyYAMLNames(t *testing.T) {
	r := fixture(t, "topology.yaml")
	if r.Fabric.Name != "racks" || !r.Fabric.Default {
		t.Errorf("default topology %q", r.Fabric.Name)
	}
	var got []string
	for _, d := range r.Others {
		got = append(got, d.Name+":"+d.Plugin)
	}
	if s := strings.Join(got, " "); s != "fat:tree plain:flat options:flat round:ring cube:torus3d" {
		t.Errorf("other topologies %s", s)
	}
	if d := r.Others[0]; len(d.Hosts) != 5 || len(d.Switches) != 3 || d.Hosts[1].Leaf != "s1" {
		t.Errorf("tree %+v", d)
	}
	if d := r.Others[4]; len(d.Blocks) != 1 || d.Blocks[0].Name != "t1" || len(d.Blocks[0].Hosts) != 4 {
		t.Errorf("torus %+v", d)
	}
}

func TestHostFiles(t *testing.T) {
	n := fixture(t, "ibv_devinfo.txt").Node.NICs
	if n[0].Rate.Gbps() != 400 || n[0].GUID != "a088c20300123450" || n[1].Name != "mlx5_0:2" || n[1].State != "DOWN" || n[2].State != "INIT" {
		t.Errorf("ibv_devinfo %+v", n)
	}
	n = fixture(t, "ibstat.txt").Node.NICs
	if n[0].Rate.Gbps() != 400 || n[0].State != "ACTIVE" || n[0].Firmware != "28.39.1002" || n[1].Rate != 0 || n[1].GUID != "" {
		t.Errorf("ibstat %+v", n)
	}
	n = fixture(t, "ibstatus.txt").Node.NICs
	if n[0].Rate.Gbps() != 200 || n[1].Name != "mlx5_0:2" || n[1].LinkLayer != "Ethernet" {
		t.Errorf("ibstatus %+v", n)
	}
	c := fixture(t, "lspci-tv.txt").Node
	var at []string
	for _, g := range c.GPUs {
		at = append(at, g.PCI)
	}
	if s := strings.Join(at, " "); s != "00000000:03:00.0 00000000:06:00.0 00000000:08:00.0 00000001:01:00.0" {
		t.Errorf("GPUs at %s", s)
	}
	if c.GPUs[0].Model != "h100_sxm" || c.GPUs[3].Name != "NVIDIA L40S" || len(c.Switches) != 1 {
		t.Errorf("GPUs %+v, switches %v", c.GPUs, c.Switches)
	}
	p := c.NICPaths
	if p[0][0] != topology.PathPIX || p[0][1] != topology.PathPIX || p[1][0] != topology.PathPXB || p[2][0] != topology.PathPHB || p[3][0] != topology.PathUnknown {
		t.Errorf("paths to the NICs %v", p)
	}
	if c.GPUPaths[0][1] != topology.PathPXB || c.GPUPaths[0][2] != topology.PathPHB {
		t.Errorf("paths between GPUs %v", c.GPUPaths)
	}
}
