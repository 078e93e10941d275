package strictyaml

import (
	"encoding"
	"fmt"
	"io"
	"reflect"
	"sort"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// Write writes v as one YAML document, indented by two: structs by their yaml tags (omitempty and flow are heeded),
// maps by sorted keys. strict:"lines" puts each item of a list on one line. Texts that hold line breaks, blanks at an end or anything but plain ASCII are quoted, so that
// they read back unchanged (the library's block style loses leading line breaks) and cannot break a terminal.
func Write(w io.Writer, v any) error {
	n, err := Node(v)
	if err != nil {
		return err
	}
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(n); err != nil {
		return err
	}
	return e.Close()
}

// Node builds the document's node without going through text.
func Node(v any) (*yaml.Node, error) { return encode(reflect.ValueOf(v)) }

var marshalType = reflect.TypeFor[encoding.TextMarshaler]()

func encode(v reflect.Value) (*yaml.Node, error) {
	if !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() || v.Kind() == reflect.Interface && v.IsNil() {
		return scalar("!!null", "null"), nil
	}
	if v.Type() == nodeType {
		n := v.Interface().(yaml.Node)
		return &n, nil
	}
	if v.Type().Implements(marshalType) {
		b, err := v.Interface().(encoding.TextMarshaler).MarshalText()
		return text(string(b)), err
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return encode(v.Elem())
	case reflect.String:
		return text(v.String()), nil
	case reflect.Bool:
		return scalar("!!bool", strconv.FormatBool(v.Bool())), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return scalar("!!int", strconv.FormatInt(v.Int(), 10)), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return scalar("!!int", strconv.FormatUint(v.Uint(), 10)), nil
	case reflect.Float32, reflect.Float64:
		s := strconv.FormatFloat(v.Float(), 'g', -1, v.Type().Bits())
		if strings.Trim(s, "-0123456789") == "" {
			return scalar("!!int", s), nil // "1" alone reads as a whole number, which float fields take
		}
		return scalar("!!float", s), nil
	case reflect.Slice, reflect.Array:
		return encodeList(v)
	case reflect.Map:
		return encodeMap(v)
	case reflect.Struct:
		return encodeStruct(v)
	}
	return nil, fmt.Errorf("strictyaml: type %s cannot be written", v.Type())
}

func scalar(tag, value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value}
}

func text(s string) *yaml.Node {
	n := scalar("!!str", s)
	odd := func(r rune) bool { return r < ' ' || r > '~' }
	if strings.ContainsFunc(s, odd) || strings.TrimSpace(s) != s {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

func encodeList(v reflect.Value) (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	if v.Len() == 0 {
		n.Style = yaml.FlowStyle
	}
	for i := range v.Len() {
		c, err := encode(v.Index(i))
		if err != nil {
			return nil, err
		}
		n.Content = append(n.Content, c)
	}
	return n, nil
}

func encodeMap(v reflect.Value) (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	if v.Type().Key().Kind() != reflect.String {
		return nil, fmt.Errorf("strictyaml: a map with keys of type %s cannot be written", v.Type().Key())
	}
	keys := v.MapKeys()
	sort.Slice(keys, func(i, j int) bool { return keys[i].String() < keys[j].String() })
	for _, k := range keys {
		c, err := encode(v.MapIndex(k))
		if err != nil {
			return nil, err
		}
		n.Content = append(n.Content, text(k.String()), c)
	}
	if len(keys) == 0 {
		n.Style = yaml.FlowStyle
	}
	return n, nil
}

func encodeStruct(v reflect.Value) (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for _, f := range reflect.VisibleFields(v.Type()) {
		tag, ok := f.Tag.Lookup("yaml")
		name, opts, _ := strings.Cut(tag, ",")
		if !ok || name == "" || name == "-" {
			continue
		}
		x := v.FieldByIndex(f.Index)
		if strings.Contains(opts, "omitempty") && empty(x) {
			continue
		}
		c, err := encode(x)
		if err != nil {
			return nil, err
		}
		if strings.Contains(opts, "flow") {
			c.Style |= yaml.FlowStyle
			for _, item := range c.Content {
				item.Style |= yaml.FlowStyle
			}
		}
		if strings.Contains(f.Tag.Get("strict"), "lines") {
			for _, item := range c.Content {
				item.Style |= yaml.FlowStyle
			}
		}
		n.Content = append(n.Content, text(name), c)
	}
	if len(n.Content) == 0 {
		n.Style = yaml.FlowStyle
	}
	return n, nil
}

func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	}
	return v.IsZero()
}
