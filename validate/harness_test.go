package validate

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"rankmap/internal/measured"
	"rankmap/internal/parallel"
)

// The test binary plays three parts: the tests, a rank (as the hidden sub-command of rankmap does), and a parent that a
// test can kill.
func TestMain(m *testing.M) {
	if d, err := time.ParseDuration(os.Getenv("VALIDATE_TEST_CLOCK")); err == nil {
		wallNow = func() time.Time { return time.Now().Add(d) }
	}
	switch os.Getenv("VALIDATE_TEST_ROLE") {
	case "rank":
		if os.Getenv("FAKE_NCCL_DIE_EARLY") != "" {
			o, err := ReadOrders(os.Stdin)
			if err != nil || fmt.Sprint(o.Rank) == os.Getenv("FAKE_NCCL_DIE_EARLY") {
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
			if RunRank(context.Background(), o) != nil {
				os.Exit(exitStopped)
			}
			os.Exit(0)
		}
		os.Exit(RankMain(context.Background(), os.Stdin, os.Stderr))
	case "parent":
		os.Exit(parentMain())
	case "launched":
		os.Exit(launchedMain())
	}
	code := m.Run()
	if fakes.dir != "" {
		os.RemoveAll(fakes.dir)
	}
	os.Exit(code)
}

var fakes struct {
	once sync.Once
	dir  string
	err  error
}

// fakeLibs builds the stand-in libraries once and returns their folder.
func fakeLibs(t testing.TB) string {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		if os.Getenv("CI_REQUIRE_DATA") == "1" {
			t.Fatal("gcc is missing: the stand-in libraries cannot be built")
		}
		t.Skip("skipped: gcc is missing, the stand-in libraries cannot be built")
	}
	fakes.once.Do(func() {
		if fakes.dir, fakes.err = os.MkdirTemp("", "rankmap-fake-"); fakes.err != nil {
			return
		}
		for name, def := range map[string]string{
			"libcudart.so.13": "-DCUDART", "libnccl.so.2": "-DNCCL", "nosplit.so": "-DNCCL -DNO_SPLIT",
		} {
			args := append(strings.Fields(def), "-shared", "-fPIC", "-O2", "-o", filepath.Join(fakes.dir, name), "testdata/fake/fake.c", "-lpthread")
			if out, err := exec.Command(gcc, args...).CombinedOutput(); err != nil {
				fakes.err = fmt.Errorf("%w: %s", err, out)
				return
			}
		}
	})
	if fakes.err != nil {
		t.Fatal(fakes.err)
	}
	return fakes.dir
}

// tpJob is one tensor-parallel group of n ranks. The stand-in's clock takes 10 us + bytes*factor/100 GB/s, so the
// predictions hold unless a fault changes it.
func tpJob(n int, sizes ...int64) *Job {
	j := ranksJob(n)
	j.Groups = []JobGroup{{Kind: parallel.TP, Members: seq(0, n)}}
	for _, b := range sizes {
		j.Groups[0].Collectives = append(j.Groups[0].Collectives, coll("attention all-reduce", parallel.AllReduce, b, n))
	}
	return j
}

func ranksJob(n int) *Job {
	j := &Job{Name: "test", Digest: "sha256:0"}
	for r := range n {
		j.Ranks = append(j.Ranks, JobRank{Rank: r, Host: "here", LocalRank: r, GPU: r})
	}
	return j
}

func seq(from, n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = from + i
	}
	return s
}

func coll(name string, op parallel.Op, bytes int64, n int) JobCollective {
	f := op.BusFactor(n)
	if op == parallel.AllToAll || op == parallel.SendRecv {
		f = float64(n-1) / float64(n)
		if op == parallel.SendRecv {
			f = 1
		}
	}
	us := 10 + float64(bytes)*f/100e3
	return JobCollective{
		Name: name, Phase: "decode", Op: op, Bytes: bytes, DType: "bf16", TimesPerStep: 1,
		Predicted: &Prediction{Us: us, P10Us: 0.9 * us, P90Us: 1.1 * us, Algorithm: "ring", Protocol: "LL"},
	}
}

// quick are deadlines that fit the stand-in.
func quick() Deadlines {
	d := DefaultDeadlines()
	d.Join, d.Facts, d.Init, d.Step = 20*time.Second, 10*time.Second, 3*time.Second, 3*time.Second
	d.Grace, d.KillWait, d.Silence = time.Second, 5*time.Second, 2*time.Second
	d.Total, d.JoinReport, d.Linger = 60*time.Second, time.Second, 200*time.Millisecond
	return d
}

// options are those of a short run over the stand-in.
func options(t testing.TB, job *Job, env ...string) Options {
	dir := fakeLibs(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	m := DefaultMeasuring()
	m.Sweep, m.BatchUs, m.MaxInner, m.Batches, m.Warm, m.Eager = nil, 25, 2, 5, 1, false
	m.PairBytes = 256 << 10
	return Options{
		Job: job, NCCLLib: filepath.Join(dir, "libnccl.so.2"), Deadlines: quick(), Measuring: m, Choices: true,
		Host: Host{Name: "here", ShmTotal: 8 << 30, ShmFree: 8 << 30, KnownSHM: true},
		Launch: Launch{Exe: exe, Env: append([]string{
			"VALIDATE_TEST_ROLE=rank", "LD_LIBRARY_PATH=" + dir, "FAKE_NCCL_DIR=" + t.TempDir(), "HOME=/nonexistent",
		}, env...)},
		Inspector: fakeDriver{},
		Talk:      func(f string, a ...any) { t.Logf(f, a...) },
	}
}

// fakeDriver answers like a healthy node.
type fakeDriver struct {
	change func(*NodeFacts)
	err    error
}

func (f fakeDriver) Inspect(context.Context) (*NodeFacts, error) {
	n := &NodeFacts{Driver: "580.1", CUDA: "13.0"}
	for i := range 8 {
		n.GPUs = append(n.GPUs, GPUFacts{
			UUID: fmt.Sprintf("GPU-fafafafa-fafa-fafa-fafa-fafafafafa%02x", i), PCI: fmt.Sprintf("00000000:%02x:00.0", 16+i), Name: "Stand-in GPU",
			MIG: "Disabled", ComputeMode: "Default", FabricState: "Completed", FabricStatus: "Success",
		})
	}
	if f.change != nil {
		f.change(n)
	}
	return n, f.err
}

// runFake validates and checks what must hold after every run: no child left, no file of the stand-in left, a report
// with an exit code, and a JSON form that reads back.
func runFake(t *testing.T, o Options) *measured.Report {
	t.Helper()
	began := time.Now()
	rep, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("exit %d in %.1f s, cause %q", rep.ExitCode, time.Since(began).Seconds(), rep.Cause)
	noChildren(t)
	data, err := json.Marshal(rep)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := measured.DecodeReport(strings.NewReader(string(data)), "report"); err != nil {
		t.Errorf("the report does not read back: %v", err)
	}
	return rep
}

// noChildren wants no living or unreaped rank of this process.
func noChildren(t *testing.T) {
	t.Helper()
	if left := childrenOf(os.Getpid()); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
}

// childrenOf lists the direct children of a process, from /proc.
func childrenOf(pid int) []int {
	var out []int
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, s := range stats {
		f, err := os.Open(s)
		if err != nil {
			continue
		}
		line, _ := bufio.NewReader(f).ReadString('\n')
		f.Close()
		i := strings.LastIndexByte(line, ')')
		var state string
		var ppid, id int
		fmt.Sscanf(line, "%d", &id)
		if i < 0 {
			continue
		}
		fmt.Sscanf(line[i+1:], " %s %d", &state, &ppid)
		if ppid == pid {
			out = append(out, id)
		}
	}
	return out
}

func ids(rep *measured.Report) []string {
	var out []string
	for _, f := range rep.Findings {
		out = append(out, f.ID)
	}
	return out
}

func wantFinding(t *testing.T, rep *measured.Report, id string, words ...string) {
	t.Helper()
	for _, f := range rep.Findings {
		if f.ID != id {
			continue
		}
		ok := !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(f.Message, w) })
		if ok {
			return
		}
	}
	t.Errorf("no finding %s with %q; findings: %+v", id, words, rep.Findings)
}

func wantExit(t *testing.T, rep *measured.Report, code int) {
	t.Helper()
	if rep.ExitCode != code {
		t.Errorf("exit code %d, want %d; cause %q; findings %v", rep.ExitCode, code, rep.Cause, ids(rep))
	}
}
