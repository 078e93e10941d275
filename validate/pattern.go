package validate

import (
	"bytes"
	"math"

	"rankmap/validate/nccl"
)

// period is the length of the test pattern in elements. It is prime, so that a block that lands at a wrong place (NCCL
// cuts at powers of two) shows, and data can be made and compared a period at a time.
const period = 4093

// patternValue is what member m holds at element i: a whole number below limit.
func patternValue(m, i, limit int) int {
	h := uint32(m+1)*2654435761 + uint32(i%period)*40503
	h ^= h >> 15
	h *= 2246822519
	h ^= h >> 13
	return int(h % uint32(limit))
}

// patternLimit is how large values may be so that the sum over n members stays exact in the type.
func patternLimit(t nccl.DType, n int) (limit, contributors int) {
	exact := t.Exact()
	if n <= exact {
		return min(exact/n, 100) + 1, n
	}
	return 2, exact // members beyond what the type can count hold zeros
}

// contribution is the pattern with members beyond the countable ones at zero.
func contribution(m, i int, t nccl.DType, n int) int {
	limit, contributors := patternLimit(t, n)
	if m >= contributors {
		return 0
	}
	return patternValue(m, i, limit)
}

// sumOf is what a reduction over n members gives at element i.
func sumOf(i int, t nccl.DType, n int) int {
	s := 0
	for m := range n {
		s += contribution(m, i, t, n)
	}
	return s
}

// encodePeriod makes one period of elements, the first of which is element start.
func encodePeriod(t nccl.DType, start int64, value func(i int) int) []byte {
	buf := make([]byte, 0, period*t.Size())
	first := int(start % period)
	for k := range period {
		buf = appendElement(buf, t, value((first+k)%period))
	}
	return buf
}

// appendElement appends the exact form of a small whole number.
func appendElement(buf []byte, t nccl.DType, v int) []byte {
	bits := math.Float32bits(float32(v))
	switch t {
	case nccl.Int8, nccl.Uint8:
		return append(buf, byte(v))
	case nccl.Float32:
		return append(buf, byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24))
	case nccl.BFloat16:
		return append(buf, byte(bits>>16), byte(bits>>24))
	case nccl.Float16:
		h := small(bits, 10, 15)
		return append(buf, byte(h), byte(h>>8))
	case nccl.E4M3:
		return append(buf, byte(small(bits, 3, 7)))
	case nccl.E5M2:
		return append(buf, byte(small(bits, 2, 15)))
	}
	panic("validate: data type without an encoding")
}

// small converts a positive whole float32 to a format with man mantissa bits; callers keep to exact values.
func small(bits uint32, man, bias int) uint32 {
	if bits == 0 {
		return 0
	}
	e := int(bits>>23&0xff) - 127 + bias
	return uint32(e)<<man | bits>>(23-man)&(1<<man-1)
}

// repeatInto fills dst with one after the other of the period, starting at its beginning.
func repeatInto(dst, one []byte) {
	n := copy(dst, one)
	for n < len(dst) {
		n += copy(dst[n:], dst[:n-n%len(one)])
	}
}

// countWrong compares got with the repeated period and returns how many elements differ, and the first.
func countWrong(got, one []byte, size int) (wrong, first int64) {
	first = -1
	for at := 0; at < len(got); at += len(one) {
		end := min(at+len(one), len(got))
		if bytes.Equal(got[at:end], one[:end-at]) {
			continue
		}
		for i := at; i < end; i += size {
			if !bytes.Equal(got[i:i+size], one[i-at:i-at+size]) {
				if wrong++; first < 0 {
					first = int64(i / size)
				}
			}
		}
	}
	return wrong, first
}
