package spec

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Key is a field as Kafka Connect's REST API shows it ("definition").
type Key struct {
	Name          string   `json:"name"`
	Type          string   `json:"type"` // STRING INT LONG DOUBLE BOOLEAN LIST PASSWORD CLASS
	Required      bool     `json:"required"`
	Default       *string  `json:"default_value"`
	Importance    string   `json:"importance"` // HIGH MEDIUM LOW
	Documentation string   `json:"documentation"`
	Group         string   `json:"group"`
	Width         string   `json:"width"` // SHORT MEDIUM LONG
	DisplayName   string   `json:"display_name"`
	Dependents    []string `json:"dependents"`
	Order         int      `json:"order"`
}

// KeyResult is one key of a validated config as Kafka Connect's REST API shows it.
type KeyResult struct {
	Definition *Key     `json:"definition"` // nil for an unknown key
	Value      KeyValue `json:"value"`
}

// KeyValue is the value part of a KeyResult.
type KeyValue struct {
	Name        string   `json:"name"`
	Value       *string  `json:"value"` // secrets hidden; nil where there is none
	Recommended []string `json:"recommended_values"`
	Errors      []string `json:"errors"`
	Visible     bool     `json:"visible"`
}

// Keys lists all keys in the form of Connect's ConfigDef.
func (s *Spec) Keys() []Key {
	keys := make([]Key, len(s.fields))
	orders := map[string]int{}
	for i := range s.fields {
		f := &s.fields[i]
		orders[f.Group]++
		keys[i] = Key{
			Name: f.Name, Type: f.connectType(), Required: f.Required, Importance: strings.ToUpper(f.Importance),
			Documentation: f.Doc, Group: f.Group, Width: f.width(), DisplayName: f.Label,
			Dependents: []string{}, Order: orders[f.Group],
		}
		if f.HasDefault && !f.Secret {
			keys[i].Default = &f.Default
		}
	}
	return keys
}

func (f *Field) connectType() string {
	switch {
	case f.Secret:
		return "PASSWORD"
	case strings.HasSuffix(f.Name, ".class"):
		return "CLASS"
	}
	switch f.Kind {
	case Bool:
		return "BOOLEAN"
	case Int:
		if f.typ.Bits() <= 32 || f.Max != "" && f.max <= 1<<31-1 {
			return "INT"
		}
		return "LONG"
	case Float:
		return "DOUBLE"
	case Duration:
		if f.millis {
			return "LONG"
		}
	case List:
		if f.Elem.Kind != Object && f.Elem.Kind != Any {
			return "LIST"
		}
	case String, Size, Map, Object, Any:
	}
	return "STRING"
}

func (f *Field) width() string {
	switch f.Kind {
	case Bool, Int, Float, Duration, Size:
		return "SHORT"
	case String:
		return "MEDIUM"
	case List, Map, Object, Any:
	}
	return "LONG"
}

// Validate checks config like Decode and returns a result for every key of the
// spec, then for every unknown key, with what is wrong with it.
func (s *Spec) Validate(config map[string]any) []KeyResult {
	problems := map[string][]string{}
	var all *Error
	if !errors.As(s.Check(config), &all) {
		all = &Error{}
	}
	for _, p := range all.Problems {
		key := s.keyOf(p.Path)
		msg := p.Msg
		if rest := strings.TrimPrefix(p.Path, key); rest != "" {
			msg = strings.TrimPrefix(rest, ".") + ": " + msg
		}
		if !slices.Contains(problems[key], msg) {
			problems[key] = append(problems[key], msg)
		}
	}
	shown := Redact(config, s)
	var out []KeyResult
	keys := s.Keys()
	for i := range keys {
		f := &s.fields[i]
		value, found := f.lookup(shown)
		v := KeyValue{Name: f.Name, Recommended: []string{}, Errors: nonNil(problems[f.Name]), Visible: true}
		v.Recommended = append(v.Recommended, f.Enum...)
		if f.Kind == Bool {
			v.Recommended = append(v.Recommended, "true", "false")
		}
		switch {
		case found:
			text := flatText(value)
			v.Value = &text
		case f.HasDefault:
			v.Value = &f.Default
		}
		out = append(out, KeyResult{Definition: &keys[i], Value: v})
	}
	for _, key := range slices.Sorted(maps.Keys(config)) {
		if !s.Has(key) {
			text := flatText(shown[key])
			out = append(out, KeyResult{Value: KeyValue{
				Name: key, Value: &text, Recommended: []string{}, Errors: nonNil(problems[key]), Visible: true,
			}})
		}
	}
	return out
}

// keyOf finds the key of the spec that a problem's path is in.
func (s *Spec) keyOf(path string) string {
	best := ""
	for i := range s.fields {
		rest, ok := strings.CutPrefix(path, s.fields[i].Name)
		if ok && (rest == "" || rest[0] == '.' || rest[0] == '[') && len(s.fields[i].Name) > len(best) {
			if rest == "" || s.fields[i].Kind == Map || s.fields[i].Kind == Object || s.fields[i].Kind == List {
				best = s.fields[i].Name
			}
		}
	}
	if best == "" {
		return path
	}
	return best
}

func nonNil(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// flatText writes a value as a flat config holds it.
func flatText(value any) string {
	if s, ok := toText(value); ok {
		return s
	}
	b, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(b)
}

// Flatten writes config as Kafka Connect does, every value as text: JSON values
// that are not text as JSON. Nulls are left out.
func Flatten(config map[string]any) map[string]string {
	out := make(map[string]string, len(config))
	for key, value := range config {
		if value != nil {
			out[key] = flatText(value)
		}
	}
	return out
}
