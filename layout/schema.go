package layout

import (
	_ "embed"
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"rankmap/internal/parallel"
	"rankmap/topology"
)

// Schema is the JSON Schema (draft 2020-12) of the document, also published as layout/schema.json.
//
//go:embed schema.json
var Schema []byte

// GenerateSchema derives the schema from the types, so that it cannot drift. Fields without omitempty are required;
// unknown keys are refused.
func GenerateSchema() ([]byte, error) {
	g := &schemaGen{defs: map[string]any{}}
	root := g.object(reflect.TypeFor[Layout]())
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "rankmap rank layout"
	props := root["properties"].(map[string]any)
	props["apiVersion"] = map[string]any{"const": APIVersion}
	props["kind"] = map[string]any{"const": Kind}
	root["$defs"] = g.defs
	b, err := json.MarshalIndent(root, "", "  ")
	return append(b, '\n'), err
}

type schemaGen struct{ defs map[string]any }

var (
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
	enums         = map[reflect.Type][]string{
		reflect.TypeFor[parallel.Op]():  names(parallel.Ops()),
		reflect.TypeFor[parallel.Dim](): {"tp", "cp", "ep", "dp", "pp", "expert-tp", "expert-dp"},

		reflect.TypeFor[topology.PathKind]():   names(topology.PathKinds()),
		reflect.TypeFor[topology.NVLinkKind](): names(topology.NVLinkKinds()),
		reflect.TypeFor[topology.SwitchKind](): names(topology.SwitchKinds()),
	}
)

func names[T interface{ String() string }](all []T) []string {
	out := make([]string, len(all))
	for i, v := range all {
		out[i] = v.String()
	}
	return out
}

// of returns the schema of a type.
func (g *schemaGen) of(t reflect.Type) map[string]any {
	if t.Kind() == reflect.Pointer {
		return g.of(t.Elem())
	}
	if e, ok := enums[t]; ok {
		return map[string]any{"enum": e}
	}
	if t.Implements(textMarshaler) || reflect.PointerTo(t).Implements(textMarshaler) {
		return map[string]any{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Struct:
		if _, ok := g.defs[t.Name()]; !ok {
			g.defs[t.Name()] = nil // recursion ends here
			g.defs[t.Name()] = g.object(t)
		}
		return map[string]any{"$ref": "#/$defs/" + t.Name()}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": g.of(t.Elem())}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	default:
		return map[string]any{"type": "integer"}
	}
}

func (g *schemaGen) object(t reflect.Type) map[string]any {
	props := map[string]any{}
	required := []string{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || name == "" {
			continue
		}
		props[name] = g.of(f.Type)
		if !strings.Contains(opts, "omitempty") {
			required = append(required, name)
		}
	}
	slices.Sort(required)
	return map[string]any{"type": "object", "properties": props, "required": required, "additionalProperties": false}
}
