package event

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strconv"
	"time"
)

// maxExt bounds the extensions of one event that is read from JSON.
const maxExt = 256

// ParseJSON reads one structured event. specversion must be 1.0 or 0.3, whose
// schemaurl and datacontentencoding are understood; id, source and type must be
// there. Members that CloudEvents does not name are extensions: strings, booleans
// or 32-bit integers; null means absent, and those that Reserved names are left
// out. data is kept as its JSON text when the content type is JSON; else a JSON
// string stands for its text. The event shares nothing with b.
//
// An error wraps ErrSyntax when b is not JSON, else it is a *FieldError.
func ParseJSON(b []byte) (Event, error) {
	p := parser{scanner: scanner{b: bytes.Clone(b)}}
	if err := p.utf8(); err != nil {
		return Event{}, err
	}
	p.space()
	e, err := p.event("event")
	if err != nil {
		return Event{}, err
	}
	return e, p.end()
}

// ParseBatchJSON reads a JSON array of structured events, as ParseJSON does; an
// empty one is fine. The first error refuses them all; its field begins with the
// event's index, as in "[3].source".
func ParseBatchJSON(b []byte) ([]Event, error) {
	p := parser{scanner: scanner{b: bytes.Clone(b)}}
	if err := p.utf8(); err != nil {
		return nil, err
	}
	p.space()
	if p.peek() != '[' {
		if err := p.skip(0); err != nil {
			return nil, err
		}
		return nil, &FieldError{Field: "events", Problem: "must be a JSON array of events"}
	}
	events := []Event{}
	err := p.members(func(n int) error {
		p.path = "[" + strconv.Itoa(n) + "]"
		e, err := p.event(p.path)
		events = append(events, e)
		return err
	}, ']')
	if err == nil {
		err = p.end()
	}
	if err != nil {
		return nil, err
	}
	return events, nil
}

type parser struct {
	scanner
	path string // of the event in its batch, "" for a single one
}

func (p *parser) wrong(field, format string, args ...any) error {
	if p.path != "" {
		field = p.path + "." + field
	}
	return &FieldError{Field: field, Problem: fmt.Sprintf(format, args...)}
}

// draft is an event while its members come in, in any order.
type draft struct {
	Event
	version string
	timeRaw string
	data    []byte // raw JSON, nil when there is none
	base64  []byte // text of data_base64
	seen    uint16 // bit per core member
}

// The core members, as bits of draft.seen.
const (
	seenVersion = 1 << iota
	seenID
	seenSource
	seenType
	seenSubject
	seenTime
	seenContent
	seenSchema
	seenKey
	seenData
	seenBase64
)

func (p *parser) event(whole string) (Event, error) {
	if p.peek() != '{' {
		if err := p.skip(0); err != nil {
			return Event{}, err
		}
		return Event{}, &FieldError{Field: whole, Problem: "must be a JSON object"}
	}
	var d draft
	if err := p.members(func(int) error { return p.member(&d) }, '}'); err != nil {
		return Event{}, err
	}
	switch {
	case d.version == "":
		return Event{}, p.wrong("specversion", `is required: "1.0"`)
	case d.version != "1.0" && d.version != "0.3":
		return Event{}, p.wrong("specversion", `%q is not supported: use "1.0"`, d.version)
	case d.ID == "":
		return Event{}, p.wrong("id", "is required")
	case d.Source == "":
		return Event{}, p.wrong("source", "is required")
	case d.Type == "":
		return Event{}, p.wrong("type", "is required")
	}
	if d.timeRaw != "" {
		t, ok := parseTime(d.timeRaw)
		if !ok {
			return Event{}, p.wrong("time", "%q is not an RFC 3339 time such as 2026-01-31T09:30:00Z", d.timeRaw)
		}
		d.Time = t
	}
	encoded := ""
	if d.version == "0.3" {
		encoded = p.lift(&d)
	}
	return d.Event, p.setData(&d, encoded)
}

// lift takes the attributes out of the extensions that only CloudEvents 0.3 has.
func (p *parser) lift(d *draft) (encoded string) {
	ext := d.Ext[:0]
	for _, a := range d.Ext {
		switch a.Name {
		case "schemaurl":
			if d.Schema == "" {
				d.Schema = a.Value
			}
		case "datacontentencoding":
			encoded = a.Value
		default:
			ext = append(ext, a)
		}
	}
	if d.Ext = ext; len(ext) == 0 {
		d.Ext = nil
	}
	return encoded
}

// setData makes Data from data or data_base64.
func (p *parser) setData(d *draft, encoded string) error {
	field, b64 := "data_base64", d.base64
	switch {
	case d.data != nil && b64 != nil:
		return p.wrong(field, "and data exclude each other")
	case encoded != "" && encoded != "base64" && encoded != "Base64":
		return p.wrong("datacontentencoding", "%q is not supported: use \"base64\"", encoded)
	case encoded != "" && d.data != nil:
		if d.data[0] != '"' {
			return p.wrong("data", "must be a string when datacontentencoding is base64")
		}
		s := scanner{b: d.data}
		raw, escaped, err := s.str()
		if err != nil {
			return err
		}
		field, b64 = "data", text(raw, escaped)
	}
	switch json := IsJSON(d.ContentType); {
	case b64 != nil:
		data, err := base64.StdEncoding.AppendDecode([]byte{}, b64)
		if err != nil {
			return p.wrong(field, "is not base64 with padding")
		}
		if json && len(data) > 0 {
			if err := CheckJSON(data); err != nil {
				return p.wrong(field, "holds no JSON, which the datacontenttype asks for: %v", err)
			}
		}
		d.Data = data
	case d.data == nil:
	case json:
		d.Data = d.data
	case d.data[0] == '"':
		s := scanner{b: d.data}
		raw, escaped, err := s.str()
		if err != nil {
			return err
		}
		d.Data = text(raw, escaped)
	case d.data[0] == 'n': // null means absent where it is not JSON data
	default:
		d.Data = d.data
	}
	return nil
}

// member reads one member, beginning at its name.
func (p *parser) member(d *draft) error {
	raw, escaped, err := p.str()
	if err != nil {
		return err
	}
	name := asString(text(raw, escaped))
	if err := p.colon(); err != nil {
		return err
	}
	var into *string
	var bit uint16
	switch name {
	case "specversion":
		into, bit = &d.version, seenVersion
	case "id":
		into, bit = &d.ID, seenID
	case "source":
		into, bit = &d.Source, seenSource
	case "type":
		into, bit = &d.Type, seenType
	case "subject":
		into, bit = &d.Subject, seenSubject
	case "time":
		into, bit = &d.timeRaw, seenTime
	case "datacontenttype":
		into, bit = &d.ContentType, seenContent
	case "dataschema":
		into, bit = &d.Schema, seenSchema
	case "partitionkey":
		into, bit = &d.Key, seenKey
	case "data":
		bit = seenData
	case "data_base64":
		bit = seenBase64
	default:
		return p.extension(d, name)
	}
	if d.seen&bit != 0 {
		return p.wrong(name, "stands there twice")
	}
	d.seen |= bit
	start := p.i
	switch c := p.peek(); {
	case bit == seenData:
		err := p.skip(1)
		d.data = p.b[start:p.i:p.i]
		return err
	case c == 'n':
		return p.literal("null")
	case c != '"':
		return p.notString(name)
	}
	raw, escaped, err = p.str()
	if err != nil {
		return err
	}
	if bit == seenBase64 {
		d.base64 = text(raw, escaped)
		return nil
	}
	*into = asString(text(raw, escaped))
	return nil
}

func (p *parser) notString(name string) error {
	c := p.peek()
	if err := p.skip(1); err != nil {
		return err
	}
	return p.wrong(name, "must be a string, not %s", kindOf(c))
}

// kindOf names the kind of value that begins with c.
func kindOf(c byte) string {
	switch c {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// extension reads the value of a member that CloudEvents does not name.
func (p *parser) extension(d *draft, name string) error {
	if err := checkName(name); err != nil {
		if err := p.skip(1); err != nil {
			return err
		}
		return p.wrong(err.Field, "%s", err.Problem)
	}
	a := Attr{Name: name}
	start := p.i
	c := p.peek()
	if c == '"' {
		raw, escaped, err := p.str()
		if err != nil {
			return err
		}
		a.Value = asString(text(raw, escaped))
	} else {
		if err := p.skip(1); err != nil {
			return err
		}
		a.Value = asString(p.b[start:p.i])
	}
	for i := range d.Ext {
		if d.Ext[i].Name == name {
			return p.wrong(name, "stands there twice")
		}
	}
	switch {
	case Reserved(name) || c == 'n':
		return nil
	case c == '"':
	case c == 't' || c == 'f':
		a.Kind = Bool
	case c == '{' || c == '[':
		return p.wrong(name, "must be a string, a boolean or an integer, not %s: structured content belongs in data", kindOf(c))
	default:
		n, err := strconv.ParseInt(a.Value, 10, 32)
		if err != nil {
			return p.wrong(name, "must be a 32-bit integer, not %s: send other numbers as strings", a.Value)
		}
		if n == 0 {
			a.Value = "0" // not -0
		}
		a.Kind = Int
	}
	if len(d.Ext) == maxExt {
		return p.wrong(name, "is one extension too many: %d are allowed", maxExt)
	}
	d.Ext = append(d.Ext, a)
	return nil
}

// parseTime reads an RFC 3339 time whose year in UTC has four digits.
func parseTime(s string) (time.Time, bool) {
	var t time.Time
	if t.UnmarshalText([]byte(s)) != nil {
		return time.Time{}, false
	}
	t = t.UTC()
	return t, timeFits(t)
}
