package source

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"rankmap/topology"
	"rankmap/topology/capture"
	"rankmap/topology/nvml"
)

func TestLiveMachineWithTwoSockets(t *testing.T) {
	m := newMachine(t, "dual-socket", "NVIDIA H200", 18)
	r := m.load(t)
	k := &r.Cluster.Classes[0]
	if len(k.GPUs) != 8 || len(k.NICs) != 10 || k.Wiring != topology.NVLinkSwitched || k.Sockets != 2 || k.GPUs[0].Model != "h200_sxm" {
		t.Fatalf("%d GPUs of %q, %d NICs, %v, %d sockets", len(k.GPUs), k.GPUs[0].Model, len(k.NICs), k.Wiring, k.Sockets)
	}
	if near, path := r.Cluster.NearNICs(3); fmt.Sprint(near, path) != "[2 3] PIX" {
		t.Errorf("GPU 3 is near %v %v", near, path)
	}
	if got := fmt.Sprint(r.Cluster.Domains); got != "[[0 1 2 3 4 5 6 7]]" {
		t.Errorf("domains %s", got)
	}
	if w := found(r, "pcie-width"); len(w) != 1 || !strings.Contains(w[0], "8 lanes of 16") {
		t.Errorf("half the lanes: %v", w)
	}
	if r.Cluster.Nodes[0].Clique != "7a7a7a7a-0000-4000-8000-0123456789ab.3" || r.Cluster.Nodes[0].Name != m.host {
		t.Errorf("node %+v", r.Cluster.Nodes[0])
	}
	var sources []string
	for _, f := range r.Cluster.Facts {
		if strings.HasSuffix(f.What, "/GPU5 NUMA") {
			sources = append(sources, f.Source)
		}
	}
	if len(sources) == 0 || !strings.HasPrefix(sources[0], "sysfs:") {
		t.Errorf("the NUMA node of GPU 5 comes from %v", sources)
	}
}

func TestLiveVirtualMachineSaysUnknownNotFar(t *testing.T) {
	m := newMachine(t, "vm-flat", "NVIDIA H200", 18)
	for i := range 2 {
		for l := range 18 {
			m.answer(fmt.Sprintf("linkRemotePCI %d %d", i, l), "FFFFFFF:FF:FF.0")
			m.rec[fmt.Sprintf("linkRemoteType %d %d", i, l)] = nvml.Answer{Error: &nvml.Error{Code: nvml.CodeNotSupported, Text: "not supported"}}
		}
		m.answer(fmt.Sprintf("fabric %d", i), nvml.Fabric{ClusterUUID: "00000000-0000-0000-0000-000000000000", State: nvml.FabricCompleted})
	}
	m.answer("ancestor 0 1", nvml.AncestorSystem)
	m.smi["topo -m"] = smiMatrix("NV18")
	r := m.load(t)
	k := &r.Cluster.Classes[0]
	if !k.Virtual || k.PCIePath(0, 1) != topology.PathUnknown || k.NICPaths[0][0] != topology.PathUnknown {
		t.Errorf("virtual %v, GPU-GPU %v, GPU-NIC %v", k.Virtual, k.PCIePath(0, 1), k.NICPaths[0][0])
	}
	if len(k.NVLinks) != 1 || k.NVLinks[0].Count != 18 || r.Cluster.Nodes[0].Clique != "" {
		t.Errorf("links %+v, clique %q", k.NVLinks, r.Cluster.Nodes[0].Clique)
	}
	if len(found(r, "distances-unknown")) != 1 || len(found(r, "sources-differ")) != 0 {
		t.Errorf("findings %+v", r.View().Findings)
	}
}

func TestHiddenPairsComeFromTheMatrix(t *testing.T) {
	m := newMachine(t, "domain32", "NVIDIA A100-SXM4-80GB", 12)
	for i := range 4 {
		for l := range 12 {
			m.answer(fmt.Sprintf("linkRemotePCI %d %d", i, l), "ffffffff:ff:ff.0")
			m.answer(fmt.Sprintf("linkRemoteType %d %d", i, l), nvml.RemoteUnknown)
		}
		m.answer(fmt.Sprintf("fabric %d", i), nvml.Fabric{})
	}
	var b strings.Builder
	b.WriteString("\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity\n")
	for i := range 4 {
		fmt.Fprintf(&b, "GPU%d", i)
		for j := range 4 {
			if i == j {
				b.WriteString("\t X ")
			} else {
				b.WriteString("\tNV4")
			}
		}
		b.WriteString("\t0-3\t0\n")
	}
	if r := m.load(t); r.Cluster.Domains != nil {
		t.Errorf("without the matrix the domains are %v, want unknown", r.Cluster.Domains)
	}
	m.smi["topo -m"] = b.String()
	if r := m.load(t); fmt.Sprint(r.Cluster.Domains) != "[[0 1 2 3]]" || r.Cluster.Classes[0].NVLinks[0].Count != 4 {
		t.Errorf("with the matrix the domains are %v", r.Cluster.Domains)
	}
}

func TestDifferencesBetweenSourcesAreFindings(t *testing.T) {
	m := newMachine(t, "vm-flat", "NVIDIA H200", 18)
	m.smi["topo -m"] = smiMatrix("NV16")
	m.smi["nvlink -s"] = "GPU 0: NVIDIA H200 (UUID: GPU-abc00000-1111-2222-3333-444455556666)\n\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n"
	got := found(m.load(t), "sources-differ")
	want := []string{
		m.host + ": nvidia-smi topo -m joins GPU 0 and 1 by 16 NVLinks, the library says 18",
		m.host + ": nvidia-smi nvlink -s shows 1 NVLinks of GPU 0 up, the library 18",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestWithoutTheLibraryNvidiaSMIStandsIn(t *testing.T) {
	m := newMachine(t, "vm-flat", "NVIDIA H200", 18)
	m.noAPI = errNoDriver
	m.smi["topo -m"] = smiMatrix("NV18")
	m.smi["nvlink -s"] = "GPU 0: NVIDIA H200 (UUID: GPU-1)\n\t Link 0: 26.562 GB/s\nGPU 1: NVIDIA H200 (UUID: GPU-2)\n\t Link 0: 26.562 GB/s\n"
	r := m.load(t)
	k := &r.Cluster.Classes[0]
	if k.GPUs[1].Model != "h200_sxm" || k.GPUs[1].PCI != "00000000:00:07.0" || len(k.NICs) != 1 || !k.Virtual {
		t.Errorf("GPU 1 is %+v, %d NICs, virtual %v", k.GPUs[1], len(k.NICs), k.Virtual)
	}
	if !strings.Contains(strings.Join(r.Warnings, "\n"), "nvidia-smi is read in its place") {
		t.Errorf("warnings %v", r.Warnings)
	}
}

func TestWithoutDriverNothingIsMade(t *testing.T) {
	m := newMachine(t, "vm-flat", "NVIDIA H200", 18)
	m.noAPI = errNoDriver
	_, err := m.live().Capture(context.Background())
	var no *nvml.Unavailable
	if !errors.As(err, &no) || no.Hint == "" {
		t.Errorf("error %v", err)
	}
	m.noAPI = errOdd
	if _, err := m.live().Capture(context.Background()); !errors.Is(err, errOdd) {
		t.Errorf("error %v", err)
	}
}

func viewBytes(t *testing.T, r *Result) string {
	t.Helper()
	var b bytes.Buffer
	if err := topology.WriteYAML(&b, r.Cluster); err != nil {
		t.Fatal(err)
	}
	v, err := json.MarshalIndent(r.View(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return b.String() + string(v) + strings.Join(r.Warnings, "\n")
}

// TestCaptureReplaysToTheSameBytes captures each machine, packs and unpacks it, and compares everything printed.
func TestCaptureReplaysToTheSameBytes(t *testing.T) {
	for _, fixture := range []string{"dual-socket", "vm-flat", "no-infiniband", "broken-adapter", "domain32"} {
		m := newMachine(t, fixture, "NVIDIA H200", 18)
		m.rec["memory 0"] = nvml.Answer{Error: &nvml.Error{Code: nvml.CodeUnknown, Text: "unknown error"}}
		m.smi["topo -m"] = smiMatrix("NV18")
		c, err := m.live().Capture(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		var first, second bytes.Buffer
		if err := errors.Join(capture.Write(&first, c), capture.Write(&second, c)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Errorf("%s: two archives of one capture differ", fixture)
		}
		r, err := LoadAll([]string{"capture:x.tar.gz"}, options(t, map[string]string{"x.tar.gz": first.String()}))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := viewBytes(t, r), viewBytes(t, m.load(t)); got != want {
			t.Errorf("%s: the replay differs:\n%s\nlive:\n%s", fixture, got, want)
		}
	}
}

// TestRedactedCaptureLeaksNothing searches the archive and the topology for everything that identifies the site, and
// compares the shape.
func TestRedactedCaptureLeaksNothing(t *testing.T) {
	m := newMachine(t, "dual-socket", "NVIDIA H200", 18)
	m.env["CUDA_VISIBLE_DEVICES"] = "GPU-abc00003,GPU-abc00001-1111-2222-3333-444455556666"
	m.smi["topo -m"] = "root@gpu-tray-17:~# nvidia-smi topo -m\n" + smiMatrix("NV18")
	m.smi["nvlink -s"] = "GPU 0: NVIDIA H200 (UUID: GPU-abc00000-1111-2222-3333-444455556666)\n\t Link 0: 26.562 GB/s\nseen from 10.11.12.13 and fe80::a288:c2ff:fe03:1, serial number: 1652923001234\n"
	c, err := m.live().Capture(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	red := capture.NewRedactor([]byte("salt"), c.Host).Capture(c)
	r, err := LoadCapture(red, "x", options(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	all := viewBytes(t, r) + red.Host + fmt.Sprint(red.Env, red.Notes)
	for _, f := range red.Files {
		all += string(f)
	}
	for _, secret := range []string{"gpu-tray", "example.org", "abc0000", "1111-2222", "a088", "7a7a7a7a", "0123456789ab", "10.11.12.13", "fe80", "c2ff", "1652923"} {
		if strings.Contains(strings.ToLower(all), secret) {
			at := strings.Index(strings.ToLower(all), secret)
			t.Errorf("%q is still there: ...%s...", secret, all[max(0, at-60):min(len(all), at+60)])
		}
	}
	plain := m.load(t)
	if len(r.Cluster.Classes[0].GPUs) != 2 || fmt.Sprint(r.Cluster.Domains) != fmt.Sprint(plain.Cluster.Domains) || r.Cluster.Classes[0].GPUs[0].Index != 3 {
		t.Errorf("the redacted machine has another shape: %+v", r.Cluster.Classes[0].GPUs)
	}
	if x, y := r.Cluster.Classes[0].Fingerprint(), plain.Cluster.Classes[0].Fingerprint(); x != y {
		t.Errorf("fingerprints %s and %s", x, y)
	}
	again := capture.NewRedactor([]byte("salt"), c.Host).Capture(c)
	other := capture.NewRedactor([]byte("pepper"), c.Host).Capture(c)
	if fmt.Sprint(again) != fmt.Sprint(red) || other.Host == red.Host {
		t.Error("hashes must be the same for one salt and differ for another")
	}
}
