package collective

import (
	"cmp"
	"strconv"
	"strings"
)

// versionWeightScale is over how many minor NCCL versions a measurement loses a factor e of its weight. docs/collective-model.md,
// section 3, has 2 and finds little difference from 0.5 to 4; leaving versions or runs out prefers less than 1.
const versionWeightScale = 0.7

// minorVersion reads the minor number of an NCCL version: 28 from "2.28.9" (also from "22803" of nccl-tests). ok is
// false when there is none.
func minorVersion(v string) (minor int, ok bool) {
	parts := strings.Split(v, ".")
	if len(parts) >= 2 {
		m, err := strconv.Atoi(parts[1])
		return m, err == nil && m >= 0
	}
	if n, err := strconv.Atoi(v); err == nil && n >= 20000 && n < 100000 {
		return n / 100 % 100, true
	}
	return 0, false
}

// compareVersions orders dotted versions by number, others as text.
func compareVersions(a, b string) int {
	if a == b {
		return 0
	}
	pa, pb := strings.Split(a, "."), strings.Split(b, ".")
	for i := 0; i < len(pa) && i < len(pb); i++ {
		x, ex := strconv.Atoi(pa[i])
		y, ey := strconv.Atoi(pb[i])
		if ex != nil || ey != nil {
			if c := cmp.Compare(pa[i], pb[i]); c != 0 {
				return c
			}
			continue
		}
		if c := cmp.Compare(x, y); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(pa), len(pb))
}

// newest returns the highest version of the list; "" if it is empty.
func newest(versions []string) string {
	best := ""
	for _, v := range versions {
		if best == "" || compareVersions(v, best) > 0 {
			best = v
		}
	}
	return best
}
