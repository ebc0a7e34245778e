package event

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kind is the CloudEvents type of an extension attribute's value.
type Kind uint8

// The kinds of attribute values that survive a round trip through JSON.
const (
	String Kind = iota
	Bool
	Int
)

// Attr is one extension attribute. Value is its canonical text whatever the
// kind ("true", "-3", "text").
type Attr struct {
	Name  string
	Value string
	Kind  Kind
}

// Event is one CloudEvent. It is a value: copying it shares Ext and Data, which
// are never changed in place by anyone who did not make them.
//
// Data holds the payload as bytes: JSON text when ContentType is a JSON type or
// empty, raw bytes otherwise. A nil Data is a tombstone (the key is deleted);
// an empty, non-nil Data is an empty payload.
type Event struct {
	ID, Source, Type, Subject string
	// Time is when it happened; the zero time means the attribute is absent.
	Time        time.Time
	ContentType string // datacontenttype
	Schema      string // dataschema
	Key         string // partitionkey: orders events, chooses the queue
	Ext         []Attr
	Data        []byte
}

// Ref is a place in the log: a topic's incarnation id, a queue and an offset.
type Ref struct {
	Topic  uint64
	Queue  int
	Offset int64
}

// IsZero reports whether r is no place at all.
func (r Ref) IsZero() bool { return r.Topic == 0 }

// String is "topic id/queue/offset", all decimal.
func (r Ref) String() string { return fmt.Sprintf("%d/%d/%d", r.Topic, r.Queue, r.Offset) }

// Record is an event read from a topic. Where the place holds a link, Event is
// the event linked to with the link's overlay in Ext, and Origin is the place of
// the bytes; otherwise Origin is the record's own place.
type Record struct {
	Topic   string
	Queue   int
	Offset  int64
	Attempt int // deliveries before this one
	Origin  Ref
	Stored  time.Time // when the log took it
	Event
}

// Names of the extensions that Millrace sets on what it hands out. They are
// stripped from whatever comes in.
const (
	ExtQueue   = "mrqueue"
	ExtOffset  = "mroffset"
	ExtAttempt = "mrattempt"
	ExtOrigin  = "mrorigin"
	ExtReason  = "mrreason"
	ExtStep    = "mrstep"
	ExtHops    = "mrhops"
)

// Reserved reports whether an extension name belongs to Millrace.
func Reserved(name string) bool {
	switch name {
	case ExtQueue, ExtOffset, ExtAttempt, ExtOrigin, ExtReason, ExtStep, ExtHops:
		return true
	}
	return false
}

// Get returns the text of an attribute by its CloudEvents name, extensions
// included. Time is RFC 3339 with as many fractional digits as it needs.
func (e *Event) Get(name string) (string, bool) {
	var v string
	switch name {
	case "specversion":
		return "1.0", true
	case "id":
		v = e.ID
	case "source":
		v = e.Source
	case "type":
		v = e.Type
	case "subject":
		v = e.Subject
	case "datacontenttype":
		v = e.ContentType
	case "dataschema":
		v = e.Schema
	case "partitionkey":
		v = e.Key
	case "time":
		if e.Time.IsZero() {
			return "", false
		}
		return e.Time.UTC().Format(time.RFC3339Nano), true
	default:
		for i := range e.Ext {
			if e.Ext[i].Name == name {
				return e.Ext[i].Value, true
			}
		}
		return "", false
	}
	return v, v != ""
}

// Set returns e with the named attribute set to text; an empty value removes
// it. Setting an extension copies Ext. An attribute that cannot be set (data,
// specversion, a malformed time or name) is a *FieldError.
func (e Event) Set(name, value string) (Event, error) {
	switch name {
	case "specversion", "data", "data_base64":
		return e, &FieldError{Field: name, Problem: "is not an attribute that can be set"}
	case "id":
		e.ID = value
	case "source":
		e.Source = value
	case "type":
		e.Type = value
	case "subject":
		e.Subject = value
	case "datacontenttype":
		e.ContentType = value
	case "dataschema":
		e.Schema = value
	case "partitionkey":
		e.Key = value
	case "time":
		if value == "" {
			e.Time = time.Time{}
			return e, nil
		}
		t, ok := parseTime(value)
		if !ok {
			return e, &FieldError{Field: "time", Problem: fmt.Sprintf("%q is not an RFC 3339 time such as 2026-01-31T09:30:00Z", value)}
		}
		e.Time = t
	default:
		if err := checkName(name); err != nil {
			return e, err
		}
		return e.With(Attr{Name: name, Value: value}), nil
	}
	return e, nil
}

// With returns e with extension a set, or removed when its value is an empty
// string. Ext is copied.
func (e Event) With(a Attr) Event {
	ext := make([]Attr, 0, len(e.Ext)+1)
	for _, x := range e.Ext {
		if x.Name != a.Name {
			ext = append(ext, x)
		}
	}
	if a.Value != "" || a.Kind != String {
		ext = append(ext, a)
	}
	e.Ext = ext
	return e
}

// Tombstone reports whether e says that its key is gone.
func (e *Event) Tombstone() bool { return e.Data == nil }

// JSON reports whether Data is JSON text: the content type is empty,
// application/json, text/json or ends in +json.
func (e *Event) JSON() bool { return IsJSON(e.ContentType) }

// IsJSON reports whether a media type names JSON; an empty one does, as
// CloudEvents says.
func IsJSON(contentType string) bool {
	if contentType == "" || contentType == "application/json" {
		return true
	}
	mt := mediaType(contentType)
	return strings.EqualFold(mt, "application/json") || strings.EqualFold(mt, "text/json") ||
		hasFoldSuffix(mt, "+json")
}

// mediaType returns a content type without its parameters. It allocates nothing,
// unlike mime.ParseMediaType: this runs for every event.
func mediaType(contentType string) string {
	mt, _, _ := strings.Cut(contentType, ";")
	return strings.TrimSpace(mt)
}

func hasFoldPrefix(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

func hasFoldSuffix(s, suffix string) bool {
	return len(s) >= len(suffix) && strings.EqualFold(s[len(s)-len(suffix):], suffix)
}

// Size is about how many bytes e takes in memory and in the log.
func (e *Event) Size() int {
	n := len(e.ID) + len(e.Source) + len(e.Type) + len(e.Subject) + len(e.ContentType) +
		len(e.Schema) + len(e.Key) + len(e.Data) + 32
	for i := range e.Ext {
		n += len(e.Ext[i].Name) + len(e.Ext[i].Value) + 4
	}
	return n
}

// FieldError names what is wrong with which field of an input, and how to mend it.
type FieldError struct {
	Field   string // such as "source" or "[3].time"
	Problem string // such as "is required"
}

func (e *FieldError) Error() string { return e.Field + " " + e.Problem }

// Problem takes a validation error apart; another error is of the event as a whole.
func Problem(err error) (field, problem string) {
	if fe, ok := errors.AsType[*FieldError](err); ok {
		return fe.Field, fe.Problem
	}
	return "event", err.Error()
}

// Validate checks the rules of CloudEvents 1.0 that a bus depends on: id,
// source and type are there, the year of time has four digits, and extension
// names are lower-case letters and digits, each once and none a name that
// CloudEvents uses itself. The error is a *FieldError. Data is not looked at: see CheckJSON.
func (e *Event) Validate() error {
	switch {
	case e.ID == "":
		return &FieldError{Field: "id", Problem: "is required"}
	case e.Source == "":
		return &FieldError{Field: "source", Problem: "is required"}
	case e.Type == "":
		return &FieldError{Field: "type", Problem: "is required"}
	case !e.Time.IsZero() && !timeFits(e.Time.UTC()):
		return &FieldError{Field: "time", Problem: "is outside the years 0 to 9999"}
	}
	for i := range e.Ext {
		name := e.Ext[i].Name
		if err := checkName(name); err != nil {
			return err
		}
		for j := range i {
			if e.Ext[j].Name == name {
				return &FieldError{Field: name, Problem: "stands there twice"}
			}
		}
	}
	return nil
}

// checkName returns nil for a name that an extension may have.
func checkName(name string) *FieldError {
	ok := true
	for i := range len(name) {
		c := name[i]
		ok = ok && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9')
	}
	if name == "" {
		return &FieldError{Field: `""`, Problem: "is not an attribute name"}
	}
	if !ok {
		return &FieldError{Field: name, Problem: "is not an attribute name: use lower-case letters and digits only"}
	}
	switch name {
	case "data", "specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema", "partitionkey":
		return &FieldError{Field: name, Problem: "is not an extension: CloudEvents uses the name itself"}
	}
	return nil
}
