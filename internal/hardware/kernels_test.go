package hardware_test

import (
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"rankmap/configs"
	"rankmap/internal/hardware"
)

// TestEveryGPUHasKernels: records with a source, physical numbers, both frameworks, bf16 at least.
func TestEveryGPUHasKernels(t *testing.T) {
	cat, err := hardware.Load(configs.FS)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range cat.Systems() {
		k, err := hardware.LoadKernels(configs.FS, s)
		if err != nil {
			t.Error(err)
			continue
		}
		if k.Source == "" {
			t.Errorf("%s: no source", s)
		}
		if k.GEMM["bf16"].EC == 0 {
			t.Errorf("%s: no bf16 products", s)
		}
		for _, name := range []string{"plain", "trtllm"} {
			f := k.Frameworks[name]
			if f == nil || f.About == "" || f.GEMM["bf16"].T0 <= 0 || f.Prefill["bf16/bf16"].EC <= 0 || f.Decode["bf16/bf16"].PerHead.EM <= 0 || f.Small.EM <= 0 {
				t.Errorf("%s: %s is incomplete: %+v", s, name, f)
			}
		}
		positive(t, s, reflect.ValueOf(*k))
	}
}

// positive checks every number of a record tree: none negative, no efficiency above 2.5.
func positive(t *testing.T, path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Float64:
		if x := v.Float(); x < 0 || x > 1000 || strings.HasSuffix(path, ".EC") && x > 1.5 || strings.HasSuffix(path, ".EM") && x > 2.5 {
			t.Errorf("%s is %g", path, x)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			positive(t, path+"."+v.Type().Field(i).Name, v.Field(i))
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			positive(t, path+"."+k.String(), v.MapIndex(k))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			positive(t, path, v.Elem())
		}
	}
}

func TestLoadKernelsErrors(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"unknown key", "system: x\nsource: s\ngemms: {}\n", "gemms"},
		{"another system", "system: y\nsource: s\n", `system is "y", want "x"`},
		{"no yaml", "\t{", "x.kernels.yaml"},
	} {
		fsys := fstest.MapFS{"hardware/x.kernels.yaml": {Data: []byte(c.text)}}
		if _, err := hardware.LoadKernels(fsys, "x"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := hardware.LoadKernels(fstest.MapFS{}, "x"); err == nil {
		t.Error("no file, no error")
	}
}

func TestPeakFallsBackToFP16(t *testing.T) {
	g := hardware.GPU{TFLOPS: map[string]float64{"fp16": 125}}
	if g.Peak("bf16") != 125e12 || g.Peak("fp8") != 0 {
		t.Errorf("%g %g", g.Peak("bf16"), g.Peak("fp8"))
	}
}
