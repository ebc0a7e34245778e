package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Decode fills out, a pointer to the struct the spec was made of (of a joined
// spec: to any of its structs), from config, whose values are JSON values or
// text. Keys that are missing or null take their defaults. All keys are checked,
// those of the other joined structs too; unknown keys are problems. The error is
// an *Error with every problem, and then out is not changed.
//
// Values with an unresolved reference (see Resolve) are taken as they are by text
// fields and pass all checks elsewhere.
func (s *Spec) Decode(config map[string]any, out any) error {
	v := reflect.ValueOf(out)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		panic(fmt.Sprintf("spec: Decode needs a pointer to a struct, not %T", out))
	}
	if !slices.ContainsFunc(s.parts, func(p part) bool { return p.typ == v.Elem().Type() }) {
		panic(fmt.Sprintf("spec: Decode into %T, which the spec does not describe", out))
	}
	var problems []Problem
	var made reflect.Value
	for _, p := range s.parts {
		filled := reflect.New(p.typ).Elem()
		problems = append(problems, decodeFields(p.fields, config, "", filled)...)
		if p.typ == v.Elem().Type() {
			made = filled
		}
	}
	problems = append(problems, s.unknown(config, "")...)
	if len(problems) > 0 {
		return &Error{Problems: dedupe(problems)}
	}
	v.Elem().Set(made)
	return nil
}

// Check returns what Decode would complain of, as an *Error.
func (s *Spec) Check(config map[string]any) error {
	var problems []Problem
	for _, p := range s.parts {
		problems = append(problems, decodeFields(p.fields, config, "", reflect.New(p.typ).Elem())...)
	}
	problems = append(problems, s.unknown(config, "")...)
	if len(problems) > 0 {
		return &Error{Problems: dedupe(problems)}
	}
	return nil
}

// dedupe drops what two joined structs with one key both complain of.
func dedupe(problems []Problem) []Problem {
	var out []Problem
	for _, p := range problems {
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

func (s *Spec) unknown(config map[string]any, path string) []Problem {
	var problems []Problem
	for _, key := range slices.Sorted(maps.Keys(config)) {
		if !s.Has(key) {
			problems = append(problems, Problem{Path: path + key, Msg: "unknown key" + didYouMean(key, s.Names())})
		}
	}
	return problems
}

// decodeObject fills a nested struct.
func (s *Spec) decodeObject(config map[string]any, path string, into reflect.Value) []Problem {
	problems := decodeFields(s.fields, config, path+".", into)
	return append(problems, s.unknown(config, path+".")...)
}

// decodeFields fills the struct into; prefix stands before the keys in problems.
func decodeFields(fields []Field, config map[string]any, prefix string, into reflect.Value) []Problem {
	var problems []Problem
	for i := range fields {
		f := &fields[i]
		value, found := f.lookup(config)
		text := false
		if !found && f.HasDefault {
			value, found, text = f.Default, true, true
		}
		dst := into.FieldByIndex(f.index)
		if !found {
			switch {
			case f.Required:
				problems = append(problems, Problem{Path: prefix + f.Name, Msg: "is required: " + f.Doc})
			case f.Kind == Object && !f.pointer:
				f.Object.defaults(dst)
			}
			continue
		}
		v, bad := f.convert(value, prefix+f.Name, text)
		if len(bad) == 0 && f.Required && empty(v) {
			bad = []Problem{{Path: prefix + f.Name, Msg: "is required and must not be empty: " + f.Doc}}
		}
		if len(bad) > 0 {
			problems = append(problems, bad...)
			continue
		}
		if v.IsValid() {
			f.assign(dst, v)
		}
	}
	return problems
}

// defaults fills a struct that config says nothing of; what it requires matters
// only once it is there.
func (s *Spec) defaults(into reflect.Value) {
	for i := range s.fields {
		f := &s.fields[i]
		dst := into.FieldByIndex(f.index)
		switch {
		case f.HasDefault:
			if v, _ := f.convert(f.Default, f.Name, true); v.IsValid() {
				f.assign(dst, v)
			}
		case f.Kind == Object && !f.pointer:
			f.Object.defaults(dst)
		}
	}
}

func (f *Field) assign(dst, v reflect.Value) {
	if f.pointer {
		p := reflect.New(f.typ)
		p.Elem().Set(v)
		v = p
	}
	dst.Set(v)
}

// empty tells an empty string, list or map from a value; an unresolved reference
// (no value yet) is not empty.
func empty(v reflect.Value) bool {
	if !v.IsValid() {
		return false
	}
	k := v.Kind()
	return (k == reflect.String || k == reflect.Slice || k == reflect.Map) && v.Len() == 0
}

// lookup finds the field's value, dotted entries of maps and structs included;
// null counts as missing.
func (f *Field) lookup(config map[string]any) (any, bool) {
	value, found := config[f.Name]
	found = found && value != nil
	if f.Kind != Map && f.Kind != Object {
		return value, found
	}
	entries := map[string]any{}
	for key, v := range config {
		if f.owns(key) && v != nil {
			entries[strings.TrimPrefix(key, f.Name+".")] = v
		}
	}
	if len(entries) == 0 {
		return value, found
	}
	if found {
		base, ok := object(value)
		if !ok {
			return value, true // convert says what is wrong with it
		}
		for k, v := range base {
			if _, dotted := entries[k]; !dotted {
				entries[k] = v
			}
		}
	}
	return entries, true
}

// object reads a JSON object, given as such or as text.
func object(v any) (map[string]any, bool) {
	switch v := v.(type) {
	case map[string]any:
		return v, true
	case map[string]string:
		return FromStrings(v), true
	case string:
		var m map[string]any
		return m, unmarshalNumbers([]byte(v), &m) == nil && m != nil
	case json.RawMessage:
		var m map[string]any
		return m, unmarshalNumbers(v, &m) == nil && m != nil
	}
	return nil, false
}

// unmarshalNumbers is json.Unmarshal that keeps numbers exact.
func unmarshalNumbers(b []byte, into any) error {
	if !json.Valid(b) { // a Decoder would not see what follows the first value
		return json.Unmarshal(b, into)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	return d.Decode(into)
}
