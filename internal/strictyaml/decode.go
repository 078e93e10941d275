package strictyaml

import (
	"encoding"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// maxProblems caps how many problems one error lists.
const maxProblems = 20

// Decoder collects the problems of one document.
type Decoder struct {
	name string
	errs []lineError
}

type lineError struct {
	line int
	err  error
}

// Unmarshaler is implemented by types that read themselves from a node; they report problems with d.Errorf.
type Unmarshaler interface {
	UnmarshalStrict(d *Decoder, n *yaml.Node)
}

// Read parses one document of at most limit bytes into a pointer.
func Read(r io.Reader, name string, limit int64, into any) error {
	n, err := Parse(r, name, limit)
	if err != nil {
		return err
	}
	return Decode(n, name, into)
}

// Decode reads a parsed node into a pointer. Fields that the document does not mention keep their values.
func Decode(n *yaml.Node, name string, into any) error {
	d := &Decoder{name: name}
	d.Value(n, into)
	return d.Err()
}

// NewDecoder makes a Decoder for callers that walk nodes themselves.
func NewDecoder(name string) *Decoder { return &Decoder{name: name} }

// Value reads a node into a pointer.
func (d *Decoder) Value(n *yaml.Node, into any) {
	d.value(n, reflect.ValueOf(into).Elem(), "", nil)
}

// Errorf notes a problem at a node.
func (d *Decoder) Errorf(n *yaml.Node, format string, args ...any) {
	d.errs = append(d.errs, lineError{n.Line, fmt.Errorf("%s:%d: "+format, append([]any{d.name, n.Line}, args...)...)})
}

// Err returns the problems in the order of the lines, at most 20.
func (d *Decoder) Err() error {
	if len(d.errs) == 0 {
		return nil
	}
	sort.SliceStable(d.errs, func(i, j int) bool { return d.errs[i].line < d.errs[j].line })
	var all []error
	for i, e := range d.errs {
		if i == maxProblems {
			all = append(all, fmt.Errorf("%s: and %d more problems", d.name, len(d.errs)-maxProblems))
			break
		}
		all = append(all, e.err)
	}
	return errors.Join(all...)
}

var (
	wholeNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)
	textType    = reflect.TypeFor[encoding.TextUnmarshaler]()
	strictType  = reflect.TypeFor[Unmarshaler]()
	nodeType    = reflect.TypeFor[yaml.Node]()
)

// value reads n into v. field names it in errors; rules are the field's strict tag.
func (d *Decoder) value(n *yaml.Node, v reflect.Value, field string, rules []string) {
	if v.Type() == nodeType {
		v.Set(reflect.ValueOf(*n))
		return
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		d.value(n, v.Elem(), field, rules)
		return
	}
	if v.CanAddr() && v.Addr().Type().Implements(strictType) {
		v.Addr().Interface().(Unmarshaler).UnmarshalStrict(d, n)
		return
	}
	if v.CanAddr() && v.Addr().Type().Implements(textType) {
		if s, ok := d.scalar(n, field, "text"); ok {
			if err := v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(s)); err != nil {
				d.Errorf(n, "%s%w", colon(field), err)
			}
		}
		return
	}
	switch v.Kind() {
	case reflect.String:
		if s, ok := d.scalar(n, field, "text"); ok {
			v.SetString(s)
		}
	case reflect.Bool:
		if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" {
			d.Errorf(n, "%swant true or false, not %s", colon(field), describe(n))
			return
		}
		v.SetBool(strings.EqualFold(n.Value, "true"))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		d.integer(n, v, field, rules)
	case reflect.Float64, reflect.Float32:
		d.float(n, v, field, rules)
	case reflect.Slice:
		d.slice(n, v, field, rules)
	case reflect.Map:
		d.mapping(n, v, field, rules)
	case reflect.Struct:
		d.structure(n, v, field)
	default:
		panic(fmt.Sprintf("strictyaml: field %s has type %s, which documents cannot hold", field, v.Type()))
	}
}

func (d *Decoder) scalar(n *yaml.Node, field, want string) (string, bool) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		d.Errorf(n, "%swant %s, not %s", colon(field), want, describe(n))
		return "", false
	}
	return n.Value, true
}

func (d *Decoder) integer(n *yaml.Node, v reflect.Value, field string, rules []string) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" && n.Tag != "!!float" || n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
		d.Errorf(n, "%swant a whole number, not %s", colon(field), describe(n))
		return
	}
	if !wholeNumber.MatchString(n.Value) {
		d.Errorf(n, "%swant a whole number in plain decimal digits, not %s", colon(field), n.Value)
		return
	}
	i, err := strconv.ParseInt(n.Value, 10, 64)
	if err != nil || v.OverflowInt(i) {
		d.Errorf(n, "%s%s is out of range", colon(field), n.Value)
		return
	}
	lo, hi := limits(rules, 0, math.MaxInt64)
	if float64(i) < lo || float64(i) > hi {
		d.Errorf(n, "%s%d, want %s", colon(field), i, wanted(lo, hi))
		return
	}
	v.SetInt(i)
}

func (d *Decoder) float(n *yaml.Node, v reflect.Value, field string, rules []string) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" && n.Tag != "!!float" {
		d.Errorf(n, "%swant a number, not %s", colon(field), describe(n))
		return
	}
	f, err := strconv.ParseFloat(n.Value, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) || strings.ContainsAny(n.Value, "xX_") {
		d.Errorf(n, "%swant a finite number, not %s", colon(field), n.Value)
		return
	}
	lo, hi := limits(rules, 0, math.Inf(1))
	if f < lo || f > hi {
		d.Errorf(n, "%s%s, want %s", colon(field), n.Value, wanted(lo, hi))
		return
	}
	v.SetFloat(f)
}

func (d *Decoder) slice(n *yaml.Node, v reflect.Value, field string, rules []string) {
	if n.Kind != yaml.SequenceNode {
		d.Errorf(n, "%swant a list, not %s", colon(field), describe(n))
		return
	}
	out := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, c := range n.Content {
		d.value(c, out.Index(i), field, rules)
	}
	v.Set(out)
}

func (d *Decoder) mapping(n *yaml.Node, v reflect.Value, field string, rules []string) {
	if n.Kind != yaml.MappingNode {
		d.Errorf(n, "%swant keys and values, not %s", colon(field), describe(n))
		return
	}
	out := reflect.MakeMapWithSize(v.Type(), len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		e := reflect.New(v.Type().Elem()).Elem()
		d.value(n.Content[i+1], e, field+"."+n.Content[i].Value, rules)
		out.SetMapIndex(reflect.ValueOf(n.Content[i].Value).Convert(v.Type().Key()), e)
	}
	v.Set(out)
}

// describe says in words what a node holds.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "keys and values"
	case yaml.SequenceNode:
		return "a list"
	}
	if n.Tag == "!!null" {
		return "nothing"
	}
	if len(n.Value) > 40 {
		return strconv.Quote(n.Value[:40]) + "..."
	}
	return strconv.Quote(n.Value)
}

func colon(field string) string {
	if field == "" {
		return ""
	}
	return field + ": "
}

// limits reads min, max and negative from a strict tag.
func limits(rules []string, lo, hi float64) (float64, float64) {
	for _, r := range rules {
		name, val, _ := strings.Cut(r, "=")
		f, err := strconv.ParseFloat(val, 64)
		switch {
		case name == "negative":
			lo = math.Inf(-1)
		case err != nil:
		case name == "min":
			lo = f
		case name == "max":
			hi = f
		}
	}
	return lo, hi
}

func wanted(lo, hi float64) string {
	switch {
	case hi >= math.MaxInt64:
		return "at least " + strconv.FormatFloat(lo, 'f', -1, 64)
	case math.IsInf(lo, -1):
		return "at most " + strconv.FormatFloat(hi, 'f', -1, 64)
	}
	return strconv.FormatFloat(lo, 'f', -1, 64) + " to " + strconv.FormatFloat(hi, 'f', -1, 64)
}
