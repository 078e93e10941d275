package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rankmap/configs"
)

// ownData is our own measurements, which the repository holds.
const ownData = "../../internal/accuracy/testdata/h200-x2/"

// quiet makes deps that read files and keep what is printed.
func quiet() (d *deps, out, talk *bytes.Buffer) {
	out, talk = new(bytes.Buffer), new(bytes.Buffer)
	return &deps{Stdin: strings.NewReader(""), Stdout: out, Stderr: talk, Configs: configs.FS, Open: openFile, Getenv: func(string) string { return "" }}, out, talk
}

func measuredRun(t *testing.T, format string, edit func(*measuredOptions), files ...string) (string, string, error) {
	t.Helper()
	d, out, talk := quiet()
	o := &measuredOptions{files: files}
	o.out.known = []string{"table", "json", "yaml"}
	o.out.format = format
	if edit != nil {
		edit(o)
	}
	err := runMeasured(d, o)
	return out.String(), talk.String(), err
}

func TestMeasuredJSON(t *testing.T) {
	text, _, err := measuredRun(t, "json", nil, ownData+"raw_graph.csv", ownData+"nccl-tests/nt_all_reduce_graph.txt")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		All     struct{ N int }
		Classes []struct {
			System, Collective, SizeClass string
			Nodes, N                      int
		}
		Skipped []struct{ N int }
	}
	dec := json.NewDecoder(strings.NewReader(text))
	if err := dec.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, c := range doc.Classes {
		if n += c.N; c.System != "h200_sxm" || c.Collective != "all_reduce" || c.Nodes != 1 {
			t.Errorf("%+v", c)
		}
	}
	if doc.All.N != 55 || n != 55 || doc.Skipped == nil {
		t.Errorf("%d rows, %d in classes: %s", doc.All.N, n, text)
	}
}

func TestMeasuredTableAndSystemFromBeside(t *testing.T) {
	dir := t.TempDir()
	data, err := os.ReadFile(ownData + "sweep.csv")
	if err != nil {
		t.Fatal(err)
	}
	sweep := filepath.Join(dir, "sweep.csv")
	if err := os.WriteFile(sweep, data, 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err = measuredRun(t, "table", nil, sweep)
	if err == nil || !strings.Contains(err.Error(), "names no GPU: --system is missing (known: a100_sxm") {
		t.Errorf("%v", err)
	}
	var c *codedError
	if !errors.As(err, &c) || c.code != exitInput {
		t.Errorf("exit code of %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "smi.txt"), []byte("GPU 0: NVIDIA H200 (UUID: GPU-1)\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text, talk, err := measuredRun(t, "table", nil, sweep)
	if err != nil || !strings.Contains(text, "h200_sxm  all") || !strings.Contains(text, "algorithm and protocol forced") {
		t.Errorf("%v\n%s", err, text)
	}
	if !strings.Contains(talk, "h200_sxm by smi.txt beside it") {
		t.Errorf("%s", talk)
	}
	with, _, err := measuredRun(t, "table", func(o *measuredOptions) { o.system = "h200-sxm" }, sweep)
	if err != nil || with != text {
		t.Errorf("--system says the same: %v", err)
	}
}

func TestMeasuredRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*measuredOptions)
		file string
		want string
	}{
		"no file":        {nil, "nowhere.csv", "nowhere.csv"},
		"not a table":    {nil, "validate_measured_test.go", "not a table of measurements"},
		"other system":   {func(o *measuredOptions) { o.system = "b200" }, ownData + "raw_graph.csv", "no such rows (found: h200_sxm)"},
		"launch":         {func(o *measuredOptions) { o.launch = "warp" }, ownData + "raw_graph.csv", `--launch: unknown launch "warp"`},
		"rate":           {func(o *measuredOptions) { o.nicRate = "fast" }, ownData + "raw_graph.csv", `--nic-rate: rate "fast"`},
		"format":         {func(o *measuredOptions) { o.out.format = "xml" }, ownData + "raw_graph.csv", `unknown output format "xml"`},
		"broken profile": {func(o *measuredOptions) { o.profiles = []string{ownData + "README.md"} }, ownData + "raw_graph.csv", "README.md"},
	} {
		_, _, err := measuredRun(t, "json", c.edit, c.file)
		var coded *codedError
		if err == nil || !strings.Contains(err.Error(), c.want) || !errors.As(err, &coded) || coded.code != exitInput {
			t.Errorf("%s: %v, want %q and exit 2", name, err, c.want)
		}
	}
}

func TestMeasuredWithNothingToCompare(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.csv")
	row := "system,library,version,kernel,collective,dtype,ranks,nodes,bytes,time_us\ntpu,nccl,2.27,,all_reduce,half,8,1,8,5\n"
	if err := os.WriteFile(name, []byte(row), 0o600); err != nil {
		t.Fatal(err)
	}
	text, _, err := measuredRun(t, "json", nil, name)
	if !errors.Is(err, silent(exitPartial)) || !strings.Contains(text, "no datasheet of this GPU") {
		t.Errorf("%v %s", err, text)
	}
}
