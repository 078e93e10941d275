package strictyaml

import (
	"reflect"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"
)

// fields describes a struct type: its keys, in order, and where each goes.
type fields struct {
	names []string
	at    map[string]fieldInfo
	line  []int // the int field tagged strict:"line", nil when there is none
}

type fieldInfo struct {
	index    []int
	rules    []string
	required bool
}

var fieldCache sync.Map // reflect.Type -> *fields

func fieldsOf(t reflect.Type) *fields {
	if f, ok := fieldCache.Load(t); ok {
		return f.(*fields)
	}
	f := &fields{at: map[string]fieldInfo{}}
	for _, sf := range reflect.VisibleFields(t) {
		if sf.Tag.Get("strict") == "line" {
			f.line = sf.Index
			continue
		}
		tag, ok := sf.Tag.Lookup("yaml")
		name, opts, _ := strings.Cut(tag, ",")
		if !ok || name == "-" || name == "" || strings.Contains(opts, "inline") {
			continue
		}
		info := fieldInfo{index: sf.Index}
		if s := sf.Tag.Get("strict"); s != "" {
			info.rules = strings.Split(s, ",")
			for _, r := range info.rules {
				info.required = info.required || r == "required"
			}
		}
		f.names = append(f.names, name)
		f.at[name] = info
	}
	fieldCache.Store(t, f)
	return f
}

func (d *Decoder) structure(n *yaml.Node, v reflect.Value, field string) {
	if n.Kind != yaml.MappingNode {
		d.Errorf(n, "%swant keys and values, not %s", colon(field), describe(n))
		return
	}
	f := fieldsOf(v.Type())
	if f.line != nil {
		v.FieldByIndex(f.line).SetInt(int64(n.Line))
	}
	seen := 0
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		info, ok := f.at[key.Value]
		if !ok {
			d.Errorf(key, "unknown key %q%s", key.Value, DidYouMean(key.Value, f.names))
			continue
		}
		if info.required {
			seen++
		}
		d.value(n.Content[i+1], v.FieldByIndex(info.index), key.Value, info.rules)
	}
	d.missing(n, f, seen, field)
}

// missing reports required keys that the mapping lacks; seen is how many it has.
func (d *Decoder) missing(n *yaml.Node, f *fields, seen int, field string) {
	for _, name := range f.names {
		if f.at[name].required {
			seen--
		}
	}
	if seen >= 0 {
		return
	}
	for _, name := range f.names {
		if !f.at[name].required {
			continue
		}
		found := false
		for i := 0; i+1 < len(n.Content); i += 2 {
			found = found || n.Content[i].Value == name
		}
		if !found {
			d.Errorf(n, "%skey %q is missing", colon(field), name)
		}
	}
}
