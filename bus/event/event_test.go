package event

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestGetSet(t *testing.T) {
	t.Parallel()
	e := Event{ID: "1", Source: "/s", Type: "t", Ext: []Attr{{"x", "1", Int}, {"y", "2", String}}}
	shared := e.Ext
	for _, name := range []string{"id", "source", "type", "subject", "datacontenttype", "dataschema", "partitionkey", "x", "z"} {
		set, err := e.Set(name, "v")
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := set.Get(name); !ok || got != "v" {
			t.Errorf("%s is %q, %v", name, got, ok)
		}
		gone, err := set.Set(name, "")
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := gone.Get(name); ok || got != "" {
			t.Errorf("%s is still %q", name, got)
		}
	}
	if diff := cmp.Diff([]Attr{{"x", "1", Int}, {"y", "2", String}}, shared); diff != "" {
		t.Errorf("Set changed what it was given\n%s", diff)
	}
	if v, ok := e.Get("specversion"); !ok || v != "1.0" {
		t.Errorf("specversion is %q", v)
	}
	at, err := e.Set("time", "2026-01-31T10:30:00.5+01:00")
	if v, _ := at.Get("time"); err != nil || v != "2026-01-31T09:30:00.5Z" {
		t.Errorf("time is %q, %v", v, err)
	}
	if at, err = at.Set("time", ""); err != nil || !at.Time.IsZero() {
		t.Errorf("time is %v, %v", at.Time, err)
	}
	for name, value := range map[string]string{
		"time": "2026-01-31", "data": "x", "data_base64": "x", "specversion": "1.0", "Upper": "x", "": "x", "a-b": "x",
	} {
		var fe *FieldError
		if _, err := e.Set(name, value); !errors.As(err, &fe) || fe.Field == "" {
			t.Errorf("%q may be set to %q: %v", name, value, err)
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	good := Event{ID: "1", Source: "/s", Type: "t", Ext: []Attr{{"x1", "", String}}}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Event){
		"id is required":                      func(e *Event) { e.ID = "" },
		"source is required":                  func(e *Event) { e.Source = "" },
		"type is required":                    func(e *Event) { e.Type = "" },
		"time is outside the years 0 to 9999": func(e *Event) { e.Time = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"X is not an attribute name: use lower-case letters and digits only": func(e *Event) { e.Ext = []Attr{{"X", "", String}} },
		"subject is not an extension: CloudEvents uses the name itself":      func(e *Event) { e.Ext = []Attr{{"subject", "", String}} },
		"partitionkey is not an extension: CloudEvents uses the name itself": func(e *Event) { e.Ext = []Attr{{"partitionkey", "", String}} },
		"data is not an extension: CloudEvents uses the name itself":         func(e *Event) { e.Ext = []Attr{{"data", "", String}} },
		"a stands there twice": func(e *Event) { e.Ext = []Attr{{"a", "", String}, {"b", "", String}, {"a", "", String}} },
	} {
		e := good
		change(&e)
		var fe *FieldError
		if err := e.Validate(); !errors.As(err, &fe) || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestIsJSON(t *testing.T) {
	t.Parallel()
	for ct, want := range map[string]bool{
		"": true, "application/json": true, "Application/JSON": true, "application/json; charset=utf-8": true, "application/json;": true,
		"text/json": true, "application/vnd.x+json": true, "application/x+JSON ; q=1": true, "application/cloudevents+json": true,
		"text/plain": false, "application/jsonl": false, "json": false, "application/json+xml": false, "application/x-ndjson": false, "text/plain; x=+json": false,
	} {
		if got := IsJSON(ct); got != want {
			t.Errorf("%q: %v", ct, got)
		}
	}
}

func TestReserved(t *testing.T) {
	t.Parallel()
	for _, name := range []string{ExtQueue, ExtOffset, ExtAttempt, ExtOrigin, ExtReason, ExtStep, ExtHops} {
		if !Reserved(name) {
			t.Errorf("%s is not reserved", name)
		}
	}
	if Reserved("mr") || Reserved("subject") || Reserved("") {
		t.Error("too much is reserved")
	}
}

func TestRef(t *testing.T) {
	t.Parallel()
	if r := (Ref{Topic: 7, Queue: 1, Offset: 9}); r.String() != "7/1/9" || r.IsZero() || !(Ref{}).IsZero() {
		t.Error(r)
	}
}

func TestUnquote(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{`""`: "", `"a\n\u00e9"`: "a\né", `"plain"`: "plain"} {
		if got, err := Unquote([]byte(in)); err != nil || got != want {
			t.Errorf("%s gives %q, %v", in, got, err)
		}
	}
	for _, in := range []string{``, `x`, `"`, `"a" b`, `"\x"`} {
		if got, err := Unquote([]byte(in)); !errors.Is(err, ErrSyntax) {
			t.Errorf("%s gives %q, %v", in, got, err)
		}
	}
}
