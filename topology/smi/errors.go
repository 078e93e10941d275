package smi

import (
	"errors"
	"fmt"
	"slices"
)

// maxProblems is how many problems one error lists at most.
const maxProblems = 20

// Error is one problem of a text, at the place where it shows.
type Error struct {
	File   string
	Line   int // from 1; 0 when the problem is the whole file
	Column int // characters from 1, of the line as it stands in the file
	Msg    string
	// Foreign names what the text is when it is not for this reader, such as "nvidia-smi topo -p2p"; empty for a damaged
	// table.
	Foreign string
}

// Error returns "file:line:column: message".
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Msg
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Msg)
}

// Warning is something the text leaves open, or that was repaired.
type Warning struct {
	File   string
	Line   int
	Column int
	Msg    string
}

// String returns "file:line:column: message".
func (w Warning) String() string {
	return fmt.Sprintf("%s:%d:%d: %s", w.File, w.Line, w.Column, w.Msg)
}

// report collects the problems and warnings of one text.
type report struct {
	file  string
	lines []string // as read, for columns in characters
	errs  []*Error
	more  int // problems beyond those kept
	warns []Warning
}

// kept is how many problems are kept to be sorted.
const kept = 10 * maxProblems

func (r *report) fail(at place, format string, args ...any) {
	if len(r.errs) == kept {
		r.more++
		return
	}
	line, col := r.where(at)
	r.errs = append(r.errs, &Error{File: r.file, Line: line, Column: col, Msg: fmt.Sprintf(format, args...)})
}

func (r *report) warn(at place, format string, args ...any) {
	line, col := r.where(at)
	r.warns = append(r.warns, Warning{File: r.file, Line: line, Column: col, Msg: fmt.Sprintf(format, args...)})
}

// where turns a place into a line and a column in characters.
func (r *report) where(at place) (line, col int) {
	if at.line < 1 || at.line > len(r.lines) {
		return 1, 1
	}
	raw := r.lines[at.line-1]
	n := 1
	for range raw[:min(at.off, len(raw))] {
		n++
	}
	return at.line, n
}

// err joins the problems in the order of the text.
func (r *report) err() error {
	slices.SortStableFunc(r.errs, func(a, b *Error) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	var all []error
	for i, e := range r.errs {
		if i == maxProblems {
			all = append(all, fmt.Errorf("%s: and %d more problems", r.file, len(r.errs)-i+r.more))
			break
		}
		all = append(all, e)
	}
	if len(all) == 1 {
		return all[0]
	}
	return errors.Join(all...)
}

// warnings returns the warnings in the order of the text, each once.
func (r *report) warnings() []Warning {
	slices.SortStableFunc(r.warns, func(a, b Warning) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	all := slices.Compact(r.warns)
	const most = 100
	if len(all) > most {
		last := all[most-1]
		last.Msg = fmt.Sprintf("and %d more warnings from here on", len(all)-most+1)
		all = append(all[:most-1:most-1], last)
	}
	return all
}
