package topology

import (
	"fmt"
	"strconv"
	"strings"
)

// maxHosts bounds what one host list expands to, maxHostName the bytes of one name (POSIX HOST_NAME_MAX).
const (
	maxHosts    = maxNodes
	maxHostName = 255
)

// ExpandHosts expands a host list as Slurm writes it: "node[0-3,7],login1", zero padding kept ("n[008-011]"), several
// brackets in one name in order, the last varying fastest. Commas outside brackets separate names; an empty name is an
// error.
func ExpandHosts(list string) ([]string, error) {
	for _, item := range splitHosts(list) {
		if strings.TrimSpace(item) == "" {
			return nil, fmt.Errorf("host list %q: an empty name", clip(list))
		}
	}
	all, err := ExpandHostsUpTo(list, maxHosts)
	if err != nil {
		return nil, fmt.Errorf("host list %q: %w", clip(list), err)
	}
	return all, nil
}

// ExpandHostsUpTo is ExpandHosts for lists of other tools: empty names are left out, and no more than limit names come out.
func ExpandHostsUpTo(list string, limit int) ([]string, error) {
	var out []string
	for _, item := range splitHosts(list) {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		got, err := expandHost(item, limit-len(out))
		if err != nil {
			return nil, err
		}
		out = append(out, got...)
	}
	return out, nil
}

// splitHosts splits at commas outside brackets.
func splitHosts(list string) []string {
	var out []string
	depth, start := 0, 0
	for i := 0; i < len(list); i++ {
		switch list[i] {
		case '[':
			depth++
		case ']':
			depth--
		case ',':
			if depth <= 0 {
				out = append(out, list[start:i])
				start = i + 1
			}
		}
	}
	return append(out, list[start:])
}

// expandHost expands one name with its brackets, leftmost slowest.
func expandHost(item string, limit int) ([]string, error) {
	if countHosts(item, limit) > limit {
		return nil, fmt.Errorf("%q: more than %d names", clip(item), max(limit, 0))
	}
	out := []string{""}
	rest := item
	for rest != "" {
		open := strings.IndexByte(rest, '[')
		plain := open
		if open < 0 {
			plain = len(rest)
		}
		if len(out[0])+plain > maxHostName {
			return nil, fmt.Errorf("%q: name of more than %d bytes", clip(item), maxHostName)
		}
		if c := strings.IndexByte(rest, ']'); c >= 0 && (open < 0 || c < open) {
			return nil, fmt.Errorf("%q: ] without [", clip(item))
		}
		if open < 0 {
			for i := range out {
				out[i] += rest
			}
			break
		}
		end := strings.IndexByte(rest, ']')
		if end < 0 {
			return nil, fmt.Errorf("%q: [ is never closed", clip(item))
		}
		nums, err := hostRanges(rest[open+1:end], item, limit)
		if err != nil {
			return nil, err
		}
		if len(out)*len(nums) > limit {
			return nil, fmt.Errorf("%q: more than %d names", clip(item), max(limit, 0))
		}
		next := make([]string, 0, len(out)*len(nums))
		for _, o := range out {
			for _, n := range nums {
				next = append(next, o+rest[:open]+n)
			}
		}
		out, rest = next, rest[end+1:]
	}
	if len(out) > limit {
		return nil, fmt.Errorf("%q: more than %d names", clip(item), max(limit, 0))
	}
	return out, nil
}

// countHosts is how many names the brackets of an item make, as far as they can be read; it stops counting above limit.
func countHosts(item string, limit int) int {
	total := 1
	for _, part := range strings.Split(item, "[")[1:] {
		inside, _, _ := strings.Cut(part, "]")
		n := 0
		for _, r := range strings.Split(inside, ",") {
			lo, hi, ranged := strings.Cut(strings.TrimSpace(r), "-")
			a, errA := strconv.ParseUint(lo, 10, 31)
			b, errB := strconv.ParseUint(hi, 10, 31)
			if ranged && errA == nil && errB == nil && b > a {
				n += int(b - a)
			}
			n++
		}
		if total *= n; total > limit {
			break
		}
	}
	return total
}

// hostRanges expands the inside of a bracket, "001-016,040".
func hostRanges(inside, item string, limit int) ([]string, error) {
	var out []string
	for _, r := range strings.Split(inside, ",") {
		r = strings.TrimSpace(r)
		lo, hi, many := strings.Cut(r, "-")
		if !many {
			hi = lo
		}
		a, errA := strconv.ParseUint(lo, 10, 31)
		b, errB := strconv.ParseUint(hi, 10, 31)
		switch {
		case strings.ContainsRune(r, '['):
			return nil, fmt.Errorf("%q: [ inside [", clip(item))
		case errA != nil || errB != nil:
			return nil, fmt.Errorf("%q: %q is no number or range such as 001-016", clip(item), clip(r))
		case b < a:
			return nil, fmt.Errorf("%q: range %s runs backwards", clip(item), clip(r))
		case b-a >= uint64(max(limit-len(out), 0)):
			return nil, fmt.Errorf("%q: more than %d names", clip(item), max(limit, 0))
		}
		for v := a; v <= b; v++ {
			s := strconv.FormatUint(v, 10)
			if pad := len(lo) - len(s); pad > 0 {
				s = strings.Repeat("0", min(pad, maxHostName)) + s
			}
			out = append(out, s)
		}
	}
	return out, nil
}

// CompressHosts is the inverse of ExpandHosts: neighbours that differ only in the number at their end, or before their
// domain, share brackets; runs of consecutive numbers become ranges.
func CompressHosts(names []string) string {
	var b strings.Builder
	for i := 0; i < len(names); {
		prefix, _, domain := splitNumber(names[i])
		var ranges []string
		next := i
		for next < len(names) {
			p, lo, d := splitNumber(names[next])
			if p != prefix || lo == "" || d != domain {
				break
			}
			last := next
			for last+1 < len(names) && follows(names[last], names[last+1]) {
				last++
			}
			if _, hi, _ := splitNumber(names[last]); last > next {
				lo += "-" + hi
			}
			ranges = append(ranges, lo)
			next = last + 1
		}
		if i > 0 {
			b.WriteByte(',')
		}
		if next <= i+1 {
			b.WriteString(names[i])
			next = i + 1
		} else {
			b.WriteString(prefix + "[" + strings.Join(ranges, ",") + "]" + domain)
		}
		i = next
	}
	return b.String()
}

// splitNumber cuts a name into what stands before its last number, the number, and a domain after it (".example.org").
// Numbers too long to count with stay in the prefix.
func splitNumber(s string) (prefix, digits, domain string) {
	if i := strings.IndexByte(s, '.'); i > 0 && digit(s[i-1]) && strings.Trim(s[i:], "0123456789.") != "" {
		s, domain = s[:i], s[i:]
	}
	i := len(s)
	for i > 0 && digit(s[i-1]) && len(s)-i < 9 {
		i--
	}
	return s[:i], s[i:], domain
}

// follows says whether b is the name after a, written alike.
func follows(a, b string) bool {
	p, x, d := splitNumber(a)
	q, y, e := splitNumber(b)
	if p != q || d != e || x == "" || y == "" {
		return false
	}
	n, err := strconv.Atoi(x)
	if err != nil {
		return false
	}
	next := strconv.Itoa(n + 1)
	if x[0] == '0' && len(next) < len(x) {
		next = strings.Repeat("0", len(x)-len(next)) + next
	}
	return y == next
}

// clip shortens text for an error.
func clip(s string) string {
	if len(s) > 60 {
		return s[:60] + "..."
	}
	return s
}
