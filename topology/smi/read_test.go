package smi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rankmap/topology"
)

const pair = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV4\t0-7\t0\nGPU1\tNV4\t X \t0-7\t0\n"

func mustRead(t *testing.T, text string) *Result {
	t.Helper()
	res, err := Read(strings.NewReader(text), "t")
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return res
}

func names(res *Result) string {
	var s []string
	for i := range res.Nodes {
		s = append(s, res.Nodes[i].Name)
	}
	return strings.Join(s, ",")
}

func TestSeveralTables(t *testing.T) {
	other := strings.ReplaceAll(pair, "NV4", "SYS")
	for _, c := range []struct {
		name, text string
		nodes      string // names, by commas
		warning    string
	}{
		{"same table twice", pair + "\n" + pair, "", "stands here again"},
		{"two moments", pair + "\nafter the reboot:\n" + other, "", "second, different table"},
		{"two moments of one host", "me@n1:~$ nvidia-smi topo -m\n" + pair + "me@n1:~$ nvidia-smi topo -m\n" + other, "n1", "second, different table"},
		{"two hosts by prompt", "me@n1:~$ nvidia-smi topo -m\n" + pair + "[me@n2 ~]$ nvidia-smi topo -m\n" + other, "n1,n2", ""},
		{"two hosts by ssh", "$ ssh n1\n$ nvidia-smi topo -m\n" + pair + "$ ssh n2\n$ nvidia-smi topo -m\n" + other, "n1,n2", ""},
		{"two hosts by heading", "=== node01 ===\n" + pair + "=== node02 ===\n" + other, "node01,node02", ""},
		{"pdsh, one after the other", prefixed(pair, "n1: ") + prefixed(other, "n2: "), "n1,n2", ""},
		{"pdsh, interleaved", interleave(prefixed(pair, "n1: "), prefixed(other, "n2: ")), "n1,n2", ""},
		{"ansible", "n1 | CHANGED | rc=0 >>\n" + pair + "n2 | CHANGED | rc=0 >>\n" + other, "n1,n2", ""},
		{"a mail address is no host", "me@example.com wrote:\n" + pair, "", ""},
		{"headers lost in the second", pair + "\n" + other[strings.Index(other, "\n")+1:], "", "second, different table"},
	} {
		res := mustRead(t, c.text)
		if got := names(res); got != c.nodes {
			t.Errorf("%s: nodes %q, want %q", c.name, got, c.nodes)
		}
		all := ""
		for _, w := range res.Warnings {
			all += w.String() + "\n"
		}
		if !strings.Contains(all, c.warning) || c.warning == "" && strings.Contains(all, "second") {
			t.Errorf("%s: warnings %q, want %q", c.name, all, c.warning)
		}
		if p := res.Nodes[0].GPUPaths[0][1]; p != topology.PathNV {
			t.Errorf("%s: first table reads %s", c.name, p)
		}
	}
}

func interleave(a, b string) string {
	x, y := strings.SplitAfter(a, "\n"), strings.SplitAfter(b, "\n")
	var s strings.Builder
	for i := range x {
		s.WriteString(x[i] + y[i])
	}
	return s.String()
}

func TestMatrixWithoutNVLink(t *testing.T) {
	legend := "\nLegend:\n\n  X    = Self\n  SYS  = a\n  NODE = b\n  PHB  = c\n  PXB  = d\n  PIX  = e\n"
	flat := strings.ReplaceAll(pair, "NV4", "NODE")
	for _, c := range []struct {
		name, text string
		visible    bool
	}{
		{"topo -m", "$ nvidia-smi topo -m\n" + flat, true},
		{"no command, no legend", flat, true},
		{"topo -mp", "$ nvidia-smi topo -mp\n" + flat, false},
		{"topo --matrix_pci", "# nvidia-smi topo --matrix_pci\n" + flat, false},
		{"legend without NV#", flat + legend, false},
		{"legend with NV#", flat + legend + "  NV#  = f\n", true},
		{"NV in the cells", pair + legend, true},
	} {
		res := mustRead(t, c.text)
		if unknown := res.Nodes[0].Wiring == topology.NVLinkUnknown; res.NVLinkVisible != c.visible || unknown == c.visible {
			t.Errorf("%s: visible %v, wiring %s", c.name, res.NVLinkVisible, res.Nodes[0].Wiring)
		}
		if !c.visible && len(res.Warnings) == 0 {
			t.Errorf("%s: no warning", c.name)
		}
	}
	for _, text := range []string{
		"$ nvidia-smi topo -m\n" + pair + "$ nvidia-smi topo -mp\n" + flat,
		"$ nvidia-smi topo -mp\n" + flat + "$ nvidia-smi topo -m\n" + pair,
	} {
		res := mustRead(t, text)
		n := &res.Nodes[0]
		if len(res.Nodes) != 1 || !res.NVLinkVisible || len(n.NVLinks) != 1 || n.PCIePaths == nil || n.PCIePaths[0][1] != topology.PathNODE {
			t.Errorf("both tables: %+v", n)
		}
	}
}

func TestVirtual(t *testing.T) {
	for text, want := range map[string]bool{
		strings.ReplaceAll(pair, "NV4", "SYS"): true,
		pair:                                   false,
		strings.ReplaceAll(strings.ReplaceAll(pair, "NV4", "SYS"), "0-7\t0\nGPU1", "8-15\t1\nGPU1"): false,
	} {
		n := &mustRead(t, text).Nodes[0]
		if n.Virtual != want {
			t.Errorf("virtual %v, want %v for\n%s", n.Virtual, want, text)
		}
	}
}

func TestFacts(t *testing.T) {
	res := mustRead(t, "me@n1:~$ nvidia-smi topo -m\n"+pair)
	want := map[string]string{"n1/GPU1 NUMA": "0", "n1/GPU1 CPU affinity": "0-7", "n1/GPU1 paths": "NV4 X"}
	for _, f := range res.Facts {
		if v, ok := want[f.What]; ok {
			if f.Value != v || f.Source != "smi:t:4" {
				t.Errorf("fact %+v, want %q from smi:t:4", f, v)
			}
			delete(want, f.What)
		}
	}
	if len(want) > 0 {
		t.Errorf("facts missing: %v", want)
	}
}

// TestErrorPlaces: lines and columns are those of the file, whatever was taken off the line.
func TestErrorPlaces(t *testing.T) {
	bad := strings.Replace(pair, "GPU1\tNV4\t X ", "GPU1\tNV4\tPIX", 1)
	for _, c := range []struct{ name, text, want string }{
		{"plain", bad, "t:3:10: "},
		{"quoted", prefixed(bad, "> "), "t:3:12: "},
		{"escapes before it", strings.Replace(bad, "GPU1\tNV4", "\x1b[1mGPU1\x1b[0m\tNV4", 1), "t:3:18: "},
		{"wide characters before it", strings.Replace(bad, "GPU1\tNV4", "é\u00a0GPU1\tNV4", 1), "t:3:12: "},
	} {
		_, err := Read(strings.NewReader(c.text), "t")
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

func TestExample(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", "hgx-h200-topo", "topo.txt"))
	if err != nil {
		t.Fatal(err)
	}
	res := mustRead(t, string(text))
	_, bad, _ := compareReading(&res.Nodes[0], "gpus=8; nics=10 (NIC0..NIC9); nvlink=[{0-7}] NV18 x28 pairs; "+
		"nearest NIC: GPU0->NIC0 (PIX); GPU1->NIC1 (PIX); GPU2->NIC3 (PIX); GPU7->NIC9 (PIX); "+
		"cpu: GPU0-3=0-47,96-143; GPU4-7=48-95,144-191; numa: GPU0-3->0; GPU4-7->1")
	if len(bad) > 0 || len(res.Warnings) > 0 {
		t.Errorf("%v, warnings %v", bad, res.Warnings)
	}
}

func BenchmarkRead(b *testing.B) {
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", "hgx-h200-topo", "topo.txt"))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Read(strings.NewReader(string(text)), "topo.txt"); err != nil {
			b.Fatal(err)
		}
	}
}
