package nccl

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"
)

// build compiles the stand-in libraries; see ../testdata/fake.
func build(t testing.TB) (cudart, nccl string) {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		if os.Getenv("CI_REQUIRE_DATA") == "1" {
			t.Fatal("gcc is missing: the stand-in libraries cannot be built")
		}
		t.Skip("skipped: gcc is missing, the stand-in libraries cannot be built")
	}
	dir := t.TempDir()
	cudart, nccl = filepath.Join(dir, "libcudart.so.13"), filepath.Join(dir, "libnccl.so.2")
	for path, def := range map[string]string{cudart: "-DCUDART", nccl: "-DNCCL"} {
		if out, err := exec.Command(gcc, def, "-shared", "-fPIC", "-O1", "-o", path, "../testdata/fake/fake.c", "-lpthread").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return cudart, nccl
}

// The structure has the offsets of ncclConfig_v21700 as extended in 2.18: size 8, magic 4, version 4, blocking at 16.
func TestConfigLayout(t *testing.T) {
	var c config
	for name, got := range map[string][2]uintptr{
		"size": {unsafe.Sizeof(c), 48}, "magic": {unsafe.Offsetof(c.magic), 8}, "version": {unsafe.Offsetof(c.version), 12},
		"blocking": {unsafe.Offsetof(c.blocking), 16}, "maxCTAs": {unsafe.Offsetof(c.maxCTAs), 28},
		"netName": {unsafe.Offsetof(c.netName), 32}, "splitShare": {unsafe.Offsetof(c.splitShare), 40},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %d, want %d", name, got[0], got[1])
		}
	}
	if unsafe.Sizeof(byValue{}) != 128 {
		t.Error("ncclUniqueId has 128 bytes")
	}
}

// One rank alone goes through every call of both bindings.
func TestEveryCall(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cudartPath, ncclPath := build(t)
	t.Setenv("FAKE_NCCL_DIR", t.TempDir())
	c, err := OpenCUDA(cudartPath)
	if err != nil {
		t.Fatal(err)
	}
	n, err := OpenNCCL(ncclPath)
	if err != nil {
		t.Fatal(err)
	}
	if c.Runtime != 13000 || c.Driver != 13000 || VersionString(n.Version) != "2.28.9" || n.Path != ncclPath || !n.HasAllToAll() {
		t.Errorf("cuda %+v nccl %d %s", c.Runtime, n.Version, n.Path)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	count, err := c.DeviceCount()
	must(err)
	d, err := c.Device(3)
	must(err)
	if count != 8 || d.UUID != "GPU-fafafafa-fafa-fafa-fafa-fafafafafa03" || d.PCI != "0000:13:00.0" || d.Name != "Stand-in GPU" {
		t.Errorf("%d devices, device 3 is %+v", count, d)
	}
	must(c.SetDevice(3))
	var ce *CallError
	if err := c.SetDevice(99); !errors.As(err, &ce) || !ce.CUDA || ce.Code != 101 || !strings.Contains(err.Error(), "invalid device ordinal") {
		t.Errorf("error %v", err)
	}
	ok, err := c.CanAccessPeer(0, 1)
	must(err)
	free, total, err := c.MemInfo()
	must(err)
	if !ok || total != 8<<30 || free <= 0 || free > total {
		t.Errorf("peer %v, %d of %d bytes free", ok, free, total)
	}

	s, err := c.NewStream()
	must(err)
	id, err := n.NewUniqueID()
	must(err)
	if id == (UniqueID{}) {
		t.Error("empty id")
	}
	never := func() error { return nil }
	world, err := n.InitRank(id, 1, 0)
	must(err)
	must(world.Ready(never))
	sub, err := world.Split(0, 0, true)
	must(err)
	must(world.Ready(never))
	must(sub.Ready(never))
	none, err := world.Split(NoColor, 0, true)
	must(err)
	if !none.Null() || sub.Null() {
		t.Error("a rank without a color gets no communicator")
	}

	a, err := c.Malloc(64)
	must(err)
	b, err := c.Malloc(64)
	must(err)
	must(c.Upload(a, []byte(strings.Repeat("0123456789abcdef", 4))))
	must(c.Memset(b, 0, 64))
	must(c.Sync(0))
	buf := Buffer{Send: a, Recv: b, Count: 64, Type: Int8}
	e0, err := c.NewEvent()
	must(err)
	e1, err := c.NewEvent()
	must(err)
	ops := map[string]func() error{
		"AllReduce":     func() error { return sub.AllReduce(buf, s) },
		"AllGather":     func() error { return sub.AllGather(buf, s) },
		"ReduceScatter": func() error { return sub.ReduceScatter(buf, s) },
		"Broadcast":     func() error { return sub.Broadcast(buf, 0, s) },
		"Reduce":        func() error { return sub.Reduce(buf, 0, s) },
		"AllToAll":      func() error { return sub.AllToAll(buf, 1, true, s) },
		"grouped sends": func() error { return sub.AllToAll(buf, 1, false, s) },
	}
	for name, op := range ops {
		must(c.Memset(b, 0, 64))
		must(c.Record(e0, s))
		must(op())
		must(c.Record(e1, s))
		must(c.Wait(s, never))
		got := make([]byte, 64)
		must(c.Download(got, b))
		if string(got) != strings.Repeat("0123456789abcdef", 4) {
			t.Errorf("%s: got %q", name, got)
		}
		if us, err := c.Elapsed(e0, e1); err != nil || us < 9 || us > 11 { // the stand-in's clock: 10 us and a little
			t.Errorf("%s: %v us, %v", name, us, err)
		}
	}
	g, err := c.Capture(s, func() error { return errors.Join(sub.AllReduce(buf, s), sub.AllReduce(buf, s)) })
	must(err)
	must(c.Record(e0, s))
	must(c.Launch(g, s))
	must(c.Record(e1, s))
	must(c.Sync(s))
	if us, err := c.Elapsed(e0, e1); err != nil || us < 19 || us > 21 {
		t.Errorf("graph of two: %v us, %v", us, err)
	}
	must(c.DestroyGraph(g))
	inner := errors.New("refused")
	if _, err := c.Capture(s, func() error { return inner }); !errors.Is(err, inner) {
		t.Errorf("error %v", err)
	}
	if err := sub.Send(a, 1, Int8, 5, s); err == nil {
		t.Error("a peer outside the communicator was accepted")
	} else if r, ok := ResultOf(err); !ok || r != InvalidArgument || !strings.Contains(err.Error(), "ncclInvalidArgument (4)") {
		t.Errorf("error %v", err)
	}
	if !n.SetLog("WARN", "", filepath.Join(t.TempDir(), "log")) {
		t.Error("the log cannot be changed")
	}
	must(sub.Finalize())
	must(sub.Destroy())
	must(world.Abort())
	must(world.Abort()) // nothing is left: no call
	must(c.DestroyEvent(e0))
	must(c.DestroyStream(s))
	must(c.Free(a))
	must(c.Reset())
}

// A wait ends when check says so.
func TestWaitsEnd(t *testing.T) {
	cudartPath, ncclPath := build(t)
	t.Setenv("FAKE_NCCL_DIR", t.TempDir())
	c, err := OpenCUDA(cudartPath)
	if err != nil {
		t.Fatal(err)
	}
	n, err := OpenNCCL(ncclPath)
	if err != nil {
		t.Fatal(err)
	}
	id, _ := n.NewUniqueID()
	comm, err := n.InitRank(id, 2, 0) // the second never comes
	if err != nil {
		t.Fatal(err)
	}
	end := time.Now().Add(50 * time.Millisecond)
	enough := errors.New("enough")
	check := func() error {
		if time.Now().After(end) {
			return enough
		}
		return nil
	}
	if err := comm.Ready(check); !errors.Is(err, enough) {
		t.Errorf("Ready: %v", err)
	}
	if r, ok := ResultOf(comm.AsyncError()); !ok || r != InProgress {
		t.Errorf("state %v", r)
	}
	_ = c
}

func TestSearchOrder(t *testing.T) {
	root := t.TempDir()
	touch := func(parts ...string) string {
		p := filepath.Join(append([]string{root}, parts...)...)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, nil, 0o755); err != nil {
			t.Fatal(err)
		}
		return p
	}
	ld := touch("ld", "libnccl.so.2")
	sys := touch("sys", "libnccl.so.2")
	touch("env[1]", "bin", "python3")
	old := touch("env[1]", "lib", "python3.11", "site-packages", "nvidia", "nccl", "lib", "libnccl.so.2")
	pip := touch("env[1]", "lib", "python3.12", "site-packages", "nvidia", "nccl", "lib", "libnccl.so.2")
	conda := touch("conda", "lib", "libnccl.so.2")
	cu13 := touch("env[1]", "lib", "python3.12", "site-packages", "nvidia", "cu13", "lib", "libcudart.so.13")
	cu12 := touch("env[1]", "lib", "python3.12", "site-packages", "nvidia", "cuda_runtime", "lib", "libcudart.so.12")
	if err := os.Symlink(sys, filepath.Join(root, "ld", "again")); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{
		"LD_LIBRARY_PATH": "relative:" + filepath.Join(root, "ld"), "PATH": "bin:" + filepath.Join(root, "env[1]", "bin"), "CONDA_PREFIX": filepath.Join(root, "conda"),
	}
	s := Search{Getenv: func(k string) string { return env[k] }, System: []string{filepath.Join(root, "sys"), filepath.Join(root, "sys")}}
	got, err := s.NCCLCandidates()
	if want := []string{ld, sys, pip, old, conda}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v\nwant %v", got, err, want)
	}
	got, err = s.CUDARTCandidates()
	if want := []string{cu13, cu12}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v\nwant %v", got, err, want)
	}
	s.Explicit = pip
	if got, err := s.NCCLCandidates(); err != nil || !slices.Equal(got, []string{pip}) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range []string{"libnccl.so.2", "../x.so", filepath.Join(root, "none.so")} {
		s.Explicit = bad
		if _, err := s.NCCLCandidates(); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
	empty := Search{Getenv: func(string) string { return "" }, System: []string{}}
	if _, err := empty.NCCLCandidates(); err == nil || !strings.Contains(err.Error(), "libnccl.so.2 not found") {
		t.Errorf("error %v", err)
	}
}

func TestRefusedFiles(t *testing.T) {
	dir := t.TempDir()
	open := filepath.Join(dir, "open.so")
	os.WriteFile(open, []byte("x"), 0o644)
	os.Chmod(open, 0o666)
	link := filepath.Join(dir, "link.so")
	os.Symlink(open, link)
	for path, want := range map[string]string{
		open: "every user can write it", link: "every user can write it", dir: "not a regular file", filepath.Join(dir, "none"): "no such file",
	} {
		if _, err := openLibrary(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

func TestNames(t *testing.T) {
	for code, want := range map[int]string{22809: "2.28.9", 23003: "2.30.3", 2708: "2.7.8", 21805: "2.18.5"} {
		if got := VersionString(code); got != want {
			t.Errorf("%d: %s, want %s", code, got, want)
		}
	}
	if got := CUDAVersionString(12040); got != "12.4" {
		t.Errorf("got %s", got)
	}
	for r := Success; r <= Timeout; r++ {
		if !strings.HasPrefix(r.String(), "nccl") || strings.Contains(r.String(), "(") {
			t.Errorf("result %d has no name", r)
		}
	}
	if Result(77).String() != "ncclResult(77)" {
		t.Error(Result(77))
	}
	for d, f := range dtypes {
		for _, n := range f.names {
			if got, err := ParseDType(n); err != nil || got != d || d.Size() != f.size || d.Exact() < 1 {
				t.Errorf("%s: %v, %v", n, got, err)
			}
		}
		if d.String() != f.names[0] {
			t.Errorf("%v", d)
		}
	}
	if d, err := ParseDType(""); err != nil || d != BFloat16 {
		t.Errorf("default %v, %v", d, err)
	}
	if _, err := ParseDType("int4"); err == nil || fmt.Sprint(DType(99)) != "dtype(99)" {
		t.Error("int4 was accepted")
	}
	if (&Pending{"ncclGroupEnd"}).Error() == "" {
		t.Error("no text")
	}
}

// One call through the binding: what a host pays on top of the library's own time.
func BenchmarkCall(b *testing.B) {
	cudartPath, _ := build(b)
	c, err := OpenCUDA(cudartPath)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := c.SetDevice(0); err != nil {
			b.Fatal(err)
		}
	}
}
