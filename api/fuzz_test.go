package api

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"millrace/api/desired"
	"millrace/api/rest"
	"millrace/bus"
	"millrace/bus/event"
)

// FuzzEvents: whatever a request holds, it is refused with a 4xx or gives events
// that are valid and can be read back.
func FuzzEvents(f *testing.F) {
	f.Add("application/cloudevents+json", "", "", `{"specversion":"1.0","id":"1","source":"/s","type":"t","data":{"a":1}}`)
	f.Add("application/cloudevents-batch+json", "", "", `[{"specversion":"1.0","id":"1","source":"/s","type":"t"}]`)
	f.Add("application/json", "subject", `"caf%C3%A9 \"x\""`, `{"a":1}`)
	f.Add("text/plain; charset=utf-8", "time", "2018-04-05T03:56:24Z", "text")
	f.Add("", "mroffset", "7", "")
	f.Fuzz(func(t *testing.T, contentType, attribute, value, body string) {
		h := http.Header{"Content-Type": {contentType}}
		if attribute != "" {
			h.Set("ce-specversion", "1.0")
			h.Set("ce-id", "1")
			h.Set("ce-source", "/s")
			h.Set("ce-type", "t")
			h.Set("ce-"+attribute, value)
		}
		events, err := parseEvents(&rest.Request{Header: h, Body: []byte(body)})
		if err != nil {
			if p, _ := problemOf(err); p.Code < 400 || p.Code >= 500 || p.Message == "" {
				t.Fatalf("status %d: %v", p.Code, err)
			}
			return
		}
		for i := range events {
			if err := events[i].Validate(); err != nil {
				t.Fatalf("event %d: %v", i, err)
			}
			out := event.AppendJSON(nil, &events[i])
			if _, err := event.ParseJSON(out); err != nil {
				t.Fatalf("event %d does not come back: %v: %s", i, err, out)
			}
		}
	})
}

// FuzzStrict: what the strict decoder takes, encoding/json takes to the same
// value.
func FuzzStrict(f *testing.F) {
	f.Add(`{"queues":4,"type":"normal","retention":{"age":"72h","bytes":1}}`)
	f.Add(`{"queues":1e2,"retention":null}`)
	f.Add(`{"queue":4}`)
	f.Add(`{"queues":4`)
	f.Fuzz(func(t *testing.T, doc string) {
		var got, want desired.TopicSpec
		if err := rest.Strict("", []byte(doc), &got); err != nil {
			if p, _ := problemOf(err); p.Code != http.StatusBadRequest {
				t.Fatalf("status %d: %v", p.Code, err)
			}
			return
		}
		if err := json.Unmarshal([]byte(doc), &want); err != nil {
			t.Fatalf("it was taken, but %v", err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, want %+v", got, want)
		}
	})
}

// FuzzToken: a stream's token gives back the places it was made of, and nothing
// else is taken for one but what has its form.
func FuzzToken(f *testing.F) {
	f.Add("2s.0-5.1-zz")
	f.Add("0")
	f.Add("..-.-")
	f.Fuzz(func(t *testing.T, token string) {
		topic := bus.Topic{ID: 100}
		cursors := []bus.Cursor{{Queue: 0, Next: 3}, {Queue: 1, Next: 4}}
		if err := resume(topic, cursors, token); err != nil {
			return
		}
		again := []bus.Cursor{{Queue: 0}, {Queue: 1}}
		if err := resume(topic, again, formatToken(topic, cursors)); err != nil || !reflect.DeepEqual(again, cursors) {
			t.Fatalf("%v: %v, want %v", err, again, cursors)
		}
	})
}

// TestHeaderValue: the encoding of attribute values in headers.
func TestHeaderValue(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain":                  "plain",
		"Euro%20%E2%82%AC":       "Euro €",
		"%e2%82%ac":              "€",
		`"quoted \"x\" \\ %20"`:  `quoted "x" \  `,
		"100 % sure":             "100 % sure",
		"%":                      "%",
		"%2":                     "%2",
		"%zz%41":                 "%zzA",
		"ümlaut":                 "ümlaut",
		`"`:                      `"`,
		"":                       "",
		strings.Repeat("%41", 9): "AAAAAAAAA",
	} {
		if got, err := headerValue(in); err != nil || got != want {
			t.Errorf("%q gives %q, %v; want %q", in, got, err, want)
		}
	}
	if got, err := headerValue("%FF"); err == nil {
		t.Errorf("invalid UTF-8 gives %q", got)
	}
}
