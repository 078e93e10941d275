package main

import (
	"errors"
	"syscall"
)

// isBrokenPipe tells that the reader of standard output went away (rankmap ... | head), which is no failure.
func isBrokenPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }
