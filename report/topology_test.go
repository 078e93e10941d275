package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/gonum/graph/formats/dot"

	"rankmap/configs"
	"rankmap/internal/hardware"
	"rankmap/topology"
	"rankmap/topology/smi"
)

func topoCatalog(t testing.TB) *hardware.Catalog {
	t.Helper()
	cat, err := hardware.Load(configs.FS)
	if err != nil {
		t.Fatal(err)
	}
	return cat
}

func topoPreset(t testing.TB, name string, n int) *topology.Cluster {
	t.Helper()
	c, err := topology.Preset(configs.FS, name, n, topoCatalog(t))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// topoOdd is a machine with everything that pictures find hard: hostile and long names, split and bad trays, bridges,
// a virtual machine, nodes without a leaf.
const topoOdd = `apiVersion: rankmap/v1
kind: Cluster
name: "odd <machine> & \"co\"\\\n]; end"
classes:
  - name: tray
    gpus: [{count: 4, model: gb200}]
    nvlink: {links: 18}
  - name: split
    gpus: [{count: 2, model: gb200, clique: .1}, {count: 2, model: gb200, clique: .2, bad: "fell \e[31m off <the> bus"}]
    nvlink: {links: 18}
  - name: "bridges\"] --> x"
    gpus: [{count: 2, model: a100_sxm, numa: 0}, {count: 2, model: a100_sxm, numa: 1}]
    nics: [{device: mlx5_bond_0_with_a_long_name, rate: 200G}, {device: eth0, state: DOWN, numa: 1}]
    nvlink:
      pairs: [{a: 0, b: 1, count: 4}, {a: 2, b: 3, count: 4}]
    gpuPaths: ["X NV SYS SYS", "NV X SYS SYS", "SYS SYS X NV", "SYS SYS NV X"]
    nicPaths: ["NODE SYS", "NODE SYS", "SYS NODE", "SYS NODE"]
  - name: virtual-machine
    gpus: [{count: 2, name: NVIDIA L4}]
    virtual: true
nodes:
  - {class: tray, hosts: "t[0-9]", clique: r0, rack: rack0}
  - {class: split, hosts: "s[0-3]", clique: r1, leaf: b}
  - {class: "bridges\"] --> x", hosts: "host-with-a-very-long-name-[1-9].example.org", leaf: a}
  - {class: virtual-machine, name: "vm\u202e1\\", leaf: a}
fabric:
  kind: RoCE
  tiers: [{name: leaf, oversubscription: 3}, {name: spine}]
`

// topoMachines is one node, many nodes, racks, and the odd one.
func topoMachines(t testing.TB) map[string]*topology.Cluster {
	odd, err := topology.ReadYAML(strings.NewReader(topoOdd), "odd", topoCatalog(t))
	if err != nil {
		t.Fatal(err)
	}
	return map[string]*topology.Cluster{"odd": odd, "dgx1": topoPreset(t, "dgx1-v100", 1), "racks": topoPreset(t, "gb200-nvl72", 9),
		"large": topoPreset(t, "hgx-h100", 12500), "pcie": topoPreset(t, "pcie-l40s", 2), "dgx2": topoPreset(t, "dgx2-v100", 1)}
}

var topoPictures = map[string]func(io.Writer, *topology.Cluster) error{"svg": TopologySVG, "dot": TopologyDOT, "mermaid": TopologyMermaid, "tree": TopologyTree}

func TestTopologyPicturesAreSmallAndTheSameEachTime(t *testing.T) {
	for name, c := range topoMachines(t) {
		for kind, draw := range topoPictures {
			var a, b bytes.Buffer
			if err := errors.Join(draw(&a, c), draw(&b, c)); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(a.Bytes(), b.Bytes()) || a.Len() == 0 || a.Len() > 64<<10 {
				t.Errorf("%s of %s: %d bytes, equal: %v", kind, name, a.Len(), bytes.Equal(a.Bytes(), b.Bytes()))
			}
			if bytes.ContainsAny(a.Bytes(), "\x1b\u202e") {
				t.Errorf("%s of %s holds control characters", kind, name)
			}
		}
	}
}

func TestTopologySVGIsWellFormed(t *testing.T) {
	for name, c := range topoMachines(t) {
		var b bytes.Buffer
		if err := TopologySVG(&b, c); err != nil {
			t.Fatal(err)
		}
		d := xml.NewDecoder(&b)
		for {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
}

var svgRect = regexp.MustCompile(`<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)" rx="4" fill="([^"]*)"`)

type svgBoxAt struct{ x, y, w, h float64 }

func (a svgBoxAt) inside(b svgBoxAt) bool {
	return a.x >= b.x && a.y >= b.y && a.x+a.w <= b.x+b.w && a.y+a.h <= b.y+b.h
}

func (a svgBoxAt) apart(b svgBoxAt) bool {
	return a.x+a.w <= b.x || b.x+b.w <= a.x || a.y+a.h <= b.y || b.y+b.h <= a.y
}

func TestTopologySVGBoxesDoNotOverlap(t *testing.T) {
	size := regexp.MustCompile(`<svg [^>]*width="([\d.]+)" height="([\d.]+)"`)
	for name, c := range topoMachines(t) {
		var b bytes.Buffer
		if err := TopologySVG(&b, c); err != nil {
			t.Fatal(err)
		}
		read := func(s string) float64 {
			v, err := strconv.ParseFloat(s, 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		m := size.FindStringSubmatch(b.String())
		page := svgBoxAt{w: read(m[1]), h: read(m[2])}
		var boxes []svgBoxAt
		for _, m := range svgRect.FindAllStringSubmatch(b.String(), -1) {
			if m[5] == "#fafafa" { // the second sheet behind a group
				continue
			}
			boxes = append(boxes, svgBoxAt{read(m[1]), read(m[2]), read(m[3]), read(m[4])})
		}
		for i, x := range boxes {
			if !x.inside(page) {
				t.Errorf("%s: %+v lies outside the page", name, x)
			}
			for _, y := range boxes[:i] {
				if !x.apart(y) && !x.inside(y) && !y.inside(x) {
					t.Errorf("%s: %+v and %+v overlap", name, x, y)
				}
			}
		}
	}
}

func TestTopologyDOTParses(t *testing.T) {
	for name, c := range topoMachines(t) {
		var b bytes.Buffer
		if err := TopologyDOT(&b, c); err != nil {
			t.Fatal(err)
		}
		f, err := dot.ParseBytes(b.Bytes())
		if err != nil || len(f.Graphs) != 1 {
			t.Errorf("%s: %v\n%s", name, err, b.String())
		}
	}
}

func TestMermaidLabelsCannotBreakOut(t *testing.T) {
	line := regexp.MustCompile(`^(flowchart TB|  subgraph \w+ \["[^"\[\]<>\\]*"\]|  end|    \w+\["(?:[^"\[\]<>\\]|<br/>)*"\]|    \w+ (?:---|===)(?:\|"[^"]*"\|)? \w+|  classDef \w+ [\w:#,-]+|  class [\w,]+ \w+)$`)
	for name, c := range topoMachines(t) {
		var b bytes.Buffer
		if err := TopologyMermaid(&b, c); err != nil {
			t.Fatal(err)
		}
		for _, l := range strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n") {
			if !line.MatchString(l) {
				t.Errorf("%s: %s", name, l)
			}
		}
		if strings.Count(b.String(), "subgraph ") != strings.Count(b.String(), "\n  end\n") {
			t.Errorf("%s: boxes are not closed", name)
		}
	}
}

func TestTheMatrixReadsBack(t *testing.T) {
	for _, name := range []string{"hgx-a100", "hgx-h100", "dgx1-v100", "dgx2-v100", "pcie-l40s", "gb200-nvl72"} {
		c := topoPreset(t, name, 1)
		var b bytes.Buffer
		if err := TopologyMatrix(&b, c, 0); err != nil {
			t.Fatal(err)
		}
		res, err := smi.Read(bytes.NewReader(b.Bytes()), name)
		if err != nil || len(res.Nodes) != 1 {
			t.Fatalf("%s: %v\n%s", name, err, b.String())
		}
		back, err := topology.Replicate(res.Nodes[0], 1, topology.Fabric{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, want := c.Node(0)
		got := &back.Classes[0]
		if len(got.NVLinks) != len(want.NVLinks) || len(got.NICs) != len(want.NICs) {
			t.Fatalf("%s: %d links, %d NICs", name, len(got.NVLinks), len(got.NICs))
		}
		for g := range want.GPUs {
			for o := range want.GPUs {
				if got.GPUPaths[g][o] != want.GPUPaths[g][o] {
					t.Errorf("%s: GPU %d to %d reads %s, want %s", name, g, o, got.GPUPaths[g][o], want.GPUPaths[g][o])
				}
			}
			for n := range want.NICs {
				if got.NICPaths[g][n] != want.NICPaths[g][n] {
					t.Errorf("%s: GPU %d to NIC %d reads %s, want %s", name, g, n, got.NICPaths[g][n], want.NICPaths[g][n])
				}
			}
		}
	}
}

func TestTheTreeOfAThousandNodesFitsOnAScreen(t *testing.T) {
	var b bytes.Buffer
	if err := TopologyTree(&b, topoPreset(t, "hgx-h100", 1000)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1000 nodes, 8000 GPUs, 1000 NVLink domains of 8", "su0: 32 x hgx-h100, 256 GPUs (and 30 groups like it)",
		"4 NVSwitches, 18 links a GPU, 450 GB/s one way", "GPU 7 (h100_sxm, PCIe 63 GB/s)", "mlx5_7 (400 Gb/s, rail 7)"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
	if n := strings.Count(b.String(), "\n"); n > 40 {
		t.Errorf("%d lines", n)
	}
}
