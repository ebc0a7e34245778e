package spec

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Kind says how a field's values are written.
type Kind int

// The kinds of fields.
const (
	String Kind = iota
	Bool
	Int
	Float
	Duration
	Size   // Bytes
	List   // of Elem
	Map    // from text to Elem
	Object // described by Object
	Any    // any JSON
)

// Field is one key of a config.
type Field struct {
	Name       string
	Kind       Kind
	Doc        string
	Default    string // as text; see HasDefault
	HasDefault bool
	Required   bool
	Secret     bool
	Enum       []string
	Min, Max   string // as text; "" = not bounded
	Group      string
	Importance string // high, medium or low
	Label      string
	Elem       *Field // of a List or Map: what it holds; its Name is ""
	Object     *Spec  // of an Object

	millis   bool         // plain numbers are milliseconds
	json     bool         // text must be JSON
	typ      reflect.Type // without the pointer
	pointer  bool
	unmarsh  unmarshaler
	index    []int // in the struct
	min, max float64
}

// unmarshaler says whether a type reads itself.
type unmarshaler int

const (
	plain    unmarshaler = iota
	fromText             // encoding.TextUnmarshaler
	fromJSON             // json.Unmarshaler
)

// Spec describes the configs of one or, joined, several structs. It does not
// change and may be shared.
type Spec struct {
	fields []Field // what is documented: of fields of one name the last
	parts  []part
}

// part is one struct and all its fields.
type part struct {
	typ    reflect.Type
	fields []Field
}

// Of reads the description from T, a struct. It panics on malformed tags, on
// fields without doc or json tag and on defaults that do not fit, all of which
// are bugs that any test of the component finds.
func Of[T any]() *Spec { return ofType(reflect.TypeFor[T](), nil) }

// Join makes one spec of a's and b's keys. Where both have a key, b's describes
// it, and each struct still gets its value.
func Join(a, b *Spec) *Spec {
	s := &Spec{parts: slices.Concat(a.parts, b.parts)}
	for _, f := range a.fields {
		if b.field(f.Name) == nil {
			s.fields = append(s.fields, f)
		}
	}
	s.fields = append(s.fields, b.fields...)
	return s
}

// Fields lists the keys in the order of the structs. The slice is the caller's.
func (s *Spec) Fields() []Field { return slices.Clone(s.fields) }

// Names lists the keys' names in the order of the structs.
func (s *Spec) Names() []string {
	names := make([]string, len(s.fields))
	for i := range s.fields {
		names[i] = s.fields[i].Name
	}
	return names
}

// Has reports whether a key belongs to the spec, be it as a field or as an entry
// of a map or struct field ("headers.accept").
func (s *Spec) Has(key string) bool {
	if s.field(key) != nil {
		return true
	}
	for i := range s.fields {
		if s.fields[i].owns(key) {
			return true
		}
	}
	return false
}

func (s *Spec) field(name string) *Field {
	for i := range s.fields {
		if s.fields[i].Name == name {
			return &s.fields[i]
		}
	}
	return nil
}

// owns reports whether key is a dotted entry of a map or struct field.
func (f *Field) owns(key string) bool {
	if f.Kind != Map && f.Kind != Object {
		return false
	}
	rest, ok := strings.CutPrefix(key, f.Name+".")
	return ok && rest != "" && (f.Kind == Map || f.Object.Has(rest))
}

func ofType(t reflect.Type, outer []reflect.Type) *Spec {
	if t.Kind() != reflect.Struct {
		panic(fmt.Sprintf("spec: %v is not a struct", t))
	}
	if slices.Contains(outer, t) {
		panic(fmt.Sprintf("spec: %v contains itself: use json.RawMessage for the inner one", t))
	}
	p := part{typ: t}
	addFields(&p, t, nil, append(outer, t))
	seen := map[string]bool{}
	for _, f := range p.fields {
		if seen[f.Name] {
			panic(fmt.Sprintf("spec: %v has two fields for the key %q", t, f.Name))
		}
		seen[f.Name] = true
	}
	return &Spec{fields: p.fields, parts: []part{p}}
}

func addFields(p *part, t reflect.Type, index []int, outer []reflect.Type) {
	for i := range t.NumField() {
		sf := t.Field(i)
		at := slices.Concat(index, []int{i})
		name, _, _ := strings.Cut(sf.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case sf.Anonymous && name == "" && sf.Type.Kind() == reflect.Struct:
			addFields(p, sf.Type, at, outer)
		case !sf.IsExported():
		default:
			p.fields = append(p.fields, newField(sf, name, at, outer, fmt.Sprintf("spec: %v.%s: ", t, sf.Name)))
		}
	}
}

// newField reads one struct field; where starts every panic's text.
func newField(sf reflect.StructField, name string, index []int, outer []reflect.Type, where string) Field {
	f := Field{Name: name, Doc: sf.Tag.Get("doc"), Group: "General", Importance: "medium", Label: label(name), index: index}
	if name == "" || f.Doc == "" {
		panic(where + "needs a json tag with the key and a doc tag with a sentence about it")
	}
	f.setType(sf.Type, outer, where)
	f.Default, f.HasDefault = sf.Tag.Lookup("default")
	for option := range strings.SplitSeq(sf.Tag.Get("spec"), ",") {
		if option != "" {
			f.setOption(option, where)
		}
	}
	if f.Elem != nil {
		f.Elem.Enum, f.Elem.Secret = f.Enum, f.Secret || f.Elem.Secret
		f.Secret = f.Elem.Secret
	}
	for _, bound := range []struct {
		text string
		to   *float64
	}{{f.Min, &f.min}, {f.Max, &f.max}} {
		if bound.text == "" {
			continue
		}
		n, err := f.number(bound.text)
		if err != nil {
			panic(where + "bound " + err.Error())
		}
		*bound.to = n
	}
	if f.HasDefault {
		if _, problems := f.convert(f.Default, name, true); len(problems) > 0 {
			panic(where + "default " + problems[0].String())
		}
		if f.Required {
			panic(where + "is required and has a default")
		}
	}
	return f
}

func (f *Field) setOption(option, where string) {
	key, value, _ := strings.Cut(option, "=")
	ok := value != ""
	switch key {
	case "required":
		f.Required, ok = true, value == ""
	case "secret":
		f.Secret, ok = true, value == ""
	case "ms":
		f.millis, ok = true, f.Kind == Duration
	case "json":
		f.json, ok = true, f.Kind == Any
	case "enum":
		f.Enum = strings.Split(value, "|")
		ok = ok && (f.Kind == String || f.Kind == List && f.Elem.Kind == String)
	case "min":
		f.Min = value
	case "max":
		f.Max = value
	case "group":
		f.Group = value
	case "importance":
		f.Importance = value
		ok = slices.Contains([]string{"high", "medium", "low"}, value)
	case "label":
		f.Label = value
	default:
		ok = false
	}
	if !ok {
		panic(fmt.Sprintf("%sthe spec option %q is unknown or does not fit the field", where, option))
	}
}

func (f *Field) setType(t reflect.Type, outer []reflect.Type, where string) {
	if t.Kind() == reflect.Pointer {
		f.pointer, t = true, t.Elem()
	}
	f.typ = t
	pt := reflect.PointerTo(t)
	switch {
	case t == reflect.TypeFor[time.Duration]():
		f.Kind = Duration
	case t == reflect.TypeFor[Bytes]():
		f.Kind = Size
	case t == reflect.TypeFor[Secret]():
		f.Kind, f.Secret = String, true
	case t == reflect.TypeFor[json.RawMessage](), t.Kind() == reflect.Interface && t.NumMethod() == 0:
		f.Kind = Any
	case pt.Implements(reflect.TypeFor[json.Unmarshaler]()):
		f.Kind, f.unmarsh = Any, fromJSON
	case pt.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		f.Kind, f.unmarsh = String, fromText
	default:
		f.setKind(t, outer, where)
	}
}

func (f *Field) setKind(t reflect.Type, outer []reflect.Type, where string) {
	switch k := t.Kind(); {
	case k == reflect.String:
		f.Kind = String
	case k == reflect.Bool:
		f.Kind = Bool
	case k >= reflect.Int && k <= reflect.Int64, k >= reflect.Uint && k <= reflect.Uint32:
		f.Kind = Int
	case k == reflect.Float32, k == reflect.Float64:
		f.Kind = Float
	case k == reflect.Slice:
		f.Kind, f.Elem = List, &Field{}
		f.Elem.setType(t.Elem(), outer, where)
	case k == reflect.Map:
		if t.Key().Kind() != reflect.String {
			panic(where + "a map's keys must be strings")
		}
		f.Kind, f.Elem = Map, &Field{}
		f.Elem.setType(t.Elem(), outer, where)
	case k == reflect.Struct:
		f.Kind, f.Object = Object, ofType(t, outer)
	default:
		panic(fmt.Sprintf("%s%v is not a type for config", where, t))
	}
}

// label makes "Database hostname" of "database.hostname".
func label(name string) string {
	words := strings.NewReplacer(".", " ", "_", " ", "-", " ").Replace(name)
	if words == "" {
		return ""
	}
	return strings.ToUpper(words[:1]) + words[1:]
}
