package measured

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"rankmap/internal/units"
)

// sheet walks a CSV file with or without a header line.
type sheet struct {
	problems
	csv   *csv.Reader
	cols  []string
	rec   []string
	line  int
	index map[string]int
}

// newSheet reads the header of a CSV file and checks that it has the wanted columns, in any order, among any others.
// With noHeader the columns are those given, in that order.
func newSheet(r io.Reader, name string, noHeader bool, want ...string) (*sheet, error) {
	t := &sheet{problems: problems{name: name}, csv: csv.NewReader(r), cols: want}
	t.csv.ReuseRecord = true
	t.csv.FieldsPerRecord = -1
	if !noHeader {
		head, err := t.csv.Read()
		if err != nil {
			return nil, fmt.Errorf("%s:1: no header line: %w", name, err)
		}
		t.cols = slices.Clone(head)
		t.cols[0] = strings.TrimPrefix(t.cols[0], "\ufeff")
	}
	t.index = make(map[string]int, len(t.cols))
	for i, c := range t.cols {
		c = strings.TrimSpace(c)
		if _, dup := t.index[c]; dup {
			t.addf(1, "column %q appears twice", c)
		}
		t.index[c] = i
	}
	for _, w := range want {
		if _, ok := t.index[w]; !ok {
			t.addf(1, "no column %q (found: %s)", w, strings.Join(t.cols, ", "))
		}
	}
	return t, t.err()
}

// next moves to the next row; false at the end. Rows that are no CSV or have another number of fields than the header
// are noted and passed over.
func (t *sheet) next() bool {
	for {
		rec, err := t.csv.Read()
		if errors.Is(err, io.EOF) {
			return false
		}
		if err != nil {
			var pe *csv.ParseError
			if errors.As(err, &pe) {
				t.addf(pe.Line, "%w", pe.Err)
				continue
			}
			t.errs = append(t.errs, fmt.Errorf("%s: %w", t.name, err))
			return false
		}
		t.line, _ = t.csv.FieldPos(0)
		if len(rec) != len(t.cols) {
			t.addf(t.line, "%d fields, want %d", len(rec), len(t.cols))
			continue
		}
		t.rec = rec
		return true
	}
}

// str returns a field without surrounding space; "" for a column that the file lacks.
func (t *sheet) str(col string) string {
	i, ok := t.index[col]
	if !ok {
		return ""
	}
	return strings.Clone(strings.TrimSpace(t.rec[i]))
}

// count returns a whole number of at least min.
func (t *sheet) count(col string, min int64) int64 {
	s := t.str(col)
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil || v < min {
		t.addf(t.line, "%s %q: want a whole number of at least %d", col, s, min)
		return 0
	}
	return v
}

// small is count for numbers that must fit an int32 (ranks, nodes, tokens).
func (t *sheet) small(col string, min int64) int {
	v := t.count(col, min)
	if v > math.MaxInt32 {
		t.addf(t.line, "%s %d: too large", col, v)
		return 0
	}
	return int(v)
}

// micros returns a time of the given column in microseconds; false when the field is empty or 0.
func (t *sheet) micros(col string) (units.Duration, bool) {
	s := t.str(col)
	if s == "" {
		return 0, false
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= 0) || v > 1e12 {
		t.addf(t.line, "%s %q: want microseconds", col, s)
		return 0, false
	}
	return units.Micros(v), v > 0
}

// noted counts the problems so far; a row during which it grew is unusable.
func (t *sheet) noted() int { return len(t.errs) + t.more }
