package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"rankmap/configs"
	"rankmap/internal/hardware"
	"rankmap/topology/nvml"
	"rankmap/topology/sysfs"
)

func options(t testing.TB, files map[string]string) Options {
	t.Helper()
	cat, err := hardware.Load(configs.FS)
	if err != nil {
		t.Fatal(err)
	}
	return Options{Catalog: cat, Presets: configs.FS, Read: func(name string) ([]byte, error) {
		s, ok := files[name]
		if !ok {
			return nil, fmt.Errorf("open %s: %w", name, os.ErrNotExist)
		}
		return []byte(s), nil
	}}
}

// machine is a live host made of a sysfs fixture and the driver's answers for the GPUs on its tree.
type machine struct {
	host  string
	tree  *sysfs.Archive
	rec   nvml.Recording
	smi   map[string]string // by arguments
	env   map[string]string
	noAPI error
}

func (m *machine) answer(question string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	m.rec[question] = nvml.Answer{Value: b}
}

// newMachine makes a host whose GPUs have a number of links to switches.
func newMachine(t testing.TB, fixture, name string, links int) *machine {
	t.Helper()
	data, err := os.ReadFile("../sysfs/testdata/" + fixture + ".sysfs")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := sysfs.ParseArchive(data, fixture)
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{host: "gpu-tray-17.example.org", tree: tree, rec: nvml.Recording{}, smi: map[string]string{}, env: map[string]string{}}
	gpus := sysfs.Read(tree).GPUs()
	m.answer("driver", "580.95.05")
	m.answer("library", "13.580.95.05")
	m.answer("count", len(gpus))
	for i, g := range gpus {
		m.answer(fmt.Sprintf("name %d", i), name)
		m.answer(fmt.Sprintf("uuid %d", i), fmt.Sprintf("GPU-%08x-1111-2222-3333-444455556666", 0xabc00000+i))
		m.answer(fmt.Sprintf("pci %d", i), strings.ToUpper(g.PCI))
		m.answer(fmt.Sprintf("memory %d", i), 150754820096)
		m.answer(fmt.Sprintf("compute %d", i), nvml.Compute{Major: 9})
		m.answer(fmt.Sprintf("mig %d", i), false)
		m.answer(fmt.Sprintf("fabric %d", i), nvml.Fabric{ClusterUUID: "7a7a7a7a-0000-4000-8000-0123456789ab", CliqueID: 3, State: nvml.FabricCompleted})
		m.answer(fmt.Sprintf("linkCount %d", i), links)
		for l := range links {
			m.answer(fmt.Sprintf("linkState %d %d", i, l), true)
			m.answer(fmt.Sprintf("linkRemotePCI %d %d", i, l), "0000000F:FF:FF.0")
			m.answer(fmt.Sprintf("linkRemoteType %d %d", i, l), nvml.RemoteSwitch)
			m.answer(fmt.Sprintf("linkSpeed %d %d", i, l), 26.562e9)
		}
	}
	return m
}

func (m *machine) live() *Live {
	return &Live{
		NVML: func() (nvml.API, error) {
			if m.noAPI != nil {
				return nil, m.noAPI
			}
			return nvml.Replay(m.rec), nil
		},
		Sysfs: m.tree,
		SMI: func(_ context.Context, args ...string) ([]byte, error) {
			if s, ok := m.smi[strings.Join(args, " ")]; ok {
				return []byte(s), nil
			}
			return nil, ErrNoSMI
		},
		Getenv:   func(k string) string { return m.env[k] },
		Hostname: func() (string, error) { return m.host, nil },
	}
}

// load discovers the machine.
func (m *machine) load(t testing.TB) *Result {
	t.Helper()
	c, err := m.live().Capture(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	r, err := LoadCapture(c, "this machine", options(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// smiMatrix is topo -m of two GPUs.
func smiMatrix(cell string) string {
	return "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t" + cell + "\t0-3\t0\t\tN/A\nGPU1\t" + cell + "\t X \t0-3\t0\t\tN/A\n"
}

func found(r *Result, id string) (texts []string) {
	for _, f := range r.View().Findings {
		if f.ID == id {
			texts = append(texts, f.Where+": "+f.Message)
		}
	}
	return texts
}

var errNoDriver = &nvml.Unavailable{Why: "libnvidia-ml.so.1 is not found", Hint: "install the driver"}

var errOdd = errors.New("odd failure")
