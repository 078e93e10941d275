package units

import (
	"fmt"
	"math"
	"testing"
	"testing/quick"
)

func TestBandwidthIsOneWayDecimal(t *testing.T) {
	if got := Gbps(400); got != GBps(50) {
		t.Errorf("400 Gb/s = %v, want 50 GB/s", got)
	}
	for want, b := range map[string]Bandwidth{"450 GB/s": GBps(450), "12.5 GB/s": Gbps(100), "26.562 GB/s": GBps(26.562)} {
		if b.String() != want {
			t.Errorf("%v prints %q, want %q", float64(b), b, want)
		}
	}
	if Gbps(400).Gbps() != 400 || GBps(3).GBps() != 3 {
		t.Error("accessors do not invert constructors")
	}
}

func TestPrinting(t *testing.T) {
	for want, got := range map[string]string{
		"16 MiB": Bytes(16 << 20).String(), "1.05 MB": Bytes(1050000).String(), "8 B": Bytes(8).String(),
		"512 KiB": Bytes(512 << 10).String(), "36.3 GB": Bytes(36328210432).String(), "141 GB": Bytes(141e9).Decimal(),
		"7.06 us": Micros(7.064).String(), "1.25 ms": Millis(1.25).String(), "3.2 s": Duration(3.2).String(), "0 us": Duration(0).String(),
		"1234": Signif(1234.4, 4), "0.00123": Signif(0.0012345, 3), "-0.5": Signif(-0.5, 3), "0": Trim(-0.0001, 2),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestParseBytes(t *testing.T) {
	for in, want := range map[string]Bytes{"8": 8, "64K": 64 << 10, "128M": 128 << 20, "8G": 8 << 30, "16MiB": 16 << 20, " 1g ": 1 << 30, "0": 0} {
		if got, err := ParseBytes(in); err != nil || got != want {
			t.Errorf("ParseBytes(%q) = %v, %v, want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "-1", "1.5M", "M", "9999999999T", "12X", "1e3"} {
		if got, err := ParseBytes(in); err == nil {
			t.Errorf("ParseBytes(%q) = %v, want an error", in, got)
		}
	}
}

func TestParseRate(t *testing.T) {
	for in, want := range map[string]Bandwidth{"400G": Gbps(400), "200Gb/s": Gbps(200), "50GB/s": GBps(50), "12.5 GB/s": GBps(12.5)} {
		if got, err := ParseRate(in); err != nil || got != want {
			t.Errorf("ParseRate(%q) = %v, %v, want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "400", "-1G", "0G", "NaNG", "1e99G", "infGB/s", "G"} {
		if got, err := ParseRate(in); err == nil {
			t.Errorf("ParseRate(%q) = %v, want an error", in, got)
		}
	}
}

func TestSignifKeepsValue(t *testing.T) {
	f := func(v float64) bool {
		if math.IsNaN(v) || math.IsInf(v, 0) || math.Abs(v) > 1e15 || math.Abs(v) < 1e-6 {
			return true
		}
		s := Signif(v, 6)
		var back float64
		if _, err := fmt.Sscan(s, &back); err != nil {
			return false
		}
		return math.Abs(back-v) <= 1e-5*math.Abs(v)
	}
	if err := quick.Check(f, nil); err != nil {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"400G", "50GB/s", "8G", "64KiB", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if b, err := ParseBytes(s); err == nil && b < 0 {
			t.Errorf("ParseBytes(%q) = %d", s, b)
		}
		if r, err := ParseRate(s); err == nil && !(r > 0) {
			t.Errorf("ParseRate(%q) = %v", s, r)
		}
	})
}
