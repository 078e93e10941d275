// Package strictyaml reads hand-written YAML without surprises: one document, known keys only, no key twice, no
// anchors, aliases, merge keys or tags of the writer's own, whole numbers where whole numbers belong, no NaN, infinity or
// negative number unless a field allows it. All problems are reported at once, each with file and line, and a misspelt
// key with the key that was probably meant.
//
// A document type is a struct with yaml tags:
//
//	type node struct {
//		Hosts string  `yaml:"hosts" strict:"required"`
//		Rank  int     `yaml:"rank" strict:"min=0,max=100"`
//		Shift int     `yaml:"shift" strict:"negative"`
//		Share float64 `yaml:"share"`
//	}
//
//	var n node
//	err := strictyaml.Read(r, "nodes.yaml", strictyaml.HandWritten, &n)
//
// Fields may be strings, bools, integers, floats, structs, pointers to those, slices, maps with string keys, anything
// with UnmarshalText, and anything that implements Unmarshaler. Without yaml tags a field is not read, except an int tagged
// strict:"line", which receives the line of its struct.
package strictyaml
