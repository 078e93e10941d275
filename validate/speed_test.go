package validate

import (
	"strings"
	"testing"

	"rankmap/internal/measured"
	"rankmap/internal/parallel"
)

// T56: one pair is slow; it is named after pair tests that were repeated and reversed.
func TestSlowPairIsNamed(t *testing.T) {
	o := options(t, tpJob(4, 1<<20), "FAKE_NCCL_SLOW=1-2:2.5")
	rep := runFake(t, o)
	wantExit(t, rep, exitBelow)
	wantFinding(t, rep, "slow", "tp group [0 1 2 3]")
	wantFinding(t, rep, "slow-link", "rank 1", "rank 2", "2.5", "both rounds")
	if len(rep.Pairs) != 2*12 || rep.Pairs[0].Round != 1 || rep.Pairs[12].Round != 2 || rep.Pairs[0].From != rep.Pairs[23].From {
		t.Errorf("pairs %+v", rep.Pairs)
	}
	for _, f := range rep.Findings {
		if f.ID == "slow-member" {
			t.Errorf("a link was slow, a member is blamed: %+v", f)
		}
	}
}

// A group that is slow as a whole blames nobody.
func TestSlowEverywhere(t *testing.T) {
	rep := runFake(t, options(t, tpJob(3, 1<<20), "FAKE_NCCL_GBPS=40"))
	wantExit(t, rep, exitBelow)
	wantFinding(t, rep, "slow-all", "alike")
}

func TestNameSlowMember(t *testing.T) {
	rounds := func(slow func(a, b int) bool) (r [2]map[direction]float64) {
		for i := range r {
			r[i] = map[direction]float64{}
			for a := range 4 {
				for b := range 4 {
					if a == b {
						continue
					}
					r[i][direction{a, b}] = 100
					if slow(a, b) {
						r[i][direction{a, b}] = 300
					}
				}
			}
		}
		return r
	}
	all := rounds(func(a, b int) bool { return a == 2 || b == 2 })
	if m, ok := commonMember(slowPairs(all, func(int) string { return "here" }), []int{0, 1, 2, 3}); !ok || m != 2 {
		t.Errorf("member %d, %v: want 2", m, ok)
	}
	one := rounds(func(a, b int) bool { return a == 1 && b == 3 })
	if p := slowPairs(one, func(int) string { return "here" }); len(p) != 1 || p[0] != [2]int{1, 3} {
		t.Errorf("pairs %v", p)
	}
	once := rounds(func(a, b int) bool { return false })
	once[0][direction{0, 1}] = 900 // bad luck, not repeated
	if p := slowPairs(once, func(int) string { return "here" }); len(p) != 0 {
		t.Errorf("pairs %v: want none", p)
	}
}

// T57: wrong data fails however fast it came.
func TestWrongDataFails(t *testing.T) {
	for _, op := range []parallel.Op{parallel.AllReduce, parallel.AllToAll, parallel.SendRecv, parallel.ReduceScatter} {
		t.Run(op.String(), func(t *testing.T) {
			job := ranksJob(2)
			job.Groups = []JobGroup{{Kind: parallel.TP, Members: []int{0, 1}, Collectives: []JobCollective{coll("x", op, 65536, 2)}}}
			rep := runFake(t, options(t, job, "FAKE_NCCL_FAULT=wrong:collective:1"))
			wantExit(t, rep, exitBelow)
			wantFinding(t, rep, "wrong-data", "rank 1", op.String())
			if rep.Verdict != measured.VerdictFail || rep.Groups[0].Verdict != measured.VerdictFail {
				t.Errorf("verdict %q, row %+v", rep.Verdict, rep.Groups[0])
			}
		})
	}
}

// T58: repeats that disagree are not judged.
func TestNoiseIsUnstable(t *testing.T) {
	o := options(t, tpJob(2, 4096), "FAKE_NCCL_NOISE=5")
	o.Measuring.Batches = 15
	rep := runFake(t, o)
	wantExit(t, rep, exitBelow)
	wantFinding(t, rep, "unstable")
	if g := rep.Groups[0]; g.Verdict != measured.VerdictUnstable || g.Times.P90Us <= g.Times.P10Us || g.Times.Spread == 0 {
		t.Errorf("row %+v", g)
	}
}

// T59: skipped is not passed.
func TestNothingJudged(t *testing.T) {
	job := tpJob(2, 4096)
	job.Groups[0].Collectives[0].Predicted = nil
	rep := runFake(t, options(t, job))
	wantExit(t, rep, exitEnvironment)
	wantFinding(t, rep, "nothing-ran")
	if g := rep.Groups[0]; g.Verdict != measured.VerdictSkipped || g.Times.Repeats == 0 {
		t.Errorf("row %+v", g)
	}

	o := options(t, tpJob(2, 1<<20), "FAKE_CUDA_FREE_MB=1")
	rep = runFake(t, o)
	wantExit(t, rep, exitEnvironment)
	wantFinding(t, rep, "gpu-memory", "1048576 B")
}

// --require decides instead of the interval.
func TestRequireDecides(t *testing.T) {
	for text, exit := range map[string]int{
		"busbw>=0.85*expected": exitOK, "busbw>=1.5*expected": exitBelow, "time < 1": exitBelow, "bytes>4K || time<100": exitOK,
	} {
		o := options(t, tpJob(2, 4096))
		var err error
		if o.Require, err = ParseRequire(text); err != nil {
			t.Fatal(err)
		}
		rep := runFake(t, o)
		wantExit(t, rep, exit)
		if exit == exitBelow {
			wantFinding(t, rep, "required", text)
		}
	}
}

// Eager launches, sweep sizes and a predictor.
func TestPredictorPricesTheRest(t *testing.T) {
	o := options(t, tpJob(2, 4096))
	o.Measuring.Eager, o.Measuring.Sweep = true, []int64{1024, 64 << 10}
	var asked []Question
	o.Predict = func(q Question) (Prediction, bool) {
		asked = append(asked, q)
		c := coll("", q.Op, q.Bytes, len(q.Members))
		return *c.Predicted, true
	}
	rep := runFake(t, o)
	wantExit(t, rep, exitOK)
	if len(rep.Groups) != 6 {
		t.Fatalf("%d rows, want 3 sizes with 2 launches", len(rep.Groups))
	}
	eager := 0
	for _, q := range asked {
		if q.Library != "2.28.9" {
			t.Errorf("library %q", q.Library)
		}
		if q.Eager {
			eager++
		}
	}
	if eager != 3 {
		t.Errorf("%d eager questions, want 3", eager)
	}
	for _, g := range rep.Groups {
		if g.Verdict != measured.VerdictPass || g.BusGBps <= 0 || g.Predicted.BusGBps <= 0 {
			t.Errorf("row %+v", g)
		}
	}
}

// The report tells how NCCL's choice differs from the prediction.
func TestOtherChoice(t *testing.T) {
	job := tpJob(2, 4096)
	job.Groups[0].Collectives[0].Predicted.Algorithm = "tree"
	rep := runFake(t, options(t, job))
	wantExit(t, rep, exitOK)
	wantFinding(t, rep, "other-choice", "ring LL", "tree")
	var b strings.Builder
	if err := WriteTable(&b, rep, true); err != nil {
		t.Fatal(err)
	}
	for _, w := range []string{"OK", "ring LL", "other-choice", "exit code 0"} {
		if !strings.Contains(b.String(), w) {
			t.Errorf("the table lacks %q:\n%s", w, b.String())
		}
	}
}
