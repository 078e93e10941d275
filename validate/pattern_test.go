package validate

import (
	"bytes"
	"math"
	"testing"

	"pgregory.net/rapid"

	"rankmap/validate/nccl"
)

var allTypes = []nccl.DType{nccl.Int8, nccl.Uint8, nccl.Float16, nccl.Float32, nccl.BFloat16, nccl.E4M3, nccl.E5M2}

// decode is the dumb inverse of appendElement.
func decode(b []byte, t nccl.DType) float64 {
	float := func(v uint32, man, bias int) float64 {
		e, m := int(v>>man), float64(v&(1<<man-1))
		if e == 0 {
			return math.Ldexp(m, 1-bias-man)
		}
		return math.Ldexp(1+m/float64(int(1)<<man), e-bias)
	}
	switch t {
	case nccl.Int8, nccl.Uint8:
		return float64(b[0])
	case nccl.Float32:
		return float64(math.Float32frombits(uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24))
	case nccl.BFloat16:
		return float(uint32(b[0])|uint32(b[1])<<8, 7, 127)
	case nccl.Float16:
		return float(uint32(b[0])|uint32(b[1])<<8, 10, 15)
	case nccl.E4M3:
		return float(uint32(b[0]), 3, 7)
	}
	return float(uint32(b[0]), 2, 15)
}

func TestEncodingIsExact(t *testing.T) {
	for _, d := range allTypes {
		for v := 0; v <= min(d.Exact(), 5000); v++ {
			b := appendElement(nil, d, v)
			if len(b) != d.Size() || decode(b, d) != float64(v) {
				t.Fatalf("%v: %d becomes %v in %d bytes", d, v, decode(b, d), len(b))
			}
		}
	}
}

// Sums stay exact in the type, for any number of members, and every member that counts contributes somewhere.
func TestSumsStayExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SampledFrom(allTypes).Draw(t, "type")
		n := rapid.IntRange(1, 1200).Draw(t, "members")
		i := rapid.IntRange(0, period-1).Draw(t, "element")
		if s := sumOf(i, d, n); s < 0 || s > d.Exact() {
			t.Fatalf("%v over %d members: sum %d at element %d, exact up to %d", d, n, s, i, d.Exact())
		}
	})
	for m := range 8 {
		some := 0
		for i := range period {
			some += contribution(m, i, nccl.BFloat16, 8)
		}
		if some == 0 {
			t.Errorf("member %d never contributes", m)
		}
	}
}

func TestRepeatAndCount(t *testing.T) {
	one := encodePeriod(nccl.BFloat16, 5, func(i int) int { return patternValue(3, i, 30) })
	if len(one) != period*2 || !bytes.Equal(one[:2], appendElement(nil, nccl.BFloat16, patternValue(3, 5, 30))) {
		t.Fatal("the period does not start at its element")
	}
	for _, n := range []int{2, 100, len(one), len(one) + 2, 5*len(one) + 246} {
		buf := make([]byte, n)
		repeatInto(buf, one)
		for i := range buf {
			if buf[i] != one[i%len(one)] {
				t.Fatalf("%d bytes: byte %d differs", n, i)
			}
		}
		if w, f := countWrong(buf, one, 2); w != 0 || f != -1 {
			t.Errorf("%d bytes: %d wrong, first %d", n, w, f)
		}
		buf[n-1] ^= 0x40
		if w, f := countWrong(buf, one, 2); w != 1 || f != int64(n/2-1) {
			t.Errorf("%d bytes: %d wrong, first %d", n, w, f)
		}
	}
	// A block that landed a power of two too far shows.
	buf := make([]byte, 1<<16)
	repeatInto(buf, one)
	copy(buf[1<<14:1<<15], append([]byte(nil), buf[:1<<14]...))
	if w, _ := countWrong(buf, one, 2); w < 1<<12 {
		t.Errorf("a misplaced block: %d wrong", w)
	}
}
