package transforms

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"millrace/bus/event"
)

// appendValue appends what an expression gave as JSON. Maps get their keys
// sorted; NaN and infinity are errors.
func appendValue(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case string:
		return event.AppendQuoted(dst, v), nil
	case int:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(dst, v, 10), nil
	case float64:
		return appendFloat(dst, v)
	case json.Number:
		return append(dst, v...), nil
	case time.Time:
		return event.AppendQuoted(dst, v.UTC().Format(time.RFC3339Nano)), nil
	case time.Duration:
		return event.AppendQuoted(dst, v.String()), nil
	case []any:
		return appendList(dst, v)
	case []string:
		return appendList(dst, v)
	case map[string]any:
		dst = append(dst, '{')
		for i, key := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(event.AppendQuoted(dst, key), ':')
			var err error
			if dst, err = appendValue(dst, v[key]); err != nil {
				return dst, err
			}
		}
		return append(dst, '}'), nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return dst, fmt.Errorf("the expression gives a %T, which JSON cannot say", v)
	}
	return append(dst, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...), nil
}

func appendList[T any](dst []byte, list []T) ([]byte, error) {
	dst = append(dst, '[')
	for i, v := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendValue(dst, v); err != nil {
			return dst, err
		}
	}
	return append(dst, ']'), nil
}

// appendFloat writes as encoding/json does: the shortest text that is exact.
func appendFloat(dst []byte, f float64) ([]byte, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return dst, fmt.Errorf("the expression gives %v, which JSON cannot say", f)
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, f, format, -1, 64), nil
}

// attrValue is a value on its way into an attribute; absent removes it.
type attrValue struct {
	text   string
	kind   event.Kind
	absent bool
}

var errNotScalar = errors.New("an attribute holds text, a boolean or a number, not an object or a list")

// attrOfJSON reads JSON text as an attribute's value.
func attrOfJSON(raw []byte) (attrValue, error) {
	switch raw[0] {
	case 'n':
		return attrValue{absent: true}, nil
	case '"':
		s, err := event.Unquote(raw)
		return attrValue{text: s}, err
	case 't', 'f':
		return attrValue{text: string(raw), kind: event.Bool}, nil
	case '{', '[':
		return attrValue{}, errNotScalar
	}
	return numberAttr(string(raw)), nil
}

// numberAttr is an Int where CloudEvents has one for it, else text.
func numberAttr(text string) attrValue {
	if n, err := strconv.ParseInt(text, 10, 32); err == nil {
		return attrValue{text: strconv.FormatInt(n, 10), kind: event.Int}
	}
	return attrValue{text: text}
}

// attrOf takes what an expression gave as an attribute's value.
func attrOf(v any) (attrValue, error) {
	switch v := v.(type) {
	case nil:
		return attrValue{absent: true}, nil
	case string:
		return attrValue{text: v}, nil
	case bool:
		return attrValue{text: strconv.FormatBool(v), kind: event.Bool}, nil
	case time.Time:
		return attrValue{text: v.UTC().Format(time.RFC3339Nano)}, nil
	case time.Duration:
		return attrValue{text: v.String()}, nil
	case int, int64, float64, json.Number:
		b, err := appendValue(nil, v)
		return numberAttr(string(b)), err
	}
	return attrValue{}, errNotScalar
}

// setAttr returns e with an attribute set or removed. The caller names it in errors.
func setAttr(e event.Event, name string, v attrValue) (event.Event, error) {
	if (v.absent || v.text == "") && (name == "source" || name == "type") {
		return e, errors.New("is required and cannot become empty")
	}
	if name == "datacontenttype" && len(e.Data) > 0 && !v.absent && event.IsJSON(v.text) && !e.JSON() {
		if err := event.CheckJSON(e.Data); err != nil {
			return e, fmt.Errorf("cannot become %q: data is %w", v.text, err)
		}
	}
	if !v.absent && !coreAttribute(name) {
		return e.With(event.Attr{Name: name, Value: v.text, Kind: v.kind}), nil
	}
	set, err := e.Set(name, v.text)
	if fe := (*event.FieldError)(nil); errors.As(err, &fe) {
		err = errors.New(fe.Problem) // the caller names the field
	}
	return set, err
}

// getAttr returns an attribute as JSON text: extensions keep their kind.
func getAttr(dst []byte, e *event.Event, name string) (out []byte, found bool) {
	if !coreAttribute(name) {
		for i := range e.Ext {
			if a := &e.Ext[i]; a.Name == name {
				if v := a.Value; a.Kind == event.Bool && (v == "true" || v == "false") || a.Kind == event.Int && isInt(v) {
					return append(dst, v...), true
				}
				return event.AppendQuoted(dst, a.Value), true
			}
		}
		return dst, false
	}
	v, ok := e.Get(name)
	if !ok {
		return dst, false
	}
	return event.AppendQuoted(dst, v), true
}

func isInt(s string) bool {
	n, err := strconv.ParseInt(s, 10, 64)
	return err == nil && strconv.FormatInt(n, 10) == s
}

// needJSON says why a step cannot work on data, or nil.
func needJSON(e *event.Event) error {
	switch {
	case !e.JSON():
		return fmt.Errorf("data must be JSON, but datacontenttype is %q", e.ContentType)
	case skipSpace(e.Data, 0) == len(e.Data):
		return errors.New("data must be JSON, but it is empty")
	}
	return nil
}
