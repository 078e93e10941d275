//go:build unix

package sysfs

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestAFileThatAnswersTryAgain reads a pipe that is open and empty, which answers EAGAIN as some drivers do: the read
// fails at once and does not wait.
func TestAFileThatAnswersTryAgain(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "rate")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Skipf("skipped: no pipes here: %v", err)
	}
	w, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	done := make(chan error, 1)
	go func() {
		_, err := Dir(dir).Read("rate")
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil {
			t.Error("no error")
		}
	case <-time.After(5 * time.Second):
		t.Fatal("the read waits")
	}
	if err := os.WriteFile(filepath.Join(dir, "long"), make([]byte, 3*maxFile), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := Dir(dir).Read("long"); err != nil || len(b) != maxFile {
		t.Errorf("read %d bytes, %v; want %d", len(b), err, maxFile)
	}
}
