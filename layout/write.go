package layout

import (
	"encoding/json"
	"io"

	"gopkg.in/yaml.v3"
)

// flow makes a yaml.v3 node of v in flow style, so that a rank is one line.
func flow(v any) (any, error) {
	n := new(yaml.Node)
	if err := n.Encode(v); err != nil {
		return nil, err
	}
	n.Style = yaml.FlowStyle
	return n, nil
}

// MarshalYAML writes a rank on one line.
func (r Rank) MarshalYAML() (any, error) {
	type plain Rank
	return flow(plain(r))
}

// MarshalYAML writes a part on one line.
func (p Part) MarshalYAML() (any, error) {
	type plain Part
	return flow(plain(p))
}

// MarshalYAML writes a memory part on one line.
func (p MemoryPart) MarshalYAML() (any, error) {
	type plain MemoryPart
	return flow(plain(p))
}

// WriteYAML writes the document, in compact form above CompactRanks ranks.
func (l *Layout) WriteYAML(w io.Writer) error {
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(l.compact()); err != nil {
		return err
	}
	return e.Close()
}

// WriteJSON writes the same document as indented JSON.
func (l *Layout) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(l.compact())
}
