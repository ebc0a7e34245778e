package event

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// FuzzParseJSON: a text is refused with a clear error or is an event that
// survives being written and read again.
func FuzzParseJSON(f *testing.F) {
	f.Add(`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":{"a":[1,"\u00e9"]}}`)
	f.Add(`{"specversion":"0.3","id":"1","source":"/s","type":"t","datacontentencoding":"base64","data":"AQ=="}`)
	f.Add(`{"specversion":"1.0","id":"1","source":"/s","type":"t","datacontenttype":"text/plain","data":"x","a":1,"b":true}`)
	f.Add(`{"specversion":"1.0","id":"1","source":"/s","type":"t","time":"2026-01-31T09:30:00.5+01:00","data_base64":"e30="}`)
	f.Fuzz(func(t *testing.T, s string) {
		e, err := ParseJSON([]byte(s))
		batch, batchErr := ParseBatchJSON([]byte("[" + s + "]"))
		if err != nil {
			if fe := (*FieldError)(nil); !errors.Is(err, ErrSyntax) && !errors.As(err, &fe) {
				t.Fatalf("%v", err)
			}
			if batchErr == nil && len(batch) == 1 {
				t.Fatalf("refused alone (%v), taken in a batch", err)
			}
			return
		}
		if batchErr != nil || len(batch) != 1 || !cmp.Equal(batch[0], e) {
			t.Fatalf("in a batch it is %+v, %v", batch, batchErr)
		}
		if err := e.Validate(); err != nil {
			t.Fatalf("%+v: %v", e, err)
		}
		text := AppendJSON(nil, &e)
		if !json.Valid(text) || !utf8.Valid(text) || strings.ContainsAny(string(text), "\n\r") {
			t.Fatalf("%q is not one line of JSON", text)
		}
		back, err := ParseJSON(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		e.Data, back.Data = noLineEnds(e), noLineEnds(back)
		if diff := cmp.Diff(e, back); diff != "" {
			t.Fatalf("%s (-want +got)\n%s", text, diff)
		}
	})
}

// noLineEnds is data as AppendJSON writes it.
func noLineEnds(e Event) []byte {
	if e.Data == nil || !e.JSON() {
		return e.Data
	}
	return []byte(strings.NewReplacer("\n", " ", "\r", " ").Replace(string(e.Data)))
}

// FuzzCheckJSON agrees with encoding/json on what is JSON, but for invalid UTF-8,
// which is refused here, and nesting.
func FuzzCheckJSON(f *testing.F) {
	for _, s := range []string{`{"a":[1,-2.5e+3,"x\u00e9\n",true,false,null,{}]}`, ` [ ] `, `"\ud800"`, `01`, `1e`, `{"a":1,}`, "\"\x7f\"", `-0`, `[1 2]`, `{"a"}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		err := CheckJSON([]byte(s))
		want := json.Valid([]byte(s)) && utf8.ValidString(s)
		if (err == nil) != want && (err == nil || !strings.Contains(err.Error(), "nested deeper")) {
			t.Fatalf("%q: %v, encoding/json says %v", s, err, want)
		}
		if err != nil && !errors.Is(err, ErrSyntax) {
			t.Fatal(err)
		}
	})
}

// FuzzQuote agrees with encoding/json on what strings mean.
func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "plain", "\"\\/\b\f\n\r\t\x00\x1f\x7f", "é世😀\u2028", "\xff\xc0\xaf\xed\xa0\x80"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		quoted := AppendQuoted(nil, s)
		var theirs string
		if err := json.Unmarshal(quoted, &theirs); err != nil {
			t.Fatalf("%q: %v", quoted, err)
		}
		ours, err := Unquote(quoted)
		if err != nil || ours != theirs || ours != strings.ToValidUTF8(s, "\ufffd") && utf8.ValidString(s) {
			t.Fatalf("%q is written %s, read as %q by encoding/json, as %q here, %v", s, quoted, theirs, ours, err)
		}
		in := []byte(`"` + s + `"`)
		if CheckJSON(in) != nil {
			return
		}
		if err := json.Unmarshal(in, &theirs); err != nil {
			t.Fatal(err)
		}
		if ours, err = Unquote(in); err != nil || ours != theirs {
			t.Fatalf("%s is %q to encoding/json, %q here, %v", in, theirs, ours, err)
		}
	})
}
