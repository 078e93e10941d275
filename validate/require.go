package validate

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"rankmap/internal/measured"
)

// Require is a condition of --require, such as "busbw>=0.85*expected". It decides each row instead of the predicted
// interval.
//
//	or    = and { "||" and }
//	and   = not { "&&" not }
//	not   = [ "!" ] cmp
//	cmp   = sum [ ("<" | "<=" | ">" | ">=" | "==" | "!=") sum ]
//	sum   = prod { ("+" | "-") prod }
//	prod  = unary { ("*" | "/") unary }
//	unary = [ "-" ] ( number | name | "(" or ")" )
//
// A number may end in K, M or G (binary, as sizes of nccl-tests are) or in %. Names are those of requireNames.
type Require struct {
	text string
	root node
}

// requireNames are what a condition may speak of: rates in GB/s, times in us, sizes in bytes. "expected" is the predicted
// busbw.
var requireNames = []string{"algbw", "busbw", "bytes", "expected", "expected_time", "p10", "p90", "ranks", "spread", "time"}

const (
	maxRequire = 1 << 10 // bytes of a condition
	maxDepth   = 64      // nesting
)

type node func(vars map[string]float64) float64

// ParseRequire reads a condition. Empty text gives nil, which requires nothing.
func ParseRequire(text string) (*Require, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	if len(text) > maxRequire {
		return nil, fmt.Errorf("condition of %d bytes, at most %d", len(text), maxRequire)
	}
	p := &parser{text: text}
	root, boolean, err := p.or(0)
	if err == nil {
		p.space()
		if p.at < len(text) {
			err = p.errorf("unexpected %q", text[p.at:])
		} else if !boolean {
			err = errors.New("no comparison: want something like busbw>=0.85*expected")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("condition %q: %w", text, err)
	}
	return &Require{text, root}, nil
}

// String returns the condition as given.
func (r *Require) String() string { return r.text }

// apply judges a row by the condition. Rows with wrong data stay failed, rows without a measurement or, where the
// condition needs one, without a prediction are not judged.
func (r *Require) apply(row *measured.ReportGroup) {
	if r == nil || row.Times.Repeats == 0 || row.Verdict == measured.VerdictFail {
		return
	}
	if row.Predicted.Us <= 0 && strings.Contains(r.text, "expected") {
		return
	}
	if row.Verdict == measured.VerdictUnstable {
		row.Required = "unstable"
		return
	}
	if r.holds(row) {
		row.Required, row.Verdict, row.Why = "pass", measured.VerdictPass, ""
		return
	}
	row.Required, row.Verdict, row.Why = "fail", measured.VerdictSlow, "not "+r.text
}

func (r *Require) holds(row *measured.ReportGroup) bool {
	return r.root(map[string]float64{
		"algbw": row.AlgGBps, "busbw": row.BusGBps, "bytes": float64(row.Bytes), "expected": row.Predicted.BusGBps,
		"expected_time": row.Predicted.Us, "p10": row.Predicted.P10Us, "p90": row.Predicted.P90Us,
		"ranks": float64(len(row.Members)), "spread": row.Times.Spread, "time": row.Times.MedianUs,
	}) != 0
}

// parser works on bytes. Every rule returns whether its value is a truth value, so that "busbw + (a < b)" is refused.
type parser struct {
	text string
	at   int
}

func (p *parser) errorf(format string, args ...any) error {
	return fmt.Errorf("at %d: %s", p.at+1, fmt.Sprintf(format, args...))
}

func (p *parser) space() {
	for p.at < len(p.text) && strings.IndexByte(" \t\n\r", p.text[p.at]) >= 0 {
		p.at++
	}
}

// take consumes the first of the tokens that comes next; list longer tokens first.
func (p *parser) take(tokens ...string) string {
	p.space()
	for _, t := range tokens {
		if strings.HasPrefix(p.text[p.at:], t) {
			p.at += len(t)
			return t
		}
	}
	return ""
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (p *parser) or(depth int) (node, bool, error) {
	return p.logic(depth, "||", p.and, func(a, b float64) float64 { return truth(a != 0 || b != 0) })
}

func (p *parser) and(depth int) (node, bool, error) {
	return p.logic(depth, "&&", p.not, func(a, b float64) float64 { return truth(a != 0 && b != 0) })
}

func (p *parser) logic(depth int, op string, next func(int) (node, bool, error), f func(a, b float64) float64) (node, bool, error) {
	if depth > maxDepth {
		return nil, false, p.errorf("nested too deeply")
	}
	l, lb, err := next(depth + 1)
	for err == nil && p.take(op) != "" {
		var r node
		var rb bool
		r, rb, err = next(depth + 1)
		if err == nil && (!lb || !rb) {
			err = p.errorf("%s wants comparisons on both sides", op)
		}
		a := l
		l, lb = func(v map[string]float64) float64 { return f(a(v), r(v)) }, true
	}
	return l, lb, err
}

func (p *parser) not(depth int) (node, bool, error) {
	if p.take("!") == "" {
		return p.cmp(depth)
	}
	n, b, err := p.cmp(depth)
	if err == nil && !b {
		err = p.errorf("! wants a comparison in parentheses")
	}
	return func(v map[string]float64) float64 { return truth(n(v) == 0) }, true, err
}

func (p *parser) cmp(depth int) (node, bool, error) {
	l, lb, err := p.sum(depth)
	if err != nil {
		return nil, false, err
	}
	op := p.take("<=", ">=", "==", "!=", "<", ">")
	if op == "" {
		return l, lb, nil
	}
	r, rb, err := p.sum(depth)
	if err == nil && (lb || rb) {
		err = p.errorf("%s wants numbers on both sides", op)
	}
	return func(v map[string]float64) float64 {
		a, b := l(v), r(v)
		switch op {
		case "<":
			return truth(a < b)
		case "<=":
			return truth(a <= b)
		case ">":
			return truth(a > b)
		case ">=":
			return truth(a >= b)
		case "==":
			return truth(a == b)
		}
		return truth(a != b)
	}, true, err
}

func (p *parser) sum(depth int) (node, bool, error) {
	return p.arithmetic(depth, p.prod, "+", "-")
}

func (p *parser) prod(depth int) (node, bool, error) {
	return p.arithmetic(depth, p.unary, "*", "/")
}

func (p *parser) arithmetic(depth int, next func(int) (node, bool, error), ops ...string) (node, bool, error) {
	l, lb, err := next(depth)
	for err == nil {
		op := p.take(ops...)
		if op == "" {
			break
		}
		var r node
		var rb bool
		r, rb, err = next(depth)
		if err == nil && (lb || rb) {
			err = p.errorf("%s wants numbers on both sides", op)
		}
		a := l
		l = func(v map[string]float64) float64 {
			x, y := a(v), r(v)
			switch op {
			case "+":
				return x + y
			case "-":
				return x - y
			case "*":
				return x * y
			}
			return x / y
		}
	}
	return l, lb, err
}

func (p *parser) unary(depth int) (node, bool, error) {
	if depth > maxDepth {
		return nil, false, p.errorf("nested too deeply")
	}
	if p.take("-") != "" {
		n, b, err := p.unary(depth + 1)
		if err == nil && b {
			err = p.errorf("- wants a number")
		}
		return func(v map[string]float64) float64 { return -n(v) }, false, err
	}
	if p.take("(") != "" {
		n, b, err := p.or(depth + 1)
		if err == nil && p.take(")") == "" {
			err = p.errorf("want )")
		}
		return n, b, err
	}
	p.space()
	start := p.at
	for p.at < len(p.text) && (isWord(p.text[p.at]) || p.text[p.at] == '.') {
		p.at++
	}
	w := p.text[start:p.at]
	if w == "" {
		return nil, false, p.errorf("want a number or one of %s", strings.Join(requireNames, ", "))
	}
	if slices.Contains(requireNames, w) {
		return func(v map[string]float64) float64 { return v[w] }, false, nil
	}
	f, err := number(w)
	if err != nil {
		p.at = start
		return nil, false, p.errorf("%q is neither a number nor one of %s", w, strings.Join(requireNames, ", "))
	}
	if p.take("%") != "" {
		f /= 100
	}
	return func(map[string]float64) float64 { return f }, false, nil
}

func isWord(b byte) bool {
	return b == '_' || '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z'
}

func number(w string) (float64, error) {
	mul := 1.0
	if i := strings.IndexByte("KMG", w[len(w)-1]); i >= 0 {
		mul, w = float64(int64(1)<<(10*(i+1))), w[:len(w)-1]
	}
	if w == "" || w[0] != '.' && (w[0] < '0' || w[0] > '9') || strings.ContainsAny(w, "xXpP_") {
		return 0, errors.New("no number")
	}
	f, err := strconv.ParseFloat(w, 64)
	return f * mul, err
}
