package main

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
)

// A result that does not fit on the disk is neither a bug nor bad input, and the message names the file asked for.
func TestAFullDiskIsTheEnvironmentsFault(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here:", err)
	}
	defer full.Close()
	var o output
	for name, err := range map[string]error{
		"standard output": o.write(&deps{Stdout: full}, []byte("result")),
		"page.html":       writeErr("page.html", &fs.PathError{Op: "write", Path: "./.rankmap-1", Err: syscall.ENOSPC}),
	} {
		var c *codedError
		if !errors.As(err, &c) || c.code != exitEnvironment {
			t.Errorf("%s: %v, want exit %d", name, err, exitEnvironment)
		} else if s := err.Error(); !strings.HasPrefix(s, name+": ") || strings.Contains(s, ".rankmap-") {
			t.Errorf("%s: %q", name, s)
		}
	}
	if writeErr("x", nil) != nil {
		t.Error("no error became one")
	}
}
