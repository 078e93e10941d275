// Package units holds the physical quantities of rankmap, each as a type of its own, and the one way to print each.
//
// Bandwidth is bytes a second in ONE direction; 1 GB = 1e9 bytes. Vendors quote NVLink both ways (NVLink 5
// "1,800 GB/s" is 900 each way) and networks in bits one way (NDR 400 Gb/s is 50 GB/s): convert at the edge, once,
// with GBps and Gbps.
package units

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bandwidth is bytes a second, one way.
type Bandwidth float64

// GBps makes a Bandwidth from decimal gigabytes a second, one way.
func GBps(v float64) Bandwidth { return Bandwidth(v * 1e9) }

// Gbps makes a Bandwidth from gigabits a second, one way, as networks quote it.
func Gbps(v float64) Bandwidth { return Bandwidth(v * 1e9 / 8) }

// GBps returns decimal gigabytes a second.
func (b Bandwidth) GBps() float64 { return float64(b) / 1e9 }

// Gbps returns gigabits a second.
func (b Bandwidth) Gbps() float64 { return float64(b) * 8 / 1e9 }

// String prints decimal GB/s with at most three digits after the point: "450 GB/s".
func (b Bandwidth) String() string { return Trim(b.GBps(), 3) + " GB/s" }

// Bytes counts bytes.
type Bytes int64

// String prints binary units where they are whole and below 1,024 ("16 MiB"), else decimal ("1.05 MB").
func (b Bytes) String() string {
	v := int64(b)
	for _, u := range []struct {
		n int64
		s string
	}{{1 << 40, "TiB"}, {1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if v >= u.n {
			if v%u.n == 0 {
				return strconv.FormatInt(v/u.n, 10) + " " + u.s
			}
			break
		}
	}
	return b.Decimal()
}

// Decimal prints decimal units with three significant digits: "141 GB".
func (b Bytes) Decimal() string {
	v := float64(b)
	for _, u := range []struct {
		n float64
		s string
	}{{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}} {
		if math.Abs(v) >= u.n {
			return Signif(v/u.n, 3) + " " + u.s
		}
	}
	return strconv.FormatInt(int64(b), 10) + " B"
}

// Duration is seconds. Predicted times are fractions of microseconds, so time.Duration's integer nanoseconds would
// lose digits in sums.
type Duration float64

// Micros makes a Duration from microseconds.
func Micros(us float64) Duration { return Duration(us * 1e-6) }

// Millis makes a Duration from milliseconds.
func Millis(ms float64) Duration { return Duration(ms * 1e-3) }

// Micros returns microseconds.
func (d Duration) Micros() float64 { return float64(d) * 1e6 }

// Millis returns milliseconds.
func (d Duration) Millis() float64 { return float64(d) * 1e3 }

// Seconds returns seconds.
func (d Duration) Seconds() float64 { return float64(d) }

// String prints three significant digits with the unit that fits: "7.06 us", "1.25 ms", "3.2 s".
func (d Duration) String() string {
	s := math.Abs(float64(d))
	switch {
	case s == 0:
		return "0 us"
	case s < 1e-3:
		return Signif(d.Micros(), 3) + " us"
	case s < 1:
		return Signif(d.Millis(), 3) + " ms"
	}
	return Signif(float64(d), 3) + " s"
}

// Signif prints v with n significant digits and no exponent, without trailing zeros.
func Signif(v float64, n int) string {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	d := n - 1 - int(math.Floor(math.Log10(math.Abs(v))))
	if d < 0 {
		p := math.Pow(10, float64(-d))
		return strconv.FormatFloat(math.Round(v/p)*p, 'f', 0, 64)
	}
	return Trim(v, d)
}

// Trim prints v with at most d digits after the point, without trailing zeros.
func Trim(v float64, d int) string {
	s := strconv.FormatFloat(v, 'f', d, 64)
	if strings.ContainsRune(s, '.') {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	if s == "-0" {
		return "0"
	}
	return s
}

// ParseBytes reads nccl-tests' size notation: "8", "64K", "128M", "8G" (binary), also "64KiB"; case does not matter.
func ParseBytes(s string) (Bytes, error) {
	t := strings.ToUpper(strings.TrimSpace(s))
	t = strings.TrimSuffix(strings.TrimSuffix(t, "B"), "I")
	mul := int64(1)
	if t != "" {
		if i := strings.IndexByte("KMGT", t[len(t)-1]); i >= 0 {
			mul, t = int64(1)<<(10*(i+1)), t[:len(t)-1]
		}
	}
	v, err := strconv.ParseInt(strings.TrimSpace(t), 10, 64)
	if err != nil || v < 0 || (v > 0 && mul > math.MaxInt64/v) {
		return 0, fmt.Errorf("size %q: want a whole number with K, M, G or T, such as 128M", s)
	}
	return Bytes(v * mul), nil
}

// ParseRate reads a network rate one way: "400G" and "400Gb/s" are gigabits, "50GB/s" gigabytes a second.
func ParseRate(s string) (Bandwidth, error) {
	t := strings.TrimSpace(s)
	bad := fmt.Errorf("rate %q: want gigabits as 400G, or gigabytes as 50GB/s", s)
	mk := Gbps
	switch {
	case strings.HasSuffix(t, "GB/s"):
		t, mk = strings.TrimSuffix(t, "GB/s"), GBps
	case strings.HasSuffix(t, "Gb/s"):
		t = strings.TrimSuffix(t, "Gb/s")
	case strings.HasSuffix(t, "G"):
		t = strings.TrimSuffix(t, "G")
	default:
		return 0, bad
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(t), 64)
	if err != nil || math.IsNaN(v) || v <= 0 || v > 1e6 {
		return 0, bad
	}
	return mk(v), nil
}
