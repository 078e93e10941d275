package accuracy

import (
	"io/fs"
	"strings"
	"testing"

	"rankmap/configs"
	"rankmap/internal/measured"
	"rankmap/internal/parallel"
	"rankmap/planner"
)

// jobOf reads one row of a table that names the built-in DeepSeek-V3.
func jobOf(t *testing.T, row string) *job {
	t.Helper()
	ps, err := measured.ReadPlacements(strings.NewReader(placementHead+row), "p.csv")
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPlacer(configs.FS, Models{Map: map[string]measured.ModelMap{"dsv3": {Config: "models/deepseek-v3/config.json"}}, Folders: []fs.FS{configs.FS}})
	if err != nil {
		t.Fatal(err)
	}
	j, err := p.job(&ps[0])
	if err != nil {
		t.Fatal(err)
	}
	return j
}

const (
	srtHead = "srt-001,s,dsv3,"
	srtTail = ",fp8,,,,,,,,A,sglang recipe; one instance; instance counts "
)

func TestARowIsOneInstance(t *testing.T) {
	j := jobOf(t, srtHead+"decode,16,GB200,4,,72,1,1,16,16,,,,,,1024/1024"+srtTail+"1; concurrency 128-512\n")
	for st, want := range map[*parallel.Strategy]bool{
		{TP: 1, DP: 16, EP: 16}:            true,
		{TP: 4, DP: 4, EP: 16}:             true,
		{TP: 4, DP: 4, EP: 4}:              false, // four instances of four
		{TP: 8, PP: 2, EP: 8}:              true,
		{TP: 2, DP: 8, EP: 1, ExpertTP: 2}: false,
	} {
		if got := j.alternative(st.Normalize()); got != want {
			t.Errorf("%s: %v, want %v", st, got, want)
		}
	}
	if n := instances(parallel.Strategy{TP: 4, DP: 2}.Normalize(), false); n != 2 {
		t.Errorf("a dense network on tp 4 dp 2 is %d instances, want 2", n)
	}
	if j.engine != "sglang" || j.work.Batch != 256 {
		t.Errorf("engine %q, batch %d; want sglang and the geometric middle", j.engine, j.work.Batch)
	}
}

func TestCopiesOfARow(t *testing.T) {
	stated := jobOf(t, srtHead+"decode,48,GB200,12,,72,1,1,48,48,,,,,,1024/1024"+srtTail+"1; concurrency 128-512; redundant experts 32\n")
	if stated.copies != 32 || stated.strategy.RedundantExperts != 32 {
		t.Errorf("stated: %d, layout %s; want 32", stated.copies, stated.strategy)
	}
	needed := jobOf(t, srtHead+"decode,24,GB200,6,,72,1,1,24,24,,,,,,1024/1024"+srtTail+"1; concurrency 128-512\n")
	if needed.copies != 0 || needed.strategy.RedundantExperts != 8 {
		t.Errorf("needed: %d, layout %s; want 8, the fewest for 24 ranks", needed.copies, needed.strategy)
	}
}

// Four users keep a prefill instance idle most of the time: latency. Thousands keep it busy: throughput.
func TestPrefillIsJudgedByItsLoad(t *testing.T) {
	for users, want := range map[string]planner.Objective{"4-8": planner.Latency, "1024-8192": planner.Throughput} {
		j := jobOf(t, srtHead+"prefill,8,GB200,2,,72,1,1,8,8,,,,,,8192/1024"+srtTail+"1; concurrency "+users+"\n")
		if got := planner.Objective(j.work.Objective); got != want {
			t.Errorf("%s users: %s, want %s", users, got, want)
		}
	}
	j := jobOf(t, srtHead+"prefill,8,GB200,2,,72,1,1,8,8,,,,,,8192/1024"+srtTail+"1; concurrency unstated\n")
	if j.work.Objective != string(planner.Throughput) {
		t.Errorf("no users stated: %s, want throughput", j.work.Objective)
	}
}

func TestLimitsOfMLPerf(t *testing.T) {
	for _, c := range []struct {
		model, note string
		ttft, tpot  float64
	}{
		{"llama3.1-405b", "MLPerf Inference v5.1 Interactive; 18 instances", 4500, 80},
		{"llama2-70b-99.9", "MLPerf Inference v5.1 Server", 2000, 200},
		{"llama2-70b", "MLPerf Inference v5.1 Offline", 0, 0},
		{"mixtral-8x7b", "MLPerf Inference v5.1 Interactive", 0, 0},
		{"unknown", "Server", 0, 0},
	} {
		if ttft, tpot := mlperfLimit(c.model, c.note); ttft != c.ttft || tpot != c.tpot {
			t.Errorf("%s, %s: %v and %v ms, want %v and %v", c.model, c.note, ttft, tpot, c.ttft, c.tpot)
		}
	}
}

// 65,536 requests do not fit 16 GPUs: as many as do are in flight, the others wait.
func TestRequestsBeyondMemoryWait(t *testing.T) {
	j := jobOf(t, srtHead+"decode,16,GB200,4,,72,1,1,16,16,,,,,,8192/1024"+srtTail+"1; concurrency 65536-65536\n")
	if b := j.work.Batch; b >= 65536 || b < 16 {
		t.Errorf("%d requests in flight", b)
	}
}

// SGLang drafts tokens without a pipeline, except in prefill instances.
func TestDraftingForbidsAPipeline(t *testing.T) {
	pp := parallel.Strategy{TP: 8, PP: 2, EP: 8}.Normalize()
	for _, c := range []struct {
		task, note string
		want       bool
	}{
		{"decode", "4 recipe file(s) use this layout (3 with MTP)", false},
		{"decode", "4 recipe file(s) use this layout (1 with MTP)", true},
		{"prefill", "4 recipe file(s) use this layout (4 with MTP)", true},
	} {
		j := jobOf(t, srtHead+c.task+",16,GB200,4,,72,1,1,16,16,,,,,,1024/1024"+srtTail+"1; "+c.note+"; concurrency 512-4096\n")
		if got := j.alternative(pp); got != c.want {
			t.Errorf("%s, %s: a pipeline is an alternative: %v, want %v", c.task, c.note, got, c.want)
		}
	}
}
