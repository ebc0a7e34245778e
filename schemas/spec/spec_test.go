package spec_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"millrace/schemas/spec"
)

type retry struct {
	Strategy string `json:"strategy" doc:"How to wait." default:"backoff" spec:"enum=backoff|custom"`
	Max      int    `json:"max" doc:"How often." spec:"required,min=1"`
}

type step struct {
	Set  map[string]string `json:"set" doc:"What to set."`
	Note *string           `json:"note" doc:"A remark."`
}

type embedded struct {
	Topic string `json:"topic" doc:"Where to."`
}

type all struct {
	embedded
	Host     string            `json:"database.hostname" doc:"The server." spec:"required,group=Connection,importance=high"`
	Port     uint16            `json:"database.port" doc:"The port." default:"3306" spec:"min=1,max=65535,group=Connection"`
	Password spec.Secret       `json:"database.password" doc:"The password." spec:"group=Connection"`
	Follow   bool              `json:"follow" doc:"Go on." default:"true"`
	Offset   int64             `json:"offset" doc:"An offset."`
	Ratio    float64           `json:"ratio" doc:"A ratio." default:"0.5" spec:"max=1"`
	Wait     time.Duration     `json:"wait" doc:"A while." default:"30s" spec:"max=40d"`
	Delay    time.Duration     `json:"delay.max.ms" doc:"Connect's." default:"60000" spec:"ms,min=-1"`
	Size     spec.Bytes        `json:"size" doc:"A size." default:"4MiB" spec:"min=1kB"`
	Tables   []string          `json:"tables" doc:"Names." default:"a,b"`
	Modes    []string          `json:"modes" doc:"Modes." spec:"enum=x|y,max=2"`
	Headers  map[string]string `json:"headers" doc:"Headers." spec:"secret"`
	When     json.RawMessage   `json:"when" doc:"A pattern." spec:"json"`
	Where    any               `json:"where" doc:"An expression."`
	Retry    retry             `json:"retry" doc:"Retries."`
	Again    *retry            `json:"again" doc:"More retries."`
	Steps    []step            `json:"transforms" doc:"Steps."`
	Limit    *int              `json:"limit" doc:"A limit." spec:"min=2"`
	Skip     string            `json:"-"`
}

func TestDecodeDefaults(t *testing.T) {
	t.Parallel()
	var c all
	if err := spec.Of[all]().Decode(map[string]any{"database.hostname": "db", "limit": nil}, &c); err != nil {
		t.Fatal(err)
	}
	want := all{
		Host: "db", Port: 3306, Follow: true, Ratio: 0.5, Wait: 30 * time.Second, Delay: time.Minute,
		Size: 4 << 20, Tables: []string{"a", "b"}, Retry: retry{Strategy: "backoff"},
	}
	if diff := cmp.Diff(want, c, cmp.AllowUnexported(all{})); diff != "" {
		t.Error(diff)
	}
}

// TestDecodeForms gives the same config as JSON and as flat text.
func TestDecodeForms(t *testing.T) {
	t.Parallel()
	forms := map[string]map[string]any{}
	forms["flat"] = spec.FromStrings(map[string]string{
		"topic": "t", "database.hostname": "db", "database.port": "1", "database.password": "p", "follow": "FALSE",
		"offset": "9007199254740993", "ratio": "1e-1", "wait": "40d", "delay.max.ms": "-1", "size": "10kB", "tables": "a, b,c", "modes": "x,y",
		"headers.accept": "a", "headers.X": "1", "when": `{"a":[1]}`, "where": `data.x == "y"`, "retry.max": "3",
		"again": `{"max":4,"strategy":"custom"}`, "transforms": `[{"set":{"a":"1"},"note":"n"}]`, "limit": "2",
	})
	var fromJSON map[string]any
	if err := json.Unmarshal([]byte(`{"topic":"t","database.hostname":"db","database.port":1,"database.password":"p","follow":false,
		"ratio":0.1,"wait":"960h","delay.max.ms":-1,"size":10000,"tables":["a","b","c"],"modes":["x","y"],
		"headers":{"accept":"a","X":1},"when":{"a":[1]},"where":"data.x == \"y\"","retry":{"max":3},
		"again":{"max":"4","strategy":"custom"},"transforms":[{"set":{"a":1},"note":"n"}],"limit":2}`), &fromJSON); err != nil {
		t.Fatal(err)
	}
	fromJSON["offset"] = json.Number("9007199254740993")
	forms["json"] = fromJSON
	note, limit := "n", 2
	want := all{
		embedded: embedded{"t"}, Host: "db", Port: 1, Password: "p", Offset: 9007199254740993, Ratio: 0.1, Wait: 960 * time.Hour,
		Delay: -time.Millisecond, Size: 10000, Tables: []string{"a", "b", "c"}, Modes: []string{"x", "y"},
		Headers: map[string]string{"accept": "a", "X": "1"}, When: json.RawMessage(`{"a":[1]}`), Where: `data.x == "y"`,
		Retry: retry{"backoff", 3}, Again: &retry{"custom", 4}, Steps: []step{{map[string]string{"a": "1"}, &note}}, Limit: &limit,
	}
	for name, config := range forms {
		var c all
		if err := spec.Of[all]().Decode(config, &c); err != nil {
			t.Fatal(name, err)
		}
		if diff := cmp.Diff(want, c, cmp.AllowUnexported(all{})); diff != "" {
			t.Error(name, diff)
		}
	}
}

func TestDecodeProblems(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		key   string
		value any
		want  string
	}{
		{"database.hostname", "", "database.hostname: is required and must not be empty: The server."},
		{"database.port", "x", `database.port: must be a whole number, not "x"`},
		{"database.port", 1.5, `database.port: must be a whole number, not 1.5`},
		{"database.port", true, `database.port: must be a whole number, not true`},
		{"database.port", 65536, `database.port: must be at most 65535, not 65536`},
		{"database.port", "-1", `database.port: must be at least 1, not "-1"`},
		{"database.prot", "1", `database.prot: unknown key, did you mean "database.port"?`},
		{"hostname", "1", `hostname: unknown key, did you mean "database.hostname"?`},
		{"follow", "yes", `follow: must be true or false, not "yes"`},
		{"ratio", "NaN", `ratio: must be a number, not "NaN"`},
		{"wait", "30", `wait: needs a unit, such as "30s", not "30"`},
		{"wait", "41d", `wait: must be at most 40d, not "41d"`},
		{"wait", "-1s", `wait: must be a duration such as "90s", "72h" or "40d", not "-1s"`},
		{"size", "1 byte", `size: must be a size such as "64MiB" or "1024", not "1 byte"`},
		{"size", "1", `size: must be at least 1kB, not "1"`},
		{"modes", "x,z", `modes[1]: must be one of x, y, not "z"`},
		{"modes", "x,x,x", `modes: has 3 items: at least 0 and at most 2 are allowed`},
		{"tables", map[string]any{}, `tables: must be a list, not {}`},
		{"tables", `["a"`, `tables: is not a JSON array: unexpected end of JSON input`},
		{"headers", "secret-without-equals", `headers: must be a JSON object, or text such as "a=1,b=2"`},
		{"when", "{", "when: is not valid JSON: unexpected end of JSON input"},
		{"when", "plain", "when: is not valid JSON: invalid character 'p' looking for beginning of value"},
		{"retry", "x", `retry: must be a JSON object, not "x"`},
		{"retry", map[string]any{}, `retry.max: is required: How often.`},
		{"retry", `{"max":0}`, `retry.max: must be at least 1, not 0`},
		{"retry.strategy", "bakcoff", `retry.strategy: must be one of backoff, custom (did you mean "backoff"?), not "bakcoff"; retry.max: is required: How often.`},
		{"again", `{"max":1,"mx":1}`, `again.mx: unknown key, did you mean "max"?`},
		{"transforms", `[{"set":{"a":[]}},{"sett":{}}]`, `transforms[0].set.a: must be text, not []; transforms[1].sett: unknown key, did you mean "set"?`},
		{"transforms", "x", `transforms: must be a JSON array, not "x"`},
		{"limit", "1", `limit: must be at least 2, not "1"`},
	} {
		config := map[string]any{"database.hostname": "h", tc.key: tc.value}
		c := all{Host: "untouched"}
		err := spec.Of[all]().Decode(config, &c)
		var se *spec.Error
		if !errors.As(err, &se) || err.Error() != tc.want {
			t.Errorf("%s=%v: %v\nwant %s", tc.key, tc.value, err, tc.want)
		}
		if c.Host != "untouched" {
			t.Errorf("%s=%v: out was changed", tc.key, tc.value)
		}
	}
}

func TestDecodeAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	err := spec.Of[all]().Check(map[string]any{"database.port": "x", "follow": 3, "nope": 1, "zap": 1})
	var se *spec.Error
	if !errors.As(err, &se) || len(se.Problems) != 5 {
		t.Fatalf("%v", err)
	}
}

func TestReferencesPassChecks(t *testing.T) {
	t.Parallel()
	config := map[string]any{"database.hostname": "${env:HOST}", "database.port": "${env:PORT}", "modes": "${file:/m}", "when": "${env:W}"}
	if err := spec.Of[all]().Check(config); err != nil {
		t.Error(err)
	}
	config["database.port"] = "${HOME}"
	if err := spec.Of[all]().Check(config); err == nil {
		t.Error("a text that only looks like a reference passed")
	}
}

func TestJoin(t *testing.T) {
	t.Parallel()
	type common struct {
		Class string `json:"connector.class" doc:"The class." spec:"required"`
		Topic string `json:"topic" doc:"Common's topic."`
	}
	type own struct {
		Path  string `json:"path" doc:"The path." spec:"required"`
		Topic string `json:"topic" doc:"Own topic." spec:"required"`
	}
	s := spec.Join(spec.Of[common](), spec.Of[own]())
	if diff := cmp.Diff([]string{"connector.class", "path", "topic"}, s.Names()); diff != "" {
		t.Error(diff)
	}
	config := map[string]any{"connector.class": "x", "path": "/p", "topic": "t"}
	var c common
	var o own
	if err := errors.Join(s.Decode(config, &c), s.Decode(config, &o)); err != nil {
		t.Fatal(err)
	}
	if c.Topic != "t" || o.Topic != "t" || o.Path != "/p" {
		t.Error(c, o)
	}
	delete(config, "topic")
	config["pth"] = "x"
	err := s.Decode(config, &c)
	if want := `topic: is required: Own topic.; pth: unknown key, did you mean "path"?`; err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}

func TestOfPanics(t *testing.T) {
	t.Parallel()
	mustPanic := func(name string, f func()) {
		defer func() {
			if recover() == nil {
				t.Error(name, "did not panic")
			}
		}()
		f()
	}
	mustPanic("no doc", func() {
		spec.Of[struct {
			A string `json:"a"`
		}]()
	})
	mustPanic("option", func() {
		spec.Of[struct {
			A string `json:"a" doc:"d" spec:"requird"`
		}]()
	})
	mustPanic("default", func() {
		spec.Of[struct {
			A int `json:"a" doc:"d" default:"x"`
		}]()
	})
	mustPanic("twice", func() {
		spec.Of[struct {
			embedded
			B int `json:"topic" doc:"d"`
		}]()
	})
	mustPanic("type", func() {
		spec.Of[struct {
			A chan int `json:"a" doc:"d"`
		}]()
	})
}

func TestValidate(t *testing.T) {
	t.Parallel()
	results := spec.Of[all]().Validate(map[string]any{"database.port": "x", "database.password": "p", "retry.max": "0", "zzz": "1"})
	byName := map[string]spec.KeyResult{}
	for _, r := range results {
		byName[r.Value.Name] = r
	}
	if len(results) != len(spec.Of[all]().Names())+1 {
		t.Error(len(results))
	}
	got, err := json.Marshal(byName["database.port"])
	want := `{"definition":{"name":"database.port","type":"INT","required":false,"default_value":"3306","importance":"MEDIUM","documentation":"The port.",` +
		`"group":"Connection","width":"SHORT","display_name":"Database port","dependents":[],"order":2},` +
		`"value":{"name":"database.port","value":"x","recommended_values":[],"errors":["must be a whole number, not \"x\""],"visible":true}}`
	if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
		t.Error(err, diff)
	}
	if r := byName["database.hostname"]; len(r.Value.Errors) != 1 || r.Value.Value != nil || !r.Definition.Required {
		t.Error(r)
	}
	if r := byName["database.password"]; *r.Value.Value != "[hidden]" || r.Definition.Type != "PASSWORD" {
		t.Error(r)
	}
	if r := byName["retry"]; len(r.Value.Errors) != 1 || r.Value.Errors[0] != "max: must be at least 1, not \"0\"" {
		t.Error(r)
	}
	if r := byName["zzz"]; r.Definition != nil || len(r.Value.Errors) != 1 {
		t.Error(r)
	}
}

// TestSchemaAgrees compiles the JSON Schema and holds it against the decoder.
func TestSchemaAgrees(t *testing.T) {
	t.Parallel()
	s := spec.Of[all]()
	b, err := json.Marshal(s.JSONSchema())
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("mem:///s", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("mem:///s")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		`{"database.hostname":"h"}`, `{}`, `{"database.hostname":"h","database.port":0}`, `{"database.hostname":"h","follow":true,"tables":["a"],"headers":{"a":"b"},"headers.x":"y"}`,
		`{"database.hostname":"h","nope":1}`, `{"database.hostname":"h","retry":{"max":0}}`, `{"database.hostname":"h","retry":{"max":1,"x":1}}`, `{"database.hostname":"h","transforms":[{"set":{"a":"b"}}]}`,
		`{"database.hostname":"h","transforms":[{"st":{}}]}`, `{"database.hostname":"h","modes":["z"]}`, `{"database.hostname":"h","modes":["x","x","x"]}`, `{"database.hostname":"h","size":12}`, `{"database.hostname":"h","retry.max":3}`,
	} {
		var config map[string]any
		if err := json.Unmarshal([]byte(text), &config); err != nil {
			t.Fatal(err)
		}
		bySchema, bySpec := schema.Validate(config), s.Check(config)
		if (bySchema == nil) != (bySpec == nil) {
			t.Errorf("%s\nschema: %v\nspec: %v", text, bySchema, bySpec)
		}
	}
}

func TestMarkdown(t *testing.T) {
	t.Parallel()
	md := spec.Of[all]().Markdown()
	for _, line := range []string{
		"### Connection\n\n| Key | Type | Default | Description |\n| --- | --- | --- | --- |\n| `database.hostname` | text | *required* | The server. |\n",
		"| `database.port` | integer | `3306` | The port. From 1 to 65535. |\n",
		"| `transforms[].set` | map of text |  | What to set. |\n",
		"| `again.strategy` | text | `backoff` | How to wait. One of `backoff`, `custom`. |\n",
	} {
		if !strings.Contains(md, line) {
			t.Errorf("no %q in\n%s", line, md)
		}
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	for _, tc := range [][2]string{{"pth", "path"}, {"paht", "path"}, {"hostname", "database.hostname"}, {"zzzzzz", ""}, {"PATH", "path"}, {"", ""}, {"x", ""}} {
		if got := spec.Nearest(tc[0], []string{"topic", "path", "database.hostname"}); got != tc[1] {
			t.Errorf("%q: %q", tc[0], got)
		}
	}
}

func TestSizesAndDurations(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := spec.Bytes(rapid.Int64Range(0, 1<<50).Draw(t, "n"))
		if got, err := spec.ParseBytes(n.String()); err != nil || got != n {
			t.Fatal(n.String(), got, err)
		}
		d := time.Duration(rapid.Int64Range(0, 1<<60).Draw(t, "d"))
		if got, err := spec.ParseDuration(d.String()); err != nil || got != d {
			t.Fatal(d, got, err)
		}
	})
	for text, want := range map[string]spec.Bytes{"1.5KiB": 1536, "2 mb": 2_000_000, "7": 7, "3B": 3} {
		if got, err := spec.ParseBytes(text); err != nil || got != want {
			t.Error(text, got, err)
		}
	}
	for _, text := range []string{"", "x", "1.5", "-1", "1QiB", "99999999TiB", "1..2kB"} {
		if _, err := spec.ParseBytes(text); err == nil {
			t.Error(text)
		}
	}
}

// TestDecodeNeverPanics feeds arbitrary values to every key.
func TestDecodeNeverPanics(t *testing.T) {
	t.Parallel()
	s := spec.Of[all]()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", " ", "{", "[", "[]", "{}", "null", "${env:X}", "-0", "1e400", "\x00"}))
		value := rapid.OneOf(rapid.Custom(func(t *rapid.T) any { return text.Draw(t, "s") }), rapid.Custom(func(t *rapid.T) any { return rapid.Float64().Draw(t, "f") }),
			rapid.Custom(func(t *rapid.T) any { return []any{text.Draw(t, "s"), nil, map[string]any{"set": nil}} }),
			rapid.Custom(func(t *rapid.T) any { return map[string]any{"max": text.Draw(t, "s"), "": 1} }), rapid.Just[any](nil))
		config := rapid.MapOf(rapid.OneOf(rapid.SampledFrom(s.Names()), rapid.Just("retry.max"), rapid.Just("headers."), rapid.String()), value).Draw(t, "config")
		var c all
		_ = s.Decode(config, &c)
		_ = s.Validate(config)
		_ = spec.Redact(config, s)
	})
}
