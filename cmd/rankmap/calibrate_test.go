package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rankmap/internal/hardware"
)

func calibrateRun(t *testing.T, o *calibrateOptions) (string, string, error) {
	t.Helper()
	d, out, talk := quiet()
	err := runCalibrate(d, o)
	return out.String(), talk.String(), err
}

// nccl-tests on our own two H200: the profile comes out valid, the summary says what was done, and predictions on the
// other rows of the same run get no worse.
func TestCalibrateOnOwnMeasurements(t *testing.T) {
	name := filepath.Join(t.TempDir(), "mine.yaml")
	text, _, err := calibrateRun(t, &calibrateOptions{files: []string{ownData + "nccl-tests/nt_all_reduce_graph.txt"}, file: name})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"h200_sxm: 24 measurements from 48 rows, ranks 2", "median error: ", "(measured)", "one group size only"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := hardware.ReadCollective(f, name)
	if err != nil {
		t.Fatal(err)
	}
	if p.System != "h200_sxm" || !strings.Contains(p.Source, "calibrated with nt_all_reduce_graph.txt") {
		t.Errorf("%s: %s", p.System, p.Source)
	}
	score := func(profiles ...string) string {
		s, _, err := measuredRun(t, "table", func(o *measuredOptions) { o.profiles = profiles }, ownData+"raw_graph.csv")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if before, after := score(), score(name); before == after {
		t.Error("--profile changes nothing")
	}
}

func TestCalibrateLeavesNoFileBehindOnFailure(t *testing.T) {
	dir := t.TempDir()
	mixed := filepath.Join(dir, "mixed.csv")
	head := "system,library,version,kernel,collective,dtype,ranks,nodes,bytes,time_us\n"
	rows := "h100_sxm,nccl,2.27,,all_reduce,half,8,1,4096,15\nb200_sxm,nccl,2.27,,all_reduce,half,8,1,4096,25\n"
	kernels, steps := filepath.Join(dir, "kernels.csv"), filepath.Join(dir, "steps.csv")
	for name, text := range map[string]string{mixed: head + rows, steps: "model,hidden,layers,heads,seq,vocab,gpus,tp,pp,dp,batch,microbatch,recompute,step_s\nnet,1024,8,16,1024,32000,8,8,1,1,8,1,none,1.5\n", kernels: head + "h100_sxm,vllm,0.19.0,vLLM_custom_graph,all_reduce,half,8,1,4096,5\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		file, in, format, want string
	}{
		"several systems":    {"out.yaml", mixed, "", "rows of several systems (b200_sxm, h100_sxm)"},
		"nothing usable":     {"out.yaml", kernels, "", "no row can calibrate: 1 not NCCL"},
		"whole steps":        {"out.yaml", steps, "", "(training steps) times whole steps"},
		"no -f":              {"", mixed, "", "-f is missing"},
		"unknown format":     {"out.yaml", mixed, "xml", `unknown output format "xml"`},
		"no such file":       {"out.yaml", filepath.Join(dir, "nowhere"), "", "nowhere"},
		"the input itself":   {ownData + "raw_graph.csv", ownData + "raw_graph.csv", "", "is also an input"},
		"a folder as target": {".", ownData + "raw_graph.csv", "", "is a folder"},
	} {
		out := c.file
		if out == "out.yaml" {
			out = filepath.Join(dir, out)
		}
		_, _, err := calibrateRun(t, &calibrateOptions{files: []string{c.in}, file: out, format: c.format})
		var coded *codedError
		if err == nil || !strings.Contains(err.Error(), c.want) || !errors.As(err, &coded) || coded.code != exitInput {
			t.Errorf("%s: %v, want %q and exit 2", name, err, c.want)
		}
		if _, err := os.Stat(filepath.Join(dir, "out.yaml")); err == nil {
			t.Errorf("%s: left a file behind", name)
		}
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 3 {
		t.Errorf("temporary files left behind: %v", entries)
	}
	text, _, err := calibrateRun(t, &calibrateOptions{files: []string{mixed}, file: "-", rows: measuredOptions{system: "h100-sxm"}})
	if err != nil || !strings.Contains(text, "system: h100_sxm") {
		t.Errorf("--system picks one: %v %s", err, text)
	}
}
