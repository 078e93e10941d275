package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rankmap/configs"
	"rankmap/internal/hardware"
)

// TestWriteReadsBack: what is written is read as it was, to four digits, one record a line.
func TestWriteReadsBack(t *testing.T) {
	k, err := hardware.LoadKernels(configs.FS, "h100_sxm")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "hardware"), 0o755); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "hardware", "h100_sxm.kernels.yaml")
	if err := write(name, k); err != nil {
		t.Fatal(err)
	}
	back, err := hardware.LoadKernels(os.DirFS(dir), "h100_sxm")
	if err != nil {
		t.Fatal(err)
	}
	a, b := k.GEMM["bf16"], back.GEMM["bf16"]
	if math.Abs(a.EC/b.EC-1) > 1e-3 || a.Fit != b.Fit || k.Frameworks["trtllm"].MoE["fp8"] != back.Frameworks["trtllm"].MoE["fp8"] {
		t.Errorf("%+v became %+v", a, b)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n < 30 || n > 120 {
		t.Errorf("%d lines", n)
	}
}

// TestShippedEstimatesFollowFromTheFits: without data the tool changes nothing.
func TestShippedEstimatesFollowFromTheFits(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, configs.FS); err != nil {
		t.Fatal(err)
	}
	if err := run("", "", dir, ""); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "hardware", "*.kernels.yaml"))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		got, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		want, err := configs.FS.ReadFile("hardware/" + filepath.Base(f))
		if err != nil || string(got) != string(want) {
			t.Errorf("%s is not what go run ./internal/tools/fitkernels writes (%v)", filepath.Base(f), err)
		}
	}
}

func TestRunNeedsItsFolders(t *testing.T) {
	if err := run(t.TempDir(), "", "no such folder", ""); err == nil {
		t.Error("no tables, no error")
	}
	if err := run("", "", t.TempDir(), ""); err != nil {
		t.Errorf("an empty catalogue: %v", err) // nothing to do
	}
}

// TestSettledIsStable: what a reader of a file sees gives the same file again, and estimates from it the same estimates, so
// that a second run without tables changes no digit.
func TestSettledIsStable(t *testing.T) {
	k, err := hardware.LoadKernels(configs.FS, "h200_sxm")
	if err != nil {
		t.Fatal(err)
	}
	r := k.GEMM["bf16"]
	r.EC, r.LK = 0.7123456789, 1.23456789
	k.GEMM["bf16"] = r
	once, err := settled(k)
	if err != nil {
		t.Fatal(err)
	}
	twice, err := settled(once)
	if err != nil {
		t.Fatal(err)
	}
	a, err := encode(once)
	if err != nil {
		t.Fatal(err)
	}
	b, err := encode(twice)
	if err != nil || string(a) != string(b) {
		t.Errorf("%d and %d bytes, %v", len(a), len(b), err)
	}
	if got := once.GEMM["bf16"]; got.EC != 0.7123 || got.LK != 1.235 {
		t.Errorf("%+v", got)
	}
}
