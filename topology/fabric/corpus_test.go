package fabric

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rankmap/internal/testdata"
	"rankmap/topology"
)

// index maps each real fabric file to what the collection's index calls its right reading.
func index(t *testing.T) map[string]string {
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
	out := map[string]string{}
	for _, row := range rows {
		if strings.HasPrefix(row[0], "fabric/") {
			out[filepath.Base(row[0])] = row[3]
		}
	}
	return out
}

func real(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(testdata.Dir(t, "topology", "dev", "fabric", file))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// shape sums a result up in one line of our own: kind/format, hosts, switches by tier, links, blocks, domains, loose
// adapters; or for one host GPUs and NICs with their states.
func shape(r *Result) string {
	if n := r.Node; n != nil {
		states := map[string]int{}
		for _, x := range n.NICs {
			states[x.State]++
		}
		return fmt.Sprintf("%s: %d gpus, %d nics, %d down, %d silent", r.Kind, len(n.GPUs), len(n.NICs), states["DOWN"], states[""])
	}
	d := r.Fabric
	var tiers [3]int
	for _, s := range d.Switches {
		tiers[min(s.Tier, 2)]++
	}
	return fmt.Sprintf("%s/%s: %d hosts, %v switches, %d bundles, %d blocks %v, %d domains, %d loose", r.Kind, r.Format, len(d.Hosts), tiers, len(d.Links), len(d.Blocks), d.BlockSizes, len(d.Domains), len(d.Loose))
}

// readings are the real files in our words: shape, and words that the warnings must have. A file without an entry is
// still read or refused as the index says.
var readings = map[string]struct {
	shape string
	warn  []string
	check func(*testing.T, *Result)
}{
	"001": {"ibnetdiscover/blocks: 122 hosts, [31 9 0] switches, 269 bundles, 0 blocks [], 0 domains, 69 loose", []string{"40 SHARP aggregation nodes", "69 adapter ports name no host"}, func(t *testing.T, r *Result) {
		if r.CARecords != 582 || r.Aggregation != 40 {
			t.Errorf("%d CA records, %d aggregation nodes; want 582, 40", r.CARecords, r.Aggregation)
		}
		if l := r.Fabric.Links[0]; l.Count != 2 || l.Rate.Gbps() != 400 {
			t.Errorf("first bundle %+v, want 2 x 400 Gb/s", l)
		}
		names := map[string]bool{}
		for _, h := range r.Fabric.Hosts {
			if strings.Contains(h.Name, "Aggregation") || strings.Contains(h.Name, "Mellanox") {
				t.Errorf("host %q", h.Name)
			}
			for _, a := range h.HCAs {
				names[a.Name] = true
			}
		}
		if !names["mlx5_5"] || !names["HCA-6"] {
			t.Errorf("adapter names %v, want both styles", names)
		}
	}},
	"002": {"ibnetdiscover/blocks: 1 hosts, [0 0 0] switches, 0 bundles, 0 blocks [], 0 domains, 0 loose", []string{"no switch is listed"}, nil},
	"003": {"ibnetdiscover/blocks: 10 hosts, [5 2 1] switches, 7 bundles, 0 blocks [], 0 domains, 0 loose", nil, func(t *testing.T, r *Result) {
		last := r.Fabric.Switches[7]
		if !strings.HasSuffix(last.Name, "/S01") || last.Model != "MCS8500" || r.Fabric.Hosts[0].HCAs[0].Rate.Gbps() != 200 {
			t.Errorf("director part %+v, host %+v", last, r.Fabric.Hosts[0])
		}
	}},
	"004": {"ibnetdiscover/ports: 3 hosts, [3 1 0] switches, 1 bundles, 0 blocks [], 0 domains, 0 loose", []string{"2 ports have no link"}, func(t *testing.T, r *Result) {
		leaf := ""
		for _, h := range r.Fabric.Hosts {
			leaf += h.Name + ">" + h.Leaf + " "
		}
		if leaf != "o0001>ib-i1l1s01 o0002>ib-i1l1s01 p0001>ib-i4l1s01 " || r.Fabric.Links[0].B != "ib-i1l2s01" {
			t.Errorf("leaves %s, link %+v", leaf, r.Fabric.Links[0])
		}
	}},
	"005": {"ibnetdiscover/ports: 1 hosts, [5 0 0] switches, 0 bundles, 0 blocks [], 0 domains, 0 loose", []string{"3 ports have no link"}, func(t *testing.T, r *Result) {
		if h := r.Fabric.Hosts[0]; h.Name != "worker20" || h.Leaf != "5FB0405-leaf-IB01" || h.HCAs[0].Name != "mlx5_3" {
			t.Errorf("host %+v", h)
		}
	}},
	"006": {"ibnetdiscover/ports: 0 hosts, [1 0 0] switches, 0 bundles, 0 blocks [], 0 domains, 0 loose", []string{"1 ports have no link (Infiniscale-IV"}, nil},
	"007": {"slurm/tree: 79 hosts, [5 0 0] switches, 0 bundles, 0 blocks [], 0 domains, 0 loose", []string{"\"circe-n051\" is below two switches, \"s2\" (line 3)", "the prefix seems lost", "first \"n019\"", "5 leaf switches without"}, func(t *testing.T, r *Result) {
		if s := r.Fabric.Switches[0]; s.Name != "s0" || s.Hosts != 18 {
			t.Errorf("first switch %+v, want s0 with 16 + 2 hosts as written", s)
		}
	}},
	"008": {"slurm/tree: 4 hosts, [1 0 0] switches, 0 bundles, 0 blocks [], 0 domains, 0 loose", nil, nil},
	"009": {"slurm/tree: 39 hosts, [4 0 0] switches, 0 bundles, 0 blocks [], 0 domains, 0 loose", []string{"no common root: 4 leaf switches"}, nil},
	"010": {"slurm/tree: 40 hosts, [5 2 0] switches, 4 bundles, 0 blocks [], 0 domains, 0 loose", []string{"2 trees (spineA, spineB) and 1 leaf switches in none (leafC)"}, nil},
	"011": {"slurm/tree: 400 hosts, [20 2 0] switches, 20 bundles, 0 blocks [], 0 domains, 0 loose", []string{"2 trees (grp10, grp11)"}, nil},
	"012": {"slurm/tree: 10000 hosts, [500 26 3] switches, 528 bundles, 0 blocks [], 0 domains, 0 loose", nil, nil},
	"013": {"slurm/block: 32 hosts, [0 0 0] switches, 0 bundles, 8 blocks [4 8 16 32 64], 0 domains, 0 loose", nil, nil},
	"015": {"slurm/block: 96 hosts, [0 0 0] switches, 0 bundles, 12 blocks [8 16 32], 12 domains, 0 loose", nil, func(t *testing.T, r *Result) {
		if h := r.Fabric.Hosts[0]; h.Domain != "nvl-1-1" || h.Block != "rack11" {
			t.Errorf("host %+v, want the domain of the comment", h)
		}
	}},
	"016": {"slurm/tree: 96 hosts, [12 6 1] switches, 18 bundles, 0 blocks [], 0 domains, 0 loose", nil, func(t *testing.T, r *Result) {
		if s := r.Fabric.Switches[18]; s.Name != "switch.3.1" || s.Label != "core" {
			t.Errorf("top switch %+v", s)
		}
	}},
	"017": {"topograph/model: 72 hosts, [4 2 1] switches, 6 bundles, 4 blocks [], 4 domains, 0 loose", nil, func(t *testing.T, r *Result) {
		for _, g := range r.Fabric.Domains {
			if len(g.Hosts) != 18 {
				t.Errorf("domain %s has %d nodes, want 18", g.Name, len(g.Hosts))
			}
		}
	}},
	"018": {"topograph/model: 6 hosts, [2 1 0] switches, 2 bundles, 2 blocks [], 2 domains, 0 loose", nil, func(t *testing.T, r *Result) {
		if g := r.Fabric.Domains[0]; g.Name != "nvl2" || strings.Join(g.Hosts, " ") != "I21 I22 I25" {
			t.Errorf("domain %+v", g)
		}
	}},
	"019": {"topograph/model: 255 hosts, [31 2 1] switches, 33 bundles, 29 blocks [], 2 domains, 0 loose", []string{"rack-1-03, rack-1-13"}, func(t *testing.T, r *Result) {
		active := map[string]int{}
		up := map[string]string{}
		for _, l := range r.Fabric.Links {
			up[l.A] = l.B
		}
		for _, s := range r.Fabric.Switches {
			if s.Hosts > 0 {
				active[up[s.Name]]++
			}
		}
		if active["sw-01"] != 14 || active["sw-02"] != 15 {
			t.Errorf("active racks %v, want 14 and 15", active)
		}
	}},
	"020": {"topograph/graph: 8 hosts, [2 1 0] switches, 2 bundles, 0 blocks [], 0 domains, 0 loose", nil, func(t *testing.T, r *Result) {
		if h := r.Fabric.Hosts[0]; h.Name != "dgx-01" || len(h.HCAs) != 4 || h.Leaf != "net-unit-l1" || r.Fabric.Links[0].Count != 28 {
			t.Errorf("host %+v, link %+v", h, r.Fabric.Links[0])
		}
	}},
	"023": {"ibv: 0 gpus, 4 nics, 4 down, 0 silent", []string{"all 4 ports are down: no usable network"}, func(t *testing.T, r *Result) {
		if n := r.Node.NICs[2]; n.Device != "mlx5_2" || n.LinkLayer != "Ethernet" || n.Firmware != "28.43.2566" {
			t.Errorf("NIC %+v", n)
		}
	}},
	"024": {"lspci: 4 gpus, 6 nics, 0 down, 6 silent", []string{"several host bridges"}, func(t *testing.T, r *Result) {
		var at []string
		for _, g := range r.Node.GPUs {
			at = append(at, g.PCI[9:11])
		}
		if strings.Join(at, " ") != "01 41 c1 e1" || r.Node.GPUs[0].Name != "NVIDIA RTX 6000 Ada Generation" || r.Node.GPUPaths[0][1] != topology.PathUnknown {
			t.Errorf("GPUs %v", at)
		}
	}},
	"026": {"ibstat: 0 gpus, 8 nics, 0 down, 8 silent", []string{"8 of 8 ports without a state", "8 of 8 ports without a rate"}, nil},
}

// TestRealFiles guesses and reads every real file and compares what is stated about it.
func TestRealFiles(t *testing.T) {
	files := index(t)
	if len(files) == 0 {
		t.Fatal("the index names no fabric file")
	}
	for file, reading := range files {
		t.Run(file, func(t *testing.T) {
			data := real(t, file)
			kind := Sniff(data)
			if strings.Contains(file, "nvlink-status") {
				if kind != "" {
					t.Errorf("nvidia-smi's NVLink status is taken for %s", kind)
				}
				return
			}
			if kind == "" {
				t.Fatal("the kind is not recognised")
			}
			res, err := Read(kind, bytes.NewReader(data), file)
			if strings.HasPrefix(reading, "refuse") {
				if err == nil || !strings.Contains(err.Error(), file+":") {
					t.Errorf("error %v, want a refusal with file and line", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			w, ok := readings[file[:3]]
			if !ok {
				return
			}
			if got := shape(res); got != w.shape {
				t.Errorf("got  %s\nwant %s", got, w.shape)
			}
			all := strings.Join(res.Warnings, "\n")
			for _, s := range w.warn {
				if !strings.Contains(all, s) {
					t.Errorf("no warning says %q in\n%s", s, all)
				}
			}
			if w.check != nil {
				w.check(t, res)
			}
		})
	}
}
