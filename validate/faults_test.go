package validate

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"rankmap/internal/measured"
	"rankmap/internal/parallel"
)

// moeJob is 8 ranks: tensor parallel by 2, expert parallel over all, a pipeline of two stages of 4.
func moeJob() *Job {
	j := ranksJob(8)
	for g := range 4 {
		j.Groups = append(j.Groups, JobGroup{Kind: parallel.TP, Members: seq(2*g, 2), Collectives: []JobCollective{
			coll("attention all-reduce", parallel.AllReduce, 8192, 2), coll("gather", parallel.AllGather, 8192, 2), coll("scatter", parallel.ReduceScatter, 8192, 2),
		}})
	}
	for g := range 2 {
		j.Groups = append(j.Groups, JobGroup{Kind: parallel.EP, Members: seq(4*g, 4), Collectives: []JobCollective{coll("dispatch", parallel.AllToAll, 16384, 4)}})
	}
	for i := range 4 {
		j.Groups = append(j.Groups, JobGroup{Kind: parallel.PP, Members: []int{i, i + 4}, Collectives: []JobCollective{coll("activations", parallel.SendRecv, 4096, 2)}})
	}
	j.Groups = append(j.Groups, JobGroup{Kind: parallel.DP, Members: seq(0, 8), Collectives: []JobCollective{
		coll("weights", parallel.Broadcast, 4096, 8), coll("norm", parallel.Reduce, 4096, 8),
	}})
	return j
}

// T39: all is well, 8 ranks, every operation.
func TestAllGood(t *testing.T) {
	shared := t.TempDir()
	o := options(t, moeJob(), "FAKE_NCCL_DIR="+shared)
	rep := runFake(t, o)
	wantExit(t, rep, exitOK)
	if len(rep.Groups) != 4*3+2+4+2 || len(rep.Siblings) != 4*3+2+4 {
		t.Errorf("%d rows alone, %d with siblings", len(rep.Groups), len(rep.Siblings))
	}
	for _, g := range append(rep.Groups, rep.Siblings...) {
		judged := g.Op != parallel.AllToAll && g.Op != parallel.Reduce // the stand-in's clock has another factor for these
		if !g.Verified || g.Wrong != 0 || g.Times.Repeats != o.Measuring.Batches || judged && g.Verdict != measured.VerdictPass {
			t.Errorf("row %+v", g)
		}
		if judged && g.Op != parallel.SendRecv && (g.Choice == nil || g.Choice.Algorithm != "ring") {
			t.Errorf("%s: choice %+v", g.Op, g.Choice)
		}
	}
	if len(rep.Variants) != 2 || rep.Variants[0].Op != parallel.AllToAll || rep.Variants[0].Times.MedianUs <= 0 {
		t.Errorf("variants %+v", rep.Variants)
	}
	if len(rep.Mix) != 1 || rep.Mix[0].Times.MedianUs <= 0 {
		t.Errorf("mix %+v", rep.Mix)
	}
	for _, r := range rep.Ranks {
		if r.End != "done" || r.UUID == "" || r.PID == 0 {
			t.Errorf("rank %+v", r)
		}
	}
	if e := rep.Environment; e.NCCL != "2.28.9" || !strings.HasSuffix(e.NCCLPath, "libnccl.so.2") || e.CUDA != "13.0" || e.Driver != "580.1" || e.LogWhileTiming {
		t.Errorf("environment %+v", e)
	}
	if left, _ := filepath.Glob(filepath.Join(shared, "*")); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// T40: a rank is killed; it is the cause, the others are its consequence.
func TestRankKilled(t *testing.T) {
	for _, c := range []struct{ name, env, during string }{
		{"before it joins", "FAKE_NCCL_DIE_EARLY=1", "joining"},
		{"in init", "FAKE_NCCL_FAULT=kill:init:1", "communicator init"},
		{"in split", "FAKE_NCCL_FAULT=kill:split:1", "communicator init"},
		{"in a collective", "FAKE_NCCL_FAULT=kill:collective:1", "all_reduce"},
	} {
		t.Run(c.name, func(t *testing.T) {
			began := time.Now()
			rep := runFake(t, options(t, tpJob(3, 4096), c.env))
			wantExit(t, rep, exitPartial)
			wantFinding(t, rep, "rank-died", "rank 1", c.during, "signal 9")
			if !strings.Contains(rep.Cause, "rank 1") || rep.Ranks[0].End != "stopped because of rank 1" || !strings.HasPrefix(rep.Ranks[1].End, "killed by signal 9") {
				t.Errorf("cause %q, ranks %+v", rep.Cause, rep.Ranks)
			}
			if d := time.Since(began); d > 15*time.Second {
				t.Errorf("took %v", d)
			}
		})
	}
}

// What was measured before a failure stays in the report.
func TestPartialReport(t *testing.T) {
	o := options(t, tpJob(2, 4096, 8192), "FAKE_NCCL_FAULT=kill:collective:1", "FAKE_NCCL_AFTER=25")
	rep := runFake(t, o)
	wantExit(t, rep, exitPartial)
	if len(rep.Groups) == 0 || rep.Groups[0].Verdict != measured.VerdictPass {
		t.Errorf("rows %+v", rep.Groups)
	}
}

// T41: a stopped rank is noticed by its missing heartbeat and killed.
func TestRankStopped(t *testing.T) {
	began := time.Now()
	rep := runFake(t, options(t, tpJob(2, 4096), "FAKE_NCCL_FAULT=stop:collective:1"))
	wantExit(t, rep, exitDeadline)
	wantFinding(t, rep, "rank-silent", "rank 1", "no heartbeat")
	if d := time.Since(began); d > 12*time.Second {
		t.Errorf("took %v", d)
	}
}

// T42: hangs in init, in abort, and a rank that ignores SIGTERM.
func TestHangs(t *testing.T) {
	for _, c := range []struct {
		name, finding string
		env           []string
	}{
		{"init", "init-deadline", []string{"FAKE_NCCL_FAULT=hang:init:1"}},
		{"init and abort", "init-deadline", []string{"FAKE_NCCL_FAULT=hang:init:1,hang:abort:*"}},
		{"collective, abort, SIGTERM ignored", "step-deadline", []string{"FAKE_NCCL_FAULT=hang:collective:1,hang:abort:*", "FAKE_NCCL_IGNORE_TERM=1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			began := time.Now()
			o := options(t, tpJob(2, 4096), c.env...)
			o.Deadlines.Init, o.Deadlines.Step = 1500*time.Millisecond, 1500*time.Millisecond
			rep := runFake(t, o)
			wantExit(t, rep, exitDeadline)
			wantFinding(t, rep, c.finding)
			if d := time.Since(began); d > 10*time.Second {
				t.Errorf("took %v", d)
			}
		})
	}
}

// T43: each result code leads to its finding.
func TestResultCodes(t *testing.T) {
	want := map[int]string{
		1: "nccl-cuda", 2: "nccl-system", 3: "nccl-internal", 4: "nccl-argument", 5: "nccl-usage", 6: "nccl-remote", 8: "nccl-timeout", 42: "nccl-unknown",
	}
	for code, id := range want {
		t.Run(id, func(t *testing.T) {
			rep := runFake(t, options(t, tpJob(2, 4096), fmt.Sprintf("FAKE_NCCL_FAULT=code:collective:*:%d", code)))
			wantExit(t, rep, findings[id].exit)
			wantFinding(t, rep, id, fmt.Sprint(code))
		})
	}
	t.Run("in init", func(t *testing.T) {
		rep := runFake(t, options(t, tpJob(2, 4096), "FAKE_NCCL_FAULT=code:init:1:2"))
		wantExit(t, rep, exitPartial)
		wantFinding(t, rep, "nccl-system", "rank 1")
	})
	t.Run("while making the id", func(t *testing.T) {
		rep := runFake(t, options(t, tpJob(2, 4096), "FAKE_NCCL_FAULT=code:id:*:3"))
		wantExit(t, rep, exitPartial)
		wantFinding(t, rep, "nccl-internal", "rank 0")
	})
	t.Run("asynchronously", func(t *testing.T) {
		o := options(t, tpJob(2, 4096), "FAKE_NCCL_FAULT=async:collective:1:2,hang:collective:1", "FAKE_NCCL_AFTER=3")
		rep := runFake(t, o)
		wantExit(t, rep, exitPartial)
		wantFinding(t, rep, "nccl-system", "rank 1", "asynchronous")
	})
}

// T44: libraries that cannot be used are refused before anything starts.
func TestUnusableLibraries(t *testing.T) {
	dir := fakeLibs(t)
	bad := t.TempDir()
	write := func(name string, data []byte, mode os.FileMode) string {
		p := filepath.Join(bad, name)
		if err := os.WriteFile(p, data, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(p, mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	good, err := os.ReadFile(filepath.Join(dir, "libnccl.so.2"))
	if err != nil {
		t.Fatal(err)
	}
	wrongClass := append([]byte(nil), good...)
	wrongClass[4] = 1 // ELFCLASS32
	for _, c := range []struct{ name, path, words string }{
		{"a symbol is missing", filepath.Join(dir, "nosplit.so"), "ncclCommSplit"},
		{"not a library", write("text.so", []byte("not a library"), 0o644), "cannot be loaded"},
		{"32 bits", write("elf32.so", wrongClass, 0o644), "cannot be loaded"},
		{"truncated", write("short.so", good[:len(good)/2], 0o644), "cannot be loaded"},
		{"world-writable", write("open.so", good, 0o666), "every user can write it"},
		{"not there", filepath.Join(bad, "nothing.so"), "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := options(t, tpJob(2, 4096))
			o.NCCLLib = c.path
			rep := runFake(t, o)
			wantExit(t, rep, exitEnvironment)
			if !strings.Contains(fmt.Sprint(rep.Findings), c.words) {
				t.Errorf("findings %+v lack %q", rep.Findings, c.words)
			}
		})
	}
}

// T45: two ranks on one GPU, and a GPU that is not there.
func TestWrongGPUs(t *testing.T) {
	job := tpJob(2, 4096)
	job.Ranks[1].GPU = 0
	rep := runFake(t, options(t, job))
	wantExit(t, rep, exitEnvironment)
	wantFinding(t, rep, "gpu-duplicate", "ranks 0 and 1")

	job.Ranks[1].GPU = 1
	o := options(t, job, "FAKE_CUDA_SAME_UUID=1")
	o.Inspector = nil // the driver would have told
	rep = runFake(t, o)
	wantExit(t, rep, exitEnvironment)
	wantFinding(t, rep, "gpu-duplicate", "ranks 0 and 1")

	job.Ranks[1].UUID = "GPU-11111111-2222-3333-4444-555555555555"
	o = options(t, job)
	o.Inspector = nil
	rep = runFake(t, o)
	wantExit(t, rep, exitEnvironment)
	wantFinding(t, rep, "gpu-missing", "rank 1", "GPU-11111111")
}

// T52: the first signal stops in good order with a partial report, the second at once.
func TestSignals(t *testing.T) {
	for _, c := range []struct {
		name    string
		signals []os.Signal
		exit    int
	}{
		{"Ctrl-C", []os.Signal{syscall.SIGINT}, exitInterrupted},
		{"Ctrl-C twice", []os.Signal{syscall.SIGINT, syscall.SIGINT}, exitInterrupted},
		{"SIGTERM", []os.Signal{syscall.SIGTERM}, exitTerminated},
	} {
		t.Run(c.name, func(t *testing.T) {
			// The ranks hang in a collective, in abort, and ignore SIGTERM.
			o := options(t, tpJob(2, 4096), "FAKE_NCCL_FAULT=hang:collective:*,hang:abort:*", "FAKE_NCCL_IGNORE_TERM=1")
			o.Deadlines.Step = time.Minute
			o.Deadlines.Grace = 2 * time.Second
			sig := make(chan os.Signal, 2)
			o.Signals = sig
			time.AfterFunc(time.Second, func() {
				for _, s := range c.signals {
					sig <- s
				}
			})
			began := time.Now()
			rep := runFake(t, o)
			wantExit(t, rep, c.exit)
			wantFinding(t, rep, "interrupted")
			limit := 10 * time.Second
			if len(c.signals) > 1 {
				limit = 3 * time.Second
			}
			if d := time.Since(began); d > limit {
				t.Errorf("took %v", d)
			}
		})
	}
}

// The whole run has a deadline of its own.
func TestRunDeadline(t *testing.T) {
	o := options(t, tpJob(2, 4096), "FAKE_NCCL_FAULT=hang:collective:*")
	o.Deadlines.Step, o.Deadlines.Total = time.Minute, 1500*time.Millisecond
	rep := runFake(t, o)
	wantExit(t, rep, exitDeadline)
	wantFinding(t, rep, "run-deadline")
}
