package validate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"rankmap/internal/measured"
)

// launchedMain is one copy of a launched run; rank 0's writes the report to standard output.
func launchedMain() int {
	job := new(Job)
	data, err := os.ReadFile(os.Getenv("VALIDATE_TEST_JOB"))
	if err == nil && json.Unmarshal(data, job) != nil {
		return 2
	}
	place, err := FindPlace(os.Getenv, len(job.Hosts()))
	if err != nil {
		return 2
	}
	token, err := ReadToken(os.Getenv, "")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 6
	}
	if len(job.Ranks) == 0 {
		job = tpJob(place.World, 4096)
	}
	exe, _ := os.Executable()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	addr := os.Getenv("VALIDATE_TEST_ADDR")
	if addr == "" {
		addr = WithPort(RendezvousHost(place, os.Getenv))
	}
	if a := os.Getenv(fmt.Sprint("VALIDATE_TEST_ADDR_", place.Rank)); a != "" {
		addr = a
	}
	d := quick()
	if v, err := time.ParseDuration(os.Getenv("VALIDATE_TEST_JOIN")); err == nil {
		d.Join = v
	}
	if v, err := time.ParseDuration(os.Getenv("VALIDATE_TEST_LINGER")); err == nil {
		d.Linger = v
	}
	host := ReadHost()
	host.Root, host.RDMA, host.StaleShm, host.ShmTotal, host.ShmFree, host.KnownSHM = false, false, nil, 8<<30, 8<<30, true
	host.Net = ReadNet(os.DirFS(os.Getenv("VALIDATE_TEST_SYS")+"/"), upIfaces(), os.Getenv)
	if os.Getenv("VALIDATE_TEST_SYS") == "" {
		host.Net.NICs = nil
	}
	o := Options{
		Job: job, Launch: Launch{Exe: exe, Env: append(os.Environ(), "VALIDATE_TEST_ROLE=rank")}, NCCLLib: os.Getenv("VALIDATE_TEST_NCCL"),
		Deadlines: d, Measuring: DefaultMeasuring(), Inspector: fakeDriver{}, Host: host, Signals: signals, Choices: os.Getenv("FAKE_NCCL_NET") != "",
		Launched: &Launched{Place: place, Address: addr, Token: token, JobID: LaunchedJobID("sha256:0123456789abcdef01", os.Getenv), PerNode: place.World != job.World()},
		Talk:     func(f string, a ...any) { fmt.Fprintf(os.Stderr, f+"\n", a...) },
	}
	o.Measuring.PairBytes = 64 << 10
	o.Measuring.Sweep, o.Measuring.BatchUs, o.Measuring.MaxInner, o.Measuring.Batches, o.Measuring.Eager = nil, 25, 2, 5, false
	if os.Getenv("VALIDATE_TEST_BUSY") == fmt.Sprint(place.Rank) {
		o.Inspector = fakeDriver{change: func(n *NodeFacts) { n.GPUs[place.Rank].MIG = "Enabled" }}
	}
	rep, err := Run(context.Background(), o)
	if err != nil {
		return 1
	}
	if place.Rank == 0 {
		json.NewEncoder(os.Stdout).Encode(rep)
	} else if rep.Cause != "" {
		fmt.Fprintf(os.Stderr, "copy %d: %s\n", place.Rank, rep.Cause)
	}
	return rep.ExitCode
}

// launch starts one copy for each rank as torchrun would, and returns the report and the exit codes.
func launch(t *testing.T, world int, env ...string) (*measured.Report, []int) {
	t.Helper()
	dir := fakeLibs(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	cmds := make([]*exec.Cmd, world)
	var out, talk strings.Builder
	for r := range world {
		c := exec.Command(exe)
		c.Env = append([]string{
			"VALIDATE_TEST_ROLE=launched", "VALIDATE_TEST_ADDR=" + addr, "VALIDATE_TEST_NCCL=" + filepath.Join(dir, "libnccl.so.2"), "LD_LIBRARY_PATH=" + dir,
			"FAKE_NCCL_DIR=" + dir, "HOME=/nonexistent", "TMPDIR=" + os.TempDir(), "RANKMAP_TOKEN=0123456789abcdef0123456789abcdef",
			fmt.Sprint("RANK=", r), fmt.Sprint("LOCAL_RANK=", r), fmt.Sprint("WORLD_SIZE=", world), "TORCHELASTIC_RUN_ID=run1",
		}, env...)
		if r == 0 {
			c.Stdout, c.Stderr = &out, &talk
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		cmds[r] = c
	}
	codes := make([]int, world)
	for r, c := range cmds {
		c.Wait()
		codes[r] = c.ProcessState.ExitCode()
	}
	rep := new(measured.Report)
	if err := json.Unmarshal([]byte(out.String()), rep); err != nil {
		t.Fatalf("no report: %v\n%s%s", err, out.String(), talk.String())
	}
	return rep, codes
}

func TestLaunched(t *testing.T) {
	began := time.Now()
	rep, codes := launch(t, 3)
	wantExit(t, rep, exitOK)
	if fmt.Sprint(codes) != "[0 0 0]" || len(rep.Groups) != 1 || rep.Groups[0].Verdict != measured.VerdictPass || len(rep.Ranks) != 3 || rep.Ranks[2].End != "done" {
		t.Errorf("exit codes %v, rows %+v, ranks %+v", codes, rep.Groups, rep.Ranks)
	}
	t.Logf("%.1f s", time.Since(began).Seconds())
}

// A rank of another copy dies: the coordinator names it, every copy ends, nobody waits for a deadline.
func TestLaunchedRankDies(t *testing.T) {
	began := time.Now()
	rep, codes := launch(t, 3, "FAKE_NCCL_FAULT=kill:collective:2")
	wantExit(t, rep, exitPartial)
	wantFinding(t, rep, "rank-died", "rank 2")
	if codes[1] != exitPartial || codes[2] != exitPartial || time.Since(began) > 10*time.Second {
		t.Errorf("exit codes %v after %v", codes, time.Since(began))
	}
}

// What one copy's preflight finds stops all before NCCL starts, and the report says which rank it was.
func TestLaunchedPreflight(t *testing.T) {
	rep, codes := launch(t, 2, "VALIDATE_TEST_BUSY=1")
	wantExit(t, rep, exitEnvironment)
	wantFinding(t, rep, "gpu-mig", "rank 1")
	if codes[0] != exitEnvironment || codes[1] == 0 {
		t.Errorf("exit codes %v", codes)
	}
}

func TestTokens(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		os.Chmod(p, mode)
		return p
	}
	none := func(string) string { return "" }
	if b, err := ReadToken(none, file("good", " 0123456789abcdef0123\n", 0o600)); err != nil || string(b) != "0123456789abcdef0123" {
		t.Errorf("%q, %v", b, err)
	}
	if b, err := ReadToken(lookup("RANKMAP_TOKEN=0123456789abcdef"), ""); err != nil || len(b) != 16 {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := ReadToken(none, ""); !errors.Is(err, ErrNoToken) {
		t.Errorf("error %v", err)
	}
	for want, f := range map[string]string{
		"others can read": file("open", "0123456789abcdef", 0o644), "at least 16": file("short", "abc", 0o600), "at most 4096": file("long", strings.Repeat("x", 5000), 0o600),
		"no such file": filepath.Join(dir, "none"), "no token": file("empty", "\n", 0o600),
	} {
		if _, err := ReadToken(none, f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", f, err, want)
		}
	}
}

func TestRendezvousNames(t *testing.T) {
	for list, want := range map[string]string{
		"n[03-05,9],login": "n03", "node7": "node7", "a,b": "a", "r1-n[1,3]-ib": "r1-n1-ib", "x[": "x[", "": "",
	} {
		if got := RendezvousHost(Place{}, lookup("SLURM_JOB_NODELIST="+list)); got != want {
			t.Errorf("%q: %q, want %q", list, got, want)
		}
	}
	if RendezvousHost(Place{Master: "m"}, lookup("SLURM_JOB_NODELIST=x")) != "m" {
		t.Error("the launcher's own word counts more")
	}
	if WithPort("h") != "h:29481" || WithPort("h:5") != "h:5" || WithPort("::1") != "[::1]:29481" {
		t.Error("ports")
	}
	d := "sha256:0123456789abcdef0123"
	for env, want := range map[string]string{
		"TORCHELASTIC_RUN_ID=run-1": "run-1-0123456789abcdef", "SLURM_JOB_ID=77 SLURM_STEP_ID=0": "77.0-0123456789abcdef", "TORCHELASTIC_RUN_ID=../x": "job-0123456789abcdef", "": "job-0123456789abcdef",
	} {
		if got := LaunchedJobID(d, lookup(env)); got != want {
			t.Errorf("%q: %s, want %s", env, got, want)
		}
	}
}
