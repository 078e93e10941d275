package ncclxml

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"rankmap/internal/testdata"
	"rankmap/topology"
)

// indexRow is what the collection's index says about one file.
type indexRow struct{ file, reading string }

func index(t *testing.T) []indexRow {
	t.Helper()
	f, err := os.Open(testdata.Dir(t, "topology", "dev", "INDEX.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.Comma, r.LazyQuotes, r.FieldsPerRecord = '\t', true, -1
	rows, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var out []indexRow
	for _, row := range rows {
		if strings.HasPrefix(row[0], "ncclxml/") {
			out = append(out, indexRow{row[0], row[3]})
		}
	}
	if len(out) == 0 {
		t.Fatal("the index names no ncclxml file")
	}
	return out
}

// want is the reading of one real file, in our words: NUMA nodes in GPU order, the nearest NICs of each GPU (by
// device, or by PCI id where the file names none), the links of each pair.
type want struct {
	gpus, nics int
	numa       string
	near       string // "a b|c d|..." one cell a GPU; "-" none
	path       topology.PathKind
	wiring     topology.NVLinkKind
	links      int // of every pair, 0 no pair
	sm         int
	rate       float64 // GB/s one way of the first NIC
	warn       []string
}

const (
	pairA = "0000:10:1b.0|0000:10:1b.0|0000:20:1b.0|0000:20:1b.0|0000:90:1b.0|0000:90:1b.0|0000:a0:1b.0|0000:a0:1b.0"
	h100  = "mlx5_0 mlx5_1|mlx5_3 mlx5_4|mlx5_5 mlx5_6|mlx5_7 mlx5_8|mlx5_9 mlx5_10|mlx5_12 mlx5_13|mlx5_14 mlx5_15|mlx5_16 mlx5_17"
)

var readings = map[string]want{
	"001": {gpus: 8, nics: 8, numa: "0 0 1 1 2 2 3 3", wiring: topology.NVLinkUnknown, path: topology.PathPIX,
		near: "0103:00:00.0 0104:00:00.0|0103:00:00.0 0104:00:00.0|0101:00:00.0 0102:00:00.0|0101:00:00.0 0102:00:00.0|0107:00:00.0 0108:00:00.0|0107:00:00.0 0108:00:00.0|0105:00:00.0 0106:00:00.0|0105:00:00.0 0106:00:00.0"},
	"002": {gpus: 8, nics: 8, numa: "0 0 0 0 1 1 1 1", wiring: topology.NVLinkUnknown, path: topology.PathPIX,
		near: "0101:00:00.0|0102:00:00.0|0103:00:00.0|0104:00:00.0|0105:00:00.0|0106:00:00.0|0107:00:00.0|0108:00:00.0"},
	"003": {gpus: 8, nics: 1, numa: "0 0 0 0 1 1 1 1", wiring: topology.NVLinkUnknown},
	"004": {gpus: 4, nics: 1, numa: "0 1 2 3", wiring: topology.NVLinkUnknown, near: "-|-|-|-", sm: 80, rate: 12.5, warn: []string{"GPU itself"}},
	"005": {gpus: 8, nics: 4, numa: "0 0 0 0 1 1 1 1", wiring: topology.NVLinkUnknown, near: pairA, path: topology.PathPIX},
	"006": {gpus: 8, nics: 4, numa: "0 0 0 0 1 1 1 1", wiring: topology.NVLinkUnknown, near: pairA, path: topology.PathPIX},
	"007": {wiring: topology.NVLinkUnknown, warn: []string{"NUMA 0: 4, NUMA 1: 5"}},
	"008": {gpus: 8, nics: 16, numa: "0 0 0 0 1 1 1 1", wiring: topology.NVLinkSwitched, links: 18, sm: 90, rate: 22.5, near: h100, path: topology.PathPIX},
	"009": {gpus: 8, nics: 8, numa: "3 3 1 1 7 7 5 5", wiring: topology.NVLinkUnknown},
	"010": {gpus: 8, nics: 8, numa: "3 3 1 1 7 7 5 5", wiring: topology.NVLinkUnknown},
	"011": {gpus: 8, nics: 12, numa: "3 3 1 1 7 7 5 5", wiring: topology.NVLinkSwitched, links: 12, sm: 80, rate: 25, path: topology.PathPXB,
		near: "mlx5_0 mlx5_1|mlx5_0 mlx5_1|mlx5_2 mlx5_3|mlx5_2 mlx5_3|mlx5_6 mlx5_7|mlx5_6 mlx5_7|mlx5_8 mlx5_9|mlx5_8 mlx5_9"},
	"012": {gpus: 4, nics: 1, numa: "3 2 0 7", wiring: topology.NVLinkNone, sm: 89, rate: 0.125, warn: []string{"15 virtual nets"}},
	"013": {gpus: 2, nics: 2, numa: "3 2", wiring: topology.NVLinkNone, sm: 89, rate: 12.5},
	"014": {gpus: 4, nics: 2, numa: "0 0 1 1", wiring: topology.NVLinkNone, sm: 86, rate: 0.125, warn: []string{"8 virtual nets"}},
	"015": {gpus: 8, nics: 8, numa: "0 0 0 0 1 1 1 1", wiring: topology.NVLinkSwitched, links: 8, sm: 90, rate: 50, path: topology.PathPIX,
		near: "mlx5_0|mlx5_3|mlx5_4|mlx5_5|mlx5_6|mlx5_7|mlx5_8|mlx5_9"},
	"016": {gpus: 16, nics: 8, numa: "0 0 1 1 0 0 1 1 0 0 1 1 0 0 1 1", wiring: topology.NVLinkNone, sm: 89, rate: 50, path: topology.PathPIX,
		near: "mlx5_1|mlx5_1|mlx5_2|mlx5_2|mlx5_3|mlx5_3|mlx5_4|mlx5_4|mlx5_5|mlx5_5|mlx5_6|mlx5_6|mlx5_7|mlx5_7|mlx5_8|mlx5_8"},
	"017": {gpus: 2, nics: 2, numa: "0 0", wiring: topology.NVLinkNone, sm: 86},
	"018": {gpus: 1, nics: 1, numa: "0", wiring: topology.NVLinkUnknown, sm: 80, rate: 1.25},
	"019": {gpus: 2, nics: 2, numa: "0 0", wiring: topology.NVLinkDirect, links: 1, sm: 80, warn: []string{"asymmetric, 1 links one way and 12"}},
	"020": {gpus: 2, nics: 2, numa: "0 0", wiring: topology.NVLinkDirect, links: 12, sm: 80},
	"021": {gpus: 2, nics: 1, numa: "0 0", wiring: topology.NVLinkDirect, links: 1, rate: 25, warn: []string{"asymmetric, 1 links one way and 12"}},
	"022": {gpus: 2, nics: 1, numa: "0 0", wiring: topology.NVLinkDirect, links: 12, rate: 25, near: "mlx5_0+mlx5_1|mlx5_0+mlx5_1", path: topology.PathPHB},
	"023": {gpus: 8, nics: 8, numa: "3 3 1 1 7 7 5 5", wiring: topology.NVLinkUnknown, path: topology.PathPIX,
		near: "0000:12:00.0|0000:0c:00.0|0000:54:00.0|0000:4b:00.0|0000:94:00.0|0000:8d:00.0|0000:ca:00.0|0000:ba:00.0"},
	"024": {gpus: 8, nics: 8, numa: "3 3 1 1 7 7 5 5", wiring: topology.NVLinkUnknown, path: topology.PathPIX,
		near: "0000:12:00.0|0000:0c:00.0|0000:54:00.0|0000:4b:00.0|0000:94:00.0|0000:8d:00.0|0000:cc:00.0|0000:ba:00.0"},
	"025": {gpus: 8, nics: 16, numa: "0 0 0 0 1 1 1 1", wiring: topology.NVLinkSwitched, links: 18, sm: 90},
	"026": {gpus: 4, nics: 2, numa: "3 1 7 5", wiring: topology.NVLinkUnknown, warn: []string{"0000:ba:00.0 is stated 3 times"}},
	"027": {gpus: 8, nics: 4, numa: "3 3 1 1 7 7 5 5", wiring: topology.NVLinkSwitched, links: 12, sm: 80, rate: 25, path: topology.PathPXB,
		near: "ib0|ib0|ib1|ib1|ib2|ib2|ib3|ib3"},
	"028": {gpus: 8, nics: 8, numa: "0 0 0 0 1 1 1 1", wiring: topology.NVLinkDirect, links: 1, rate: 50, path: topology.PathPXB,
		near: "mlx5_0|mlx5_1|mlx5_2|mlx5_3|mlx5_4|mlx5_5|mlx5_6|mlx5_7", warn: []string{"RCCL", "xgmi"}},
	"029": {gpus: 4, nics: 1, numa: "0 0 0 0", wiring: topology.NVLinkDirect, links: 1, warn: []string{"RCCL", "xgmi"}},
}

func readReal(t *testing.T, file string) (*Result, error) {
	t.Helper()
	f, err := os.Open(testdata.Dir(t, "topology", "dev", filepath.FromSlash(file)))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return Read(f, filepath.Base(file))
}

var (
	reGPUs = regexp.MustCompile(`\bgpus=(\d+)`)
	reNICs = regexp.MustCompile(`\bnics=(\d+)`)
)

// TestRealFiles reads every real file and compares what its index row states.
func TestRealFiles(t *testing.T) {
	for _, row := range index(t) {
		t.Run(row.file, func(t *testing.T) {
			res, err := readReal(t, row.file)
			if strings.HasPrefix(row.reading, "refuse") {
				if err == nil {
					t.Fatal("read, want a refusal")
				}
				if !strings.Contains(err.Error(), filepath.Base(row.file)+":") {
					t.Errorf("refusal without file and line: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			c := &res.Hosts[0].Class
			for _, m := range []struct {
				re  *regexp.Regexp
				got int
			}{{reGPUs, len(c.GPUs)}, {reNICs, len(c.NICs)}} {
				if s := m.re.FindStringSubmatch(row.reading); s != nil {
					if n, _ := strconv.Atoi(s[1]); n != m.got {
						t.Errorf("%s: got %d", s[0], m.got)
					}
				}
			}
			if w, ok := readings[filepath.Base(row.file)[:3]]; ok {
				compare(t, res, w)
			}
		})
	}
}

func compare(t *testing.T, res *Result, w want) {
	t.Helper()
	c := &res.Hosts[0].Class
	if len(c.GPUs) != w.gpus || len(c.NICs) != w.nics {
		t.Fatalf("%d GPUs and %d NICs, want %d and %d", len(c.GPUs), len(c.NICs), w.gpus, w.nics)
	}
	var numa []string
	for _, g := range c.GPUs {
		numa = append(numa, fmt.Sprint(g.NUMA))
	}
	if got := strings.Join(numa, " "); got != w.numa {
		t.Errorf("NUMA nodes %q, want %q", got, w.numa)
	}
	if c.Wiring != w.wiring {
		t.Errorf("wiring %d, want %d", c.Wiring, w.wiring)
	}
	if w.links > 0 && len(c.NVLinks) != w.gpus*(w.gpus-1)/2 {
		t.Errorf("%d pairs with NVLink, want all", len(c.NVLinks))
	}
	for _, l := range c.NVLinks {
		if l.Count != w.links {
			t.Errorf("pair %d-%d has %d links, want %d", l.A, l.B, l.Count, w.links)
		}
	}
	if w.sm > 0 && c.GPUs[0].ComputeMajor*10+c.GPUs[0].ComputeMinor != w.sm {
		t.Errorf("compute capability %d.%d, want %d", c.GPUs[0].ComputeMajor, c.GPUs[0].ComputeMinor, w.sm)
	}
	if w.rate > 0 && c.NICs[0].Rate.GBps() != w.rate {
		t.Errorf("NIC rate %v, want %v GB/s", c.NICs[0].Rate, w.rate)
	}
	if w.near != "" {
		near, path := nearest(c)
		if near != w.near {
			t.Errorf("nearest NICs\n%s, want\n%s", near, w.near)
		}
		if w.path != 0 && path != w.path {
			t.Errorf("path to the nearest NIC %d, want %d", path, w.path)
		}
	}
	all := strings.Join(res.Warnings, "\n")
	for _, s := range w.warn {
		if !strings.Contains(all, s) {
			t.Errorf("no warning says %q; got\n%s", s, all)
		}
	}
}

// nearest lists each GPU's nearest NICs, and the path of the last GPU to them.
func nearest(c *topology.NodeClass) (string, topology.PathKind) {
	var cells []string
	var path topology.PathKind
	for i := range c.GPUs {
		var names []string
		path = topology.PathUnknown
		for j, p := range c.NICPaths[i] {
			if p == topology.PathUnknown || path != topology.PathUnknown && p > path {
				continue
			}
			if p < path || path == topology.PathUnknown {
				path, names = p, nil
			}
			n := c.NICs[j].Device
			if n == "" {
				n = shortPCI(c.NICs[j].PCI)
			}
			names = append(names, n)
		}
		if names == nil {
			names = []string{"-"}
		}
		cells = append(cells, strings.Join(names, " "))
	}
	return strings.Join(cells, "|"), path
}

// TestRealRoundTrip writes what was read and reads it again.
func TestRealRoundTrip(t *testing.T) {
	for _, row := range index(t) {
		res, err := readReal(t, row.file)
		if err != nil || len(res.Hosts[0].Class.GPUs) == 0 {
			continue
		}
		t.Run(row.file, func(t *testing.T) {
			for i := range res.Hosts {
				class := &res.Hosts[i].Class
				var buf bytes.Buffer
				err := Write(&buf, class, WriteOptions{})
				if strings.Contains(strings.Join(res.Warnings, ""), "cannot be true") {
					if err == nil {
						t.Error("a contradictory class was written")
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				same(t, class, buf.Bytes(), res.AMD)
			}
		})
	}
}
