package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	ce "github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestAppendJSON(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 31, 9, 30, 0, 120_000_000, time.FixedZone("", 3600))
	base := Event{ID: "1", Source: "/s", Type: "t"}
	const head = `{"specversion":"1.0","id":"1","source":"/s","type":"t"`
	with := func(ct string, data []byte) Event {
		e := base
		e.ContentType, e.Data = ct, data
		return e
	}
	tests := map[string]struct {
		in   Event
		want string
	}{
		"tombstone": {base, head + `}`},
		"all": {
			Event{
				ID: "1", Source: "/s", Type: "t", Subject: "sub", Time: at, ContentType: "application/json",
				Schema: "urn:x", Key: "k", Data: []byte(`{"a":1}`),
				Ext: []Attr{{"x", "v", String}, {"b", "true", Bool}, {"n", "-3", Int}},
			},
			head + `,"datacontenttype":"application/json","dataschema":"urn:x","subject":"sub","time":"2026-01-31T08:30:00.12Z",` +
				`"partitionkey":"k","x":"v","b":true,"n":-3,"data":{"a":1}}`,
		},
		"kinds with other texts": {
			Event{ID: "1", Source: "/s", Type: "t", Ext: []Attr{{"b", "yes", Bool}, {"n", "1.5", Int}, {"m", "-", Int}, {"o", "007", Int}, {"p", "", Int}, {"z", "0", Int}}},
			head + `,"b":"yes","n":"1.5","m":"-","o":"007","p":"","z":0}`,
		},
		"escapes": {
			Event{ID: "\x00\"\\\n\r\t\x1f\u2028é\xff", Source: "/s", Type: "t"},
			`{"specversion":"1.0","id":"\u0000\"\\\n\r\t\u001f` + "\u2028é\ufffd" + `","source":"/s","type":"t"}`,
		},
		"json on one line":   {with("", []byte("{\r\n\"a\":\n[1]\n}")), head + `,"data":{  "a": [1] }}`},
		"null data":          {with("", []byte("null")), head + `,"data":null}`},
		"empty json":         {with("application/json", []byte{}), head + `,"datacontenttype":"application/json","data_base64":""}`},
		"text":               {with("Text/Plain; charset=utf-8", []byte("a\n\"é")), head + `,"datacontenttype":"Text/Plain; charset=utf-8","data":"a\n\"é"}`},
		"text json":          {with("text/json", []byte("1")), head + `,"datacontenttype":"text/json","data":1}`},
		"empty text":         {with("text/plain", []byte{}), head + `,"datacontenttype":"text/plain","data":""}`},
		"xml":                {with("image/svg+xml", []byte("<a/>")), head + `,"datacontenttype":"image/svg+xml","data":"<a/>"}`},
		"text, not utf-8":    {with("text/plain", []byte{0xff}), head + `,"datacontenttype":"text/plain","data_base64":"/w=="}`},
		"binary":             {with("image/png", []byte("abc")), head + `,"datacontenttype":"image/png","data_base64":"YWJj"}`},
		"year 10000":         {Event{ID: "1", Source: "/s", Type: "t", Time: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}, head + `}`},
		"year 9999 in utc-1": {Event{ID: "1", Source: "/s", Type: "t", Time: time.Date(9999, 12, 31, 23, 30, 0, 0, time.FixedZone("", -3600))}, head + `}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := string(AppendJSON([]byte("["), &test.in))
			if diff := cmp.Diff("["+test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestAppendRecordJSON(t *testing.T) {
	t.Parallel()
	r := Record{
		Topic: "orders", Queue: 3, Offset: 1 << 40, Attempt: 2, Origin: Ref{Topic: 7, Queue: 1, Offset: 9},
		Event: Event{ID: "1", Source: "/s", Type: "t", Data: []byte("1"), Ext: []Attr{{"x", "v", String}, {ExtAttempt, "9", Int}}},
	}
	const head = `{"specversion":"1.0","id":"1","source":"/s","type":"t","x":"v"`
	want := head + `,"mrqueue":"3","mroffset":"1099511627776","mrattempt":2,"data":1}`
	if got := string(AppendRecordJSON(nil, &r)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	r.Attempt, r.Ext = 0, []Attr{{"x", "v", String}, {ExtOrigin, "other", String}, {ExtReason, "why", String}}
	want = head + `,"mrorigin":"other","mrreason":"why","mrqueue":"3","mroffset":"1099511627776","data":1}`
	if got := string(AppendRecordJSON(nil, &r)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	back, err := ParseJSON([]byte(want))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Attr{{"x", "v", String}}, back.Ext); diff != "" {
		t.Errorf("what is Millrace's own comes back in (-want +got)\n%s", diff)
	}
}

// TestJSONRoundTrip writes any event and reads it back; encoding/json agrees
// that it is JSON.
func TestJSONRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := anyEvent(false).Draw(t, "event")
		text := AppendJSON(nil, &e)
		if !json.Valid(text) || bytes.ContainsAny(text, "\n\r") {
			t.Fatalf("not one line of JSON: %q", text)
		}
		back, err := ParseJSON(text)
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if diff := cmp.Diff(e, back); diff != "" {
			t.Fatalf("%s\n(-want +got)\n%s", text, diff)
		}
		two, err := ParseBatchJSON([]byte("[" + string(text) + " , " + string(text) + "]"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]Event{e, e}, two); diff != "" {
			t.Fatalf("batch (-want +got)\n%s", diff)
		}
		for _, cut := range []int{1, len(text) / 3, len(text) / 2, len(text) - 1} {
			if _, err := ParseJSON(text[:len(text)-cut]); err == nil {
				t.Fatalf("%d bytes less are still taken", cut)
			} else if fe := (*FieldError)(nil); !errors.Is(err, ErrSyntax) && !errors.As(err, &fe) {
				t.Fatalf("%d bytes less: %v", cut, err)
			}
		}
	})
}

// TestSDK compares with the CloudEvents SDK in both directions.
func TestSDK(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := anyEvent(true).Draw(t, "event")
		text := AppendJSON(nil, &e)
		var theirs ce.Event
		if err := json.Unmarshal(text, &theirs); err != nil {
			t.Fatalf("the sdk refuses %s: %v", text, err)
		}
		if err := theirs.Validate(); err != nil {
			t.Fatalf("the sdk finds %s invalid: %v", text, err)
		}
		same(t, &e, &theirs)
		back, err := json.Marshal(theirs)
		if err != nil {
			t.Fatalf("the sdk cannot write %s: %v", text, err)
		}
		ours, err := ParseJSON(back)
		if err != nil {
			t.Fatalf("%v: %s", err, back)
		}
		same(t, &ours, &theirs)
	})
}

// same compares an event with the SDK's view of it.
func same(t *rapid.T, e *Event, sdk *ce.Event) {
	t.Helper()
	type view struct {
		ID, Source, Type, Subject, Content, Schema string
		Time                                       time.Time
		Ext                                        map[string]any
		Data                                       string
	}
	ours := view{
		ID: e.ID, Source: e.Source, Type: e.Type, Subject: e.Subject, Content: e.ContentType, Schema: e.Schema,
		Time: e.Time, Ext: map[string]any{}, Data: string(e.Data),
	}
	if e.Key != "" {
		ours.Ext["partitionkey"] = e.Key
	}
	for _, a := range e.Ext {
		switch a.Kind {
		case String:
			ours.Ext[a.Name] = a.Value
		case Bool:
			ours.Ext[a.Name] = a.Value == "true"
		case Int:
			var n int32
			if err := json.Unmarshal([]byte(a.Value), &n); err != nil {
				t.Fatal(err)
			}
			ours.Ext[a.Name] = n
		}
	}
	theirs := view{
		ID: sdk.ID(), Source: sdk.Source(), Type: sdk.Type(), Subject: sdk.Subject(), Content: sdk.DataContentType(), Schema: sdk.DataSchema(),
		Time: sdk.Time(), Ext: map[string]any{}, Data: string(sdk.Data()),
	}
	maps.Copy(theirs.Ext, sdk.Extensions())
	if e.JSON() {
		ours.Data, theirs.Data = compact(ours.Data), compact(theirs.Data)
	}
	if diff := cmp.Diff(ours, theirs); diff != "" {
		t.Fatalf("(-ours +sdk)\n%s", diff)
	}
}

func compact(s string) string {
	var v any
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return s
	}
	b, err := json.Marshal(v)
	if err != nil {
		return s
	}
	return string(b)
}
