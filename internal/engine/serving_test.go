package engine

import "testing"

func TestServingOfKnowsHowEnginesSchedule(t *testing.T) {
	for _, c := range []struct {
		name, want   string
		apart, whole bool
	}{{"vllm", "vllm", false, false}, {"sglang", "sglang", true, false}, {"trtllm", "trtllm", false, true}, {"", "vllm", false, false}, {"megatron", "vllm", false, false}} {
		s := ServingOf(c.name, "")
		if s.Name != c.want || s.Apart != c.apart || s.Whole != c.whole {
			t.Errorf("%q: %+v", c.name, s)
		}
		if s.Budget < 1024 || s.Step <= 0 || s.Step.Millis() > 5 || s.Request <= 0 || s.Request.Millis() > 200 || s.Launch.Micros() < 2 || s.Launch.Micros() > 100 || s.Lag <= 0 {
			t.Errorf("%q: a host time out of bounds: %+v", c.name, s)
		}
		if s.Halves || s.Eager {
			t.Errorf("%q: options that users turn on are on", c.name)
		}
	}
}

// Before 0.14 vLLM waits for its workers between steps.
func TestServingOfKnowsWhenVLLMSchedulesAhead(t *testing.T) {
	for _, c := range []struct {
		name, version string
		waits         bool
	}{{"vllm", "0.12.0", true}, {"vllm", "0.14.0", false}, {"vllm", "0.19.1", false}, {"vllm", "", false}, {"vllm", "nightly-5b8c30d", false}, {"sglang", "0.5.9", false}} {
		if got := ServingOf(c.name, c.version).Workers > 0; got != c.waits {
			t.Errorf("%s %q: %v", c.name, c.version, got)
		}
	}
}

func TestHostBound(t *testing.T) {
	s := ServingOf("vllm", "")
	if s.HostBound(true) != 0 || s.HostBound(false) != s.Launch {
		t.Errorf("decode %v, prompts %v", s.HostBound(true), s.HostBound(false))
	}
	if s.Eager = true; s.HostBound(true) != s.Launch {
		t.Error("decode without graphs is not bound by the host")
	}
}
