package smi

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rankmap/internal/testdata"
	"rankmap/internal/units"
	"rankmap/topology"
)

const twoGPUs = "GPU 0: NVIDIA H200 (UUID: GPU-aaaa)\n\t Link 0: 26.562 GB/s\n\t Link 1: 26.562 GB/s\n" +
	"GPU 1: NVIDIA H200 (UUID: GPU-bbbb)\n\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n"

func TestReadNVLinkStatus(t *testing.T) {
	for _, c := range []struct{ name, text string }{
		{"as printed", twoGPUs},
		{"CRLF", strings.ReplaceAll(twoGPUs, "\n", "\r\n")},
		{"blank lines and a prompt", "$ nvidia-smi nvlink -s\n" + strings.ReplaceAll(twoGPUs, "\n", "\n   \n")},
		{"mail quoting", prefixed(twoGPUs, "> ")},
		{"pdsh", prefixed(twoGPUs, "node1: ")},
		{"tabs expanded", expand(twoGPUs)},
	} {
		t.Run(c.name, func(t *testing.T) {
			st, err := ReadNVLinkStatus(strings.NewReader(c.text), "s")
			if err != nil {
				t.Fatal(err)
			}
			if len(st.GPUs) != 2 || len(st.Warnings) != 0 {
				t.Fatalf("%d GPUs, warnings %v", len(st.GPUs), st.Warnings)
			}
			g := st.GPUs[1]
			if g.Name != "NVIDIA H200" || g.UUID != "GPU-bbbb" || len(g.Links) != 2 || g.Active() != 1 || g.Links[0].Rate != units.GBps(26.562) {
				t.Errorf("GPU 1 is %+v", g)
			}
		})
	}
}

func TestReadNVLinkStatusRefuses(t *testing.T) {
	for _, c := range []struct {
		name, text, want string
		foreign          bool
	}{
		{"empty", "", "empty", true},
		{"a matrix", "\tGPU0\tGPU1\nGPU0\t X \tNV1\nGPU1\tNV1\t X \n", "s:2:1: this is a matrix of nvidia-smi topo; give it as smi:FILE", true},
		{"topo -p2p", "\tGPU0\tGPU1\n GPU0\tX\tOK\n GPU1\tOK\tX\n", "topo -p2p", true},
		{"capabilities", "GPU 0: N (UUID: GPU-1)\n\t Link 0, P2P is supported: true\n", "", false},
		{"link before GPU", "\t Link 0: 25 GB/s\n", "s:1:3: link 0 stands before", false},
		{"no rate", "GPU 0: N (UUID: GPU-1)\n\t Link 0: fast\n", "s:2:3: link 0 of GPU 0: \"fast\" is no rate", false},
		{"twice", "GPU 0: N (UUID: GPU-1)\n Link 0: 25 GB/s\n Link 0: 25 GB/s\n", "s:3:2: link 0 of GPU 0 stands here again", false},
		{"prose", "hello\n", "no line \"GPU 0:", true},
	} {
		st, err := ReadNVLinkStatus(strings.NewReader(c.text), "s")
		if c.want == "" {
			if err != nil || len(st.Warnings) != 1 {
				t.Errorf("%s: %v, want a warning that no link is listed", c.name, err)
			}
			continue
		}
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) || (e.Foreign != "") != c.foreign {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// TestCorpusNVLink reads the two files of the collection that hold nvlink -s.
func TestCorpusNVLink(t *testing.T) {
	dir := testdata.Dir(t, "topology", "dev", "fabric")
	for _, c := range []struct {
		file        string
		gpus, links int
		rate        float64
		warnings    int
	}{
		{"022-nvlink-status-a100-8gpu.txt", 8, 12, 25, 0},
		{"025-nvlink-status-a800-8gpu-cropped.txt", 3, 8, 26.562, 1},
	} {
		f, err := os.Open(filepath.Join(dir, c.file))
		if err != nil {
			t.Fatal(err)
		}
		st, err := ReadNVLinkStatus(f, c.file)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		if len(st.GPUs) != c.gpus || len(st.Warnings) != c.warnings {
			t.Errorf("%s: %d GPUs, want %d; warnings %v", c.file, len(st.GPUs), c.gpus, st.Warnings)
		}
		for _, g := range st.GPUs {
			if g.Active() != c.links || len(g.Links) != c.links || g.rate() != units.GBps(c.rate) || g.UUID == "" || g.Name == "" {
				t.Errorf("%s: GPU %d: %+v", c.file, g.Index, g)
			}
		}
	}
}

func TestMerge(t *testing.T) {
	node := func(count int, gpus int) *topology.NodeClass {
		n := &topology.NodeClass{}
		for i := range gpus {
			n.GPUs = append(n.GPUs, topology.GPU{Index: i})
			for j := range i {
				n.NVLinks = append(n.NVLinks, topology.NVLink{A: j, B: i, Count: count})
			}
		}
		return n
	}
	status := func(active ...int) *LinkStatus {
		st := &LinkStatus{}
		for i, a := range active {
			g := GPULinks{Index: i, Name: "NVIDIA H200", UUID: "GPU-" + gpuName(i)}
			for l := range 4 {
				s := LinkState{Index: l, Active: l < a}
				if s.Active {
					s.Rate = units.GBps(26.562)
				}
				g.Links = append(g.Links, s)
			}
			st.GPUs = append(st.GPUs, g)
		}
		return st
	}

	n := node(4, 3)
	if w := status(4, 4, 4).Merge(n); len(w) != 0 {
		t.Errorf("warnings %v", w)
	}
	if g := n.GPUs[2]; g.Name != "NVIDIA H200" || g.UUID != "GPU-GPU2" || g.NVLinksUp != 4 {
		t.Errorf("GPU 2 is %+v", g)
	}
	if l := n.NVLinks[0]; l.PerLink != units.GBps(26.562) || l.Down != 0 {
		t.Errorf("link is %+v", l)
	}

	n = node(4, 3)
	for i := range n.NVLinks { // GPU 2 has two links down
		if n.NVLinks[i].B == 2 {
			n.NVLinks[i].Count = 2
		}
	}
	if w := status(4, 4, 2).Merge(n); len(w) != 0 {
		t.Errorf("warnings %v", w)
	}
	for _, l := range n.NVLinks {
		if want := map[int]int{1: 0, 2: 2}[l.B]; l.Down != want {
			t.Errorf("link %d-%d has %d down, want %d", l.A, l.B, l.Down, want)
		}
	}

	n = node(4, 3)
	if w := status(4, 4, 2).Merge(n); len(w) != 2 || !strings.Contains(w[0].Msg, "NV4 in the matrix") {
		t.Errorf("contradiction gives %v", w)
	}
	n = node(4, 2)
	if w := status(4, 4, 4).Merge(n); len(w) != 1 || !strings.Contains(w[0].Msg, "not in the matrix") {
		t.Errorf("a GPU too many gives %v", w)
	}
}

// TestStatusInSamePaste: nvlink -s behind the matrix names the GPUs.
func TestStatusInSamePaste(t *testing.T) {
	text := "\tGPU0\tGPU1\nGPU0\t X \tNV1\nGPU1\tNV1\t X \n\n$ nvidia-smi nvlink -s\n" + twoGPUs
	res, err := Read(strings.NewReader(text), "t")
	if err != nil {
		t.Fatal(err)
	}
	if res.NVLinks == nil || res.Nodes[0].GPUs[1].UUID != "GPU-bbbb" || res.Nodes[0].NVLinks[0].PerLink != units.GBps(26.562) {
		t.Errorf("status not merged: %+v", res.Nodes[0])
	}
	inactive := "GPU 0: A40 (UUID: GPU-1)\nNVML: Unable to retrieve NVLink information as all links are inActive\n"
	st, err := ReadNVLinkStatus(strings.NewReader(inactive), "s")
	if err != nil || !st.GPUs[0].AllInactive || st.GPUs[0].Active() != 0 || len(st.Warnings) != 0 {
		t.Errorf("inactive: %+v, %v", st, err)
	}
}
