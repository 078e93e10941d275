package step

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"rankmap/internal/engine"
	"rankmap/internal/units"
)

// linear are steps of base + a time a sequence + a time a prompt token, in milliseconds.
type linear struct {
	base, seq, token float64
	kernels          int
}

func (l linear) passage(ms float64) Passage {
	b := Band{units.Millis(ms), units.Millis(0.9 * ms), units.Millis(1.2 * ms)}
	return Passage{Pace: b, Through: b, Kernels: l.kernels, Stages: 1, Ring: 1}
}

func (l linear) Decode(seqs int) (Passage, error) {
	return l.passage(l.base + l.seq*float64(seqs)), nil
}

func (l linear) Prompt(seqs, tokens, _ int, _ float64) (Passage, error) {
	return l.passage(l.base + l.seq*float64(seqs) + l.token*float64(tokens)), nil
}

func serve(t testing.TB, l Load, e engine.Serving, s Steps) Service {
	t.Helper()
	v, err := Serve(l, e, s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func near(t *testing.T, what string, got units.Duration, ms, tolerance float64) {
	t.Helper()
	if math.Abs(got.Millis()/ms-1) > tolerance {
		t.Errorf("%s: %.3f ms, want %.3f", what, got.Millis(), ms)
	}
}

// Ten clients, 100 tokens in, 1000 out, 10 ms a step and 0.1 ms a prompt token: 10/1000 prompts a step, a step with one
// takes 20 ms. TPOT = 10 + 0.01 x 9/10 x 10.
func TestServeByHand(t *testing.T) {
	e := engine.Serving{Budget: 8192, Lag: 0.5}
	v := serve(t, Load{Clients: 10, ISL: 100, OSL: 1000}, e, linear{base: 10, token: 0.1})
	near(t, "decode", v.Decode.Time, 10, 1e-9)
	near(t, "step with a prompt", v.Prompt.Time, 20, 0.02)
	near(t, "tpot", v.TPOT.Time, 10.09, 0.001)
	near(t, "ttft: half a step, a bare queue, the prompt", v.TTFT.Time, 5+0.09+20, 0.02)
	if v.Chunks != 1 || v.Running != 10 {
		t.Errorf("%d chunks, %d running", v.Chunks, v.Running)
	}
	if r := v.Rate * (v.TTFT.Time.Seconds() + 1000*v.TPOT.Time.Seconds()); math.Abs(r/10-1) > 0.01 {
		t.Errorf("rate %v: Little's law gives %.3f clients", v.Rate, r)
	}
}

func TestAPromptOverTheBudgetIsCut(t *testing.T) {
	e := engine.Serving{Budget: 1000, Lag: 0.5}
	l := Load{Clients: 1, ISL: 4000, OSL: 1000}
	s := linear{base: 10, token: 0.01}
	cut, whole := serve(t, l, e, s), serve(t, l, engine.Serving{Budget: 1000, Whole: true, Lag: 0.5}, s)
	if cut.Chunks != 5 || whole.Chunks != 1 { // one token of the budget is the decoding sequence's
		t.Errorf("%d and %d pieces, want 5 and 1", cut.Chunks, whole.Chunks)
	}
	if cut.TTFT.Time <= whole.TTFT.Time {
		t.Error("every piece pays the step again: the first token should be later")
	}
}

// A budget smaller than eight tokens leaves one for prompts beside many sequences; it does not become unlimited.
func TestATinyBudgetStaysOne(t *testing.T) {
	for budget := 1; budget <= 9; budget++ {
		v := serve(t, Load{Clients: 64, ISL: 100, OSL: 1000}, engine.Serving{Budget: budget}, linear{base: 10, token: 0.1})
		if v.Chunks != 100 {
			t.Errorf("budget %d: %d pieces, want 100 of one token", budget, v.Chunks)
		}
	}
}

func TestAWorkloadWithoutPromptsIsPriced(t *testing.T) {
	for _, e := range []engine.Serving{{Budget: 8192}, {}, {Budget: 8192, Apart: true}} {
		v := serve(t, Load{Clients: 4, OSL: 10}, e, linear{base: 10, token: 0.1})
		if !(v.TPOT.Time > 0) || !(v.TTFT.Time > 0) || math.IsInf(v.TTFT.Time.Seconds(), 0) {
			t.Errorf("%+v: %+v", e, v)
		}
	}
}

func TestRequestsBeyondTheCacheWait(t *testing.T) {
	e := engine.Serving{Budget: 8192}
	s := linear{base: 10, token: 0.01}
	all := serve(t, Load{Clients: 20, ISL: 100, OSL: 100}, e, s)
	half := serve(t, Load{Clients: 20, Slots: 10, ISL: 100, OSL: 100}, e, s)
	if half.Running > 10 || half.Rate >= all.Rate {
		t.Errorf("%d running at %v/s, without a limit %v/s", half.Running, half.Rate, all.Rate)
	}
	// Ten wait behind ten: one whole answer.
	near(t, "ttft", half.TTFT.Time-all.TTFT.Time, 100*half.TPOT.Time.Millis(), 0.1)
}

// All clients at once on an engine that decodes only when no prompt waits: 8 prompts of 10 ms, so the mean first token
// comes after 45 ms, and a token's gap holds half of the others' prompts.
func TestEqualRequestsStayInStep(t *testing.T) {
	s := linear{base: 0, token: 0.1}
	e := engine.Serving{Budget: 100, Apart: true}
	v := serve(t, Load{Clients: 8, ISL: 100, OSL: 1000, Equal: true}, e, s)
	near(t, "ttft apart", v.TTFT.Time, 45, 1e-6)
	e.Apart, e.Lag = false, 1
	v = serve(t, Load{Clients: 8, ISL: 100, OSL: 1000, Equal: true}, engine.Serving{Budget: 800, Lag: 1}, s)
	near(t, "ttft mixed: a step of two prompts, and its own", v.TTFT.Time, 40, 1e-6)
}

func TestTheBurstOfABenchmarkIsInTheMean(t *testing.T) {
	e := engine.Serving{Budget: 111}
	s := linear{token: 0.1}
	l := Load{Clients: 11, ISL: 100, OSL: 100_000}
	calm := serve(t, l, e, s)
	l.Burst = 0.1
	near(t, "burst", serve(t, l, e, s).TTFT.Time, 0.9*calm.TTFT.Time.Millis()+0.1*60, 0.02)
}

func TestHostTimesCount(t *testing.T) {
	l := Load{Clients: 4, ISL: 10, OSL: 1000}
	s := linear{base: 1, token: 1e-6, kernels: 1000}
	e := engine.Serving{Budget: 8192, Step: units.Millis(1), Launch: units.Micros(10)}
	v := serve(t, l, e, s)
	near(t, "graph", v.Decode.Time, 2, 1e-9)
	near(t, "a step with a prompt is launched kernel by kernel", v.Prompt.Time, 11, 1e-6)
	e.Eager = true
	near(t, "eager", serve(t, l, e, s).Decode.Time, 11, 1e-9)
	three := Passage{Pace: Band{Time: units.Millis(1)}, Through: Band{Time: units.Millis(3)}, Stages: 3, Ring: 3}
	v = serve(t, l, engine.Serving{Budget: 8192, Step: units.Millis(1)}, fixed{three})
	near(t, "three stages, each with a host", v.Decode.Time, 6, 1e-9)
}

type fixed struct{ p Passage }

func (f fixed) Decode(int) (Passage, error)                    { return f.p, nil }
func (f fixed) Prompt(int, int, int, float64) (Passage, error) { return f.p, nil }

func TestServeKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := linear{base: rapid.Float64Range(1, 50).Draw(t, "base"), seq: rapid.Float64Range(0, 1).Draw(t, "seq"), token: rapid.Float64Range(1e-4, 0.1).Draw(t, "token")}
		e := engine.Serving{
			Budget: rapid.IntRange(64, 16384).Draw(t, "budget"), Whole: rapid.Bool().Draw(t, "whole"), Apart: rapid.Bool().Draw(t, "apart"),
			Lag: 0.5, Gather: rapid.Float64Range(0, 10).Draw(t, "gather"), Step: units.Millis(rapid.Float64Range(0, 2).Draw(t, "step")),
		}
		l := Load{
			Clients: rapid.IntRange(1, 512).Draw(t, "clients"), Replicas: rapid.IntRange(1, 16).Draw(t, "replicas"), ISL: rapid.IntRange(1, 20000).Draw(t, "isl"),
			OSL: rapid.IntRange(1, 8192).Draw(t, "osl"), Burst: rapid.Float64Range(0, 1).Draw(t, "burst"), Equal: rapid.Bool().Draw(t, "equal"),
		}
		if rapid.Bool().Draw(t, "limited") {
			l.Slots = rapid.IntRange(1, 512).Draw(t, "slots")
		}
		v, err := Serve(l, e, s)
		if err != nil {
			t.Fatal(err)
		}
		for what, b := range map[string]Band{"ttft": v.TTFT, "tpot": v.TPOT, "decode": v.Decode} {
			if !(b.Time > 0) || math.IsInf(float64(b.Time), 0) || !(b.P10 <= b.Time && b.Time <= b.P90) {
				t.Fatalf("%s %+v of %+v", what, b, l)
			}
		}
		if v.TPOT.Time < v.Decode.Time*(1-1e-9) || v.Running < 1 || v.Running > l.Clients || !(v.Rate > 0) {
			t.Fatalf("%+v of %+v", v, l)
		}
		slower := s
		slower.base *= 1.5
		at := func(s Steps) units.Duration { // with as many decoding sequences
			x := solver{l: l, e: e, s: s, slots: l.Clients}
			o, err := x.at(float64(v.Running))
			if err != nil {
				t.Fatal(err)
			}
			return o.TPOT.Time
		}
		if at(slower) < at(s) {
			t.Fatalf("slower steps give a shorter TPOT")
		}
	})
}

// No step carries more tokens than its budget: rate x (isl + osl) <= budget / step time, over all replicas and micro-batches.
func TestRateKeepsTheBudgetOfTokens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := linear{base: rapid.Float64Range(0.1, 50).Draw(t, "base"), seq: rapid.Float64Range(0, 1).Draw(t, "seq"), token: rapid.Float64Range(1e-5, 0.1).Draw(t, "token")}
		e := engine.Serving{Budget: rapid.IntRange(1, 16384).Draw(t, "budget"), Apart: rapid.Bool().Draw(t, "apart"), Lag: 0.5, Gather: rapid.Float64Range(0, 10).Draw(t, "gather")}
		l := Load{
			Clients: rapid.IntRange(1, 4096).Draw(t, "clients"), Replicas: rapid.IntRange(1, 16).Draw(t, "replicas"), ISL: rapid.IntRange(0, 20000).Draw(t, "isl"),
			OSL: rapid.IntRange(1, 8192).Draw(t, "osl"), Equal: rapid.Bool().Draw(t, "equal"),
		}
		v, err := Serve(l, e, s)
		if err != nil {
			t.Fatal(err)
		}
		tokens := v.Rate * float64(l.ISL+l.OSL)
		if e.Apart {
			tokens = v.Rate * float64(l.ISL) // decode has steps of its own
		}
		if most := float64(e.Budget*l.Replicas) / v.TPOT.Time.Seconds(); tokens > most*(1+1e-9) {
			t.Fatalf("%.6g tokens a second, the steps hold %.6g: %+v", tokens, most, v)
		}
	})
}

// Only sequences that decode take tokens from prompts: where most requests wait for their prompt, pieces are larger than the number
// of requests would leave.
func TestRequestsThatWaitTakeNoTokens(t *testing.T) {
	e := engine.Serving{Budget: 256, Lag: 0.5}
	v := serve(t, Load{Clients: 128, ISL: 4000, OSL: 400}, e, linear{base: 10, seq: 0.01, token: 0.01})
	if v.Running > 256*400/4400 {
		t.Errorf("%d sequences decode, 256 tokens a step hold %d beside the prompts of their successors", v.Running, 256*400/4400)
	}
	if want := (4000 + 256 - v.Running - 1) / (256 - v.Running); v.Chunks > want+1 {
		t.Errorf("%d pieces beside %d sequences, want about %d", v.Chunks, v.Running, want)
	}
}

// TestRateOfOneClient: a lone client sends its next request when the last is answered, prompt included.
func TestRateOfOneClient(t *testing.T) {
	for _, osl := range []int{1, 16, 512} {
		l := Load{Clients: 1, ISL: 4096, OSL: osl}
		got, err := Serve(l, engine.Serving{Budget: 8192}, linear{base: 5, seq: 0.1, token: 0.02})
		if err != nil {
			t.Fatal(err)
		}
		whole := 1 / (got.TTFT.Time.Seconds() + float64(osl)*got.TPOT.Time.Seconds())
		if got.Rate > 1.05*whole {
			t.Errorf("osl %d: %.3g requests a second, one at a time allows %.3g", osl, got.Rate, whole)
		}
	}
}
