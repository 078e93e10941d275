package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rankmap/internal/hardware"
	"rankmap/internal/measured"
	"rankmap/internal/units"
)

func TestReadProfileTellsTheKind(t *testing.T) {
	d, _, _ := quiet()
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	shipped := func(name string) string {
		data, err := os.ReadFile("../../configs/hardware/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return write(name, string(data))
	}
	p, err := readProfile(d, shipped("h200_sxm.collective.yaml"))
	if err != nil || p.collectives == nil || p.kernels != nil {
		t.Errorf("%+v %v", p, err)
	}
	p, err = readProfile(d, shipped("h200_sxm.kernels.yaml"))
	if err != nil || p.kernels == nil || p.collectives != nil {
		t.Errorf("%+v %v", p, err)
	}
	for name, c := range map[string]struct{ text, want string }{
		"unknown key":   {"frameworks: {}\nsystem: h200_sxm\nspeed: 9\n", "field speed not found"},
		"no system":     {"frameworks: {}\n", "system is missing"},
		"two documents": {"frameworks: {}\nsystem: h200_sxm\n---\na: 1\n", "want one document"},
		"no YAML":       {"frameworks: {", "did not find"},
		"neither":       {"hello: there\n", "hello"},
	} {
		if _, err := readProfile(d, write("x.yaml", c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestCalibrateKernels(t *testing.T) {
	d, _, _ := quiet()
	cat, err := hardware.Load(d.Configs)
	if err != nil {
		t.Fatal(err)
	}
	var ops []measured.OpRow
	for m := 1; m <= 4096; m *= 4 { // a machine on which everything takes a fixed time
		ops = append(ops, measured.OpRow{Kind: "gemm", System: "h100_sxm", Framework: "trtllm", DType: "bf16", M: m, N: 8192, K: 8192, Time: units.Micros(60 + float64(m)/4)})
	}
	data, sum, err := calibrateKernels(d.Configs, cat, nil, ops, false)
	if err != nil || len(sum.Records) != 1 || sum.Records[0].Rows != len(ops) || sum.Records[0].After > sum.Records[0].Before {
		t.Fatalf("%+v %v", sum, err)
	}
	if !strings.Contains(string(data), "calibrated: ") || !strings.Contains(sum.text(), "trtllm gemm bf16: 7 rows") {
		t.Errorf("%s", sum.text())
	}
	ops[0].System = "b200_sxm"
	if _, _, err := calibrateKernels(d.Configs, cat, nil, ops, false); err == nil || !strings.Contains(err.Error(), "several systems (b200_sxm, h100_sxm)") {
		t.Errorf("%v", err)
	}
	if _, _, err := calibrateKernels(d.Configs, cat, nil, ops[1:4], false); err == nil {
		t.Error("three rows calibrate nothing")
	}
}
