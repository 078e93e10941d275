package sysfs

import (
	"errors"
	"io"
	"io/fs"
	"sort"
	"strings"
)

// Limits: the longest file of interest is the 4 KiB of a device's configuration space; the most entries one folder may
// have is bounded by the PCI devices of the largest hosts.
const (
	maxFile    = 4096
	maxEntries = 1 << 16
)

// Tree is a sysfs: paths are relative to its root, with slashes. Links on the way are followed.
type Tree interface {
	// Read returns at most 4 KiB of a file, by one attempt.
	Read(name string) ([]byte, error)
	// List returns the names in a folder, sorted.
	List(name string) ([]string, error)
	// Link returns the target of a symbolic link as it is written.
	Link(name string) (string, error)
}

// FromFS makes a tree of a file system. Links need one that implements fs.ReadLinkFS.
func FromFS(fsys fs.FS) Tree { return fsTree{fsys} }

type fsTree struct{ fsys fs.FS }

// Read returns at most 4 KiB of a file.
func (t fsTree) Read(name string) ([]byte, error) {
	f, err := t.fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFile))
}

// List returns the names in a folder, sorted.
func (t fsTree) List(name string) ([]string, error) {
	entries, err := fs.ReadDir(t.fsys, name)
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	sort.Strings(names)
	return names[:min(len(names), maxEntries)], err
}

// Link returns the target of a link.
func (t fsTree) Link(name string) (string, error) { return fs.ReadLink(t.fsys, name) }

// text reads a file as one line of text without blanks at its ends.
func text(t Tree, name string) (string, error) {
	b, err := t.Read(name)
	return strings.TrimSpace(strings.ToValidUTF8(string(b), "?")), err
}

// missing says that a file is not there, which is no trouble.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// reason is an error without the path in front.
func reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return err.Error()
}
