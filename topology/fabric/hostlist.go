package fabric

import (
	"fmt"
	"strconv"
	"strings"
)

// expand expands Slurm's host list expression: names and ranges separated by commas, with one or more brackets in a
// name, "r[1-2]n[01-16],login". A range keeps the padding of its first number. No more than limit names come out.
func expand(list string, limit int) ([]string, error) {
	var out []string
	for _, item := range splitList(list) {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		got, err := expandOne(item, limit-len(out))
		if err != nil {
			return nil, err
		}
		out = append(out, got...)
	}
	return out, nil
}

// splitList splits at commas outside brackets.
func splitList(list string) []string {
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

// expandOne expands one name with its brackets, leftmost slowest.
func expandOne(item string, limit int) ([]string, error) {
	out := []string{""}
	rest := item
	for rest != "" {
		open := strings.IndexByte(rest, '[')
		plain := open
		if open < 0 {
			plain = len(rest)
		}
		if len(out[0])+plain > maxName {
			return nil, fmt.Errorf("%q: name of more than %d bytes", clip(item), maxName)
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
		nums, err := ranges(rest[open+1:end], item, limit)
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

// ranges expands the inside of a bracket, "001-016,040".
func ranges(inside, item string, limit int) ([]string, error) {
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
				s = strings.Repeat("0", min(pad, maxName)) + s
			}
			out = append(out, s)
		}
	}
	return out, nil
}

// clip shortens a string for a message.
func clip(s string) string {
	if len(s) > 60 {
		return s[:60] + "..."
	}
	return s
}
