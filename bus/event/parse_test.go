package event

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const base = `"specversion":"1.0","id":"1","source":"/s","type":"t"`

// TestParseJSON holds what is read, among it events in the shapes that the
// CloudEvents 1.0 JSON format describes: JSON data as object, array, string,
// number, boolean and null; text; XML; base64; no data.
func TestParseJSON(t *testing.T) {
	t.Parallel()
	ev := func(ct, data string) Event {
		return Event{ID: "1", Source: "/s", Type: "t", ContentType: ct, Data: []byte(data)}
	}
	tests := map[string]struct {
		in   string
		want Event
	}{
		"least": {"{" + base + "}", Event{ID: "1", Source: "/s", Type: "t"}},
		"all attributes, any order, any space": {
			" {\r\n\t\"data\" : {\"a\": 1.0 } ,\"partitionkey\":\"k\",\"dataschema\":\"urn:x\",\"datacontenttype\":\"application/json\",\"time\":\"2018-04-05T17:31:00+02:00\"," +
				`"subject":"123","type":"com.example.someevent","source":"https://github.com/cloudevents/spec/pull","id":"A234-1234-1234","comexampleextension1":"value","comexampleothervalue":5,"flag":true,"specversion":"1.0"} `,
			Event{
				ID: "A234-1234-1234", Source: "https://github.com/cloudevents/spec/pull", Type: "com.example.someevent", Subject: "123",
				Time: time.Date(2018, 4, 5, 15, 31, 0, 0, time.UTC), ContentType: "application/json", Schema: "urn:x", Key: "k",
				Ext:  []Attr{{"comexampleextension1", "value", String}, {"comexampleothervalue", "5", Int}, {"flag", "true", Bool}},
				Data: []byte(`{"a": 1.0 }`),
			},
		},
		"xml":                {"{" + base + `,"datacontenttype":"text/xml","data":"<much wow=\"xml\"/>"}`, ev("text/xml", `<much wow="xml"/>`)},
		"xml, suffix":        {"{" + base + `,"datacontenttype":"application/atom+xml","data":"<a\/>"}`, ev("application/atom+xml", `<a/>`)},
		"base64":             {"{" + base + `,"datacontenttype":"application/vnd.apache.thrift.binary","data_base64":"AQL/"}`, ev("application/vnd.apache.thrift.binary", "\x01\x02\xff")},
		"base64, escaped":    {"{" + base + `,"datacontenttype":"image/png","data_base64":"AQL\/"}`, ev("image/png", "\x01\x02\xff")},
		"base64 of json":     {"{" + base + `,"data_base64":"eyJhIjoxfQ=="}`, ev("", `{"a":1}`)},
		"base64, empty":      {"{" + base + `,"data_base64":""}`, ev("", "")},
		"json string":        {"{" + base + `,"data":"I'm just a string"}`, ev("", `"I'm just a string"`)},
		"json string, typed": {"{" + base + `,"datacontenttype":"application/json","data":"\u00e9"}`, ev("application/json", `"\u00e9"`)},
		"number":             {"{" + base + `,"data":1.50}`, ev("", "1.50")},
		"array":              {"{" + base + `,"data":[1,{"a":[]}]}`, ev("", `[1,{"a":[]}]`)},
		"null is json":       {"{" + base + `,"data":null}`, ev("", "null")},
		"null is no text":    {"{" + base + `,"datacontenttype":"text/plain","data":null}`, Event{ID: "1", Source: "/s", Type: "t", ContentType: "text/plain"}},
		"object as text":     {"{" + base + `,"datacontenttype":"text/plain","data":{"a":1}}`, ev("text/plain", `{"a":1}`)},
		"+json":              {"{" + base + `,"datacontenttype":"application/geo+JSON; charset=utf-8","data":"x"}`, ev("application/geo+JSON; charset=utf-8", `"x"`)},
		"nulls are absent": {
			"{" + base + `,"subject":null,"time":null,"datacontenttype":null,"dataschema":null,"partitionkey":null,"ext":null,"data_base64":null}`,
			Event{ID: "1", Source: "/s", Type: "t"},
		},
		"empty optional ones":       {"{" + base + `,"subject":"","ext":""}`, Event{ID: "1", Source: "/s", Type: "t", Ext: []Attr{{"ext", "", String}}}},
		"what is ours goes":         {"{" + base + `,"mrqueue":"1","mroffset":"2","mrattempt":3,"mrorigin":"x","mrreason":"y","mrstep":"z","mrhops":1,"mrother":"stays"}`, Event{ID: "1", Source: "/s", Type: "t", Ext: []Attr{{"mrother", "stays", String}}}},
		"escapes":                   {`{"specversion":"1.0","\u0069d":"\u00e9\ud83d\ude00\"\\\/\b\f\n\r\t\u0000","source":"\ud800","type":"\udc00\ud800x"}`, Event{ID: "é😀\"\\/\b\f\n\r\t\x00", Source: "\ufffd", Type: "\ufffd\ufffdx"}},
		"integers":                  {"{" + base + `,"a":-2147483648,"b":2147483647,"c":-0}`, Event{ID: "1", Source: "/s", Type: "t", Ext: []Attr{{"a", "-2147483648", Int}, {"b", "2147483647", Int}, {"c", "0", Int}}}},
		"0.3":                       {`{"specversion":"0.3","id":"1","source":"/s","type":"t","schemaurl":"urn:x","subject":"s","data":{"a":1}}`, Event{ID: "1", Source: "/s", Type: "t", Subject: "s", Schema: "urn:x", Data: []byte(`{"a":1}`)}},
		"0.3, base64":               {`{"specversion":"0.3","id":"1","source":"/s","type":"t","datacontenttype":"image/png","datacontentencoding":"base64","data":"AQL/","x":"y"}`, Event{ID: "1", Source: "/s", Type: "t", ContentType: "image/png", Data: []byte{1, 2, 255}, Ext: []Attr{{"x", "y", String}}}},
		"1.0 has no such encodings": {"{" + base + `,"datacontentencoding":"base64","data":"AQL/"}`, Event{ID: "1", Source: "/s", Type: "t", Data: []byte(`"AQL/"`), Ext: []Attr{{"datacontentencoding", "base64", String}}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := []byte(test.in)
			got, err := ParseJSON(in)
			if err != nil {
				t.Fatal(err)
			}
			clear(in) // the event shares nothing with it
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if got.Data != nil && len(got.Data) != cap(got.Data) && cap(got.Data) > len(test.in) {
				t.Errorf("data can grow into its neighbours")
			}
		})
	}
}

func TestParseJSONErrors(t *testing.T) {
	t.Parallel()
	tests := []struct{ in, want string }{ // want begins with "!" for ErrSyntax
		{``, "!malformed JSON at byte 0: the text ends too early"},
		{`  `, "!malformed JSON at byte 2: the text ends too early"},
		{`{`, "!malformed JSON at byte 1: the text ends too early"},
		{`{"specversion":"1.0","id":"1`, "!malformed JSON at byte 28: the text ends too early"},
		{`{"specversion":"1.0","data":{"a":[1,2`, "!malformed JSON at byte 37: the text ends too early"},
		{`{"data":tru`, "!malformed JSON at byte 11: the text ends too early"},
		{`{"data":nul}`, "!malformed JSON at byte 11: null is expected here"},
		{`{"id" "1"}`, "!malformed JSON at byte 6: ':' is expected here"},
		{`{"id":"1",}`, "!malformed JSON at byte 10: a member name in double quotes is expected here"},
		{`{"id":"1" "x":1}`, "!malformed JSON at byte 10: ',' or '}' is expected here"},
		{`{'id':1}`, "!malformed JSON at byte 1: a member name in double quotes is expected here"},
		{`{"data":01}`, "!malformed JSON at byte 9: ',' or '}' is expected here"},
		{`{"data":-}`, "!malformed JSON at byte 9: a digit is expected here"},
		{`{"data":1.}`, "!malformed JSON at byte 10: a digit is expected here"},
		{`{"data":1e+}`, "!malformed JSON at byte 11: a digit is expected here"},
		{`{"data":NaN}`, "!malformed JSON at byte 8: a value is expected here"},
		{`{"data":[1,]}`, "!malformed JSON at byte 11: a value is expected here"},
		{`{"data":"\x"}`, "!malformed JSON at byte 10: not an escape that JSON knows"},
		{`{"data":"\u12g4"}`, "!malformed JSON at byte 13: \\u needs four hexadecimal digits"},
		{"{\"data\":\"a\nb\"}", "!malformed JSON at byte 10: a control character in a string must be escaped"},
		{"{\"data\":\"\xff\"}", "!malformed JSON at byte 9: not valid UTF-8"},
		{"\xef\xbb\xbf{}", "!malformed JSON at byte 0: a value is expected here"},
		{"{" + base + "} x", "!malformed JSON at byte 56: something follows the value"},
		{`{"data":` + strings.Repeat("[", 2000), "!malformed JSON at byte 1008: nested deeper than 1000"},
		{`[]`, "event must be a JSON object"},
		{`"x"`, "event must be a JSON object"},
		{`{}`, `specversion is required: "1.0"`},
		{`{"specversion":"2.0","id":"1","source":"/s","type":"t"}`, `specversion "2.0" is not supported: use "1.0"`},
		{`{"specversion":1.0,"id":"1","source":"/s","type":"t"}`, "specversion must be a string, not a number"},
		{`{"specversion":"1.0","source":"/s","type":"t"}`, "id is required"},
		{`{"specversion":"1.0","id":"","source":"/s","type":"t"}`, "id is required"},
		{`{"specversion":"1.0","id":5,"source":"/s","type":"t"}`, "id must be a string, not a number"},
		{`{"specversion":"1.0","id":"1","type":"t"}`, "source is required"},
		{`{"specversion":"1.0","id":"1","source":null,"type":"t"}`, "source is required"},
		{`{"specversion":"1.0","id":"1","source":"/s"}`, "type is required"},
		{"{" + base + `,"id":"2"}`, "id stands there twice"},
		{"{" + base + `,"x":"2","x":"2"}`, "x stands there twice"},
		{"{" + base + `,"data":1,"data":1}`, "data stands there twice"},
		{"{" + base + `,"subject":{}}`, "subject must be a string, not an object"},
		{"{" + base + `,"subject":["a"]}`, "subject must be a string, not an array"},
		{"{" + base + `,"time":true}`, "time must be a string, not a boolean"},
		{"{" + base + `,"time":"yesterday"}`, `time "yesterday" is not an RFC 3339 time such as 2026-01-31T09:30:00Z`},
		{"{" + base + `,"time":"2026-01-31 09:30:00"}`, `time "2026-01-31 09:30:00" is not an RFC 3339 time such as 2026-01-31T09:30:00Z`},
		{"{" + base + `,"time":"2026-02-31T09:30:00Z"}`, `time "2026-02-31T09:30:00Z" is not an RFC 3339 time such as 2026-01-31T09:30:00Z`},
		{"{" + base + `,"time":"0000-01-01T00:00:00+01:00"}`, `time "0000-01-01T00:00:00+01:00" is not an RFC 3339 time such as 2026-01-31T09:30:00Z`},
		{"{" + base + `,"Subject":"x"}`, "Subject is not an attribute name: use lower-case letters and digits only"},
		{"{" + base + `,"my_ext":"x"}`, "my_ext is not an attribute name: use lower-case letters and digits only"},
		{"{" + base + `,"":"x"}`, `"" is not an attribute name`},
		{"{" + base + `,"ext":1.5}`, "ext must be a 32-bit integer, not 1.5: send other numbers as strings"},
		{"{" + base + `,"ext":2147483648}`, "ext must be a 32-bit integer, not 2147483648: send other numbers as strings"},
		{"{" + base + `,"ext":{"a":1}}`, "ext must be a string, a boolean or an integer, not an object: structured content belongs in data"},
		{"{" + base + `,"ext":[1]}`, "ext must be a string, a boolean or an integer, not an array: structured content belongs in data"},
		{"{" + base + `,"data":1,"data_base64":"AQ=="}`, "data_base64 and data exclude each other"},
		{"{" + base + `,"data_base64":"AQ"}`, "data_base64 is not base64 with padding"},
		{"{" + base + `,"data_base64":{}}`, "data_base64 must be a string, not an object"},
		{"{" + base + `,"data_base64":"e30s"}`, "data_base64 holds no JSON, which the datacontenttype asks for: malformed JSON at byte 2: something follows the value"},
		{`{"specversion":"0.3","id":"1","source":"/s","type":"t","datacontentencoding":"gzip","data":"x"}`, `datacontentencoding "gzip" is not supported: use "base64"`},
		{`{"specversion":"0.3","id":"1","source":"/s","type":"t","datacontentencoding":"base64","data":{}}`, `data must be a string when datacontentencoding is base64`},
	}
	for _, test := range tests {
		_, err := ParseJSON([]byte(test.in))
		want, syntax := strings.CutPrefix(test.want, "!")
		if err == nil || err.Error() != want || errors.Is(err, ErrSyntax) != syntax {
			t.Errorf("%.200s\n got %v\nwant %s", test.in, err, want)
		}
		if fe := (*FieldError)(nil); !syntax && !errors.As(err, &fe) {
			t.Errorf("%s: not a FieldError", test.in)
		}
	}
	many := []byte("{" + base)
	for i := range 300 {
		many = fmt.Appendf(many, `,"x%d":"v"`, i)
	}
	if _, err := ParseJSON(append(many, '}')); err == nil || !strings.Contains(err.Error(), "256 are allowed") {
		t.Errorf("300 extensions: %v", err)
	}
}

func TestParseBatchJSON(t *testing.T) {
	t.Parallel()
	events, err := ParseBatchJSON([]byte(" [ ] "))
	if err != nil || events == nil || len(events) != 0 {
		t.Errorf("an empty batch gives %v, %v", events, err)
	}
	events, err = ParseBatchJSON([]byte("[{" + base + `,"data":"x"},` + "\n{" + base + "}]"))
	if err != nil || len(events) != 2 || string(events[0].Data) != `"x"` || events[1].Data != nil {
		t.Errorf("got %v, %v", events, err)
	}
	for in, want := range map[string]string{
		`{}`:                          "events must be a JSON array of events",
		`[{` + base + `},1]`:          "[1] must be a JSON object",
		`[{` + base + `},{"id":"1"}]`: "[1].specversion is required: \"1.0\"",
		`[{` + base + `},{` + base + `,"time":"x"}]`: `[1].time "x" is not an RFC 3339 time such as 2026-01-31T09:30:00Z`,
		`[{` + base + `},{` + base + `,"Ext":"x"}]`:  "[1].Ext is not an attribute name: use lower-case letters and digits only",
		`[{` + base + `}`:     "malformed JSON at byte 56: the text ends too early",
		`[{` + base + `},]`:   "malformed JSON at byte 57: a value is expected here",
		`[{` + base + `}] []`: "malformed JSON at byte 58: something follows the value",
		`[`:                   "malformed JSON at byte 1: the text ends too early",
	} {
		if _, err := ParseBatchJSON([]byte(in)); err == nil || err.Error() != want {
			t.Errorf("%s\n got %v\nwant %s", in, err, want)
		}
	}
}
