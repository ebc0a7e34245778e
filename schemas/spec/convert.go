package spec

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// convert makes a value of the field's type. An invalid value without problems is
// an unresolved reference. builtin marks a default, which may be anything that
// text can say.
func (f *Field) convert(value any, path string, builtin bool) (reflect.Value, []Problem) {
	if raw, ok := value.(json.RawMessage); ok && f.Kind != Any {
		value = nil
		if err := unmarshalNumbers(raw, &value); err != nil {
			return reflect.Value{}, problem(path, "is not valid JSON: "+err.Error())
		}
	}
	text, isText := value.(string)
	if isText && hasReference(text) && (f.Kind != String || len(f.Enum) > 0 || f.unmarsh == fromText) {
		return reflect.Value{}, nil
	}
	out := reflect.New(f.typ).Elem()
	switch f.Kind {
	case String:
		return f.convertString(value, path, builtin)
	case Bool:
		b, err := toBool(value)
		if err != nil {
			return out, f.bad(path, value, "must be true or false")
		}
		out.SetBool(b)
	case Int, Float, Duration, Size:
		return f.convertNumber(value, path)
	case List:
		return f.convertList(value, path)
	case Map:
		return f.convertMap(value, path)
	case Object:
		m, ok := object(value)
		if !ok {
			return out, f.bad(path, value, "must be a JSON object")
		}
		return out, f.Object.decodeObject(m, path, out)
	case Any:
		return f.convertAny(value, path)
	}
	return out, nil
}

func problem(path, msg string) []Problem { return []Problem{{Path: path, Msg: msg}} }

// bad is a problem that shows the value unless it is secret.
func (f *Field) bad(path string, value any, msg string) []Problem {
	if f.Secret {
		return problem(path, msg)
	}
	shown, err := json.Marshal(value)
	if err != nil || len(shown) > 80 {
		return problem(path, msg)
	}
	return problem(path, msg+", not "+string(shown))
}

func (f *Field) convertString(value any, path string, builtin bool) (reflect.Value, []Problem) {
	out := reflect.New(f.typ).Elem()
	s, ok := toText(value)
	if !ok {
		return out, f.bad(path, value, "must be text")
	}
	if len(f.Enum) > 0 && !slices.Contains(f.Enum, s) && (!builtin || s != "") {
		msg := "must be one of " + strings.Join(f.Enum, ", ")
		if near := Nearest(s, f.Enum); near != "" {
			msg += fmt.Sprintf(" (did you mean %q?)", near)
		}
		return out, f.bad(path, value, msg)
	}
	if f.unmarsh == fromText {
		if err := out.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(s)); err != nil {
			return out, problem(path, err.Error())
		}
		return out, nil
	}
	out.SetString(s)
	return out, nil
}

// toText takes numbers and booleans for text too, since JSON configs write
// "1.0" and 1.0 alike.
func toText(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case json.Number:
		return v.String(), true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	}
	if rv := reflect.ValueOf(value); rv.IsValid() && (rv.CanInt() || rv.CanUint()) {
		return fmt.Sprint(value), true
	}
	return "", false
}

func toBool(value any) (bool, error) {
	s, _ := toText(value)
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, strconv.ErrSyntax
}

func (f *Field) convertNumber(value any, path string) (reflect.Value, []Problem) {
	out := reflect.New(f.typ).Elem()
	s, ok := toText(value)
	if _, isBool := value.(bool); !ok || isBool {
		return out, f.bad(path, value, "must be "+f.Kind.noun())
	}
	s = strings.TrimSpace(s)
	n, err := f.number(s)
	if err != nil {
		if f.Kind == Duration && !f.millis && isNumber(s) {
			return out, f.bad(path, value, "needs a unit, such as \""+s+"s\"")
		}
		return out, f.bad(path, value, "must be "+f.Kind.noun())
	}
	if f.Min != "" && n < f.min {
		return out, f.bad(path, value, "must be at least "+f.Min)
	}
	if f.Max != "" && n > f.max {
		return out, f.bad(path, value, "must be at most "+f.Max)
	}
	switch {
	case out.CanFloat():
		out.SetFloat(n)
		return out, nil
	case f.Kind == Int:
		i, err := strconv.ParseInt(s, 10, 64)
		if err != nil { // as in 1e3 or 5.0
			i = int64(n)
		}
		if out.CanUint() && i >= 0 && !out.OverflowUint(uint64(i)) {
			out.SetUint(uint64(i))
			return out, nil
		}
		if !out.CanInt() || out.OverflowInt(i) {
			return out, f.bad(path, value, "is out of range")
		}
		out.SetInt(i)
	default:
		out.SetInt(int64(n))
	}
	return out, nil
}

func isNumber(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}

func (k Kind) noun() string {
	switch k {
	case String, Bool, Map, Object, Any:
	case Int:
		return "a whole number"
	case Float:
		return "a number"
	case Duration:
		return `a duration such as "90s", "72h" or "40d"`
	case Size:
		return `a size such as "64MiB" or "1024"`
	case List:
		return "a list"
	}
	return "a value"
}

// number reads text as the field's number: a duration in nanoseconds, a size in
// bytes, of a list or map its length.
func (f *Field) number(s string) (float64, error) {
	switch f.Kind {
	case Duration:
		if f.millis {
			if n, err := strconv.ParseInt(s, 10, 64); err == nil && n < math.MaxInt64/1_000_000 && n > math.MinInt64/1_000_000 {
				return float64(n) * float64(time.Millisecond), nil
			}
		}
		d, err := ParseDuration(s)
		return float64(d), err
	case Size:
		b, err := ParseBytes(s)
		return float64(b), err
	case Float:
		n, err := strconv.ParseFloat(s, 64)
		if err == nil && (math.IsNaN(n) || math.IsInf(n, 0)) {
			err = strconv.ErrRange
		}
		return n, err
	case Int, List, Map:
		if i, err := strconv.ParseInt(s, 10, 64); err == nil {
			return float64(i), nil
		}
		n, err := strconv.ParseFloat(s, 64)
		if err == nil && (n != math.Trunc(n) || math.Abs(n) > 1<<53) {
			err = strconv.ErrRange
		}
		return n, err
	case String, Bool, Object, Any:
	}
	return 0, fmt.Errorf("%q: this kind of field has no bounds", s)
}

func (f *Field) convertList(value any, path string) (reflect.Value, []Problem) {
	out := reflect.MakeSlice(f.typ, 0, 0)
	var items []any
	switch v := value.(type) {
	case []any:
		items = v
	case []string:
		for _, s := range v {
			items = append(items, s)
		}
	case string:
		switch trimmed := strings.TrimSpace(v); {
		case strings.HasPrefix(trimmed, "["):
			if err := unmarshalNumbers([]byte(trimmed), &items); err != nil {
				return out, problem(path, "is not a JSON array: "+err.Error())
			}
		case f.Elem.Kind == Object || f.Elem.Kind == Any:
			return out, f.bad(path, value, "must be a JSON array")
		case trimmed != "":
			for s := range strings.SplitSeq(trimmed, ",") {
				items = append(items, strings.TrimSpace(s))
			}
		}
	default:
		return out, f.bad(path, value, "must be a list")
	}
	if n := float64(len(items)); f.Min != "" && n < f.min || f.Max != "" && n > f.max {
		return out, problem(path, fmt.Sprintf("has %d items: at least %s and at most %s are allowed",
			len(items), orElse(f.Min, "0"), orElse(f.Max, "any number")))
	}
	var problems []Problem
	for i, item := range items {
		v, bad := f.Elem.convertItem(item, path+"["+strconv.Itoa(i)+"]")
		problems = append(problems, bad...)
		if v.IsValid() {
			out = reflect.Append(out, v)
		}
	}
	return out, problems
}

// convertItem is convert for what stands in a list or map, where text is never
// more than text to a field of any JSON.
func (f *Field) convertItem(item any, path string) (reflect.Value, []Problem) {
	if s, ok := item.(string); ok && f.Kind == Any {
		quoted, err := json.Marshal(s)
		if err != nil {
			return reflect.Value{}, problem(path, err.Error())
		}
		item = json.RawMessage(quoted)
	}
	v, problems := f.convert(item, path, false)
	if len(problems) > 0 || !v.IsValid() || !f.pointer {
		return v, problems
	}
	p := reflect.New(f.typ)
	p.Elem().Set(v)
	return p, nil
}

func (f *Field) convertMap(value any, path string) (reflect.Value, []Problem) {
	out := reflect.MakeMap(f.typ)
	entries, ok := object(value)
	if s, isText := value.(string); isText && !ok {
		entries, ok = pairs(s)
	}
	if !ok {
		return out, f.bad(path, value, `must be a JSON object, or text such as "a=1,b=2"`)
	}
	var problems []Problem
	for key, item := range entries {
		v, bad := f.Elem.convertItem(item, path+"."+key)
		problems = append(problems, bad...)
		if v.IsValid() {
			out.SetMapIndex(reflect.ValueOf(key).Convert(f.typ.Key()), v)
		}
	}
	slices.SortFunc(problems, func(a, b Problem) int { return strings.Compare(a.Path, b.Path) })
	return out, problems
}

// pairs reads "a=1,b=2".
func pairs(s string) (map[string]any, bool) {
	out := map[string]any{}
	if strings.TrimSpace(s) == "" {
		return out, true
	}
	for item := range strings.SplitSeq(s, ",") {
		k, v, ok := strings.Cut(item, "=")
		if k = strings.TrimSpace(k); !ok || k == "" || strings.HasPrefix(k, "{") {
			return nil, false
		}
		out[k] = strings.TrimSpace(v)
	}
	return out, true
}

// convertAny keeps any JSON. Text that is a JSON object, array or string is that;
// other text is a JSON string, unless the field insists on JSON.
func (f *Field) convertAny(value any, path string) (reflect.Value, []Problem) {
	out := reflect.New(f.typ).Elem()
	var raw []byte
	switch v := value.(type) {
	case json.RawMessage:
		raw = v
	case string:
		if err := json.Unmarshal([]byte(v), new(any)); err == nil && (f.json || strings.ContainsAny(strings.TrimSpace(v)[:1], `{["`)) {
			raw = []byte(strings.TrimSpace(v))
		} else if f.json {
			return out, problem(path, "is not valid JSON: "+err.Error())
		}
	}
	if raw == nil {
		b, err := json.Marshal(value)
		if err != nil {
			return out, problem(path, "is not valid JSON: "+err.Error())
		}
		raw = b
	}
	switch {
	case f.unmarsh == fromJSON:
		if err := json.Unmarshal(raw, out.Addr().Interface()); err != nil {
			return out, problem(path, err.Error())
		}
	case f.typ.Kind() == reflect.Interface:
		if err := unmarshalNumbers(raw, out.Addr().Interface()); err != nil {
			return out, problem(path, "is not valid JSON: "+err.Error())
		}
		if !out.Elem().IsValid() { // null
			return reflect.Value{}, nil
		}
	default:
		out.SetBytes(slices.Clone(raw))
	}
	return out, nil
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
