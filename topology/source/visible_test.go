package source

import (
	"fmt"
	"strings"
	"testing"

	"rankmap/topology"
)

func TestCUDAVisibleDevices(t *testing.T) {
	var gpus []topology.GPU
	for i := range 4 {
		gpus = append(gpus, topology.GPU{Index: i, UUID: fmt.Sprintf("GPU-ab%02d0000-0000-0000-0000-000000000000", i)})
	}
	for _, c := range []struct{ env, order, err string }{
		{"2,0", "[2 0]", ""},
		{" 3 , 1 ", "[3 1]", ""},
		{"GPU-ab01,GPU-AB03", "[1 3]", ""},
		{"GPU-ab020000-0000-0000-0000-000000000000,1", "[2 1]", ""},
		{"1,-1,2", "[1]", "what follows is hidden"},
		{"0,9,1", "[0]", `"9" names no GPU`},
		{"GPU-ab", "[]", "several UUIDs"},
		{"NoDevFiles", "[]", "names no GPU"},
		{"-1", "[]", "names no GPU"},
		{"0,1,0", "[]", "again"},
		{"MIG-GPU-ab010000-0000-0000-0000-000000000000/3/0", "[1]", ""},
		{"GPU-", "[]", "names no GPU"},
	} {
		order, err := VisibleGPUs(c.env, gpus)
		if fmt.Sprint(order) != c.order || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q: %v, %v; want %s and %q", c.env, order, err, c.order, c.err)
		}
	}
}

func TestVisibleGPUsAreReordered(t *testing.T) {
	m := newMachine(t, "dual-socket", "NVIDIA H200", 18)
	m.env["CUDA_VISIBLE_DEVICES"] = "7,GPU-abc00002,0"
	r := m.load(t)
	k := &r.Cluster.Classes[0]
	if k.GPUs[0].Index != 7 || k.GPUs[1].Index != 2 || k.GPUs[2].Index != 0 || len(k.GPUs) != 3 || len(k.NVLinks) != 3 {
		t.Fatalf("GPUs %+v, links %+v", k.GPUs, k.NVLinks)
	}
	if k.PCIePath(1, 2) != topology.PathNODE || k.PCIePath(0, 1) != topology.PathSYS {
		t.Errorf("distances %v %v do not follow the GPUs", k.PCIePath(1, 2), k.PCIePath(0, 1))
	}
	if near, _ := r.Cluster.NearNICs(0); fmt.Sprint(near) != "[6]" {
		t.Errorf("CUDA device 0 is near %v, want what GPU 7 is near", near)
	}
	m.env["CUDA_VISIBLE_DEVICES"] = "-1"
	c, err := m.live().Capture(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := LoadCapture(c, "x", options(t, nil)); err == nil || !strings.Contains(err.Error(), "hides every GPU") {
		t.Errorf("error %v", err)
	}
}
