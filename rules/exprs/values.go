package exprs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strconv"
	"time"

	"github.com/expr-lang/expr/vm/runtime"
)

// These functions run inside expr's machine, which turns a panic with an error
// into the error of the evaluation with its place; it offers no other way.

// get is member access: nil where there is nothing.
func get(from, key any) any {
	switch m := from.(type) {
	case map[string]any:
		if k, ok := key.(string); ok {
			return m[k]
		}
	case []any:
		if i, ok := toInt(key); ok {
			if i < 0 {
				i += len(m)
			}
			if 0 <= i && i < len(m) {
				return m[i]
			}
		}
	case map[any][]any: // of groupBy
		if v, ok := m[key]; ok {
			return v
		}
	case nil, string, bool, int, int64, float64, json.Number, time.Time, time.Duration:
	default:
		if v := reflect.ValueOf(from); v.Kind() == reflect.Slice || v.Kind() == reflect.Array {
			if i, ok := toInt(key); ok && 0 <= i && i < v.Len() {
				return v.Index(i).Interface()
			}
		}
	}
	return nil
}

func toInt(v any) (int, bool) {
	switch v := v.(type) {
	case int:
		return v, true
	case int64:
		return int(v), true
	}
	return 0, false
}

// truth is a value as a condition.
func truth(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	}
	panic(fmt.Errorf("a condition is %s, not true or false", describe(v)))
}

// number prepares a value for arithmetic, where floats are the widest there is.
func number(v any) any {
	if n, ok := v.(json.Number); ok {
		f, err := n.Float64()
		if err != nil {
			panic(fmt.Errorf("%s is too large to calculate with", n))
		}
		return f
	}
	return v
}

// whole prepares a value for int().
func whole(v any) any {
	v = number(v)
	if f, ok := v.(float64); ok && (math.IsNaN(f) || math.Abs(f) >= 1<<63) {
		panic(fmt.Errorf("%v is too large for int()", f))
	}
	return v
}

func less(a, b any) bool           { c, ok := order(a, b); return ok && c < 0 }
func lessOrEqual(a, b any) bool    { c, ok := order(a, b); return ok && c <= 0 }
func greater(a, b any) bool        { c, ok := order(a, b); return ok && c > 0 }
func greaterOrEqual(a, b any) bool { c, ok := order(a, b); return ok && c >= 0 }

// order compares two values; ok is false if one is nil or NaN, which have no
// order.
func order(a, b any) (c int, ok bool) {
	if a == nil || b == nil {
		return 0, false
	}
	if c, ok := compareNumbers(a, b); ok {
		return c, true
	}
	if x, ok := a.(string); ok {
		if y, ok := b.(string); ok {
			return cmp.Compare(x, y), true
		}
	}
	switch numbers := isNumber(a); {
	case numbers && isNumber(b): // one is NaN
		return 0, false
	case numbers || isNumber(b) || reflect.TypeOf(a) != reflect.TypeOf(b):
		panic(mismatch(a, b))
	case runtime.Less(a, b): // times and durations; panics for the others
		return -1, true
	case runtime.Less(b, a):
		return 1, true
	}
	return 0, true
}

func mismatch(a, b any) error {
	return fmt.Errorf("%s and %s cannot be compared", describe(a), describe(b))
}

// in reports whether v is an element of a list or a key of a map.
func in(v, collection any) bool {
	switch c := collection.(type) {
	case nil:
		return false
	case []any:
		for _, x := range c {
			if equal(v, x) {
				return true
			}
		}
		return false
	case []int: // a range
		for _, x := range c {
			if equal(v, x) {
				return true
			}
		}
		return false
	case map[string]any:
		k, ok := v.(string)
		if ok {
			_, ok = c[k]
		}
		return ok
	}
	x := reflect.ValueOf(collection)
	if x.Kind() != reflect.Slice {
		panic(fmt.Errorf("%s is not a list or map to be in", describe(collection)))
	}
	for i := range x.Len() {
		if equal(v, x.Index(i).Interface()) {
			return true
		}
	}
	return false
}

func isNumber(v any) bool {
	switch v.(type) {
	case int, int64, float64, json.Number:
		return true
	}
	return false
}

// safeInt is up to where every integer is a float64.
const safeInt = 1 << 53

// compareNumbers compares two numbers exactly; ok is false if one is none, or
// NaN.
func compareNumbers(a, b any) (c int, ok bool) {
	if x, ok := a.(int64); ok {
		switch y := b.(type) {
		case int:
			return cmp.Compare(x, int64(y)), true
		case int64:
			return cmp.Compare(x, y), true
		}
	}
	if x, ok := toFloat(a); ok {
		if y, ok := toFloat(b); ok {
			return cmp.Compare(x, y), !math.IsNaN(x) && !math.IsNaN(y)
		}
	}
	if !isNumber(a) || !isNumber(b) {
		return 0, false
	}
	x, okX := toBig(a)
	y, okY := toBig(b)
	if !okX || !okY {
		return 0, false
	}
	return x.Cmp(y), true
}

// toFloat succeeds where the float is the exact value.
func toFloat(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case int:
		return float64(v), -safeInt <= v && v <= safeInt
	case int64:
		return float64(v), -safeInt <= v && v <= safeInt
	}
	return 0, false
}

// bigBits is how many bits numbers that fit nowhere are compared with: about 150
// decimal digits.
const bigBits = 512

func toBig(v any) (*big.Float, bool) {
	f := new(big.Float).SetPrec(bigBits)
	switch v := v.(type) {
	case int:
		return f.SetInt64(int64(v)), true
	case int64:
		return f.SetInt64(v), true
	case float64:
		if math.IsNaN(v) {
			return nil, false
		}
		return f.SetFloat64(v), true
	case json.Number:
		_, ok := f.SetString(v.String())
		return f, ok
	}
	return nil, false
}

// describe names a value in an error.
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "nothing (nil)"
	case string:
		if len(v) > 40 {
			v = v[:40] + "…"
		}
		return fmt.Sprintf("the text %q", v)
	case int, int64, float64, json.Number:
		return fmt.Sprintf("the number %v", v)
	case bool:
		return strconv.FormatBool(v)
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	}
	return fmt.Sprintf("a value of type %T", v)
}
