package layout

import (
	"fmt"
	"strconv"
	"strings"
)

// formatRanges writes ascending numbers as "0-7,16,24-31".
func formatRanges(n []int) string {
	var b strings.Builder
	for i := 0; i < len(n); {
		j := i
		for j+1 < len(n) && n[j+1] == n[j]+1 {
			j++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(n[i]))
		if j > i {
			b.WriteString("-" + strconv.Itoa(n[j]))
		}
		i = j + 1
	}
	return b.String()
}

// parseRanges calls f for each number of "0-7,16", which must be below limit.
func parseRanges(s string, limit int, f func(int) error) error {
	for _, part := range strings.Split(s, ",") {
		lo, hi, ranged := strings.Cut(part, "-")
		a, err := strconv.Atoi(lo)
		b := a
		if err == nil && ranged {
			b, err = strconv.Atoi(hi)
		}
		if err != nil || a < 0 || b < a || b >= limit {
			return fmt.Errorf("index %q: want ranges such as 0-7,16 below %d", part, limit)
		}
		for ; a <= b; a++ {
			if err := f(a); err != nil {
				return err
			}
		}
	}
	return nil
}
