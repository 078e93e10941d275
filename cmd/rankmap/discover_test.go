package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rankmap/configs"
	"rankmap/topology/nvml"
	"rankmap/topology/source"
	"rankmap/topology/sysfs"
)

// twoGPUs is a virtual machine with two GPUs, NV18 between them, and one adapter.
func twoGPUs(t *testing.T) *source.Live {
	t.Helper()
	data, err := os.ReadFile("../../topology/sysfs/testdata/vm-flat.sysfs")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := sysfs.ParseArchive(data, "vm-flat")
	if err != nil {
		t.Fatal(err)
	}
	rec := nvml.Recording{}
	put := func(question string, v any) {
		b, _ := json.Marshal(v)
		rec[question] = nvml.Answer{Value: b}
	}
	put("count", 2)
	for i := range 2 {
		put(fmt.Sprint("name ", i), "NVIDIA H200")
		put(fmt.Sprint("uuid ", i), fmt.Sprintf("GPU-abcdef0%d-1111-2222-3333-444455556666", i))
		put(fmt.Sprint("pci ", i), fmt.Sprintf("00000000:00:0%d.0", 6+i))
		put(fmt.Sprint("linkCount ", i), 18)
		put(fmt.Sprint("fabric ", i), nvml.Fabric{ClusterUUID: "00000000-0000-0000-0000-000000000000", State: nvml.FabricCompleted})
		for l := range 18 {
			put(fmt.Sprintf("linkState %d %d", i, l), true)
			put(fmt.Sprintf("linkRemotePCI %d %d", i, l), "FFFFFFF:FF:FF.0")
			put(fmt.Sprintf("linkRemoteType %d %d", i, l), nvml.RemoteSwitch)
			put(fmt.Sprintf("linkSpeed %d %d", i, l), 26.562e9)
		}
	}
	return &source.Live{
		NVML:     func() (nvml.API, error) { return nvml.Replay(rec), nil },
		Sysfs:    tree,
		SMI:      func(context.Context, ...string) ([]byte, error) { return nil, source.ErrNoSMI },
		Getenv:   func(string) string { return "" },
		Hostname: func() (string, error) { return "secret-vm", nil },
	}
}

// onMachine runs discover on a machine of the test's own.
func onMachine(live *source.Live, args ...string) (code int, out, talk string) {
	var o, e bytes.Buffer
	d := &deps{Stdin: strings.NewReader(""), Stdout: &o, Stderr: &e, Configs: configs.FS, Open: openFile, Getenv: func(string) string { return "" }, Live: live}
	code = run(context.Background(), d, append([]string{"discover"}, args...))
	return code, o.String(), e.String()
}

func TestDiscoverThisMachine(t *testing.T) {
	dir := t.TempDir()
	archive := filepath.Join(dir, "c.tar.gz")
	code, live, talk := onMachine(twoGPUs(t), "--capture", archive, "-o", "json")
	if code != exitOK || !strings.Contains(live, `"secret-vm/1"`) || !strings.Contains(live, `"count": 18`) {
		t.Fatalf("exit %d, %s\n%s", code, talk, live)
	}
	st, err := os.Stat(archive)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("archive %v, %v: want a private file", st, err)
	}
	if code, again, _ := onMachine(nil, "--from", archive, "-o", "json"); code != exitOK || again != live {
		t.Errorf("exit %d, the replay differs:\n%s", code, again)
	}
	if code, table, _ := onMachine(twoGPUs(t), "-o", "table"); code != exitOK || !strings.Contains(table, "PCIe distances unknown (virtualised)") || strings.Contains(table, "\tSYS\t") {
		t.Errorf("exit %d:\n%s", code, table)
	}
	for _, suffix := range []string{"yaml", "json", "txt", "xml", "svg", "dot", "mmd", "html"} {
		file := filepath.Join(dir, "out."+suffix)
		if code, out, talk := onMachine(twoGPUs(t), "-f", file); code != exitOK || out != "" {
			t.Errorf("-f out.%s: exit %d, %s", suffix, code, talk)
		}
		if code, _, talk := onMachine(nil, "--from", file, "-o", "json"); (suffix == "yaml" || suffix == "xml") && code != exitOK {
			t.Errorf("out.%s does not read back: exit %d, %s", suffix, code, talk)
		}
	}
}

func TestDiscoverRedacted(t *testing.T) {
	archive := filepath.Join(t.TempDir(), "c.tar.gz")
	code, out, talk := onMachine(twoGPUs(t), "--redact", "--capture", archive, "-o", "json")
	if code != exitOK {
		t.Fatalf("exit %d: %s", code, talk)
	}
	_, wide, _ := onMachine(nil, "--from", archive, "-o", "wide")
	for _, secret := range []string{"secret-vm", "abcdef0", "1111-2222", "a088:c203"} {
		if strings.Contains(out+wide, secret) {
			t.Errorf("%q is still there", secret)
		}
	}
}

func TestDiscoverWithoutDriver(t *testing.T) {
	live := twoGPUs(t)
	live.NVML = func() (nvml.API, error) {
		return nil, &nvml.Unavailable{Why: "libnvidia-ml.so.1 is not found", Hint: "install the driver"}
	}
	if code, out, talk := onMachine(live); code != exitEnvironment || out != "" || !strings.Contains(talk, "libnvidia-ml.so.1") || !strings.Contains(talk, "hint: install") {
		t.Errorf("exit %d, %q", code, talk)
	}
	live.NVML = func() (nvml.API, error) { return nil, errors.New("odd") }
	if code, _, _ := onMachine(live); code != exitEnvironment {
		t.Errorf("exit %d for another failure of the library", code)
	}
}
