package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// maxConfig caps a configuration file; the largest real ones, with one quantisation entry per layer, stay under 1 MiB.
const maxConfig = 16 << 20

// maxDepth caps nesting; real files stay under 10.
const maxDepth = 100

// node is one JSON value with the line it stands on. val holds nil, bool, json.Number, string, []*node or *object.
type node struct {
	val  any
	line int
}

// object keeps members in file order; the last of two equal keys wins, as in Python's reader.
type object struct {
	keys []string
	at   map[string]*node
}

func (n *node) object() *object {
	if n == nil {
		return nil
	}
	o, _ := n.val.(*object)
	return o
}

func (n *node) list() []*node {
	if n == nil {
		return nil
	}
	l, _ := n.val.([]*node)
	return l
}

func (n *node) text() string {
	if n == nil {
		return ""
	}
	s, _ := n.val.(string)
	return s
}

// get returns a member, nil when it is absent or null.
func (o *object) get(key string) *node {
	if o == nil {
		return nil
	}
	n := o.at[key]
	if n == nil || n.val == nil {
		return nil
	}
	return n
}

// decode reads one JSON document. Python's json module also writes NaN and Infinity, so these are accepted outside
// strings. Errors carry name:line.
func decode(r io.Reader, name string) (*node, error) {
	src, err := io.ReadAll(io.LimitReader(r, maxConfig+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(src) > maxConfig {
		return nil, fmt.Errorf("%s: larger than %d MiB, want a config.json", name, maxConfig>>20)
	}
	src = bytes.TrimPrefix(src, []byte("\xef\xbb\xbf"))
	if err := sniff(src, name); err != nil {
		return nil, err
	}
	d := &decoder{src: finite(src), name: name}
	d.dec = json.NewDecoder(bytes.NewReader(d.src))
	d.dec.UseNumber()
	n, err := d.value(0)
	if err != nil {
		return nil, err
	}
	if _, err := d.dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s:%d: more text after the end of the JSON object", name, d.line())
	}
	return n, nil
}

// sniff names the usual wrong files, so that the user reads what he passed rather than where JSON broke.
func sniff(src []byte, name string) error {
	t := bytes.TrimSpace(src)
	head := strings.ToLower(string(t[:min(len(t), 256)]))
	switch {
	case len(t) == 0:
		return fmt.Errorf("%s:1: the file is empty, want a config.json", name)
	case strings.HasPrefix(head, "%pdf"):
		return fmt.Errorf("%s:1: this is a PDF, want a config.json", name)
	case strings.HasPrefix(head, "<!doctype") || strings.HasPrefix(head, "<html") || strings.HasPrefix(head, "<?xml"):
		return fmt.Errorf("%s:1: this is an HTML or XML page (often the log-in or error page of a download), want a config.json", name)
	case strings.HasPrefix(head, "version https://git-lfs"):
		return fmt.Errorf("%s:1: this is a Git LFS pointer, want the file that it points to (git lfs pull)", name)
	case strings.HasPrefix(head, "pk\x03\x04") || strings.HasPrefix(head, "\x1f\x8b"):
		return fmt.Errorf("%s:1: this is a compressed archive, want a config.json", name)
	case len(t) > 9 && t[8] == '{' && t[0] != '{':
		return fmt.Errorf("%s:1: this is a safetensors file, want the config.json beside it", name)
	case t[0] == '[':
		return fmt.Errorf("%s:1: a JSON list, want the JSON object of a config.json", name)
	case t[0] != '{':
		return fmt.Errorf("%s:1: not JSON: starts with %q, want { of a config.json", name, t[:min(len(t), 12)])
	}
	return nil
}

// finite replaces bare NaN and Infinity by finite numbers of the same length, so that offsets stay.
func finite(src []byte) []byte {
	if !bytes.Contains(src, []byte("NaN")) && !bytes.Contains(src, []byte("Infinity")) {
		return src
	}
	out := bytes.Clone(src)
	inString := false
	for i := 0; i < len(out); i++ {
		switch {
		case inString && out[i] == '\\':
			i++
		case out[i] == '"':
			inString = !inString
		case inString:
		case bytes.HasPrefix(out[i:], []byte("Infinity")):
			copy(out[i:], "1e308   ")
		case bytes.HasPrefix(out[i:], []byte("NaN")):
			copy(out[i:], "0  ")
		}
	}
	return out
}

type decoder struct {
	src   []byte
	name  string
	dec   *json.Decoder
	seen  int // offset up to which lines are counted
	lines int
}

func (d *decoder) line() int {
	to := min(int(d.dec.InputOffset()), len(d.src))
	if to > d.seen {
		d.lines += bytes.Count(d.src[d.seen:to], []byte("\n"))
		d.seen = to
	}
	return d.lines + 1
}

func (d *decoder) fail(err error) error {
	var syn *json.SyntaxError
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || (errors.As(err, &syn) && strings.Contains(syn.Error(), "unexpected end")) {
		return fmt.Errorf("%s:%d: the JSON ends in the middle, is the file truncated?", d.name, bytes.Count(bytes.TrimRight(d.src, " \t\r\n"), []byte("\n"))+1)
	}
	if errors.As(err, &syn) {
		at := min(max(int(syn.Offset), 0), len(d.src))
		return fmt.Errorf("%s:%d: not valid JSON: %s", d.name, bytes.Count(d.src[:at], []byte("\n"))+1, syn.Error())
	}
	return fmt.Errorf("%s:%d: not valid JSON: %w", d.name, d.line(), err)
}

func (d *decoder) value(depth int) (*node, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("%s:%d: nested deeper than %d levels", d.name, d.line(), maxDepth)
	}
	t, err := d.dec.Token()
	if err != nil {
		return nil, d.fail(err)
	}
	n := &node{line: d.line()}
	switch v := t.(type) {
	case json.Delim:
		if v == '{' {
			n.val, err = d.members(depth)
		} else {
			n.val, err = d.items(depth)
		}
		if err != nil {
			return nil, err
		}
	default:
		n.val = v
	}
	return n, nil
}

func (d *decoder) members(depth int) (*object, error) {
	o := &object{at: map[string]*node{}}
	for d.dec.More() {
		t, err := d.dec.Token()
		if err != nil {
			return nil, d.fail(err)
		}
		key, ok := t.(string)
		if !ok {
			return nil, fmt.Errorf("%s:%d: a key that is not a string", d.name, d.line())
		}
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		if o.at[key] == nil {
			o.keys = append(o.keys, key)
		}
		o.at[key] = v
	}
	if _, err := d.dec.Token(); err != nil {
		return nil, d.fail(err)
	}
	return o, nil
}

func (d *decoder) items(depth int) ([]*node, error) {
	list := []*node{}
	for d.dec.More() {
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	if _, err := d.dec.Token(); err != nil {
		return nil, d.fail(err)
	}
	return list, nil
}

// whole reads a node as a whole number: 32, 32.0 and "32" are the same, and so is a list of equal ones (some families
// write a value for each layer).
func (n *node) whole() (int, bool) {
	var s string
	switch v := n.val.(type) {
	case []*node:
		return sameWhole(v)
	case json.Number:
		s = v.String()
	case string:
		s = v
	default:
		return 0, false
	}
	if i, err := strconv.Atoi(s); err == nil {
		return i, true
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f > 1e15 || f < -1e15 || f != math.Trunc(f) {
		return 0, false
	}
	return int(f), true
}

func sameWhole(list []*node) (int, bool) {
	if len(list) == 0 || list[0].list() != nil {
		return 0, false
	}
	first, ok := list[0].whole()
	for _, e := range list[1:] {
		if e.list() != nil {
			return 0, false
		}
		if v, k := e.whole(); !k || v != first {
			return 0, false
		}
	}
	return first, ok
}

// real reads a node as a number.
func (n *node) real() (float64, bool) {
	v, ok := n.val.(json.Number)
	if !ok {
		return 0, false
	}
	f, err := v.Float64()
	return f, err == nil
}
