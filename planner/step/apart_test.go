package step

import (
	"testing"

	"rankmap/internal/engine"
)

func TestApartServesWithoutDisturbingDecode(t *testing.T) {
	e := engine.Serving{Budget: 1000}
	s := linear{base: 10, token: 0.1}
	a := Apart{Prefill: 2, Decode: 1, PrefillReplicas: 1, DecodeReplicas: 1, PrefillE: e, DecodeE: e}
	v, err := ServeApart(Load{Clients: 4, ISL: 500, OSL: 1000}, a, s, s)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "tpot", v.TPOT.Time, 10, 1e-9)
	// 60 ms of its own prompt, 10 ms of the first decode step; 4 requests in 10 s hardly meet.
	near(t, "ttft", v.TTFT.Time, 70, 0.01)
}

// A prompt of 1 s on one instance and answers of 0.1 s: ten clients wait in line for prefill.
func TestPrefillThatCannotKeepUpQueues(t *testing.T) {
	e := engine.Serving{Budget: 1000}
	a := Apart{Prefill: 1, Decode: 1, PrefillReplicas: 1, DecodeReplicas: 1, PrefillE: e, DecodeE: e}
	v, err := ServeApart(Load{Clients: 10, ISL: 1000, OSL: 10}, a, linear{token: 1}, linear{base: 10})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "ttft", v.TTFT.Time, 10*1000-10*10, 0.05)
	if v.Rate > 1.01 {
		t.Errorf("%v requests a second through a prefill of one", v.Rate)
	}
	if v.Running > 3 {
		t.Errorf("%d decode, want hardly any", v.Running)
	}
}
