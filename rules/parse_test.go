package rules

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	t.Parallel()
	r, err := Parse("big-orders", []byte(`{
		"description": "Orders that matter.",
		"from": ["orders", "orders.eu"],
		"when": {"type": ["order.created"], "data": {"amount": [{"numeric": [">", 100]}]}},
		"where": "data.currency == \"EUR\"",
		"transforms": [{"set": {"data.size": "'big'"}}, {"remove": ["data.card"]}],
		"to": [{"topic": "big.orders"}, {"connector": "orders-to-es", "name": "es"},
			{"http": {"url": "https://example.com/hook", "connection": "crm", "mode": "structured"}}],
		"onError": "block",
		"retry": {"strategy": "custom", "attempts": 5, "delay": "2s", "maxDelay": "1m", "maxAge": "2d"},
		"deadLetter": {"topic": "big-orders-dead"},
		"start": "2026-01-31T09:30:00Z"
	}`))
	if err != nil {
		t.Fatal(err)
	}
	want := &Rule{
		Name: "big-orders", Description: "Orders that matter.", From: []string{"orders", "orders.eu"},
		When:       json.RawMessage(`{"type": ["order.created"], "data": {"amount": [{"numeric": [">", 100]}]}}`),
		Where:      json.RawMessage(`"data.currency == \"EUR\""`),
		Transforms: []json.RawMessage{json.RawMessage(`{"set": {"data.size": "'big'"}}`), json.RawMessage(`{"remove": ["data.card"]}`)},
		To: []Target{
			{Name: "big_orders", Topic: "big.orders"},
			{Name: "es", Connector: "orders-to-es"},
			{Name: "http-3", HTTP: &HTTP{URL: "https://example.com/hook", Connection: "crm", Config: map[string]json.RawMessage{
				"url": json.RawMessage(`"https://example.com/hook"`), "connection": json.RawMessage(`"crm"`), "mode": json.RawMessage(`"structured"`),
			}}},
		},
		OnError:    Block,
		Retry:      Retry{Strategy: Custom, Attempts: 5, Delay: 2 * time.Second, MaxDelay: time.Minute, MaxAge: 48 * time.Hour},
		DeadLetter: DeadLetter{Topic: "big-orders-dead"},
		Start:      Start{Time: time.Date(2026, 1, 31, 9, 30, 0, 0, time.UTC)},
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
	if _, err := Compile(r, Env{}); err != nil {
		t.Error(err)
	}

	r, err = Parse("r", []byte(`{"from":["a"],"to":[{"topic":"b"}],"where":null,"retry":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	want = &Rule{
		Name: "r", From: []string{"a"}, To: []Target{{Name: "b", Topic: "b"}},
		Retry: Retry{Strategy: Backoff, Attempts: 3, Delay: 10 * time.Second, MaxDelay: 10 * time.Second, Jitter: 10 * time.Second},
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
	if s := r.Start.String(); s != "latest" {
		t.Error(s)
	}
}

// TestErrors: each mistake has one place and one sentence.
func TestErrors(t *testing.T) {
	t.Parallel()
	const ok = `"from":["a"],"to":[{"topic":"b"}]`
	for _, tc := range []struct{ name, spec, field, msg string }{
		{"test", `{` + ok + `}`, "name", "reserved"},
		{"a/b", `{` + ok + `}`, "name", "is not a name"},
		{strings.Repeat("n", 101), `{` + ok + `}`, "name", "is not a name"},
		{"r", `{"from":`, "", "not JSON"},
		{"r", `[]`, "", "is not an object"},
		{"r", `{` + ok + `,"form":["x"]}`, "form", `did you mean "from"?`},
		{"r", `{` + ok + `,"zzzzzzzz":1}`, "zzzzzzzz", "unknown key; known are description, from"},
		{"r", `{` + ok + `,"to":[]}`, "to", "given twice"},
		{"r", `{"to":[{"topic":"b"}]}`, "from", "is required"},
		{"r", `{"from":[],"to":[{"topic":"b"}]}`, "from", "is required"},
		{"r", `{"from":"a","to":[{"topic":"b"}]}`, "from", "must be a list"},
		{"r", `{"from":["a",5],"to":[{"topic":"b"}]}`, "from[1]", "must be text"},
		{"r", `{"from":["a","a"],"to":[{"topic":"b"}]}`, "from[1]", "named twice"},
		{"r", `{"from":["a b"],"to":[{"topic":"b"}]}`, "from[0]", "not a topic name"},
		{"r", `{"from":["__rules"],"to":[{"topic":"b"}]}`, "from[0]", "Millrace's own"},
		{"r", `{"from":["a"],"to":[{"topic":"connector-offset-topic"}]}`, "to[0].topic", "Millrace's own"},
		{"r", `{"from":["a"]}`, "to", "is required"},
		{"r", `{"from":["a"],"to":[{}]}`, "to[0]", "exactly one"},
		{"r", `{"from":["a"],"to":[{"topic":"b","connector":"c"}]}`, "to[0]", "exactly one"},
		{"r", `{"from":["a"],"to":[{"tpoic":"b"}]}`, "to[0].tpoic", `did you mean "topic"?`},
		{"r", `{"from":["a"],"to":[{"topic":""}]}`, "to[0].topic", "not a topic name"},
		{"r", `{"from":["a"],"to":[{"topic":"b.c"},{"topic":"b_c"}]}`, "to[1]", "two targets named b_c"},
		{"r", `{"from":["a"],"to":[{"topic":"b","name":"x.y"}]}`, "to[0].name", "is not a name"},
		{"r", `{"from":["a"],"to":[{"http":{}}]}`, "to[0].http.url", "is required"},
		{"r", `{"from":["a"],"to":[{"http":{"url":"ftp://x"}}]}`, "to[0].http.url", "is not an http"},
		{"r", `{"from":["a"],"to":[{"http":"x"}]}`, "to[0].http", "is not an object"},
		{"r", `{` + ok + `,"onError":"ignore"}`, "onError", `"ignore" is not one of block, park-key, skip`},
		{"r", `{` + ok + `,"retry":{"strategy":"linear"}}`, "retry.strategy", "is not one of backoff, exponential-decay, custom"},
		{"r", `{` + ok + `,"retry":{"attempts":-1}}`, "retry.attempts", "whole number"},
		{"r", `{` + ok + `,"retry":{"delay":"soon"}}`, "retry.delay", "must be a duration"},
		{"r", `{` + ok + `,"retry":{"delay":"1h","maxDelay":"1s"}}`, "retry.maxDelay", "shorter than delay"},
		{"r", `{` + ok + `,"deadLetter":"x"}`, "deadLetter", "is not an object"},
		{"r", `{` + ok + `,"start":"yesterday"}`, "start", "is not \"latest\""},
		{"r", `{` + ok + `,"transforms":{}}`, "transforms", "must be a list"},
		// of Compile
		{"r", `{` + ok + `,"when":{"data":{"amount":[{"numric":[">",1]}]}}}`, "when.data.amount[0]", `did you mean "numeric"?`},
		{"r", `{` + ok + `,"when":[]}`, "when", "is not an object"},
		{"r", `{` + ok + `,"when":{"data":{"a.b":5}}}`, `when.data["a.b"]`, "wrap it: [5]"},
		{"r", `{` + ok + `,"where":"dta.a > 1"}`, "where", "line 1, column 1: there is no dta"},
		{"r", `{` + ok + `,"where":{"cesql":"a = 1"}}`, "where", "cesql is not supported yet"},
		{"r", `{` + ok + `,"transforms":[{"remove":["data.a"]},{"sett":{}}]}`, "transforms[1].sett", `did you mean "set"?`},
	} {
		r, err := Parse(tc.name, []byte(tc.spec))
		if err == nil {
			_, err = Compile(r, Env{})
		}
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %v", tc.spec, err)
			continue
		}
		if e.Field != tc.field || !strings.Contains(e.Msg, tc.msg) || e.Rule != tc.name {
			t.Errorf("%s:\ngot  %s: %s\nwant %s: %s", tc.spec, e.Field, e.Msg, tc.field, tc.msg)
		}
	}
}

func TestPause(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		retry string
		want  []time.Duration // of retries 1, 2, 3, 10, 176
	}{
		{`{}`, []time.Duration{15 * time.Second, 15 * time.Second, 15 * time.Second, 15 * time.Second, 15 * time.Second}},
		{`{"strategy":"exponential-decay"}`, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 512 * time.Second, 512 * time.Second}},
		{`{"strategy":"custom","delay":"3s","maxDelay":"10s"}`, []time.Duration{3 * time.Second, 6 * time.Second, 10 * time.Second, 10 * time.Second, 10 * time.Second}},
		{`{"strategy":"custom","delay":"3s"}`, []time.Duration{3 * time.Second, 3 * time.Second, 3 * time.Second, 3 * time.Second, 3 * time.Second}},
		{`{"strategy":"custom","delay":"0s","maxDelay":"1s"}`, []time.Duration{0, 0, 0, 0, 0}},
	} {
		r, err := Parse("r", []byte(`{"from":["a"],"to":[{"topic":"b"}],"retry":`+tc.retry+`}`))
		if err != nil {
			t.Fatal(err)
		}
		var got []time.Duration
		for _, n := range []int{1, 2, 3, 10, 176} {
			got = append(got, r.Retry.Pause(n, 0.5))
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s", tc.retry, diff)
		}
	}
}

func TestCycle(t *testing.T) {
	t.Parallel()
	rule := func(name, from string, to ...string) *Rule {
		r := &Rule{Name: name, From: strings.Split(from, ",")}
		for _, topic := range to {
			r.To = append(r.To, Target{Topic: topic})
		}
		return r
	}
	sink := &Rule{Name: "s", From: []string{"a"}, To: []Target{{Connector: "a"}}}
	for _, tc := range []struct {
		rules       []*Rule
		want, field string
	}{
		{nil, "", ""},
		{[]*Rule{rule("r", "a", "b"), rule("q", "b", "c"), rule("p", "a", "c"), sink}, "", ""},
		{[]*Rule{rule("r", "a", "x", "a")}, "rule r: to[1].topic: makes a cycle of topics: a → a", "to[1].topic"},
		{[]*Rule{rule("r", "a", "b"), rule("q", "z,b", "c", "a")}, "rule q: to[1].topic: makes a cycle of topics: a → b → a", "to[1].topic"},
		{[]*Rule{rule("o", "s", "a"), rule("r", "a", "b"), rule("q", "b", "c"), rule("p", "c", "b")}, "rule p: to[0].topic: makes a cycle of topics: b → c → b", "to[0].topic"},
	} {
		err := Cycle(tc.rules)
		if (err == nil) != (tc.want == "") || err != nil && err.Error() != tc.want {
			t.Errorf("got %v, want %q", err, tc.want)
		}
		var e *Error
		if err != nil && (!errors.As(err, &e) || e.Field != tc.field) {
			t.Errorf("%v: field %q", err, tc.field)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"from":["a"],"to":[{"http":{"url":"http://x"}}],"when":{"data":{"a":[1]}},"where":"data.a","retry":{"delay":"1d"}}`))
	f.Add([]byte(`{"from":["a"],"to":[{"topic":"b"}],"start":"latest","transforms":[{"remove":["data.a"]}]}`))
	f.Fuzz(func(t *testing.T, spec []byte) {
		r, err := Parse("r", spec)
		if err == nil {
			_, err = Compile(r, Env{})
		}
		var e *Error
		if err != nil && (!errors.As(err, &e) || e.Msg == "") {
			t.Fatalf("%q: %v is no *Error", spec, err)
		}
	})
}
