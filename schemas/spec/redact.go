package spec

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Redact returns a copy of config to be shown: the values of secret fields are
// "[hidden]", unless they are purely a reference. So are values anywhere inside
// free-form JSON and under unknown keys whose names sound like secrets. s may be
// nil, then names alone decide.
func Redact(config map[string]any, s *Spec) map[string]any {
	out := make(map[string]any, len(config))
	for key, value := range config {
		out[key] = redactKey(key, value, s)
	}
	return out
}

func redactKey(key string, value any, s *Spec) any {
	f := s.find(key)
	switch {
	case f == nil:
		return redactLoose(key, value)
	case f.Kind == Object && f.Name != key:
		return redactKey(strings.TrimPrefix(key, f.Name+"."), value, f.Object)
	default:
		return f.redact(value)
	}
}

// find is field for dotted entries as well; a nil spec has none.
func (s *Spec) find(key string) *Field {
	if s == nil {
		return nil
	}
	if f := s.field(key); f != nil {
		return f
	}
	for i := range s.fields {
		if s.fields[i].owns(key) {
			return &s.fields[i]
		}
	}
	return nil
}

func (f *Field) redact(value any) any {
	switch {
	case f.Secret:
		return hide(value)
	case f.Kind == Any || f.Kind == Map:
		return redactLoose("", value)
	case f.Kind == Object:
		return redactText(value, func(v any) any {
			if m, ok := v.(map[string]any); ok {
				return Redact(m, f.Object)
			}
			return v
		})
	case f.Kind == List && f.Elem.Kind != String:
		return redactText(value, func(v any) any {
			items, ok := v.([]any)
			if !ok {
				return v
			}
			out := make([]any, len(items))
			for i := range items {
				out[i] = f.Elem.redact(items[i])
			}
			return out
		})
	default:
		return value
	}
}

// hide replaces all text that is not purely a reference.
func hide(value any) any {
	switch v := value.(type) {
	case nil:
		return nil
	case string:
		if v == "" || IsReference(v) {
			return v
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, item := range v {
			out[k] = hide(item)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = hide(v[i])
		}
		return out
	}
	return Hidden
}

// redactText applies redact to a value that may be JSON as text, and keeps it text.
func redactText(value any, redact func(any) any) any {
	raw, isRaw := value.(json.RawMessage)
	text, isText := value.(string)
	if isRaw {
		text = string(raw)
	}
	if !isText && !isRaw {
		return redact(value)
	}
	if trimmed := strings.TrimSpace(text); trimmed == "" || !strings.Contains("{[", trimmed[:1]) {
		return value
	}
	var inner any
	if unmarshalNumbers([]byte(text), &inner) != nil {
		return Hidden // broken JSON may hold anything
	}
	before, err := json.Marshal(inner)
	if err != nil {
		return Hidden
	}
	after, err := json.Marshal(redact(inner))
	switch {
	case err != nil:
		return Hidden
	case string(before) == string(after):
		return value
	case isRaw:
		return json.RawMessage(after)
	default:
		return string(after)
	}
}

func redactLoose(key string, value any) any {
	if soundsSecret(key) {
		return hide(value)
	}
	return redactText(value, func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			out := make(map[string]any, len(v))
			for k, item := range v {
				out[k] = redactLoose(k, item)
			}
			return out
		case []any:
			out := make([]any, len(v))
			for i := range v {
				out[i] = redactLoose(strconv.Itoa(i), v[i])
			}
			return out
		default:
			return v
		}
	})
}

// soundsSecret guesses by the name whether a value should not be shown.
func soundsSecret(key string) bool {
	k := strings.NewReplacer("-", "", "_", "", ".", "").Replace(strings.ToLower(key))
	for _, word := range []string{"password", "passwd", "secret", "token", "apikey", "accesskey", "privatekey", "credential", "authorization", "passphrase"} {
		if strings.Contains(k, word) {
			return true
		}
	}
	return false
}
