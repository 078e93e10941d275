package sysfs

import (
	"strings"
	"unicode/utf8"
)

// Record returns a tree that answers as t does and notes every answer, and the archive of what it noted. A later read
// of the archive sees what was seen here.
func Record(t Tree) (Tree, *Archive) {
	a := &Archive{items: map[item]string{}}
	return recorder{t, a}, a
}

type recorder struct {
	t Tree
	a *Archive
}

func (r recorder) fault(name string, err error) {
	if !missing(err) {
		r.a.items[item{"error", name}] = strings.ReplaceAll(reason(err), "\n", " ")
	}
}

// Read notes the content of a file: as text without the line end, or in hexadecimal digits.
func (r recorder) Read(name string) ([]byte, error) {
	b, err := r.t.Read(name)
	if err != nil {
		r.fault(name, err)
		return b, err
	}
	s := strings.TrimSuffix(string(b), "\n")
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' && c != '\n' && c != '\t' || c == 0x7f }) && !strings.HasSuffix(s, "\n") {
		r.a.items[item{"file", name}] = s
		return []byte(s + "\n"), nil
	}
	b = withoutSerial(b)
	r.a.items[item{"hex", name}] = string(b)
	return b, nil
}

// List notes the names in a folder.
func (r recorder) List(name string) ([]string, error) {
	names, err := r.t.List(name)
	if err != nil {
		r.fault(name, err)
		return nil, err
	}
	r.a.items[item{"list", name}] = strings.Join(names, "\n")
	return names, nil
}

// Link notes the target of a link.
func (r recorder) Link(name string) (string, error) {
	s, err := r.t.Link(name)
	if err != nil {
		r.fault(name, err)
		return "", err
	}
	r.a.items[item{"link", name}] = s
	return s, nil
}
