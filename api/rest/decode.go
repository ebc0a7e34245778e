package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"millrace/bus/event"
)

// Decode reads the body into a struct, strictly: an unknown key, a wrong type,
// something after the document or no JSON at all is an *Error that names the
// field.
func (r *Request) Decode(into any) error {
	if err := r.wantJSON(); err != nil {
		return err
	}
	return Strict("", r.Body, into)
}

// DecodeOptional is Decode where no body at all leaves into as it is.
func (r *Request) DecodeOptional(into any) error {
	if len(bytes.TrimSpace(r.Body)) == 0 {
		return nil
	}
	return r.Decode(into)
}

// Object reads a body that must be a JSON object, as it stands.
func (r *Request) Object() (json.RawMessage, error) {
	if err := r.wantJSON(); err != nil {
		return nil, err
	}
	v, err := parse("", r.Body)
	if err != nil {
		return nil, err
	}
	if _, ok := v.(map[string]any); !ok {
		return nil, Of(http.StatusBadRequest, "body", "the body is %s: send a JSON object", kindOf(v))
	}
	return r.Body, nil
}

func (r *Request) wantJSON() error {
	ct := r.Header.Get("Content-Type")
	if !event.IsJSON(ct) {
		mt, _, err := mime.ParseMediaType(ct)
		if err != nil {
			mt = ct
		}
		return Fail(http.StatusUnsupportedMediaType, "Content-Type", "%q is not JSON: send application/json", mt)
	}
	if len(bytes.TrimSpace(r.Body)) == 0 {
		return Of(http.StatusBadRequest, "body", "the body is empty: send a JSON object")
	}
	return nil
}

// Strict decodes one JSON document that stands at path into the value that into
// points to. A null is as good as nothing, except as the whole document. Maps, json.RawMessage and types with their own UnmarshalJSON take
// what they get; structs refuse keys that they do not have.
func Strict(path string, doc []byte, into any) error {
	v, err := parse(path, doc)
	if err != nil {
		return err
	}
	t := reflect.TypeOf(into).Elem()
	if v == nil {
		return Bad(path, "is null, a JSON value is wanted")
	}
	if err := check(path, v, t); err != nil {
		return err
	}
	if err := json.Unmarshal(doc, into); err != nil {
		if te, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return Bad(Join(path, te.Field), "%s does not fit here", te.Value)
		}
		return Bad(path, "%v", err)
	}
	return nil
}

// Lenient decodes a JSON document into a struct, ignoring keys that it does not
// have.
func Lenient(doc []byte, into any) error {
	err := json.Unmarshal(doc, into)
	if te, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return Bad(te.Field, "is %s, which does not fit here", te.Value)
	}
	return err
}

func parse(path string, doc []byte) (any, error) {
	bad := func(format string, args ...any) error {
		if path == "" {
			return Of(http.StatusBadRequest, "body", format, args...)
		}
		return Bad(path, format, args...)
	}
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	var v any
	err := dec.Decode(&v)
	if err == nil {
		_, err = dec.Token()
		if errors.Is(err, io.EOF) {
			return v, nil
		}
		return nil, bad("the JSON has more after its end, at byte %d", dec.InputOffset())
	}
	var se *json.SyntaxError
	switch {
	case errors.As(err, &se):
		return nil, bad("the body is not JSON: %v at byte %d", se, se.Offset)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, bad("the body is not JSON: it ends in the middle, at byte %d", len(doc))
	default:
		return nil, bad("the body is not JSON: %v", err)
	}
}

// check walks a parsed document beside the type it is to become.
func check(path string, v any, t reflect.Type) error {
	if v == nil {
		return nil
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.Interface {
		return nil
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return checkOwn(path, v, t)
	}
	switch kind := t.Kind(); {
	case kind == reflect.Struct:
		m, ok := v.(map[string]any)
		if !ok {
			return Bad(path, "is %s, an object is wanted", kindOf(v))
		}
		return checkKeys(path, m, t)
	case kind == reflect.Slice:
		list, ok := v.([]any)
		if !ok {
			return Bad(path, "is %s, an array is wanted", kindOf(v))
		}
		for i, x := range list {
			if err := check(fmt.Sprintf("%s[%d]", path, i), x, t.Elem()); err != nil {
				return err
			}
		}
	case kind == reflect.Map:
		m, ok := v.(map[string]any)
		if !ok {
			return Bad(path, "is %s, an object is wanted", kindOf(v))
		}
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if err := check(Join(path, k), m[k], t.Elem()); err != nil {
				return err
			}
		}
	case kind == reflect.String:
		if _, ok := v.(string); !ok {
			return Bad(path, "is %s, a string is wanted", kindOf(v))
		}
	case kind == reflect.Bool:
		if _, ok := v.(bool); !ok {
			return Bad(path, "is %s, true or false is wanted", kindOf(v))
		}
	case isWhole(kind):
		return checkInt(path, v, t)
	}
	return nil
}

func isWhole(k reflect.Kind) bool {
	return k == reflect.Int || k == reflect.Int32 || k == reflect.Int64 || k == reflect.Uint64
}

// checkOwn lets a type that reads itself say what is wrong.
func checkOwn(path string, v any, t reflect.Type) error {
	if t == reflect.TypeFor[json.RawMessage]() {
		return nil
	}
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, reflect.New(t).Interface())
	}
	if err != nil {
		return Bad(path, "%v", err)
	}
	return nil
}

func checkKeys(path string, m map[string]any, t reflect.Type) error {
	known := make(map[string]reflect.Type, t.NumField())
	names := make([]string, 0, t.NumField())
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		known[name] = f.Type
		names = append(names, name)
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		ft, ok := known[k]
		if !ok {
			return Bad(Join(path, k), "is not known here%s", Suggest(k, names))
		}
		if err := check(Join(path, k), m[k], ft); err != nil {
			return err
		}
	}
	return nil
}

func checkInt(path string, v any, t reflect.Type) error {
	n, ok := v.(json.Number)
	if !ok {
		return Bad(path, "is %s, a whole number is wanted", kindOf(v))
	}
	i, err := n.Int64()
	low := int64(math.MinInt64)
	if t.Kind() == reflect.Uint64 {
		low = 0
	}
	if err != nil || i < low || t.Kind() == reflect.Int32 && int64(int32(i)) != i {
		return Bad(path, "%s is not a whole number within range", n)
	}
	return nil
}

func kindOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return "the number " + v.String()
	case string:
		return "a string"
	case []any:
		return "an array"
	default:
		return "an object"
	}
}
