package validate

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"rankmap/internal/measured"
	"rankmap/internal/parallel"
	"rankmap/layout"
	"rankmap/validate/nccl"
)

// Every finding that the code raises has an entry, and every entry is raised somewhere and has a next step.
func TestFindingTable(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	raised := map[string]bool{}
	use := regexp.MustCompile(`(?:found|add|simple|newFinding)\("([a-z0-9-]+)"|problemError\{"([a-z0-9-]+)"|finding: +"([a-z0-9-]+)"|return "([a-z]+-[a-z0-9-]+)"|(?:lateID|f\.finding|id)(?: :?=|,) "([a-z]+[a-z0-9-]*)"|"([a-z]+-deadline)"|id := "([a-z-]+)"|id = "([a-z-]+)"`)
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") || f == "finding.go" {
			continue
		}
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range use.FindAllStringSubmatch(string(b), -1) {
			for _, id := range m[1:] {
				if id == "" {
					continue
				}
				raised[id] = true
				if _, ok := findings[id]; !ok {
					t.Errorf("%s raises %q, which is not in the table", f, id)
				}
			}
		}
	}
	for _, id := range FindingIDs() {
		spec := findings[id]
		if !raised[id] {
			t.Errorf("%s is in the table and never raised", id)
		}
		if spec.next == "" || strings.Count(spec.message, "%s") != 1 {
			t.Errorf("%s: next step %q, message %q", id, spec.next, spec.message)
		}
		if !slices.Contains([]string{SevInfo, SevWarning, SevError}, spec.severity) || (spec.severity == SevError) != (spec.exit != 0) {
			t.Errorf("%s: severity %s with exit code %d", id, spec.severity, spec.exit)
		}
	}
	if f := newFinding("no-such-thing", "x"); f.Severity != SevError || exitOf(f) != exitBug {
		t.Errorf("unknown finding %+v", f)
	}
}

func TestProblems(t *testing.T) {
	for code, want := range map[int32]string{2: "cuda-memory", 35: "driver-old", 46: "gpu-busy", 100: "gpu-none", 802: "fabric-not-ready", 214: "gpu-hardware", 700: "cuda-failed"} {
		if p := toProblem(&nccl.CallError{CUDA: true, Code: code}); p.ID != want {
			t.Errorf("CUDA %d: %s, want %s", code, p.ID, want)
		}
	}
	if p := toProblem(errors.New(strings.Repeat("x", 5000))); p.ID != "rank-failed" || len(p.Detail) > 2100 {
		t.Errorf("%s with %d bytes", p.ID, len(p.Detail))
	}
	if p := toProblem(&nccl.CallError{Code: int32(nccl.InProgress)}); p.ID != "nccl-progress" {
		t.Error(p.ID)
	}
}

func TestChildEnv(t *testing.T) {
	env, shown := ChildEnv([]string{
		"PATH=/bin", "AWS_SECRET_ACCESS_KEY=s", "LD_PRELOAD=/x.so", "NCCL_NVLS_ENABLE=0", "NCCL_DEBUG=TRACE", "NCCL_COMM_ID=1.2.3.4:5", "CUDA_VISIBLE_DEVICES=1",
		"LD_LIBRARY_PATH=/a", "odd", "NCCL_COMM_BLOCKING=1", "TMPDIR=/t",
	})
	want := []string{"CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=1", "LD_LIBRARY_PATH=/a", "NCCL_IGNORE_NET_MISMATCH=0", "NCCL_NVLS_ENABLE=0", "NCCL_RAS_ENABLE=0", "PATH=/bin", "TMPDIR=/t"}
	slices.Sort(env)
	if !slices.Equal(env, want) {
		t.Errorf("env %q\nwant %q", env, want)
	}
	if !slices.Equal(shown, []string{"CUDA_VISIBLE_DEVICES=1", "NCCL_NVLS_ENABLE=0"}) {
		t.Errorf("shown %q", shown)
	}
	if env, _ := ChildEnv([]string{"CUDA_DEVICE_ORDER=FASTEST_FIRST"}); slices.Contains(env, "CUDA_DEVICE_ORDER=PCI_BUS_ID") {
		t.Error("the user's order was overridden")
	}
}

func TestJobCheck(t *testing.T) {
	good := moeJob()
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	bad := tpJob(3, 64)
	bad.Ranks[1].Rank = 7
	bad.Groups = append(bad.Groups, JobGroup{Kind: parallel.TP, Members: []int{2, 9}}, JobGroup{Kind: parallel.EP, Members: []int{1}})
	bad.Groups[0].Collectives[0].DType, bad.Groups[0].Collectives[0].Bytes = "int3", 0
	err := bad.Check()
	for _, w := range []string{"rank 7 stands at place 1", "rank 2 is in two groups", "member 9 is outside", "1 member(s)", `"int3"`, "0 bytes"} {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("%v lacks %q", err, w)
		}
	}
	if err := ranksJob(1).Check(); err == nil || !strings.Contains(err.Error(), "nothing communicates") {
		t.Errorf("error %v", err)
	}
	if h := good.Hosts(); len(h) != 1 || h[0] != "here" {
		t.Errorf("hosts %v", h)
	}
}

func TestFromLayout(t *testing.T) {
	l := &layout.Layout{
		Ranks: []layout.Rank{{Rank: 0, Host: "a", GPU: 2, UUID: "u"}, {Rank: 1, Host: "a", LocalRank: 1, GPU: 3}},
		Groups: []layout.Group{
			{Kind: parallel.TP, Members: []int{0, 1}, Collectives: []layout.Collective{
				{Name: "x", Op: parallel.AllReduce, Bytes: 64, DType: "bf16", Us: 5, P10Us: 4, P90Us: 6, Algorithm: "ring"}, {Name: "y", Op: parallel.AllGather, Bytes: 8},
			}},
			{Kind: parallel.PP, Members: []int{0}},
		},
	}
	j := FromLayout(l, "n", "d")
	if len(j.Ranks) != 2 || j.Ranks[0].UUID != "u" || len(j.Groups) != 1 || j.Groups[0].Collectives[0].Predicted.P90Us != 6 || j.Groups[0].Collectives[1].Predicted != nil {
		t.Errorf("%+v", j)
	}
}

func TestDescribeExit(t *testing.T) {
	run := func(script string) error { return exec.Command("/bin/sh", "-c", script).Run() }
	for script, want := range map[string]string{
		"exit 3": "exit status 3: said", "kill -9 $$": "killed by signal 9 (killed): said", "exit 0": "done", "exit 75": "left: told to stop, or lost the coordinator: said",
	} {
		if how, ok := describeExit(run(script), " said\n"); how != want || ok != (want == "done") {
			t.Errorf("%s: %q, want %q", script, how, want)
		}
	}
	tl := tail{max: 5}
	tl.Write([]byte("abc"))
	tl.Write([]byte("defgh"))
	if tl.String() != "defgh" {
		t.Errorf("tail %q", tl.String())
	}
}

func TestTableText(t *testing.T) {
	rep := &measured.Report{
		Environment: measured.Environment{Hosts: []string{"a\x1b[31m"}, NCCL: "2.28.9", Env: []string{"NCCL_NVLS_ENABLE=0"}},
		Groups: []measured.ReportGroup{
			{Kind: "tp", Members: []int{0, 1, 2, 3}, Op: parallel.AllReduce, Bytes: 65536, Times: measured.Times{Repeats: 5, MedianUs: 12.5}, BusGBps: 7.864,
				Predicted: measured.Predicted{Us: 12, P10Us: 11, P90Us: 13, BusGBps: 8.2}, Verdict: measured.VerdictPass, Error: -4},
			{Kind: "ep", Members: []int{0, 2}, Op: parallel.AllToAll, Bytes: 1 << 30, Verdict: measured.VerdictSkipped},
		},
		Pairs:    []measured.ReportPair{{From: 1, To: 2, Round: 1, Us: 80, GBps: 3.2}},
		Findings: []measured.Finding{newFinding("slow-link", "x\x1b]0;evil\x07y\nz")},
		ExitCode: 4,
	}
	var b strings.Builder
	if err := WriteTable(&b, rep, false); err != nil {
		t.Fatal(err)
	}
	for _, w := range []string{"tp     0-3    all_reduce  64 KiB  graph   12.5 us", "OK", "ep     0,2", "SKIPPED", "-4.0%", "slow-link", "next:", "1 OK, 1 SKIPPED; exit code 4"} {
		if !strings.Contains(b.String(), w) {
			t.Errorf("lacks %q:\n%s", w, b.String())
		}
	}
	if strings.ContainsAny(b.String(), "\x1b\x07") {
		t.Error("control characters pass")
	}
	if got := rankList(seq(0, 9)) + " " + rankList([]int{0, 2, 4, 6, 8, 10, 12, 14, 16}); got != "0-8 0,2..16 (9)" {
		t.Errorf("ranks %q", got)
	}
}

func TestOrdersAreStrict(t *testing.T) {
	for _, bad := range []string{"", "{}x", `{"rank":1,"shell":"x"}`, strings.Repeat(" ", maxOrders+2)} {
		if _, err := ReadOrders(strings.NewReader(bad)); err == nil {
			t.Errorf("%.20q was accepted", bad)
		}
	}
}
