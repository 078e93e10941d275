package ncclxml

import (
	"strconv"
	"strings"
)

// maxCPUBits bounds an affinity mask; the kernel's NR_CPUS stops at 8192.
const maxCPUBits = 8192

// affinityRanges turns NCCL's mask (comma separated 32-bit hex words, lowest word last; hand-edited files lose digits
// or use one short word) into ranges, "0-55,112-167". Empty when no CPU is set; false when it is no mask.
func affinityRanges(mask string) (string, bool) {
	if mask == "" {
		return "", true
	}
	words := strings.Split(mask, ",")
	if len(words)*32 > maxCPUBits {
		return "", false
	}
	var b strings.Builder
	start, prev := -1, -2
	flush := func() {
		if start < 0 {
			return
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(start))
		if prev > start {
			b.WriteByte('-')
			b.WriteString(strconv.Itoa(prev))
		}
	}
	for i := len(words) - 1; i >= 0; i-- {
		w, err := strconv.ParseUint(strings.TrimPrefix(strings.TrimSpace(words[i]), "0x"), 16, 32)
		if err != nil {
			return "", false
		}
		for bit := range 32 {
			if w>>bit&1 == 0 {
				continue
			}
			cpu := (len(words)-1-i)*32 + bit
			if cpu != prev+1 {
				flush()
				start = cpu
			}
			prev = cpu
		}
	}
	flush()
	return b.String(), true
}

// affinityMask is the inverse of affinityRanges; empty for an empty or unreadable list.
func affinityMask(ranges string) string {
	var set [maxCPUBits / 32]uint32
	top := 0
	for _, r := range strings.Split(ranges, ",") {
		lo, hi, many := strings.Cut(r, "-")
		a, err := strconv.Atoi(lo)
		if err != nil || a < 0 || a >= maxCPUBits {
			return ""
		}
		z := a
		if many {
			if z, err = strconv.Atoi(hi); err != nil || z < a || z >= maxCPUBits {
				return ""
			}
		}
		for c := a; c <= z; c++ {
			set[c/32] |= 1 << (c % 32)
		}
		top = max(top, z/32)
	}
	var b strings.Builder
	for i := top; i >= 0; i-- {
		h := strconv.FormatUint(uint64(set[i]), 16)
		b.WriteString(strings.Repeat("0", 8-len(h)) + h)
		if i > 0 {
			b.WriteByte(',')
		}
	}
	if b.Len() > maxString {
		return ""
	}
	return b.String()
}
