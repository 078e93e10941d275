package measured

import (
	"strings"
	"testing"
)

const trainingHead = "model,hidden,mlp,layers,heads,seq,vocab,gpus,tp,pp,dp,interleave,batch,microbatch,mode,sequence_parallel,recompute,step_s,params_optimizer_gib,activations_gib\n"

func TestTrainingStepsAreReadByHeader(t *testing.T) {
	const rows = "tiny,2048,8192,24,16,2048,51200,8,8,1,1,,4,2,x,yes,attention only,1.5,,\n" +
		"tiny,2048,8192,24,16,2048,51200,8,4,2,1,3,4,1,x,no,none,,1.5,2.25\n"
	f, err := Read(strings.NewReader("\ufeff"+trainingHead+rows), "t.csv")
	if err != nil || f.Format != "training steps" || len(f.Trained) != 2 {
		t.Fatalf("%s, %d rows, %v", f.Format, len(f.Trained), err)
	}
	a, b := f.Trained[0], f.Trained[1]
	if a.Recompute != "selective" || !a.SequenceParallel || a.Time.Seconds() != 1.5 || a.States != 0 || a.Interleave != 0 || a.Line != 2 {
		t.Errorf("a step: %+v", a)
	}
	if b.Recompute != "none" || b.SequenceParallel || b.Time != 0 || b.States != 3<<29 || b.Activations != 9<<28 || b.Interleave != 3 {
		t.Errorf("memory: %+v", b)
	}
}

func TestTrainingStepsNameEveryProblem(t *testing.T) {
	_, err := ReadTrainingSteps(strings.NewReader(trainingHead+
		"tiny,0,8192,24,16,2048,51200,8,8,1,1,,4,2,x,yes,some,1.5,,\n"+
		"tiny,2048,8192,24,16,2048,51200,8,8,1,1,,4,2,x,yes,full,,,\n"+
		"tiny,2048,8192,24,16,2048,51200,8,8,1,1,,4,2,x,yes,full,-1,,\n"), "t.csv")
	for _, want := range []string{`t.csv:2: hidden is "0"`, `recompute is "some"`, "t.csv:3: the row measures neither", `t.csv:4: step_s is "-1"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	if _, err := ReadTrainingSteps(strings.NewReader("a,b\n"), "t.csv"); err == nil || !strings.Contains(err.Error(), "want the columns") {
		t.Errorf("another table: %v", err)
	}
}

func FuzzReadTrainingSteps(f *testing.F) {
	f.Add(trainingHead + "tiny,2048,8192,24,16,2048,51200,8,8,1,1,,4,2,x,yes,full,1.5,1,2\n")
	f.Add(trainingHead)
	f.Fuzz(func(_ *testing.T, in string) { _, _ = ReadTrainingSteps(strings.NewReader(in), "t.csv") })
}
