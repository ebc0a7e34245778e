package exprs

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/expr-lang/expr/vm/runtime"
)

// What one evaluation may cost, whatever the event and the expression.
// Invariant 10.
const (
	maxText    = 64 << 20 // bytes of text, one string or a whole result
	maxValues  = 1 << 20  // values of a result, or of what is compared or printed
	maxList    = 100_000  // elements a predicate runs over …
	maxInner   = 1_000    // … and one inside another, or uniq, which compare each with each
	maxSpliced = 100_000  // parts of a split text
)

// list is a value to loop over: nothing at all is an empty list.
func list(v any) any { return bounded(v, maxList) }

// innerList is list inside another loop.
func innerList(v any) any { return bounded(v, maxInner) }

func bounded(v any, limit int) any {
	n := 0
	switch l := v.(type) {
	case nil:
		return []any{}
	case []any:
		n = len(l)
	case []int:
		n = len(l)
	default:
		if r := reflect.ValueOf(v); r.Kind() == reflect.Slice {
			n = r.Len()
		}
	}
	if n > limit {
		panic(fmt.Errorf("a list of %d elements is too long here; at most %d are looped over", n, limit))
	}
	return v
}

// length is the argument of len.
func length(v any) any {
	if v == nil {
		return []any{}
	}
	return v
}

// measured passes a value on if walking all of it is affordable. Lists built of
// each other can stand for exponentially many values.
func measured(v any) any {
	m := meter{values: maxValues, text: maxText}
	if !m.walk(reflect.ValueOf(v)) {
		panic(errTooLarge)
	}
	return v
}

var errTooLarge = fmt.Errorf("the value is too large: more than %d values or %d bytes of text", maxValues, maxText)

type meter struct{ values, text int }

func (m *meter) walk(v reflect.Value) bool {
	if m.values--; m.values < 0 || m.text < 0 {
		return false
	}
	k := v.Kind()
	if k == reflect.Interface {
		m.values++ // the value inside counts
		return m.walk(v.Elem())
	}
	if k == reflect.String {
		m.text -= v.Len()
		return m.text >= 0
	}
	if k == reflect.Slice {
		for i := range v.Len() {
			if !m.walk(v.Index(i)) {
				return false
			}
		}
	}
	if k == reflect.Map {
		for it := v.MapRange(); it.Next(); {
			if !m.walk(it.Key()) || !m.walk(it.Value()) {
				return false
			}
		}
	}
	return true
}

// add is the operator +.
func add(a, b any) any {
	if x, ok := a.(string); ok {
		if y, ok := b.(string); ok {
			if len(x)+len(y) > maxText {
				panic(errTooLarge)
			}
			return x + y
		}
	}
	if isNumber(a) != isNumber(b) && isPlain(a) && isPlain(b) {
		panic(fmt.Errorf("%s and %s cannot be added", describe(a), describe(b)))
	}
	return runtime.Add(a, b)
}

func isPlain(v any) bool {
	switch v.(type) {
	case nil, string, bool:
		return true
	}
	return isNumber(v)
}

// The builtins whose results can outgrow their arguments, with a bound.

func replace(args ...any) (any, error) {
	if len(args) != 3 && len(args) != 4 {
		return nil, errors.New("replace: takes a text, the old, the new and how many times")
	}
	s, err := texts("replace", args[:3])
	if err != nil {
		return nil, err
	}
	n := strings.Count(s[0], s[1])
	if len(args) == 4 {
		limit, ok := toInt(args[3])
		if !ok {
			return nil, errors.New("replace: how many times is no whole number")
		}
		if limit >= 0 {
			n = min(n, limit)
		}
	}
	if len(s[0])+n*max(0, len(s[2])-len(s[1])) > maxText {
		return nil, errTooLarge
	}
	return strings.Replace(s[0], s[1], s[2], n), nil
}

func split(args ...any) (any, error) { return splitWith("split", strings.SplitN, args) }

func splitAfter(args ...any) (any, error) { return splitWith("splitAfter", strings.SplitAfterN, args) }

func splitWith(name string, f func(s, sep string, n int) []string, args []any) (any, error) {
	if len(args) != 2 && len(args) != 3 {
		return nil, fmt.Errorf("%s: takes a text, the separator and how many parts", name)
	}
	s, err := texts(name, args[:2])
	if err != nil {
		return nil, err
	}
	n := -1
	if len(args) == 3 {
		limit, ok := toInt(args[2])
		if !ok {
			return nil, fmt.Errorf("%s: how many parts is no whole number", name)
		}
		n = limit
	}
	if strings.Count(s[0], s[1]) >= maxSpliced && (n < 0 || n > maxSpliced) {
		return nil, fmt.Errorf("%s: gives more than %d parts", name, maxSpliced)
	}
	parts := f(s[0], s[1], n)
	out := make([]any, len(parts))
	for i, p := range parts {
		out[i] = p
	}
	return out, nil
}

func join(args ...any) (any, error) {
	if len(args) != 1 && len(args) != 2 {
		return nil, errors.New("join: takes a list and the separator")
	}
	sep := ""
	if len(args) == 2 {
		s, err := texts("join", args[1:])
		if err != nil {
			return nil, err
		}
		sep = s[0]
	}
	v := reflect.ValueOf(args[0])
	if v.Kind() != reflect.Slice {
		return nil, fmt.Errorf("join: %s is not a list", describe(args[0]))
	}
	size := 0
	items := make([]any, v.Len())
	for i := range items {
		items[i] = v.Index(i).Interface()
		if s, ok := items[i].(string); ok {
			size += len(s) + len(sep)
		}
	}
	if size > maxText {
		return nil, errTooLarge
	}
	s, err := texts("join", items)
	return strings.Join(s, sep), err
}

func texts(name string, args []any) ([]string, error) {
	out := make([]string, len(args))
	for i, a := range args {
		s, ok := a.(string)
		if !ok {
			return nil, fmt.Errorf("%s: %s is not a text", name, describe(a))
		}
		out[i] = s
	}
	return out, nil
}

// steps bounds how many values one comparison looks at.
type steps int

func (s *steps) take() {
	if *s--; *s < 0 {
		panic(errTooLarge)
	}
}

// equal compares by value: numbers exactly, whatever holds them, lists and maps
// by their elements.
func equal(a, b any) bool {
	left := steps(maxValues)
	return left.equal(a, b)
}

func (s *steps) equal(a, b any) bool {
	s.take()
	if c, ok := compareNumbers(a, b); ok {
		return c == 0
	}
	switch x := a.(type) {
	case nil:
		return b == nil
	case string:
		y, ok := b.(string)
		return ok && x == y
	case bool:
		y, ok := b.(bool)
		return ok && x == y
	case json.Number, int, int64, float64:
		return false
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for k, v := range x {
			w, ok := y[k]
			if !ok || !s.equal(v, w) {
				return false
			}
		}
		return true
	}
	if b == nil || isNumber(b) {
		return false
	}
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	if x.Kind() == reflect.Slice && y.Kind() == reflect.Slice {
		if x.Len() != y.Len() {
			return false
		}
		for i := range x.Len() {
			if !s.equal(x.Index(i).Interface(), y.Index(i).Interface()) {
				return false
			}
		}
		return true
	}
	return x.Type() == y.Type() && runtime.Equal(a, b)
}
