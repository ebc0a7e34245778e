package exprs

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"unsafe"

	"github.com/tidwall/gjson"
)

// maxDepth is how deep data may nest, as in encoding/json.
const maxDepth = 10000

// valid reports whether b is JSON. gjson is the faster judge but recurses
// without bound, so it only sees what cannot nest too deep.
func valid(b []byte) bool {
	if bytes.Count(b, []byte{'['})+bytes.Count(b, []byte{'{'}) <= maxDepth {
		return gjson.ValidBytes(b)
	}
	return json.Valid(b)
}

// parse views valid JSON without a copy: strings taken from it share its memory.
func parse(b []byte) gjson.Result {
	return gjson.Parse(unsafe.String(unsafe.SliceData(b), len(b)))
}

// decode turns valid JSON into values. Of a key given twice the last counts.
func decode(r gjson.Result) any {
	switch r.Type {
	case gjson.Null:
	case gjson.True:
		return true
	case gjson.False:
		return false
	case gjson.String:
		return r.Str
	case gjson.Number:
		return decodeNumber(r.Raw)
	case gjson.JSON:
		if r.IsArray() {
			a := []any{}
			r.ForEach(func(_, v gjson.Result) bool {
				a = append(a, decode(v))
				return true
			})
			return a
		}
		m := map[string]any{}
		r.ForEach(func(k, v gjson.Result) bool {
			m[k.Str] = decode(v)
			return true
		})
		return m
	}
	return nil
}

// decodeNumber keeps the exact value: int64 where the number is whole and fits,
// float64 where it stands for the same decimal, else the text.
func decodeNumber(s string) any {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && s != "-0" {
		return n
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !faithful(s, f) {
		return json.Number(s)
	}
	if f == math.Trunc(f) && math.Abs(f) <= safeInt && f != 0 {
		return int64(f)
	}
	return f
}

// faithful reports whether f is the very number that s writes: up to 15 digits
// in the normal range always are, more if they are what f prints as.
func faithful(s string, f float64) bool {
	digits, started := 0, false
	for i := range len(s) {
		c := s[i]
		if c == 'e' || c == 'E' {
			break
		}
		if '0' <= c && c <= '9' && (started || c != '0') {
			started = true
			digits++
		}
	}
	if digits == 0 {
		return true // zero
	}
	if digits <= 15 && math.Abs(f) >= 0x1p-1022 {
		return true
	}
	var buf [400]byte
	return string(strconv.AppendFloat(buf[:0], f, 'f', -1, 64)) == s || string(strconv.AppendFloat(buf[:0], f, 'g', -1, 64)) == s
}

// fromJSON is the function of that name, with exact numbers.
func fromJSON(args ...any) (any, error) {
	if len(args) == 1 {
		if s, ok := args[0].(string); ok {
			if !valid([]byte(s)) {
				return nil, errors.New("fromJSON: not valid JSON")
			}
			return decode(gjson.Parse(s)), nil
		}
	}
	return nil, errors.New("fromJSON: takes one string")
}
