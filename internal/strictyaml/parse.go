package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// Size caps in bytes.
const (
	HandWritten = 4 << 20
	Generated   = 256 << 20
)

// maxDepth bounds nesting; no document of ours needs a quarter of it.
const maxDepth = 64

// Parse reads one document of at most limit bytes and checks what does not depend on its type. The returned node is
// the document's content, never nil without error. name stands in errors.
func Parse(r io.Reader, name string, limit int64) (*yaml.Node, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s: larger than %d bytes", name, limit)
	}
	return parse(data, name)
}

func parse(data []byte, name string) (*yaml.Node, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if line := badByte(data); line > 0 {
		return nil, fmt.Errorf("%s:%d: not text: YAML is UTF-8 without control characters", name, line)
	}
	if line := tooDeep(data); line > 0 {
		return nil, fmt.Errorf("%s:%d: nested deeper than %d levels", name, line, maxDepth)
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s: empty: it holds no YAML document", name)
		}
		return nil, syntaxError(err, name)
	}
	var second yaml.Node
	if err := dec.Decode(&second); err == nil {
		return nil, fmt.Errorf("%s:%d: a second document starts here, want one", name, second.Line)
	} else if !errors.Is(err, io.EOF) {
		return nil, syntaxError(err, name)
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil, fmt.Errorf("%s: empty: it holds no YAML document", name)
	}
	d := &Decoder{name: name}
	d.checkTree(doc.Content[0], 0)
	if err := d.Err(); err != nil {
		return nil, err
	}
	return doc.Content[0], nil
}

// badByte returns the line of the first byte that no text holds, 0 if there is none.
func badByte(data []byte) int {
	bad := -1
	if !utf8.Valid(data) {
		for i := 0; i < len(data); {
			r, n := utf8.DecodeRune(data[i:])
			if r == utf8.RuneError && n == 1 {
				bad = i
				break
			}
			i += n
		}
	}
	for i, b := range data {
		if bad >= 0 && i >= bad {
			break
		}
		if b < ' ' && b != '\t' && b != '\n' && b != '\r' || b == 0x7f {
			bad = i
			break
		}
	}
	if bad < 0 {
		return 0
	}
	return 1 + bytes.Count(data[:bad], []byte("\n"))
}

// tooDeep looks for nesting that would cost the YAML parser quadratic time, before it runs: open brackets, or one
// line with many block entries. It returns the line, 0 if there is none. Brackets inside strings count too, so the
// bound is far above maxDepth.
func tooDeep(data []byte) int {
	depth, line, dashes := 0, 1, 0
	start := true
	for _, b := range data {
		switch b {
		case '\n':
			line++
			start, dashes = true, 0
			continue
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(0, depth-1)
		case '-', '?':
			if start {
				dashes++
			}
		case ' ', '\t':
		default:
			start = false
		}
		if depth > 16*maxDepth || dashes > 16*maxDepth {
			return line
		}
	}
	return 0
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?(.*)$`)

// syntaxError rewrites the parser's message to name:line: text.
func syntaxError(err error, name string) error {
	msg := strings.ReplaceAll(err.Error(), "\n", "; ")
	m := yamlLine.FindStringSubmatch(msg)
	if m == nil || m[1] == "" {
		return fmt.Errorf("%s: not YAML: %s", name, strings.TrimPrefix(msg, "yaml: "))
	}
	return fmt.Errorf("%s:%s: not YAML: %s", name, m[1], m[2])
}

// checkTree refuses what no document type allows.
func (d *Decoder) checkTree(n *yaml.Node, depth int) {
	if depth > maxDepth {
		d.Errorf(n, "nested deeper than %d levels", maxDepth)
		return
	}
	if n.Kind == yaml.AliasNode {
		d.Errorf(n, "alias *%s: write the value out", n.Value)
		return
	}
	if n.Anchor != "" {
		d.Errorf(n, "anchor &%s: write the value out where it is used", n.Anchor)
	}
	if n.Style&yaml.TaggedStyle != 0 {
		d.Errorf(n, "tag %s: tags are not allowed", n.Tag)
	}
	if n.Kind == yaml.MappingNode {
		d.checkKeys(n)
	}
	for _, c := range n.Content {
		d.checkTree(c, depth+1)
	}
}

func (d *Decoder) checkKeys(n *yaml.Node) {
	seen := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		switch {
		case k.Kind == yaml.AliasNode: // reported by checkTree
		case k.Kind != yaml.ScalarNode:
			d.Errorf(k, "a key must be a plain word")
		case k.Tag == "!!merge":
			d.Errorf(k, "merge key <<: write the keys out")
		case seen[k.Value] > 0:
			d.Errorf(k, "key %q stands twice, first in line %d", k.Value, seen[k.Value])
		default:
			seen[k.Value] = k.Line
		}
	}
}
