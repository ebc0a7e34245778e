package pattern

import (
	"bytes"
	"encoding/json"
	"strings"
)

// raw writes a pattern's value as JSON again.
func raw(v *jval) json.RawMessage {
	var b strings.Builder
	v.write(&b)
	return json.RawMessage(b.String())
}

func (v *jval) write(b *strings.Builder) {
	switch v.kind {
	case kindString:
		b.Write(quote(v.s))
	case kindArray:
		b.WriteByte('[')
		for i, x := range v.vals {
			if i > 0 {
				b.WriteByte(',')
			}
			x.write(b)
		}
		b.WriteByte(']')
	case kindObject:
		b.WriteByte('{')
		for i, x := range v.vals {
			if i > 0 {
				b.WriteByte(',')
			}
			b.Write(quote(v.keys[i]))
			b.WriteByte(':')
			x.write(b)
		}
		b.WriteByte('}')
	case kindNumber, kindTrue, kindFalse, kindNull:
		b.WriteString(v.text())
	}
}

// text is a scalar's own text.
func (v *jval) text() string {
	switch v.kind {
	case kindTrue:
		return "true"
	case kindFalse:
		return "false"
	case kindNull:
		return "null"
	case kindString, kindNumber, kindObject, kindArray:
	}
	return v.s
}

func (v *jval) describe() string { return describe(v.kind, v.text()) }

func (v value) describe() string { return describe(v.kind, v.s) }

func describe(k kind, s string) string {
	if k == kindString {
		return "text " + string(quote(shorten(s)))
	}
	if k == kindNumber {
		return "number " + s
	}
	return "literal " + s
}

// raw is a value found in an event as JSON.
func (v value) raw() json.RawMessage {
	if v.kind != kindString {
		return json.RawMessage(strings.Clone(v.s))
	}
	return quote(shorten(v.s))
}

func shorten(s string) string {
	if len(s) <= maxShownText {
		return s
	}
	return strings.ToValidUTF8(s[:maxShownText], "") + "…"
}

func quote(s string) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return json.RawMessage(`""`) // text always encodes
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
