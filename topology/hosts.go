package topology

import (
	"fmt"
	"strconv"
	"strings"
)

// maxHosts bounds what one host list expands to.
const maxHosts = maxNodes

// ExpandHosts expands a host list as Slurm writes it: "node[0-3,7],login1", zero padding kept ("n[008-011]"), several
// brackets in one name in order, the last varying fastest. Commas outside brackets separate names.
func ExpandHosts(list string) ([]string, error) {
	var all []string
	for _, item := range splitHosts(list) {
		names, err := expandHost(strings.TrimSpace(item), maxHosts-len(all))
		if err != nil {
			return nil, fmt.Errorf("host list %q: %w", clip(list), err)
		}
		all = append(all, names...)
	}
	return all, nil
}

// splitHosts cuts at commas outside brackets.
func splitHosts(list string) []string {
	var items []string
	depth, from := 0, 0
	for i := 0; i < len(list); i++ {
		switch list[i] {
		case '[':
			depth++
		case ']':
			depth--
		case ',':
			if depth == 0 {
				items = append(items, list[from:i])
				from = i + 1
			}
		}
	}
	return append(items, list[from:])
}

func expandHost(item string, room int) ([]string, error) {
	open := strings.IndexByte(item, '[')
	if open < 0 {
		switch {
		case item == "":
			return nil, fmt.Errorf("an empty name")
		case strings.IndexByte(item, ']') >= 0:
			return nil, fmt.Errorf("%q closes a bracket that is not open", clip(item))
		case room < 1:
			return nil, fmt.Errorf("more than %d hosts", maxHosts)
		}
		return []string{item}, nil
	}
	shut := strings.IndexByte(item, ']')
	if shut < open {
		return nil, fmt.Errorf("%q: bracket not closed", clip(item))
	}
	ranges := strings.Split(item[open+1:shut], ",")
	if n := countRanges(ranges); n > room {
		return nil, fmt.Errorf("more than %d hosts", maxHosts)
	} else if n > 0 {
		room /= n
	}
	tails := []string{""}
	if rest := item[shut+1:]; rest != "" {
		var err error
		if tails, err = expandHost(rest, room); err != nil {
			return nil, err
		}
	}
	var all []string
	for _, r := range ranges {
		lo, hi, ranged := strings.Cut(r, "-")
		if !ranged {
			hi = lo
		}
		a, errA := strconv.ParseUint(lo, 10, 32)
		b, errB := strconv.ParseUint(hi, 10, 32)
		if errA != nil || errB != nil || b < a {
			return nil, fmt.Errorf("range %q: want numbers such as 0-7", clip(r))
		}
		for v := a; v <= b; v++ {
			s := strconv.FormatUint(v, 10)
			if pad := len(lo) - len(s); pad > 0 && lo[0] == '0' {
				s = strings.Repeat("0", pad) + s
			}
			for _, t := range tails {
				all = append(all, item[:open]+s+t)
			}
		}
	}
	return all, nil
}

// countRanges is how many numbers the ranges hold, as far as they can be read.
func countRanges(ranges []string) int {
	n := 0
	for _, r := range ranges {
		lo, hi, ranged := strings.Cut(r, "-")
		a, errA := strconv.ParseUint(lo, 10, 32)
		b, errB := strconv.ParseUint(hi, 10, 32)
		if ranged && errA == nil && errB == nil && b > a {
			n += int(b - a)
		}
		n++
	}
	return n
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
