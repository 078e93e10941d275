package validate

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// parentMain runs a validation whose ranks hang, in a process that a test can kill.
func parentMain() int {
	var o Options
	if err := json.NewDecoder(os.Stdin).Decode(&o.Job); err != nil {
		return 2
	}
	exe, _ := os.Executable()
	o.Launch = Launch{Exe: exe, Env: append(os.Environ(), "VALIDATE_TEST_ROLE=rank")}
	o.NCCLLib = os.Getenv("VALIDATE_TEST_NCCL")
	o.Deadlines, o.Measuring = DefaultDeadlines(), DefaultMeasuring()
	o.Deadlines.Step = time.Minute
	o.Host = Host{Name: "here", ShmTotal: 8 << 30, ShmFree: 8 << 30, KnownSHM: true}
	o.Talk = func(f string, a ...any) { fmt.Fprintf(os.Stderr, f+"\n", a...) }
	rep, err := Run(context.Background(), o)
	if err != nil {
		return 1
	}
	return rep.ExitCode
}

// T51: the parent is killed; no rank outlives it, although all hang and ignore SIGTERM.
func TestParentKilled(t *testing.T) {
	dir := fakeLibs(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	job, err := json.Marshal(tpJob(3, 4096))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = []string{
		"VALIDATE_TEST_ROLE=parent", "VALIDATE_TEST_NCCL=" + filepath.Join(dir, "libnccl.so.2"), "LD_LIBRARY_PATH=" + dir, "FAKE_NCCL_DIR=" + dir,
		"FAKE_NCCL_FAULT=hang:collective:*,hang:abort:*", "FAKE_NCCL_IGNORE_TERM=1", "HOME=/nonexistent", "TMPDIR=" + t.TempDir(),
	}
	cmd.Stdin = strings.NewReader(string(job))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var ranks []int
	for range 200 {
		if ranks = childrenOf(cmd.Process.Pid); len(ranks) == 3 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if len(ranks) != 3 {
		t.Fatalf("ranks %v, want 3", ranks)
	}
	time.Sleep(500 * time.Millisecond) // into the collective
	cmd.Process.Kill()
	cmd.Wait()
	deadline := time.Now().Add(10 * time.Second)
	for _, pid := range ranks {
		for alive(pid) {
			if time.Now().After(deadline) {
				t.Fatalf("rank process %d outlives its parent", pid)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}

func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	i := strings.LastIndexByte(string(b), ')')
	return i < 0 || !strings.HasPrefix(string(b[i+1:]), " Z")
}

// T50 while a job runs: strangers knock, the job does not care, the report counts them.
func TestStrangersDoNotDisturb(t *testing.T) {
	o := options(t, tpJob(2, 4096, 8192, 16384))
	addr := regexp.MustCompile(`rendezvous at (\S+)`)
	o.Talk = func(f string, a ...any) {
		m := addr.FindStringSubmatch(fmt.Sprintf(f, a...))
		if m == nil {
			return
		}
		go http.Get("http://" + m[1] + "/")
		go func() {
			c, err := net.Dial("tcp", m[1])
			if err == nil {
				c.Write([]byte{0xff, 0xff, 0xff, 0xff, 1})
				io.Copy(io.Discard, c)
			}
		}()
	}
	rep := runFake(t, o)
	wantExit(t, rep, exitOK)
	if rep.Rejected == nil || rep.Rejected.Malformed < 1 {
		t.Errorf("rejected %+v", rep.Rejected)
	}
	wantFinding(t, rep, "rejected")
}

// T60: a dry run opens no socket and loads no library.
func TestDryRunTouchesNothing(t *testing.T) {
	count := func() (sockets int) {
		fds, _ := filepath.Glob("/proc/self/fd/*")
		for _, f := range fds {
			if l, _ := os.Readlink(f); strings.HasPrefix(l, "socket:") {
				sockets++
			}
		}
		return sockets
	}
	before := count()
	var b strings.Builder
	if err := Rehearse(moeJob(), DefaultMeasuring(), DefaultDeadlines(), Launch{Exe: "/bin/rankmap"}).WriteText(&b); err != nil {
		t.Fatal(err)
	}
	if got := count(); got != before {
		t.Errorf("%d sockets, %d before", got, before)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	for _, lib := range []string{"libnccl", "libcudart", "libcuda"} {
		if strings.Contains(string(maps), lib) {
			t.Errorf("%s is loaded", lib)
		}
	}
	for _, w := range []string{"8 child processes", "rank 7 on here: GPU 7", "ep: 2 group(s)", "all_to_all 16 KiB bf16 (layout)", "all_reduce 64 MiB bf16 (sweep)", "mix of phase decode"} {
		if !strings.Contains(b.String(), w) {
			t.Errorf("the text lacks %q:\n%s", w, b.String())
		}
	}
}
