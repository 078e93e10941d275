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
