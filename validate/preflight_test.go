package validate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

var roomy = Host{Name: "here", ShmTotal: 8 << 30, ShmFree: 8 << 30, KnownSHM: true}

func TestPreflightOfGPUs(t *testing.T) {
	ranks := ranksJob(2).Ranks
	for _, c := range []struct {
		name, want string
		change     func(*GPUFacts)
		busy       bool
	}{
		{"MIG", "gpu-mig", func(g *GPUFacts) { g.MIG = "Enabled" }, false},
		{"fabric in progress", "fabric-not-ready", func(g *GPUFacts) { g.FabricState = "In Progress" }, false},
		{"fabric failed", "fabric-not-ready", func(g *GPUFacts) { g.FabricStatus = "Error 5" }, false},
		{"no fabric", "", func(g *GPUFacts) { g.FabricState, g.FabricStatus = "N/A", "N/A" }, false},
		{"busy", "gpu-busy", func(g *GPUFacts) { g.Processes = []GPUProcess{{PID: 1, UsedMiB: 7}} }, false},
		{"busy and allowed", "gpu-busy-allowed", func(g *GPUFacts) { g.Processes = []GPUProcess{{PID: 1, UsedMiB: 7}} }, true},
		{"exclusive", "gpu-exclusive", func(g *GPUFacts) { g.ComputeMode = "Exclusive_Process" }, false},
		{"prohibited", "gpu-prohibited", func(g *GPUFacts) { g.ComputeMode = "Prohibited" }, false},
		{"ECC", "gpu-hardware", func(g *GPUFacts) { g.ECCUncorrected = 1 }, false},
		{"row remapping", "gpu-hardware", func(g *GPUFacts) { g.RemapFailure = "Yes" }, false},
		{"hot", "gpu-throttled", func(g *GPUFacts) { g.Slowdown = []string{"hw slowdown"} }, false},
		{"narrow", "gpu-pcie", func(g *GPUFacts) { g.LinkWidth, g.LinkWidthMax = 8, 16 }, false},
		{"healthy", "", func(*GPUFacts) {}, false},
	} {
		insp := fakeDriver{change: func(n *NodeFacts) { c.change(&n.GPUs[1]); c.change(&n.GPUs[5]) }}
		_, fs, _ := Preflight(context.Background(), insp, roomy, ranks, "", c.busy, false)
		switch {
		case c.want == "" && len(fs) > 0:
			t.Errorf("%s: findings %+v, want none", c.name, fs)
		case c.want != "" && (len(fs) != 1 || fs[0].ID != c.want || !strings.Contains(fs[0].Message, "GPU 1")):
			t.Errorf("%s: findings %+v, want %s for GPU 1 alone (no rank is on GPU 5)", c.name, fs, c.want)
		}
	}
}

func TestPreflightOfHost(t *testing.T) {
	ranks := ranksJob(8).Ranks
	for _, c := range []struct {
		name, want string
		change     func(*Host)
	}{
		{"docker's 64 MB", "shm-full", func(h *Host) { h.ShmTotal, h.ShmFree = 64<<20, 64<<20 }},
		{"under 1 GiB", "shm-small", func(h *Host) { h.ShmTotal, h.ShmFree = 900<<20, 900<<20 }},
		{"large and full", "shm-full", func(h *Host) { h.ShmFree = 10 << 20 }},
		{"unknown", "shm-small", func(h *Host) { h.KnownSHM = false }},
		{"stale files", "shm-stale", func(h *Host) { h.StaleShm = []string{"/dev/shm/nccl-x"} }},
		{"locked memory with RDMA", "memlock", func(h *Host) { h.KnownLock, h.Memlock, h.RDMA = true, 64<<10, true }},
		{"locked memory without RDMA", "", func(h *Host) { h.KnownLock, h.Memlock = true, 64<<10 }},
		{"unlimited", "", func(h *Host) { h.KnownLock, h.Memlock, h.RDMA = true, ^uint64(0), true }},
		{"root", "root", func(h *Host) { h.Root = true }},
	} {
		h := roomy
		c.change(&h)
		_, fs, _ := Preflight(context.Background(), fakeDriver{}, h, ranks, "", false, false)
		if c.want == "" && len(fs) > 0 || c.want != "" && (len(fs) != 1 || fs[0].ID != c.want) {
			t.Errorf("%s: findings %+v, want %q", c.name, fs, c.want)
		}
	}
	if h := ReadHost(); h.Name == "" {
		t.Errorf("host %+v", h)
	}
}

func TestPreflightWithoutAnswers(t *testing.T) {
	ranks := ranksJob(2).Ranks
	for _, c := range []struct {
		name, want string
		insp       Inspector
	}{
		{"nobody to ask", "smi-missing", nil},
		{"no nvidia-smi", "smi-missing", fakeDriver{err: ErrNoInspector}},
		{"it fails", "smi-failed", fakeDriver{err: errors.New("Unable to determine the device handle")}},
		{"no GPUs", "gpu-none", fakeDriver{change: func(n *NodeFacts) { n.GPUs = nil }}},
		{"too few GPUs", "gpu-missing", fakeDriver{change: func(n *NodeFacts) { n.GPUs = n.GPUs[:1] }}},
	} {
		_, fs, seats := Preflight(context.Background(), c.insp, roomy, ranks, "", false, false)
		if len(fs) != 1 || fs[0].ID != c.want || len(seats) != 2 {
			t.Errorf("%s: findings %+v, want %s", c.name, fs, c.want)
		}
	}
}

func TestSeats(t *testing.T) {
	n, _ := fakeDriver{}.Inspect(context.Background())
	uuid := func(i int) string { return n.GPUs[i].UUID }
	for _, c := range []struct {
		visible string
		in      JobRank
		want    string
	}{
		{"", JobRank{GPU: 3}, uuid(3)},
		{"4,2", JobRank{GPU: 1}, uuid(2)},
		{"4,2", JobRank{GPU: 2}, ""},
		{uuid(6) + ",1", JobRank{GPU: 0}, uuid(6)},
		{uuid(6)[:len(uuid(6))-1], JobRank{GPU: 0}, ""}, // a prefix of all
		{"2,-1,3", JobRank{GPU: 1}, ""},
		{"NoDevFiles", JobRank{GPU: 0}, ""},
		{"", JobRank{GPU: 0, PCI: "0000:12:00.0"}, uuid(2)},
		{"", JobRank{GPU: 0, UUID: "GPU-other"}, "GPU-other"},
	} {
		got := resolveSeats([]JobRank{c.in}, n, c.visible)
		if got[0].UUID != c.want {
			t.Errorf("%q %+v: %s, want %s", c.visible, c.in, got[0].UUID, c.want)
		}
	}
	j := &Job{Ranks: []JobRank{{UUID: "GPU-x", PCI: "y", GPU: 1}}}
	j.ByIndex()
	if j.Ranks[0].wanted() != "GPU 1" {
		t.Errorf("%+v", j.Ranks[0])
	}
}

func TestSamePCI(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"0000:1A:00.0", "00000000:1a:00.0", true}, {"0000:1a:00.0", "0001:1a:00.0", false}, {"1a:00.0", "1A:00.0", true}, {"", "x", false},
		{"fffffff0000:00:1.0", "fffffff0000:00:1.0", true},
	} {
		if samePCI(c.a, c.b) != c.want {
			t.Errorf("%s %s: want %v", c.a, c.b, c.want)
		}
	}
}

func TestCompareFacts(t *testing.T) {
	base := func() map[int]facts {
		m := map[int]facts{}
		for r := range 3 {
			m[r] = facts{Host: "a", NCCL: 22809, NCCLPath: "/lib/a", CUDA: 13000, Driver: 13000, UUID: fmt.Sprint("u", r), PCI: fmt.Sprintf("0000:0%d:00.0", r)}
		}
		return m
	}
	for _, c := range []struct {
		name, want string
		change     func(m map[int]facts)
	}{
		{"equal", "", func(map[int]facts) {}},
		{"2.27 and 2.30", "nccl-versions", func(m map[int]facts) { f := m[1]; f.NCCL, f.NCCLPath = 23003, "/lib/b"; m[1] = f }},
		{"two files of one version", "nccl-paths", func(m map[int]facts) { f := m[1]; f.NCCLPath = "/lib/b"; m[1] = f }},
		{"drivers", "cuda-versions", func(m map[int]facts) { f := m[2]; f.Driver = 12080; m[2] = f }},
		{"one GPU twice", "gpu-duplicate", func(m map[int]facts) { f := m[2]; f.UUID = "u0"; m[2] = f }},
		{"spread over two nodes", "seats-differ", func(m map[int]facts) { f := m[2]; f.Host = "b"; m[2] = f }},
		{"no peer access", "no-peer", func(m map[int]facts) { f := m[0]; f.NoPeer = []string{"0000:02:00.0"}; m[0] = f }},
		{"no peer access to a GPU of no rank", "", func(m map[int]facts) { f := m[0]; f.NoPeer = []string{"0000:07:00.0"}; m[0] = f }},
		{"a problem", "driver-old", func(m map[int]facts) { m[1] = facts{Problem: &problem{ID: "driver-old", Detail: "x"}} }},
	} {
		m := base()
		c.change(m)
		fs := compareFacts(ranksJob(3), m)
		if c.want == "" && len(fs) > 0 || c.want != "" && (len(fs) != 1 || fs[0].ID != c.want) {
			t.Errorf("%s: findings %+v, want %q", c.name, fs, c.want)
		}
	}

	// Two nodes: a cloned machine, and two nodes of the layout on one.
	job := ranksJob(3)
	job.Ranks[2].Host = "there"
	m := base()
	f := m[2]
	f.UUID, f.Host = "u0", "b"
	m[2] = f
	if fs := compareFacts(job, m); len(fs) != 1 || fs[0].ID != "gpu-cloned" {
		t.Errorf("findings %+v", fs)
	}
	if fs := compareFacts(job, base()); len(fs) != 1 || fs[0].ID != "seats-differ" {
		t.Errorf("findings %+v", fs)
	}
}
