package compute

import (
	"io"
	"math"
	"os"
	"testing"

	"rankmap/configs"
	"rankmap/internal/hardware"
	"rankmap/internal/measured"
	"rankmap/model"
)

// What ships follows from our own table, and predicts the fifth of its shapes that took no part in the fit.
func TestTritonRecordsFollowFromTheirTable(t *testing.T) {
	f, err := os.Open("../docs/measurements/h200/2026-11-30-triton/moe.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := measured.Ops(f, "moe.csv", "")
	if err != nil {
		t.Fatal(err)
	}
	cat, err := hardware.Load(configs.FS)
	if err != nil {
		t.Fatal(err)
	}
	g, err := cat.GPU("h200_sxm")
	if err != nil {
		t.Fatal(err)
	}
	k, err := hardware.LoadKernels(configs.FS, "h200_sxm")
	if err != nil {
		t.Fatal(err)
	}
	for key, r := range FitTriton(g, rows, HeldOut, io.Discard) {
		if s := k.Triton[key]; s.Fit.Rows != r.Fit.Rows || math.Abs(s.Fit.Median-r.Fit.Median) > 0.05 {
			t.Errorf("%s: shipped %+v, fitted %+v", key, s.Fit, r.Fit)
		}
		if r.Fit.Rows < 10 || r.Fit.Median > 5 || r.Fit.P90 > 15 {
			t.Errorf("%s: %+v", key, r.Fit)
		}
	}
	if n := len(FitTriton(g, rows[:20], HeldOut, nil)); n != 0 {
		t.Errorf("%d records from 20 rows", n)
	}
}

// A narrow share of many experts is what Triton runs better than the library of the tables; training and GPUs of other
// generations do not run it.
func TestTritonRunsNarrowExperts(t *testing.T) {
	op := model.ComputeOp{Name: "moe", Kind: model.MoE, DType: "fp8_block", Times: 1, MoETokens: 8192, Hidden: 7168, Inter: 2048, TopK: 8, Experts: 256, EP: 1, ExpertTP: 8, Gated: true}
	for _, s := range []string{"h200_sxm", "h100_sxm", "gh200"} {
		serve := priceOf(t, s, Options{Phase: model.Prefill, Sustained: 1}, op)
		train := priceOf(t, s, Options{Phase: model.Train, Sustained: 1}, op)
		if serve.Time > 0.7*train.Time {
			t.Errorf("%s: %v serving, %v training", s, serve.Time, train.Time)
		}
	}
	if a, b := priceOf(t, "h200_sxm", Options{Phase: model.Prefill, Sustained: 1}, op).Time.Micros(), 2314.0; a < 0.9*b || a > 1.1*b {
		t.Errorf("%.0f us, measured %.0f", a, b)
	}
	op.DType = "fp8"
	if e := priceOf(t, "h200_sxm", Options{Phase: model.Prefill, Sustained: 1}, op); e.P10 >= e.Time || e.P90 <= e.Time {
		t.Errorf("interval %+v", e)
	}
}
