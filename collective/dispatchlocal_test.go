package collective

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"rankmap/internal/hardware"
	"rankmap/internal/units"
)

func localLog(c *hardware.LocalCorrection, x *Exchange) float64 {
	l := localFor(c, x)
	return l.at(math.Log2(float64(max(x.Tokens, 1))))
}

// fitLocal finds back what was put in: a correction that is linear in the factors at the knots.
func TestLocalCorrectionIsFoundBack(t *testing.T) {
	factor := func(name string, x *Exchange) float64 { u, _ := localFactor(name, x); return u }
	truth := func(x *Exchange) float64 {
		return 0.1 - 0.02*math.Log2(float64(x.Tokens)) + 0.05*factor("sms", x) - 0.04*factor("hidden", x)
	}
	form := func(x *Exchange) float64 { return 20 + float64(x.Tokens)*0.1 }
	var samples []ExchangeSample
	for tokens := 1; tokens <= 1<<13; tokens *= 2 {
		for _, sms := range []int{4, 8, 12, 24} {
			for _, hidden := range []int{2048, 4096, 7168} {
				for _, k := range []int{2, 4, 8} {
					x := Exchange{Phase: "dispatch", Ranks: 8, Tokens: tokens, Hidden: hidden, TopK: k, Experts: 256, SMs: sms}
					samples = append(samples, ExchangeSample{x, units.Micros(form(&x) * math.Exp(truth(&x)))})
				}
			}
		}
	}
	c := fitLocal(&hardware.DispatchKernel{Mode: "normal"}, samples, form)
	if c == nil {
		t.Fatal("no correction")
	}
	for i := range samples {
		x := &samples[i].Exchange
		if d := localLog(c, x) - truth(x); math.Abs(d) > 0.02 {
			t.Fatalf("%+v: %.3f, want %.3f", *x, localLog(c, x), truth(x))
		}
	}
	if fitLocal(&hardware.DispatchKernel{Mode: "normal"}, samples[:20], form) != nil {
		t.Error("a correction from 20 samples")
	}
}

// The correction is bounded whatever the shape, and constant beyond what was measured.
func TestLocalCorrectionIsBounded(t *testing.T) {
	ps := profiles(t)
	k := dispatchKernel(ps.Collective("h200_sxm"), "normal", "", "combine")
	rapid.Check(t, func(rt *rapid.T) {
		x := Exchange{Phase: "combine", Ranks: rapid.IntRange(2, 64).Draw(rt, "ranks"), Tokens: rapid.IntRange(0, 1<<20).Draw(rt, "tokens"),
			Hidden: rapid.IntRange(1, 1<<16).Draw(rt, "hidden"), TopK: rapid.IntRange(1, 32).Draw(rt, "top"), Experts: 512, SMs: rapid.IntRange(0, 200).Draw(rt, "sms")}
		if r := localLog(k.Local, &x); math.IsNaN(r) || math.Abs(r) > localMost {
			rt.Fatalf("%+v: %v", x, r)
		}
	})
}

// An unknown factor of a newer file counts for nothing.
func TestLocalCorrectionUnknownFactor(t *testing.T) {
	c := &hardware.LocalCorrection{Log2: []float64{0, 4}, Mean: []float64{0.1, 0.1}, Factors: []hardware.LocalFactor{{Name: "colour", Slope: []float64{1, 1}}}}
	almost(t, "mean alone", localLog(c, &Exchange{Tokens: 8}), 0.1)
}

// The one-sided kernel's bulk time goes with the remote ranks that a token is sent to; even routing sends to more of them.
func TestOneSidedEvenRouting(t *testing.T) {
	ps := profiles(t)
	x := Exchange{Phase: "combine", Ranks: 8, Tokens: 16384, Hidden: 7168, TopK: 8, Experts: 256, Even: true}
	time := func(x Exchange) float64 {
		e, err := Dispatch(ps, "gb200", "nvlink", oneSided, x, 152)
		if err != nil {
			t.Fatal(err)
		}
		return e.Time.Micros()
	}
	even := time(x)
	x.Ranks = 16
	if r := time(x) / even; math.Abs(r-7.5/7) > 0.04 {
		t.Errorf("8 to 16 ranks: %.3f times as long, want about 7.5/7", r)
	}
	x.Ranks, x.Even = 8, false
	if r := time(x) / even; r > 0.85 {
		t.Errorf("uniform routing: %.3f of even routing, want about %.2f", r, DistinctRanks(8, 8, 256)/8)
	}
}

func BenchmarkDispatch(b *testing.B) {
	ps := profiles(b)
	x := Exchange{Phase: "dispatch", Ranks: 8, Tokens: 128, Hidden: 7168, TopK: 8, Experts: 256, SMs: 20}
	for _, mode := range []string{"low_latency", "normal"} {
		b.Run(mode, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Dispatch(ps, "h200_sxm", mode, "", x, 132); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
