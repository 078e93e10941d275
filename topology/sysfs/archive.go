package sysfs

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sort"
	"strings"
	"unicode/utf8"
)

// archiveTitle is the first line of the text form.
const archiveTitle = "rankmap sysfs 1"

// Limits of an archive: a large host has some thousand files of interest of a few bytes each.
const (
	maxArchive     = 64 << 20
	maxArchiveItem = 1 << 18
	maxNameLength  = 1024
)

// Archive is a recorded sysfs. Its text form is made for reading and editing by hand:
//
//	rankmap sysfs 1
//	file class/infiniband/mlx5_0/ports/1/rate
//		400 Gb/sec (4X NDR)
//	link class/infiniband/mlx5_0/device
//		../../../0000:1a:00.0
//	list class/infiniband
//		mlx5_0
//	hex bus/pci/devices/0000:17:00.0/config
//		8680...
//	error class/infiniband/mlx5_1/ports/1/rate
//		input/output error
//
// Lines of content begin with a tab. A folder that has no list shows what lies below it. A recorded failure answers
// every way to ask for that path.
type Archive struct {
	items map[item]string // by kind and path
	below map[string][]string
}

type item struct{ kind, name string }

// archiveError is a failure that was recorded.
type archiveError string

// Error returns the system's text.
func (e archiveError) Error() string { return string(e) }

// Is makes the recorded texts of missing files and of missing permission what they were.
func (e archiveError) Is(target error) bool {
	switch target {
	case fs.ErrNotExist:
		return e == "no such file or directory" || e == "file does not exist"
	case fs.ErrPermission:
		return e == "permission denied" || e == "operation not permitted"
	}
	return false
}

// ParseArchive reads the text form. Errors have name:line; all problems are told at once, at most 20.
func ParseArchive(data []byte, name string) (*Archive, error) {
	if len(data) > maxArchive {
		return nil, fmt.Errorf("%s: larger than %d MiB", name, maxArchive>>20)
	}
	a := &Archive{items: map[item]string{}}
	var errs []error
	fail := func(line int, format string, args ...any) {
		if len(errs) < 20 {
			errs = append(errs, fmt.Errorf("%s:%d: %s", name, line, fmt.Sprintf(format, args...)))
		}
	}
	s := bufio.NewScanner(bytes.NewReader(data))
	s.Buffer(nil, 1<<20)
	var at *item
	var body []string
	start := 0
	flush := func() {
		if at != nil {
			a.put(*at, body, func(format string, args ...any) { fail(start, format, args...) })
		}
		at, body = nil, nil
	}
	for n := 1; s.Scan(); n++ {
		line := strings.TrimSuffix(s.Text(), "\r")
		switch {
		case n == 1:
			if line != archiveTitle {
				return nil, fmt.Errorf("%s:1: want the line %q, not %q", name, archiveTitle, clip(line))
			}
		case strings.HasPrefix(line, "\t"):
			if at == nil {
				fail(n, "content before any entry")
				continue
			}
			body = append(body, line[1:])
		case strings.TrimSpace(line) == "" || line[0] == '#':
		default:
			flush()
			kind, file, _ := strings.Cut(line, " ")
			it := item{kind, file}
			switch _, dup := a.items[it]; {
			case kind != "file" && kind != "link" && kind != "list" && kind != "hex" && kind != "error":
				fail(n, "unknown entry %q (known: file, link, list, hex, error)", clip(kind))
			case !fs.ValidPath(file) || len(file) > maxNameLength || !utf8.ValidString(file):
				fail(n, "%q is no path below the root", clip(file))
			case dup:
				fail(n, "%s %s stands here again", kind, clip(file))
			case len(a.items) >= maxArchiveItem:
				return nil, fmt.Errorf("%s:%d: more than %d entries", name, n, maxArchiveItem)
			default:
				at, start = &it, n
			}
		}
	}
	flush()
	if err := s.Err(); err != nil {
		fail(0, "%v", err)
	}
	if len(data) == 0 {
		return nil, fmt.Errorf("%s: is empty", name)
	}
	a.index()
	return a, errors.Join(errs...)
}

func clip(s string) string {
	if len(s) > 60 {
		return strings.ToValidUTF8(s[:60], "") + "..."
	}
	return s
}

func (a *Archive) put(it item, body []string, fail func(string, ...any)) {
	s := strings.Join(body, "\n")
	if it.kind == "hex" {
		b, err := hex.DecodeString(strings.Join(body, ""))
		if err != nil || len(b) > maxFile {
			fail("%s holds no hexadecimal digits of at most %d bytes", clip(it.name), maxFile)
			return
		}
		s = string(b)
	}
	a.items[it] = s
}

// index lists what lies below each folder.
func (a *Archive) index() {
	below := map[string]map[string]bool{}
	for it := range a.items {
		for p := it.name; p != "."; p = path.Dir(p) {
			dir := path.Dir(p)
			if below[dir] == nil {
				below[dir] = map[string]bool{}
			}
			if below[dir][path.Base(p)] {
				break
			}
			below[dir][path.Base(p)] = true
		}
	}
	a.below = map[string][]string{}
	for dir, names := range below {
		for n := range names {
			a.below[dir] = append(a.below[dir], n)
		}
		sort.Strings(a.below[dir])
	}
}

// fault is the recorded failure of a path, or that it is not there.
func (a *Archive) fault(op, name string) error {
	if e, ok := a.items[item{"error", name}]; ok {
		return &fs.PathError{Op: op, Path: name, Err: archiveError(e)}
	}
	return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
}

// Read returns the content of a file.
func (a *Archive) Read(name string) ([]byte, error) {
	if s, ok := a.items[item{"hex", name}]; ok {
		return []byte(s), nil
	}
	if s, ok := a.items[item{"file", name}]; ok {
		return []byte(s + "\n"), nil
	}
	return nil, a.fault("read", name)
}

// List returns the names in a folder.
func (a *Archive) List(name string) ([]string, error) {
	if s, ok := a.items[item{"list", name}]; ok {
		if s == "" {
			return nil, nil
		}
		return strings.Split(s, "\n"), nil
	}
	if _, bad := a.items[item{"error", name}]; bad || a.below[name] == nil {
		return nil, a.fault("list", name)
	}
	return append([]string(nil), a.below[name]...), nil
}

// Link returns the target of a link.
func (a *Archive) Link(name string) (string, error) {
	if s, ok := a.items[item{"link", name}]; ok {
		return s, nil
	}
	return "", a.fault("readlink", name)
}

// Text returns the text form, sorted by path: the same entries give the same bytes.
func (a *Archive) Text() []byte {
	all := make([]item, 0, len(a.items))
	for it := range a.items {
		all = append(all, it)
	}
	sort.Slice(all, func(i, j int) bool {
		if all[i].name != all[j].name {
			return all[i].name < all[j].name
		}
		return all[i].kind < all[j].kind
	})
	var b bytes.Buffer
	b.WriteString(archiveTitle + "\n")
	for _, it := range all {
		fmt.Fprintf(&b, "%s %s\n", it.kind, it.name)
		s := a.items[it]
		if it.kind == "hex" {
			for h := hex.EncodeToString([]byte(s)); h != ""; {
				n := min(len(h), 128)
				fmt.Fprintf(&b, "\t%s\n", h[:n])
				h = h[n:]
			}
			continue
		}
		if s == "" {
			continue
		}
		for _, line := range strings.Split(s, "\n") {
			fmt.Fprintf(&b, "\t%s\n", line)
		}
	}
	return b.Bytes()
}
