package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Exit codes. Unknown codes must be read as failure.
const (
	exitOK          = 0
	exitBug         = 1   // unexpected error
	exitInput       = 2   // usage or an invalid input file
	exitInfeasible  = 3   // no feasible plan
	exitBelow       = 4   // measured below expectation, or a finding is an error
	exitDeadline    = 5   // a deadline was hit
	exitEnvironment = 6   // the environment cannot be used: no driver, no NCCL, no permission
	exitPartial     = 7   // partial result
	exitInterrupted = 130 // Ctrl-C, cleaned up
	exitTerminated  = 143 // SIGTERM, cleaned up
)

const exitCodesHelp = `Exit codes:
  0    done; for validate: everything measured is within expectation
  1    unexpected error in rankmap
  2    usage error or invalid input file
  3    no feasible plan (the reason and the nearest change that helps are printed)
  4    measured below expectation, or a finding of discover is an error
  5    a deadline was hit
  6    the environment cannot be used (no driver, no NCCL, no permission, port taken, disk full)
  7    partial result (the report says what is missing)
  130  interrupted, 143 terminated (cleaned up)
Read any other code as failure.`

// codedError carries an exit code and, where there is one, a next step for the user.
type codedError struct {
	code int
	err  error
	hint string
}

func (e *codedError) Error() string { return e.err.Error() }
func (e *codedError) Unwrap() error { return e.err }

// withCode gives err an exit code; nil stays nil.
func withCode(code int, err error) error {
	if err == nil {
		return nil
	}
	return &codedError{code: code, err: err}
}

// inputErr marks a problem of the input: exit 2.
func inputErr(err error) error { return withCode(exitInput, err) }

// inputErrf is inputErr with a format.
func inputErrf(format string, args ...any) error { return inputErr(fmt.Errorf(format, args...)) }

// withHint adds a next step.
func withHint(err error, hint string) error {
	if err == nil {
		return nil
	}
	code := exitBug
	var c *codedError
	if errors.As(err, &c) {
		code = c.code
	}
	return &codedError{code: code, err: err, hint: hint}
}

// silent ends a command with a code after everything was said.
type silent int

func (s silent) Error() string { return fmt.Sprintf("exit %d", int(s)) }

// finish prints err on the talk stream and returns the exit code.
func finish(d *deps, err error) int {
	if err == nil {
		return exitOK
	}
	var s silent
	if errors.As(err, &s) {
		return int(s)
	}
	if errors.Is(err, context.Canceled) {
		d.warnf("interrupted")
		return exitInterrupted
	}
	code := exitBug
	var c *codedError
	if errors.As(err, &c) {
		code = c.code
	}
	for line := range strings.Lines(sanitize(err.Error())) {
		d.warnf("%s", strings.TrimRight(line, "\n"))
	}
	if c != nil && c.hint != "" {
		d.warnf("hint: %s", c.hint)
	}
	return code
}

// sanitize removes control characters but newline and tab, so that names from files cannot drive the terminal.
func sanitize(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < 0x20 || r == 0x7f || (r >= 0x80 && r < 0xa0):
			return -1
		}
		return r
	}, s)
}
