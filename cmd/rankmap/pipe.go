package main

import (
	"errors"
	"io"
	"syscall"
)

// isBrokenPipe tells that the reader of standard output went away (rankmap ... | head), which is no failure.
func isBrokenPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }

// watchedWriter remembers the first error of standard output: help texts and the like are written by code that does not
// look at it.
type watchedWriter struct {
	w   io.Writer
	err error
}

// Write writes as long as nothing failed.
func (w *watchedWriter) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	n, err := w.w.Write(p)
	w.err = err
	return n, err
}

// verdict is the error of a command whose standard output may have failed: a reader that went away is none, anything else
// is the environment's.
func (w *watchedWriter) verdict(err error) error {
	var coded *codedError
	var ended silent
	switch {
	case w.err == nil || errors.As(err, &coded) || errors.As(err, &ended):
		return err
	case isBrokenPipe(w.err):
		return nil
	}
	return writeErr("standard output", w.err)
}
