//go:build unix

package sysfs

import (
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"syscall"
)

// Dir is the sysfs at a folder, "/sys" on a live system. Files are read with one system call: some drivers answer with
// EAGAIN, which the os package would wait for forever.
func Dir(root string) Tree { return dirTree{root} }

type dirTree struct{ root string }

func (t dirTree) path(name string) string { return filepath.Join(t.root, filepath.FromSlash(name)) }

// Read returns at most 4 KiB of a file.
func (t dirTree) Read(name string) ([]byte, error) {
	fd, err := syscall.Open(t.path(name), syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer syscall.Close(fd)
	buf := make([]byte, maxFile)
	n, err := syscall.Read(fd, buf)
	for err == syscall.EINTR {
		n, err = syscall.Read(fd, buf)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return buf[:n], nil
}

// List returns the names in a folder, sorted.
func (t dirTree) List(name string) ([]string, error) {
	f, err := os.Open(t.path(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(maxEntries)
	sort.Strings(names)
	if len(names) > 0 {
		err = nil
	}
	return names, err
}

// Link returns the target of a link.
func (t dirTree) Link(name string) (string, error) { return os.Readlink(t.path(name)) }
