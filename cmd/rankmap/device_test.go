package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"unicode/utf8"
)

// -f on a device or a pipe writes to it and leaves it what it is: /dev/null is not to become a plain file.
func TestAPipeStaysAPipe(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Skip("no named pipes here:", err)
	}
	got := make(chan []byte)
	go func() {
		f, err := os.Open(name)
		if err != nil {
			t.Error(err)
			close(got)
			return
		}
		defer f.Close()
		data, _ := io.ReadAll(f)
		got <- data
	}()
	if err := writeFile(name, []byte("result"), 0o644); err != nil {
		t.Fatal(err)
	}
	if data := <-got; string(data) != "result" {
		t.Errorf("the reader got %q", data)
	}
	if st, err := os.Lstat(name); err != nil || st.Mode()&fs.ModeNamedPipe == 0 {
		t.Errorf("it is now %v, %v", st.Mode(), err)
	}
}

// failing writes fail with one error.
type failing struct{ err error }

func (w failing) Write([]byte) (int, error) { return 0, w.err }

// Whoever writes to standard output, a reader that went away is no failure and a full disk is the environment's.
func TestStandardOutputThatFails(t *testing.T) {
	for _, args := range [][]string{{"--version"}, {"--help"}, {"plan", "--help"}, {"exit-codes"}, {"completion", "bash"}, {"model", "--list"}, {"model", "llama-3.1-8b"}} {
		for err, want := range map[error]int{
			&fs.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}:  exitOK,
			&fs.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}: exitEnvironment,
			io.ErrClosedPipe: exitEnvironment,
		} {
			d := osDeps()
			d.Stdout, d.Stderr = failing{err}, io.Discard
			if code := run(context.Background(), d, args); code != want {
				t.Errorf("%v, %v: exit %d, want %d", args, err, code, want)
			}
		}
	}
	w := &watchedWriter{w: failing{io.ErrClosedPipe}}
	if bug := errors.New("bug"); w.verdict(bug) != bug {
		t.Error("an error was replaced although nothing was written")
	}
}

// A document made from files whose names are no UTF-8 can be read again.
func TestNamesThatAreNoUTF8(t *testing.T) {
	dir := t.TempDir()
	config, err := os.ReadFile("../../configs/models/llama-3.1-8b/config.json")
	if err != nil {
		t.Fatal(err)
	}
	model, plan := filepath.Join(dir, "caf\xe9 \xff.json"), filepath.Join(dir, "o\xff.yaml")
	if err := os.WriteFile(model, config, 0o644); err != nil {
		t.Skip("this file system wants UTF-8:", err)
	}
	for _, args := range [][]string{
		{"plan", "--cluster", "hgx-h100", "--model", model, "--task", "decode", "-f", plan, "--explain=false"},
		{"what-if", plan, "--model", model},
		{"plan", "--keep", plan, "--model", model, "--explain=false"},
	} {
		d := osDeps()
		var out, talk bytes.Buffer
		d.Stdout, d.Stderr = &out, &talk
		if code := run(context.Background(), d, args); code != exitOK || !utf8.Valid(out.Bytes()) {
			t.Errorf("%q: exit %d, %s", args, code, talk.String())
		}
	}
	if got := validName("a\xffb"); got != "a\uFFFDb" {
		t.Errorf("%q", got)
	}
}
