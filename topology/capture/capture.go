package capture

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"
)

// Limits of an archive. A large host gives some hundred kilobytes.
const (
	maxPacked   = 64 << 20
	maxUnpacked = 128 << 20
	maxFiles    = 64
	maxName     = 64
)

// version is that of the archive's format.
const version = 1

// manifestName is the file that says what the others are.
const manifestName = "rankmap-capture.json"

// Capture is one host's answers.
type Capture struct {
	Host  string            // host name, or its hash
	Env   map[string]string // variables that change what a process sees, such as CUDA_VISIBLE_DEVICES
	Notes []string          // what could not be captured and why
	Files map[string][]byte // by name: "nvml.json", "sysfs.txt", "topo-m.txt", "nvlink-s.txt"
}

type manifest struct {
	Kind    string            `json:"kind"`
	Version int               `json:"version"`
	Host    string            `json:"host"`
	Env     map[string]string `json:"env,omitempty"`
	Notes   []string          `json:"notes,omitempty"`
	Files   []string          `json:"files"`
}

// Write packs a capture. Equal captures give equal bytes: files sorted, no times, no owners.
func Write(w io.Writer, c *Capture) error {
	m := manifest{Kind: "rankmap-capture", Version: version, Host: c.Host, Env: c.Env, Notes: c.Notes, Files: []string{}}
	for name := range c.Files {
		if !goodName(name) || name == manifestName {
			return fmt.Errorf("%q cannot be a file of a capture", name)
		}
		m.Files = append(m.Files, name)
	}
	sort.Strings(m.Files)
	head, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	put := func(name string, data []byte) error {
		h := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(len(data)), Format: tar.FormatUSTAR}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		_, err := t.Write(data)
		return err
	}
	if err := put(manifestName, append(head, '\n')); err != nil {
		return err
	}
	for _, name := range m.Files {
		if err := put(name, c.Files[name]); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close())
}

// goodName says that a name is one plain path element.
func goodName(s string) bool {
	if s == "" || len(s) > maxName || s[0] == '.' {
		return false
	}
	return strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == ""
}

// Read unpacks a capture. name is the file's, for messages.
func Read(r io.Reader, name string) (*Capture, error) {
	fail := func(format string, args ...any) (*Capture, error) {
		return nil, fmt.Errorf("%s: "+format, append([]any{name}, args...)...)
	}
	in := &io.LimitedReader{R: r, N: maxPacked + 1}
	z, err := gzip.NewReader(in)
	if err != nil {
		return fail("not a capture (a compressed archive of rankmap discover --capture): %w", err)
	}
	left := int64(maxUnpacked)
	t := tar.NewReader(io.LimitReader(z, maxUnpacked+maxFiles*1024))
	c := &Capture{Files: map[string][]byte{}}
	var m *manifest
	for n := 0; ; n++ {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			if in.N <= 0 {
				return fail("larger than %d MiB", maxPacked>>20)
			}
			return fail("damaged archive: %w", err)
		}
		switch {
		case n >= maxFiles:
			return fail("more than %d files", maxFiles)
		case h.Typeflag != tar.TypeReg:
			return fail("%q is not a plain file", clip(h.Name))
		case !goodName(h.Name):
			return fail("%q is no name of a capture's file", clip(h.Name))
		case h.Size < 0 || h.Size > left:
			return fail("more than %d MiB unpacked", maxUnpacked>>20)
		}
		data, err := io.ReadAll(io.LimitReader(t, h.Size))
		if err != nil {
			return fail("%s: damaged archive: %w", h.Name, err)
		}
		left -= int64(len(data))
		if h.Name == manifestName {
			if m != nil {
				return fail("two manifests")
			}
			if m, err = readManifest(data); err != nil {
				return fail("%s: %w", manifestName, err)
			}
			continue
		}
		if _, dup := c.Files[h.Name]; dup {
			return fail("%s is in it twice", h.Name)
		}
		c.Files[h.Name] = data
	}
	if m == nil {
		return fail("no %s in it: not a capture of rankmap discover", manifestName)
	}
	for _, f := range m.Files {
		if _, ok := c.Files[f]; !ok {
			return fail("%s is missing", clip(f))
		}
	}
	if len(m.Files) != len(c.Files) {
		return fail("it holds files that its manifest does not list")
	}
	c.Host, c.Env, c.Notes = m.Host, m.Env, m.Notes
	return c, nil
}

func readManifest(data []byte) (*manifest, error) {
	if len(data) > 1<<20 {
		return nil, errors.New("larger than 1 MiB")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var m manifest
	if err := d.Decode(&m); err != nil {
		return nil, err
	}
	switch {
	case m.Kind != "rankmap-capture":
		return nil, fmt.Errorf("kind is %q, want rankmap-capture", clip(m.Kind))
	case m.Version != version:
		return nil, fmt.Errorf("version is %d, this rankmap reads %d", m.Version, version)
	case len(m.Host) > 255:
		return nil, errors.New("host name longer than 255 bytes")
	}
	return &m, nil
}

func clip(s string) string {
	if len(s) > 60 {
		return strings.ToValidUTF8(s[:60], "") + "..."
	}
	return s
}
