package validate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"rankmap/internal/measured"
	"rankmap/internal/units"
)

// Host is what preflight reads of the node beside the driver; a struct of values, so that tests can give their own.
type Host struct {
	Name      string
	Root      bool  // effective user 0
	ShmTotal  int64 // bytes of /dev/shm, 0 unknown
	ShmFree   int64 //
	StaleShm  []string
	Memlock   uint64 // soft limit in bytes, ^uint64(0) = unlimited
	RDMA      bool   // RDMA devices are here
	OwnPIDs   []int  // processes that do not count as foreign
	KnownSHM  bool
	KnownLock bool
	NoFile    uint64 // open files allowed, 0 unknown
	TmpError  string // why no file can be made in the temporary folder
	Net       NetFacts
}

// ReadHost looks at this node.
func ReadHost() Host {
	h := Host{Name: hostname(), Root: os.Geteuid() == 0}
	var fs syscall.Statfs_t
	if err := syscall.Statfs("/dev/shm", &fs); err == nil {
		h.KnownSHM = true
		h.ShmTotal, h.ShmFree = int64(fs.Blocks)*fs.Bsize, int64(fs.Bavail)*fs.Bsize
	}
	h.StaleShm = shmFiles()
	const rlimitMemlock = 8 // RLIMIT_MEMLOCK on linux (asm-generic/resource.h)
	var lim syscall.Rlimit
	if err := syscall.Getrlimit(rlimitMemlock, &lim); err == nil {
		h.KnownLock, h.Memlock = true, lim.Cur
	}
	if d, err := os.ReadDir("/sys/class/infiniband"); err == nil {
		h.RDMA = len(d) > 0
	}
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim); err == nil {
		h.NoFile = lim.Cur
	}
	if f, err := os.CreateTemp("", "rankmap-"); err != nil {
		h.TmpError = err.Error()
	} else {
		f.Close()
		os.Remove(f.Name())
	}
	h.Net = ReadNet(os.DirFS("/sys"), upIfaces(), os.Getenv)
	return h
}

// shmFiles lists NCCL's files in /dev/shm.
func shmFiles() []string {
	d, err := os.ReadDir("/dev/shm")
	if err != nil {
		return nil
	}
	var files []string
	for _, e := range d {
		if strings.HasPrefix(e.Name(), "nccl-") {
			files = append(files, "/dev/shm/"+e.Name())
		}
	}
	return files
}

// Preflight looks at the node before any CUDA call. Local are the ranks that run here; they come back with the UUIDs of their
// GPUs where the driver told.
func Preflight(ctx context.Context, insp Inspector, h Host, local []JobRank, visible string, allowBusy, allowMIG bool) (*NodeFacts, []measured.Finding, []JobRank) {
	var fs []measured.Finding
	add := func(id, format string, args ...any) { fs = append(fs, newFinding(id, format, args...)) }

	pairs := int64(len(local) * len(local))
	switch {
	case !h.KnownSHM:
		add("shm-small", "its size cannot be read")
	case h.ShmFree < shmPerPair*pairs && h.ShmFree < minShm:
		add("shm-full", "%s free, about %s needed for %d ranks", units.Bytes(h.ShmFree).Decimal(), units.Bytes(shmPerPair*pairs).Decimal(), len(local))
	case h.ShmTotal < minShm:
		add("shm-small", "%s, want at least %s", units.Bytes(h.ShmTotal), units.Bytes(minShm))
	}
	if len(h.StaleShm) > 0 {
		add("shm-stale", "%s", list(h.StaleShm))
	}
	if h.KnownLock && h.RDMA && h.Memlock != ^uint64(0) {
		add("memlock", "limit is %d bytes", h.Memlock)
	}
	switch {
	case h.NoFile > 0 && h.NoFile < minNoFile:
		add("files-few", "limit is %d", h.NoFile)
	case h.NoFile > 0 && h.NoFile < goodNoFile:
		add("files-few-warning", "limit is %d", h.NoFile)
	}
	if h.TmpError != "" {
		add("tmp-unwritable", "%s", h.TmpError)
	}
	if h.Root {
		add("root", "effective user is 0")
	}
	if insp == nil {
		add("smi-missing", "no way to ask was given")
		return nil, fs, local
	}
	n, err := insp.Inspect(ctx)
	switch {
	case errors.Is(err, ErrNoInspector):
		add("smi-missing", "%v", err)
		return nil, fs, local
	case err != nil:
		add("smi-failed", "%v", err)
		return nil, fs, local
	case len(n.GPUs) == 0:
		add("gpu-none", "nvidia-smi lists none")
		return n, fs, local
	}
	local = resolveSeats(local, n, visible)
	used := map[string]int{} // UUID or place to rank
	for _, r := range local {
		i := n.find(r)
		if i < 0 {
			add("gpu-missing", "rank %d wants %s; the driver lists %d: %s", r.Rank, r.wanted(), len(n.GPUs), n.names())
			continue
		}
		g := n.GPUs[i]
		key := cmp.Or(g.UUID, g.PCI, fmt.Sprint(i))
		if other, ok := used[key]; ok {
			add("gpu-duplicate", "ranks %d and %d both hold GPU %d (%s)", other, r.Rank, i, key)
		}
		used[key] = r.Rank
		fs = append(fs, g.judge(i, h.OwnPIDs, allowBusy, allowMIG)...)
	}
	return n, fs, local
}

// judge reports what is wrong with one GPU.
func (g GPUFacts) judge(i int, own []int, allowBusy, allowMIG bool) (fs []measured.Finding) {
	add := func(id, format string, args ...any) {
		fs = append(fs, newFinding(id, "GPU %d (%s): %s", i, cmp.Or(g.PCI, g.UUID), fmt.Sprintf(format, args...)))
	}
	if strings.EqualFold(g.MIG, "Enabled") && !allowMIG {
		add("gpu-mig", "MIG mode %s", g.MIG)
	}
	// "N/A", "Not Supported" and nothing at all mean that there is no fabric to wait for.
	switch st := strings.ToLower(g.FabricState); {
	case strings.Contains(st, "progress"), strings.Contains(st, "not started"):
		add("fabric-not-ready", "state %s", g.FabricState)
	case st == "completed" && g.FabricStatus != "" && !strings.EqualFold(g.FabricStatus, "Success") && !strings.EqualFold(g.FabricStatus, "N/A"):
		add("fabric-not-ready", "state %s, status %s", g.FabricState, g.FabricStatus)
	}
	switch {
	case strings.EqualFold(g.ComputeMode, "Prohibited"):
		add("gpu-prohibited", "mode %s", g.ComputeMode)
	case strings.HasPrefix(g.ComputeMode, "Exclusive"):
		add("gpu-exclusive", "mode %s", g.ComputeMode)
	}
	var others []string
	for _, p := range g.Processes {
		if !slices.Contains(own, p.PID) {
			others = append(others, fmt.Sprintf("process %d with %d MiB", p.PID, p.UsedMiB))
		}
	}
	if len(others) > 0 {
		id := "gpu-busy"
		if allowBusy {
			id = "gpu-busy-allowed"
		}
		add(id, "%s", list(others))
	}
	if g.ECCUncorrected > 0 {
		add("gpu-hardware", "%d uncorrected memory errors since the driver was loaded", g.ECCUncorrected)
	}
	if strings.EqualFold(g.RemapPending, "Yes") || strings.EqualFold(g.RemapFailure, "Yes") {
		add("gpu-hardware", "row remapping pending: %s, failed: %s", cmp.Or(g.RemapPending, "?"), cmp.Or(g.RemapFailure, "?"))
	}
	if len(g.Slowdown) > 0 {
		add("gpu-throttled", "%s", strings.Join(g.Slowdown, ", "))
	}
	if g.LinkWidth > 0 && g.LinkWidth < g.LinkWidthMax {
		add("gpu-pcie", "width x%d of x%d", g.LinkWidth, g.LinkWidthMax)
	}
	return fs
}

// find returns the place of a rank's GPU in the driver's list, or -1.
func (n *NodeFacts) find(r JobRank) int {
	return slices.IndexFunc(n.GPUs, func(g GPUFacts) bool {
		switch {
		case r.UUID != "":
			return strings.EqualFold(g.UUID, r.UUID)
		case r.PCI != "":
			return samePCI(g.PCI, r.PCI)
		}
		return false // resolveSeats found no such index
	})
}

func (n *NodeFacts) names() string {
	var b []string
	for i, g := range n.GPUs {
		b = append(b, fmt.Sprintf("%d: %s %s", i, g.PCI, g.UUID))
	}
	return strings.Join(b, "; ")
}

// list prints at most eight items.
func list(items []string) string {
	if len(items) > 8 {
		return fmt.Sprintf("%s and %d more", strings.Join(items[:8], ", "), len(items)-8)
	}
	return strings.Join(items, ", ")
}

// compareFacts checks what the ranks found against each other, before NCCL creates anything.
func compareFacts(job *Job, fs map[int]facts) []measured.Finding {
	var out []measured.Finding
	add := func(id, format string, args ...any) { out = append(out, newFinding(id, format, args...)) }
	versions, paths, cudas := map[string][]int{}, map[string][]int{}, map[string][]int{}
	gpus := map[string]int{}
	for r := range job.World() {
		f := fs[r]
		if f.Problem != nil {
			add(f.Problem.ID, "rank %d: %s", r, f.Problem.Detail)
			continue
		}
		versions[fmt.Sprint(f.NCCL)] = append(versions[fmt.Sprint(f.NCCL)], r)
		paths[f.NCCLPath] = append(paths[f.NCCLPath], r)
		c := fmt.Sprintf("%d/%d", f.CUDA, f.Driver)
		cudas[c] = append(cudas[c], r)
		key := f.UUID
		if other, ok := gpus[key]; ok {
			if fs[other].Host == f.Host {
				add("gpu-duplicate", "ranks %d and %d both hold %s (%s)", other, r, f.UUID, f.PCI)
			} else {
				add("gpu-cloned", "rank %d on %s and rank %d on %s both report %s", other, fs[other].Host, r, f.Host, f.UUID)
			}
		}
		gpus[key] = r
	}
	node := map[string]string{}  // layout's host to the real one
	owner := map[string]string{} // and back
	for r := range job.World() {
		want, have := job.Ranks[r].Host, fs[r].Host
		if have == "" {
			continue
		}
		if n, ok := node[want]; ok && n != have {
			add("seats-differ", "rank %d is on %s, others of the layout's %s are on %s", r, have, want, n)
			break
		}
		if o, ok := owner[have]; ok && o != want {
			add("seats-differ", "rank %d is on %s, where ranks of the layout's %s are; the layout has it on %s", r, have, o, want)
			break
		}
		node[want], owner[have] = have, want
	}
	if len(versions) > 1 {
		add("nccl-versions", "%s", spread(versions, fs))
	} else if len(paths) > 1 && len(job.Hosts()) == 1 {
		add("nccl-paths", "%s", spread(paths, fs))
	}
	if len(cudas) > 1 {
		add("cuda-versions", "%s", spread(cudas, fs))
	}
	for r := range job.World() {
		for _, far := range fs[r].NoPeer {
			for q := range job.World() {
				if q > r && fs[q].Host == fs[r].Host && samePCI(fs[q].PCI, far) {
					add("no-peer", "rank %d (%s) and rank %d (%s)", r, fs[r].PCI, q, fs[q].PCI)
				}
			}
		}
	}
	return out
}

// spread prints who has what: "22809: ranks [0 1] on n0; 23003: ranks [2] on n1"; hosts only where there are several.
func spread(m map[string][]int, fs map[int]facts) string {
	hosts := map[string]bool{}
	for _, f := range fs {
		hosts[f.Host] = true
	}
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var b []string
	for _, k := range keys {
		where := ""
		if len(hosts) > 1 {
			var at []string
			for _, r := range m[k] {
				if !slices.Contains(at, fs[r].Host) {
					at = append(at, fs[r].Host)
				}
			}
			where = " on " + list(at)
		}
		b = append(b, fmt.Sprintf("%s: ranks %v%s", k, m[k], where))
	}
	return strings.Join(b, "; ")
}
