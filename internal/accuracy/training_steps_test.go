package accuracy

import (
	"bytes"
	"math"
	"os"
	"strings"
	"testing"

	"rankmap/configs"
	"rankmap/internal/measured"
	"rankmap/internal/testdata"
)

const stepsHead = "model,hidden,layers,heads,seq,vocab,gpus,tp,pp,dp,interleave,batch,microbatch,sequence_parallel,recompute,step_s,params_optimizer_gib,activations_gib\n"

func trainingOf(t *testing.T, rows string) *Training {
	t.Helper()
	f, err := measured.ReadTrainingSteps(strings.NewReader(stepsHead+rows), "t.csv")
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPlacer(configs.FS, Models{})
	if err != nil {
		t.Fatal(err)
	}
	res, err := p.TrainingSteps(f, "a100_sxm")
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// A factor that the other models give is not touched by a model's own rows.
func TestHeldOutFactorIgnoresOwnRows(t *testing.T) {
	const others = "a,4096,24,32,2048,51200,8,8,1,1,,8,2,yes,selective,%s,,\nb,6144,48,64,2048,51200,8,8,1,1,,4,4,no,full,1.42,,\n"
	one := trainingOf(t, strings.Replace(others, "%s", "0.5", 1))
	two := trainingOf(t, strings.Replace(others, "%s", "5", 1))
	if one.Points[0].Held != two.Points[0].Held || one.Points[0].Factor != two.Points[0].Factor {
		t.Errorf("the factor of a is %g and %g for other times of a", one.Points[0].Factor, two.Points[0].Factor)
	}
	if one.Points[1].Factor == two.Points[1].Factor {
		t.Error("the factor of b does not depend on a")
	}
	if p := one.Points[0]; !(p.Boost < p.Ours) {
		t.Errorf("boost clock %v, sustained %v", p.Boost, p.Ours)
	}
}

func TestTrainingReportSaysMeanAndMax(t *testing.T) {
	r := trainingOf(t, "a,4096,24,32,2048,51200,8,8,1,1,,8,2,yes,selective,0.5,10,\nb,4096,24,32,2048,51200,8,8,2,1,,8,2,yes,selective,0.5,,\n")
	if len(r.Points) != 1 || len(r.Skipped) != 1 || len(r.Memory) != 1 {
		t.Fatalf("%d points, %v skipped, %d of memory", len(r.Points), r.Skipped, len(r.Memory))
	}
	s := r.Summary()
	if len(s.Errors) != 2 { // one model: no others to fit a factor on
		t.Errorf("%+v", s.Errors)
	}
	if e := s.Errors[1]; math.Abs(e.Mean-math.Abs(s.Points[0].Shipped)) > 0.011 || e.Mean != e.Max {
		t.Errorf("%+v of %+v", e, s.Points[0])
	}
	var table, doc bytes.Buffer
	if err := r.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	if err := r.WriteMarkdown(&doc); err != nil || !strings.Contains(doc.String(), "| boost clock, nothing fitted |") || !strings.Contains(table.String(), "Mean and largest") {
		t.Errorf("%v\n%s\n%s", err, table.String(), doc.String())
	}
}

// The published points, as docs/accuracy.md states them: a guard, not a target.
func TestPublishedTrainingStepsStayClose(t *testing.T) {
	f, err := os.Open(testdata.Dir(t, "measured", "public", "megatron_sp.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := measured.ReadTrainingSteps(f, "megatron_sp.csv")
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPlacer(configs.FS, Models{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.TrainingSteps(rows, "a100_sxm")
	if err != nil || len(r.Points) != 8 {
		t.Fatalf("%d points, %v", len(r.Points), err)
	}
	if m, ok := r.errors(trainingViews[2].get); !ok || m.mean > 5 || m.max > 8 {
		t.Errorf("held out: mean %g, largest %g", m.mean, m.max)
	}
}
