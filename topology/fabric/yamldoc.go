package fabric

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"gopkg.in/yaml.v3"
)

// maxYAMLDepth bounds nesting; the deepest real file has 6 levels.
const maxYAMLDepth = 64

// yamlRoot parses one YAML document into nodes. Anchors, aliases, merge keys, custom tags, duplicate keys and a second
// document are refused: none of the formats has them, and they are how small files become large.
func yamlRoot(data []byte, name string) (*yaml.Node, error) {
	if err := deep(data, name); err != nil {
		return nil, err
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s:1: only comments", name)
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var next yaml.Node
	if err := dec.Decode(&next); !errors.Is(err, io.EOF) {
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return nil, fmt.Errorf("%s:%d: a second YAML document, want one", name, max(next.Line, 1))
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil, fmt.Errorf("%s:1: no YAML value", name)
	}
	n := &notes{name: name}
	plain(n, doc.Content[0], 0)
	if err := n.err(); err != nil {
		return nil, err
	}
	return doc.Content[0], nil
}

// deep refuses flow nesting and indentation that would make the YAML parser slow before it builds anything.
func deep(data []byte, name string) error {
	depth, most := 0, 0
	var err error
	lines(data, func(no int, line string) {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			return
		}
		for i := 0; i < len(line); i++ {
			switch line[i] {
			case '[', '{':
				depth++
			case ']', '}':
				depth = max(depth-1, 0)
			}
			most = max(most, depth)
		}
		dashes := len(line) - len(strings.TrimLeft(line, " -"))
		if err == nil && (most > maxYAMLDepth || strings.Count(line[:dashes], "-") > maxYAMLDepth || dashes > 4*maxYAMLDepth) {
			err = fmt.Errorf("%s:%d: nested deeper than %d", name, no, maxYAMLDepth)
		}
	})
	return err
}

// plain refuses what the formats do not have.
func plain(n *notes, y *yaml.Node, depth int) {
	if depth > maxYAMLDepth {
		n.fail(y.Line, "nested deeper than %d", maxYAMLDepth)
		return
	}
	switch {
	case y.Kind == yaml.AliasNode || y.Anchor != "":
		n.fail(y.Line, "YAML anchors and aliases are refused")
		return
	case y.Tag != "" && !strings.HasPrefix(y.Tag, "!!") || y.Tag == "!!merge" || y.Tag == "!!binary":
		n.fail(y.Line, "YAML tag %s is refused", clip(y.Tag))
	}
	if y.Kind == yaml.MappingNode {
		seen := map[string]int{}
		for i := 0; i+1 < len(y.Content); i += 2 {
			k := y.Content[i]
			if l, twice := seen[k.Value]; twice {
				n.fail(k.Line, "key %q is stated twice, first in line %d", clip(k.Value), l)
			}
			seen[k.Value] = k.Line
		}
	}
	for _, c := range y.Content {
		plain(n, c, depth+1)
	}
}

// pair is one key of a mapping with its value.
type pair struct {
	key  string
	line int
	val  *yaml.Node
}

// pairs lists the keys of a mapping in document order.
func pairs(y *yaml.Node) []pair {
	if y == nil || y.Kind != yaml.MappingNode {
		return nil
	}
	out := make([]pair, 0, len(y.Content)/2)
	for i := 0; i+1 < len(y.Content); i += 2 {
		out = append(out, pair{y.Content[i].Value, y.Content[i].Line, y.Content[i+1]})
	}
	return out
}

// get returns the value of a key, nil when it is missing.
func get(y *yaml.Node, key string) *yaml.Node {
	for _, p := range pairs(y) {
		if p.key == key {
			return p.val
		}
	}
	return nil
}

// text returns the scalar of a key, "" when it is missing or no scalar.
func text(y *yaml.Node, key string) string {
	v := get(y, key)
	if v == nil || v.Kind != yaml.ScalarNode || v.Tag == "!!null" {
		return ""
	}
	return v.Value
}

// names reads a host list that is a scalar expression, a list of expressions, or a mapping with names as keys.
func (t *tree) names(y *yaml.Node) []string {
	switch {
	case y == nil || y.Tag == "!!null":
		return nil
	case y.Kind == yaml.ScalarNode:
		return t.expand(y.Line, y.Value)
	case y.Kind == yaml.MappingNode:
		var out []string
		for _, p := range pairs(y) {
			out = append(out, t.expand(p.line, p.key)...)
		}
		return out
	}
	var out []string
	for _, c := range y.Content {
		if c.Kind == yaml.MappingNode {
			if n := text(c, "name"); n != "" {
				out = append(out, t.expand(c.Line, n)...)
				continue
			}
		}
		if c.Kind != yaml.ScalarNode {
			t.fail(c.Line, "want a name or a host list such as node[01-18]")
			continue
		}
		out = append(out, t.expand(c.Line, c.Value)...)
	}
	return out
}
