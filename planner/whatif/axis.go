package whatif

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Axis is the quantity that a sweep moves, with the values to show.
type Axis struct {
	Key    string
	Values []Setting
	key    *setting
}

// maxPoints bounds the values of an axis.
const maxPoints = 200

// ParseAxis reads "gpus=8..1024:x2", "nic.rate=200G..1600G:+200G", "isl=1024..65536" (doubling) or a list
// "nccl=2.27,2.28".
func ParseAxis(s string) (*Axis, error) {
	key, val, ok := strings.Cut(s, "=")
	if !ok || val == "" {
		return nil, fmt.Errorf("sweep %q: want key=FROM..TO:xFACTOR, key=FROM..TO:+STEP or key=A,B,C, such as gpus=8..1024:x2", s)
	}
	k, err := find(key)
	if err != nil {
		return nil, fmt.Errorf("sweep %q: %w", s, err)
	}
	a := &Axis{Key: key, key: k}
	if strings.Contains(val, "..") {
		a.Values, err = k.span(val)
	} else {
		a.Values, err = k.list(val)
	}
	if err != nil {
		return nil, fmt.Errorf("sweep %s: %w", key, err)
	}
	return a, nil
}

// list reads "A,B,C".
func (k *setting) list(val string) ([]Setting, error) {
	var out []Setting
	var errs []error
	for _, x := range strings.Split(val, ",") {
		v, err := k.parse(strings.TrimSpace(x))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if n := len(out); n > 0 && k.unit != word && v.Num <= out[n-1].Num {
			errs = append(errs, fmt.Errorf("%s after %s: want rising values", v.Text, out[n-1].Text))
		}
		out = append(out, v)
	}
	if len(out) > maxPoints {
		errs = append(errs, fmt.Errorf("%d values, want at most %d", len(out), maxPoints))
	}
	return out, errors.Join(errs...)
}

// span reads "FROM..TO", with ":xFACTOR" or ":+STEP"; without, it doubles. TO is always the last value.
func (k *setting) span(val string) ([]Setting, error) {
	if k.unit == word {
		return nil, fmt.Errorf("%q: words have no range, want a list such as A,B", val)
	}
	bounds, by, stepped := strings.Cut(val, ":")
	lo, hi, _ := strings.Cut(bounds, "..")
	if lo == "" || hi == "" {
		return nil, fmt.Errorf("%q: want both ends, FROM..TO", bounds)
	}
	from, err := k.parse(lo)
	to, err2 := k.parse(hi)
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	if from.Num < 0 || from.Num == 0 && !k.zero || to.Num <= from.Num {
		return nil, fmt.Errorf("%q: want FROM above 0 and below TO", bounds)
	}
	mul, add := 2.0, 0.0
	switch {
	case !stepped:
	case strings.HasPrefix(by, "x"):
		mul, err = strconv.ParseFloat(by[1:], 64)
		if err != nil || !(mul > 1.001) || mul > 1e6 {
			return nil, fmt.Errorf("%q: want a factor above 1, such as x2", by)
		}
	case strings.HasPrefix(by, "+"):
		step, err := k.parse(by[1:])
		if err != nil || step.Num <= 0 {
			return nil, fmt.Errorf("%q: want a step such as +8", by)
		}
		mul, add = 1, step.Num
	default:
		return nil, fmt.Errorf("%q: want :xFACTOR or :+STEP", by)
	}
	var out []Setting
	start := from.Num
	if start == 0 && add == 0 { // no factor leaves 0: it stands before the counts from 1 on
		out, start = append(out, from), 1
	}
	for v := start; v < to.Num*(1-1e-9); v = v*mul + add {
		if len(out) == maxPoints {
			return nil, fmt.Errorf("more than %d values: want a larger step", maxPoints)
		}
		x := v
		if k.unit == count {
			x = math.Round(v)
		}
		if n := len(out); n == 0 || x > out[n-1].Num {
			out = append(out, k.at(x))
		}
	}
	if n := len(out); out[n-1].Num < to.Num {
		out = append(out, k.at(to.Num))
	}
	return out, nil
}
