package transforms

import (
	"encoding/json"
	"errors"
	"strings"

	"millrace/bus/event"
	"millrace/rules/exprs"
	"millrace/rules/pattern"
)

// scratch is what one call of Apply reuses from event to event.
type scratch struct {
	e       *event.Event
	ready   bool // cache holds e
	cache   exprs.Cache
	pattern pattern.Scratch
	raw     []byte // value on its way into data
	buf     []byte // what doc.set builds
}

// begin makes e, which stays as it is meanwhile, the event that is looked at.
func (s *scratch) begin(e *event.Event) { s.e, s.ready = e, false }

func (s *scratch) values() *exprs.Cache {
	if !s.ready {
		s.cache.Reset(s.e)
		s.ready = true
	}
	return &s.cache
}

// operand is where a value comes from: a constant, a place in data, or any other
// expression. Constants and places are copied as text, so their numbers, the
// order of their keys and their white space stay.
type operand struct {
	constant []byte // JSON, nil unless it is one
	place    *Path  // in data, nil unless it is one
	expr     *exprs.Expr
}

// copies reports whether the value is copied as text. The whole of data that is
// not JSON is not.
func (o *operand) copies(e *event.Event) bool {
	return o.constant != nil || o.place != nil && (len(o.place.segs) > 0 || e.JSON())
}

// compileOperand reads the value of a set step: text is an expression, anything
// else a constant.
func (c *compiler) compileOperand(raw json.RawMessage) (operand, error) {
	if raw[0] != '"' {
		return operand{constant: raw}, nil
	}
	src, err := event.Unquote(raw)
	if err != nil {
		return operand{}, err
	}
	src = strings.TrimSpace(src)
	if lit, ok := literal(src); ok {
		return operand{constant: lit}, nil
	}
	expr, err := exprs.Compile(src, c.exprs)
	if err != nil {
		return operand{}, err
	}
	if plainPlace(src) {
		if p, err := ParsePath(src); err == nil {
			return operand{place: &p, expr: expr}, nil
		}
	}
	return operand{expr: expr}, nil
}

// literal reads an expression that is one simple literal: it costs nothing per
// event, and a number keeps its text.
func literal(src string) ([]byte, bool) {
	switch src {
	case "nil":
		return []byte("null"), true
	case "true", "false":
		return []byte(src), true
	}
	if n := len(src); n >= 2 && (src[0] == '\'' || src[0] == '"') && src[n-1] == src[0] {
		if inside := src[1 : n-1]; !strings.ContainsAny(inside, "'\"\\\n") {
			return event.AppendQuoted(nil, inside), true
		}
	}
	if src != "" && (src[0] >= '0' && src[0] <= '9') && event.CheckJSON([]byte(src)) == nil {
		return []byte(src), true
	}
	return nil, false
}

// plainPlace reports whether an expression only names a place in data, in words
// that mean the same as a path.
func plainPlace(src string) bool {
	rest, ok := strings.CutPrefix(src, "data")
	if !ok {
		return false
	}
	for rest != "" {
		n := 1
		switch rest[0] {
		case '.':
			for n < len(rest) && (rest[n] == '_' || rest[n] >= 'a' && rest[n] <= 'z' || rest[n] >= 'A' && rest[n] <= 'Z' || n > 1 && rest[n] >= '0' && rest[n] <= '9') {
				n++
			}
			if n == 1 {
				return false
			}
		case '[':
			for n < len(rest) && rest[n] >= '0' && rest[n] <= '9' {
				n++
			}
			if n == 1 || n == len(rest) || rest[n] != ']' {
				return false
			}
			n++
		default:
			return false
		}
		rest = rest[n:]
	}
	return true
}

// json appends the operand's value for s.e as JSON; a place that is not there is
// null.
func (o *operand) json(dst []byte, s *scratch) ([]byte, error) {
	switch {
	case o.constant != nil:
		return append(dst, o.constant...), nil
	case o.copies(s.e):
		if s.e.Tombstone() {
			return append(dst, "null"...), nil
		}
		if err := needJSON(s.e); err != nil {
			return dst, err
		}
		from, to, found, err := locate(s.e.Data, o.place.segs)
		if err != nil {
			return dst, err
		}
		if !found {
			return append(dst, "null"...), nil
		}
		return append(dst, s.e.Data[from:to]...), nil
	}
	v, err := o.expr.ValueIn(s.values())
	if err != nil {
		return dst, err
	}
	return appendValue(dst, v)
}

// attr returns the operand's value for s.e as an attribute's value.
func (o *operand) attr(s *scratch) (attrValue, error) {
	if o.copies(s.e) {
		raw, err := o.json(s.raw[:0], s)
		if err != nil {
			return attrValue{}, err
		}
		s.raw = raw
		return attrOfJSON(raw)
	}
	v, err := o.expr.ValueIn(s.values())
	if err != nil {
		return attrValue{}, err
	}
	return attrOf(v)
}

// condition is a pattern, an expression, or both; the empty one holds always.
type condition struct {
	pattern *pattern.Pattern
	expr    *exprs.Expr
}

// holds judges s.e. An expression that fails on the event counts as false and is
// reported to miss.
func (c *condition) holds(s *scratch, miss func(error)) bool {
	if c.pattern != nil && !c.pattern.Match(s.e, &s.pattern) {
		return false
	}
	if c.expr == nil {
		return true
	}
	ok, err := c.expr.BoolIn(s.values())
	if err != nil {
		miss(err)
		return false
	}
	return ok
}

// compileIf reads the value of `if`: text, or an object that names the language,
// is an expression; any other object is a pattern.
func (c *compiler) compileIf(raw json.RawMessage) (condition, error) {
	if len(raw) == 0 {
		return condition{}, nil
	}
	if raw[0] == '"' || namesLanguage(raw) {
		return c.compileWhere(raw)
	}
	return c.compileWhen(raw)
}

// namesLanguage tells {"cesql": "…"} from a pattern, whose leaves are lists.
func namesLanguage(raw json.RawMessage) bool {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil || len(m) != 1 {
		return false
	}
	for _, v := range m {
		return v[0] == '"'
	}
	return false
}

func (c *compiler) compileWhere(raw json.RawMessage) (condition, error) {
	x, err := exprs.CompileWhere(raw, c.exprs)
	return condition{expr: x}, err
}

func (c *compiler) compileWhen(raw json.RawMessage) (condition, error) {
	p, err := pattern.Compile(raw)
	if pe := (*pattern.Error)(nil); errors.As(err, &pe) {
		return condition{}, &Error{Field: pe.Path, Msg: pe.Msg}
	}
	return condition{pattern: p}, err
}
